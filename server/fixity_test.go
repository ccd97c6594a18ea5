package server_test

import (
	"context"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/server"
	"github.com/stagepost/stagepost/server/servertest"
)

// checks are the fixity checks of an application with three objects in the locations near and own.
type checks struct {
	own     string
	objects []string
	started []string
}

func (c *checks) Fixity(context.Context) (client.Fixity, error) {
	someday := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	return client.Fixity{
		Locations: []client.FixityLocation{
			{Location: "near", Copies: 3, Oldest: someday}, {Location: c.own, Copies: 3},
		},
		Faults: []client.FixityFault{{Location: c.own, Object: c.objects[0], Kind: "changed", Since: someday}},
		Count:  2,
	}, nil
}

func (c *checks) FixityObjects(_ context.Context, q client.FixityQuery) (all []client.FixityObject, err error) {
	for _, name := range c.objects {
		if name > q.After && len(all) < q.Limit && !q.Damaged {
			all = append(all, client.FixityObject{Object: name, Locations: []string{"near", c.own}})
		}
	}
	return all, nil
}

func (c *checks) StartFixity(_ context.Context, locations []string) error {
	c.started = append(c.started, locations...)
	return nil
}

// TestFixity: the answers of all applications are one answer; a filter selects one; a page continues in the next
// application; a check is requested where the location is, and is in the audit list.
func TestFixity(t *testing.T) {
	a, b := &checks{own: "a", objects: []string{"1", "2", "3"}}, &checks{own: "b", objects: []string{"1", "2", "x/3"}}
	w := servertest.Open(t, func(o *server.Options) {
		o.Fixity = map[string]server.Fixity{"one": a, "two": b}
	}, nil)
	f, err := w.Client.Fixity(t.Context(), "")
	if err != nil || len(f.Locations) != 4 || f.Count != 4 || f.Faults[1].Application != "two" ||
		f.Locations[2].Application != "two" {
		t.Errorf("got %+v, %v", f, err)
	}
	if f, err = w.Client.Fixity(t.Context(), "two"); err != nil || len(f.Locations) != 2 || f.Count != 2 {
		t.Errorf("got %+v, %v", f, err)
	}
	if _, err := w.Client.Fixity(t.Context(), "three"); job.KindOf(err) != job.Invalid {
		t.Errorf("got %v", err)
	}
	for limit := 1; limit < 8; limit++ {
		var got []string
		for q := (client.FixityQuery{Limit: limit}); ; {
			page, err := w.Client.FixityObjects(t.Context(), q)
			if err != nil || len(page.Objects) > limit {
				t.Fatalf("got %+v, %v", page, err)
			}
			for _, o := range page.Objects {
				got = append(got, o.Application+" "+o.Object)
			}
			if q.After = page.Next; q.After == "" {
				break
			}
		}
		if want := []string{"one 1", "one 2", "one 3", "two 1", "two 2", "two x/3"}; !slices.Equal(got, want) {
			t.Errorf("pages of %d: got %q", limit, got)
		}
	}
	page, err := w.Client.FixityObjects(t.Context(), client.FixityQuery{Application: "two", Damaged: true})
	if err != nil || len(page.Objects) != 0 {
		t.Errorf("got %+v, %v", page, err)
	}
	for _, ask := range []client.CheckFixity{
		{Location: "b", Note: "why", Actor: "ann"}, {Application: "one", Actor: "ann"},
		{Location: "near", Actor: "ann"},
	} {
		if _, err := w.Client.CheckFixity(t.Context(), ask); err != nil {
			t.Error(err)
		}
	}
	if !slices.Equal(a.started, []string{"near", "a", "near"}) || !slices.Equal(b.started, []string{"b", "near"}) {
		t.Errorf("started %q and %q", a.started, b.started)
	}
	if _, err := w.Client.CheckFixity(t.Context(), client.CheckFixity{Application: "one", Location: "b",
		Actor: "ann"}); job.KindOf(
		err) != job.NotFound {
		t.Errorf("a location of another application: %v", err)
	}
}

// TestNoFixity: without stored objects the routes are unavailable.
func TestNoFixity(t *testing.T) {
	w := servertest.Open(t, nil, nil)
	for _, path := range []string{"/api/v1/fixity", "/api/v1/fixity/objects"} {
		w.Problem(w.Request(http.MethodGet, path, ""), http.StatusNotFound, job.NotFound)
	}
	w.Problem(w.Request(http.MethodPost, "/api/v1/fixity", "{}"), http.StatusNotFound, job.NotFound)
}
