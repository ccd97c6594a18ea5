package server

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/job/words"
	"github.com/stagepost/stagepost/lifecycle"
)

// Parameters reads the query of a request. All lists have one rule. A parameter that is not known is refused with the
// known ones; so is a value that is not possible. A parameter is given once, unless it is read
// by All: then it may be repeated, and have several values with commas between them. Times are in RFC 3339. An empty
// value is none.
type Parameters struct {
	values  url.Values
	known   []string
	mistake error
}

// Params reads the query of a request.
func Params(r *http.Request) *Parameters {
	v, err := url.ParseQuery(r.URL.RawQuery)
	p := &Parameters{values: v}
	if err != nil {
		p.mistake = job.Errorf(job.Invalid, "query", "", "%w", err)
	}
	return p
}

// Wrong notes a mistake; the first one counts.
func (p *Parameters) Wrong(format string, args ...any) {
	if p.mistake == nil {
		p.mistake = job.Errorf(job.Invalid, "query", "", format, args...)
	}
}

// All returns every value of a parameter; a value may also be a list with commas.
func (p *Parameters) All(name string) []string {
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
		p.Wrong("%s has more than 100 values", name)
	}
	return all
}

// Each returns every value of a parameter as it is.
func (p *Parameters) Each(name string) []string {
	p.known = append(p.known, name)
	return p.values[name]
}

// Text returns a parameter that is given once.
func (p *Parameters) Text(name string) string {
	p.known = append(p.known, name)
	v := p.values[name]
	if len(v) > 1 {
		p.Wrong("%s is given twice", name)
	}
	if len(v) == 0 {
		return ""
	}
	if len(v[0]) > 4096 {
		p.Wrong("%s is longer than 4096 bytes", name)
	}
	return v[0]
}

// Number returns a whole number within bounds; 0 without the parameter.
func (p *Parameters) Number(name string, low, high int64) int64 {
	text := p.Text(name)
	if text == "" {
		return 0
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < low || n > high {
		p.Wrong("%s must be a number from %d to %d, not %.40q", name, low, high, text)
		return 0
	}
	return n
}

// MostPage is how many entries a page of a list has at most.
const MostPage = 1000

// Page reads which part of a list is requested: after, the `next` of the page before it, empty for the beginning; and
// limit, how many entries at most, from 1 to [MostPage], or 0 for the default of the list. The answer has `next` unless
// its page is the last.
func (p *Parameters) Page() (after string, limit int) {
	return p.Text("after"), int(p.Number("limit", 1, MostPage))
}

// PageFrom is Page of a list whose entries have numbers.
func (p *Parameters) PageFrom() (after int64, limit int) {
	return p.Number("after", 0, 1<<62), int(p.Number("limit", 1, MostPage))
}

// NextPage returns the `next` of a page of n entries, the last of which has a number: a full page may not be the last.
func NextPage(n, limit int, last int64) string {
	if n < limit || n == 0 {
		return ""
	}
	return strconv.FormatInt(last, 10)
}

// Flag returns true or false; nil without the parameter.
func (p *Parameters) Flag(name string) *bool {
	text := p.Text(name)
	if text == "" {
		return nil
	}
	b, err := strconv.ParseBool(text)
	if err != nil {
		p.Wrong("%s must be true or false, not %.40q", name, text)
	}
	return &b
}

// Choice returns one of a few values; "" without the parameter.
func (p *Parameters) Choice(name string, values ...string) string {
	text := p.Text(name)
	if text != "" && !slices.Contains(values, text) {
		p.Wrong("there is no %s %.40q (known: %s)", name, text, strings.Join(values, ", "))
	}
	return text
}

func (p *Parameters) time(name string) time.Time {
	text := p.Text(name)
	if text == "" {
		return time.Time{}
	}
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		p.Wrong("%s must be a time such as 2006-01-02T15:04:05Z, not %.40q", name, text)
	}
	return t
}

// Err returns the first mistake, among them a parameter that was not read.
func (p *Parameters) Err() error {
	for name := range p.values {
		if !slices.Contains(p.known, name) {
			p.Wrong("there is no parameter %.40q (%s)", name, p.names())
		}
	}
	return p.mistake
}

// names lists the known parameters.
func (p *Parameters) names() string {
	if len(p.known) == 0 {
		return "this address takes none"
	}
	return "known: " + strings.Join(p.known, ", ")
}

// kinds reads the filter by kind.
func (p *Parameters) kinds() (all []job.Kind) {
	for _, k := range p.All("kind") {
		all = append(all, job.Kind(k))
	}
	return all
}

// query reads the filters of a list of jobs.
func (p *Parameters) query() job.Query {
	q := job.Query{
		Group: p.Text("group"), Owner: p.Text("owner"), Key: p.Text("key"), Worker: p.Text("worker"),
		Tag: p.Text("tag"), Causes: p.All("cause"),
		Ended: p.Flag("ended"), Kinds: p.kinds(),
	}
	q.After, q.Limit = p.Page()
	text := p.Text("words")
	if q.Words = words.Sought(text); len(q.Words) == 0 && text != "" {
		p.Wrong("words has no word: %.40q", text)
	}
	for _, s := range p.All("state") {
		q.States = append(q.States, lifecycle.State(s))
	}
	for _, o := range p.All("outcome") {
		q.Outcomes = append(q.Outcomes, lifecycle.Outcome(o))
	}
	q.Oldest = p.Choice("order", "newest", "oldest") == "oldest"
	return q
}

// exists refuses a hold that a slip of the pen keeps from holding anything: on a kind, a state or a job that there is
// not. Groups, owners and tags may come later.
func (s *Server) exists(ctx context.Context, scope job.Scope) error {
	var q job.Query
	if scope.Kind != "" {
		q.Kinds = []job.Kind{scope.Kind}
	}
	if scope.State != "" {
		q.States = []lifecycle.State{scope.State}
	}
	if err := s.CheckQuery(ctx, &q); err != nil || scope.Job == "" {
		return err
	}
	_, err := s.Store.Get(ctx, scope.Job)
	return err
}

// CheckQuery refuses kinds, states and outcomes that neither a lifecycle of the engine nor a record of the store has:
// an empty list would be taken for an answer. Records outlive lifecycles.
func (s *Server) CheckQuery(ctx context.Context, q *job.Query) error {
	kinds, states := s.vocabulary()
	if within(q.Kinds, kinds) && within(q.States, states) && within(q.Outcomes, outcomes) {
		return nil
	}
	tallies, err := s.Store.Count(ctx)
	if err != nil {
		return err
	}
	for _, t := range tallies {
		kinds, states = append(kinds, t.Kind), append(states, t.State)
	}
	if err := OneOf("kind", q.Kinds, kinds); err != nil {
		return err
	}
	if err := OneOf("state", q.States, states); err != nil {
		return err
	}
	return OneOf("outcome", q.Outcomes, outcomes)
}

// outcomes are those that a query may name.
var outcomes = []lifecycle.Outcome{lifecycle.OK, lifecycle.Failed, lifecycle.TimedOut, lifecycle.Cancelled}

// vocabulary returns the kinds of the engine and the states of their lifecycles.
func (s *Server) vocabulary() (kinds []job.Kind, states []lifecycle.State) {
	kinds = s.Engine.Kinds()
	for _, k := range kinds {
		for _, stage := range s.Engine.Life(k).Stages() {
			states = append(states, stage.State)
		}
	}
	return kinds, states
}

func within[T comparable](named, known []T) bool {
	return !slices.ContainsFunc(named, func(w T) bool { return !slices.Contains(known, w) })
}

// OneOf refuses words that are not known, and names those that are.
func OneOf[T ~string](what string, words, known []T) error {
	for _, w := range words {
		if slices.Contains(known, w) {
			continue
		}
		for _, k := range known {
			if strings.EqualFold(string(k), string(w)) {
				return job.Errorf(job.Invalid, "query", "", "there is no %s %.40q (did you mean %s?)", what, w, k)
			}
		}
		all := make([]string, 0, len(known))
		for _, k := range known {
			all = append(all, string(k))
		}
		slices.Sort(all)
		return job.Errorf(job.Invalid, "query", "", "there is no %s %.40q (known: %s)", what, w,
			strings.Join(slices.Compact(all), ", "))
	}
	return nil
}
