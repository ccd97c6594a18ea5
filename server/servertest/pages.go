package servertest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/server"
)

// Paged is how a list with at least three entries is requested.
type Paged struct {
	Path  string // with a query, if it needs one
	List  string // the member of the answer with the entries
	After string // of the first page; empty: without it
	Why   string // why it has a limit and no pages; then nothing else is set
}

// CheckPages holds every list with a limit against the rule of pages: a page has at most `limit` entries, 1 to 1000,
// `next` of the answer is `after` of the next page and missing on the last one, and the pages have every entry once, in
// the order of the whole list. The table is by route; which routes have a limit is found out from what they refuse.
func CheckPages(t *testing.T, w *Harness, routes []server.Route, paged map[string]Paged) {
	for _, r := range routes {
		route := r.Method + " " + r.Pattern
		p, listed := paged[route]
		if r.Method != http.MethodGet || p.Why != "" {
			continue
		}
		if !listed {
			path := strings.NewReplacer("{id}", string(w.Post(engine.Order{}).ID), "{name}", "x", "{token}", "x",
				"{task}", "x", "{$}", "").Replace(r.Pattern)
			_, text := w.Ask(w.Request(r.Method, path+"?nonsense=1", ""))
			if limited.MatchString(text) {
				t.Errorf("%s takes a limit, and the table of pages lacks it: %s", route, text)
			}
			continue
		}
		t.Run(route, func(t *testing.T) {
			w := *w
			w.T = t
			p.walk(&w)
		})
	}
}

// limited is the refusal of a parameter by a route that takes a limit.
var limited = regexp.MustCompile(`there is no parameter [^ ]+ \(known: ([a-z_]+, )*limit\b`)

func (p *Paged) walk(w *Harness) {
	whole, next := p.page(w, url.Values{"limit": {"1000"}})
	if len(whole) < 3 || next != "" {
		w.T.Fatalf("the whole list has %d entries, next %q", len(whole), next)
	}
	var all []string
	q := url.Values{"limit": {"2"}}
	for range len(whole) + 1 {
		some, next := p.page(w, q)
		if all = append(all, some...); len(some) > 2 {
			w.T.Errorf("a page of %d entries", len(some))
		}
		if next == "" {
			break
		}
		q.Set("after", next)
	}
	if diff := cmp.Diff(whole, all); diff != "" {
		w.T.Errorf("the pages differ from the whole list:\n%s", diff)
	}
	for _, limit := range []string{"0", "-1", "1001", "x"} {
		r := w.Request(http.MethodGet, p.url(url.Values{"limit": {limit}}), "")
		w.Problem(r, http.StatusBadRequest, job.Invalid)
	}
}

func (p *Paged) url(q url.Values) string {
	if p.After != "" && !q.Has("after") {
		q.Set("after", p.After)
	}
	if strings.Contains(p.Path, "?") {
		return p.Path + "&" + q.Encode()
	}
	return p.Path + "?" + q.Encode()
}

// aging is the age of an entry, which differs from request to request.
var aging = regexp.MustCompile(`"seconds":[0-9]+`)

// page returns the entries of a page, without their ages, and the next one.
func (p *Paged) page(w *Harness, q url.Values) (entries []string, next string) {
	w.T.Helper()
	answer, text := w.Ask(w.Request(http.MethodGet, p.url(q), ""))
	var of map[string]json.RawMessage
	var list []json.RawMessage
	if err := json.Unmarshal([]byte(text), &of); err != nil || answer.StatusCode != http.StatusOK {
		w.T.Fatalf("%v: got %s: %s", q, answer.Status, text)
	}
	if err := json.Unmarshal(of[p.List], &list); err != nil {
		w.T.Fatalf("%v has no list %q: %s", q, p.List, text)
	}
	for _, e := range list {
		entries = append(entries, aging.ReplaceAllString(string(e), `"seconds":0`))
	}
	if of["next"] != nil {
		if err := json.Unmarshal(of["next"], &next); err != nil || next == "" {
			w.T.Fatalf("next is %s", fmt.Sprint(string(of["next"])))
		}
	}
	return entries, next
}
