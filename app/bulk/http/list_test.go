package bulkhttp_test

import (
	"encoding/json"
	"fmt"
	"html"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"testing"

	"github.com/stagepost/stagepost/api"
	bulkhttp "github.com/stagepost/stagepost/app/bulk/http"
	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/job"
	lc "github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/server"
	"github.com/stagepost/stagepost/server/servertest"
	"github.com/stagepost/stagepost/web"
)

var (
	bulkLink   = regexp.MustCompile(`href="(/bulk\?[^"]*)"`)
	bulkCounts = regexp.MustCompile(`\d+ of (\d+) jobs?`)
)

// TestActsOnTheListedJobs: for each filter of the list of jobs, the page about bulks that the list offers counts the
// jobs that the list has, or the list offers none. A bulk of that page acts on these jobs.
func TestActsOnTheListedJobs(t *testing.T) {
	inner, app := openApp(t)
	w := servertest.Serve(t, server.Options{Engine: inner.Engine},
		func(w *servertest.Harness) server.Part { return web.Part(w.Server) },
		func(w *servertest.Harness) server.Part { return bulkhttp.Part(w.Server, app) })
	claim := func(worker string) client.Leased {
		jobs, err := w.Client.Claim(t.Context(), client.Claim{Worker: worker, N: 1, Lease: 300,
			From: []job.KindState{{Kind: "test.letter", State: "Posted"}}})
		if err != nil || len(jobs) != 1 {
			t.Fatal(jobs, err)
		}
		return jobs[0]
	}
	lost := w.Post(engine.Order{Group: "maps"}).ID
	if _, err := w.Client.Report(t.Context(), client.Reports{Worker: "clerk", Reports: []client.Report{{Job: lost,
		Epoch: claim("clerk").Epoch, Fail: "torn", Cause: "paper"}}}); err != nil {
		t.Fatal(err)
	}
	w.Post(engine.Order{Group: "maps"})
	claim("coach")
	open := w.Post(engine.Order{Group: "maps", Key: "k", Owner: "ann", Tags: []string{"floor=2"},
		Words: []string{"Maps of Crete"}}).ID
	w.Post(engine.Order{Group: "atlases"})

	read := func(path string) string {
		answer, page := w.AskPage(w.Request(http.MethodGet, path, ""))
		if answer.StatusCode != http.StatusOK {
			t.Fatalf("%s: got %s: %s", path, answer.Status, page)
		}
		return page
	}
	const none = -1 // no page about bulks is offered
	cases := map[string]struct {
		query string
		want  int
	}{
		"kind": {"kind=test.letter", 4}, "state": {"state=Posted", 3}, "outcome": {"outcome=failed", 1},
		"cause": {"cause=paper", 1}, "group": {"group=maps", 3}, "owner": {"owner=ann", 1},
		"tag": {"tag=floor%3D2", 1}, "parent": {"parent=" + string(open), 0}, "worker": {"worker=coach", 1},
		"ended": {"group=maps&ended=false", 2}, "key": {"group=maps&key=k", none},
		"words": {"words=Crete", 1}, "words and more": {"words=of+Cr&group=maps", 1}, "no word": {"words=atlas", 0},
		"order": {"group=maps&order=oldest", 3}, "limit": {"group=maps&limit=1", 3},
		"brief": {"group=maps&brief=true", 3}, "ended=true": {"group=maps&ended=true", 1},
		"ended alone": {"ended=true", none}, "no filter": {"", none},
	}
	for _, name := range slices.Sorted(maps.Keys(cases)) {
		c := cases[name]
		q, err := url.ParseQuery(c.query)
		if err != nil {
			t.Fatal(err)
		}
		q.Del("limit")
		_, text := w.Ask(w.Request(http.MethodGet, web.With("/api/v1/jobs", q), ""))
		var list api.Page
		if err := json.Unmarshal([]byte(text), &list); err != nil {
			t.Fatal(err)
		}
		link := bulkLink.FindStringSubmatch(read("/jobs?" + c.query))
		if (link == nil) != (c.want == none) {
			t.Errorf("%s: offered: %q", name, link)
		}
		if link == nil || c.want == none {
			continue
		}
		counts := bulkCounts.FindStringSubmatch(read(html.UnescapeString(link[1]) + "&event=hold"))
		if counts == nil || counts[1] != fmt.Sprint(c.want) || len(list.Jobs) != c.want {
			t.Errorf("%s: the bulk counts %q, the list has %d jobs; want %d", name, counts, len(list.Jobs), c.want)
		}
	}
	for _, r := range w.Server.All() {
		for _, p := range r.IO.Query {
			_, known := cases[p.Name]
			if r.Method == http.MethodGet && r.Pattern == "/jobs" && !known && p.Name != "after" {
				t.Errorf("the filter %s is not tried", p.Name)
			}
		}
	}

	sent := servertest.Sent(read("/bulk?ended=true&event=delete&group=maps"), `<form class="fields"`)
	sent.Set("note", "flood")
	sent.Set("confirm", "yes")
	r := w.Request(http.MethodPost, "/bulk", sent.Encode())
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	answer, text := w.Ask(r)
	if answer.StatusCode != http.StatusSeeOther {
		t.Fatalf("got %s: %s", answer.Status, text)
	}
	id := job.ID(answer.Header.Get("Location")[len("/jobs/"):])
	if j, err := w.Await(t.Context(), id, func(j *job.Job) bool { return j.Ended }); err != nil ||
		j.Outcome != lc.OK {
		t.Fatalf("got %+v, %v", j, err)
	}
	for id, want := range map[job.ID]lc.State{lost: "Burnt", open: "Posted"} {
		if j, err := w.Store().Get(t.Context(), id); err != nil || j.State != want {
			t.Errorf("%s is %s, %v; want %s", id, j.State, err, want)
		}
	}
}
