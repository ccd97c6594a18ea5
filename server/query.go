package server

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// parameters reads the query of a request; a parameter that is not known, not readable or given twice is an error of kind Invalid.
type parameters struct {
	values url.Values
	known  []string
	err    error
}

func read(r *http.Request) *parameters {
	v, err := url.ParseQuery(r.URL.RawQuery)
	p := &parameters{values: v}
	if err != nil {
		p.err = job.Errorf(job.Invalid, "query", "", "%w", err)
	}
	return p
}

func (p *parameters) wrong(format string, args ...any) {
	if p.err == nil {
		p.err = job.Errorf(job.Invalid, "query", "", format, args...)
	}
}

// all gives every value of a parameter; a value may also be a list with commas.
func (p *parameters) all(name string) []string {
	p.known = append(p.known, name)
	var all []string
	for _, v := range p.values[name] {
		for one := range strings.SplitSeq(v, ",") {
			if one != "" {
				all = append(all, one)
			}
		}
	}
	if len(all) > 100 {
		p.wrong("%s has more than 100 values", name)
	}
	return all
}

// each gives every value of a parameter as it is.
func (p *parameters) each(name string) []string {
	p.known = append(p.known, name)
	return p.values[name]
}

func (p *parameters) text(name string) string {
	p.known = append(p.known, name)
	v := p.values[name]
	if len(v) > 1 {
		p.wrong("%s is given twice", name)
	}
	if len(v) == 0 {
		return ""
	}
	if len(v[0]) > 4096 {
		p.wrong("%s is longer than 4096 bytes", name)
	}
	return v[0]
}

func (p *parameters) number(name string, low, high int64) int64 {
	text := p.text(name)
	if text == "" {
		return 0
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < low || n > high {
		p.wrong("%s must be a number from %d to %d, not %.40q", name, low, high, text)
		return 0
	}
	return n
}

func (p *parameters) flag(name string) *bool {
	text := p.text(name)
	if text == "" {
		return nil
	}
	b, err := strconv.ParseBool(text)
	if err != nil {
		p.wrong("%s must be true or false, not %.40q", name, text)
	}
	return &b
}

func (p *parameters) time(name string) time.Time {
	text := p.text(name)
	if text == "" {
		return time.Time{}
	}
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		p.wrong("%s must be a time such as 2006-01-02T15:04:05Z, not %.40q", name, text)
	}
	return t
}

// done gives the first mistake, among them a parameter that nobody asked for.
func (p *parameters) done() error {
	for name := range p.values {
		if !slices.Contains(p.known, name) {
			p.wrong("there is no parameter %.40q (known: %s)", name, strings.Join(p.known, ", "))
		}
	}
	return p.err
}

// query reads the filters of a list of jobs.
func (p *parameters) query() job.Query {
	q := job.Query{
		Group: p.text("group"), Owner: p.text("owner"), Parent: job.ID(p.text("parent")), Key: p.text("key"), Worker: p.text("worker"),
		Tag: p.text("tag"), Causes: p.all("cause"),
		Ended: p.flag("ended"), After: p.text("after"), Limit: int(p.number("limit", 1, 1000)),
	}
	for _, k := range p.all("kind") {
		q.Kinds = append(q.Kinds, job.Kind(k))
	}
	for _, s := range p.all("state") {
		q.States = append(q.States, lifecycle.State(s))
	}
	for _, o := range p.all("outcome") {
		q.Outcomes = append(q.Outcomes, lifecycle.Outcome(o))
	}
	switch order := p.text("order"); order {
	case "", "newest":
	case "oldest":
		q.Oldest = true
	default:
		p.wrong("order must be newest or oldest, not %.40q", order)
	}
	return q
}
