package web_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/app/bulk"
	bulkhttp "github.com/stagepost/stagepost/app/bulk/http"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/engine/enginetest"
	"github.com/stagepost/stagepost/engine/joblog"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/server"
	"github.com/stagepost/stagepost/server/servertest"
	"github.com/stagepost/stagepost/store/mem"
)

// TestBrowser runs scripts/browser/suite.mjs against a server with letters: each text of strangers in them is hostile.
func TestBrowser(t *testing.T) {
	w := office(t)
	set := map[string]any{"failedTitle": "Letter to Anna", "cause": "the address does not exist", "group": "maps",
		"bulkEvent": "retry", "failedState": "Lost", "hostile": hostile}
	for i := range 60 {
		w.order(t, fmt.Sprint("Letter ", i), "many", "ann")
	}
	evil := w.order(t, hostile+" "+strings.Repeat("long", 200), hostile[:40], "evil")
	w.order(t, "A letter of a long group", strings.Repeat("department", 6), strings.Repeat("owner", 12))
	set["open"], set["open2"] = w.order(t, "A map", "maps", "ann"), w.order(t, "A plan", "maps", "ann")
	set["followed"] = w.order(t, "An atlas", "atlases", "ben")
	failed := w.fail(t, w.order(t, "Letter to Anna", "letters", "cleo"), set["cause"].(string))
	set["failed"] = failed
	set["logged"] = w.order(t, "A long letter", "letters", "cleo") // the suite is its worker
	set["pages"] = []string{"/", "/mine", "/jobs", "/jobs?group=many", "/jobs/" + string(failed), "/jobs/" +
		string(evil),
		"/jobs/" + string(failed) + "?entry=1", "/jobs/" + string(failed) + "/log", "/search?name=" +
			string(failed)[:8],
		"/queues", "/holds", "/locks", "/workers", "/outbox", "/audit", "/fixity", "/lifecycles",
		"/lifecycles/test.letter", "/jobs/none", "/bulk?state=Lost&event=retry"}
	w.Browser(t, "suite.mjs", set)
}

// postOffice is a server with letters, which a worker of the test works on.
type postOffice struct{ *servertest.Harness }

func office(t *testing.T) postOffice {
	t.Helper()
	app := bulk.New(bulk.Options{})
	logs, err := joblog.Open(t.TempDir(), joblog.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = logs.Close() })
	e, err := engine.New(mem.New(), append(app.Works(), engine.Work{Life: enginetest.Letter, Prefix: "let",
		Outside: true}),
		engine.Options{JobLogs: logs})
	if err != nil {
		t.Fatal(err)
	}
	app.Bind(e)
	w := servertest.Serve(t, server.Options{Engine: e, Logs: logs, Version: "test"}, part, titles,
		func(w *servertest.Harness) server.Part { return bulkhttp.Part(w.Server, app) })
	w.Run()
	return postOffice{w}
}

// titles names letters by their specs.
func titles(*servertest.Harness) server.Part {
	return server.Part{
		About: func(j *job.Job) (title, object, page string) {
			var of struct{ Title string }
			if json.Unmarshal(j.Spec, &of) != nil {
				return "", "", ""
			}
			return of.Title, "", ""
		},
		Pages: server.Pages{Kinds: map[job.Kind]server.Named{"test.letter": {One: "letter", Many: "letters",
			Application: "Post office"}}},
	}
}

func (w postOffice) order(t *testing.T, title, group, owner string) job.ID {
	t.Helper()
	spec, err := json.Marshal(map[string]string{"Title": title})
	if err != nil {
		t.Fatal(err)
	}
	return w.Post(engine.Order{Group: group, Owner: owner, Spec: json.RawMessage(spec)}).ID
}

// fail lets a worker claim letters until it has this one, whose work fails.
func (w postOffice) fail(t *testing.T, id job.ID, why string) job.ID {
	t.Helper()
	claimed, err := w.Client.Claim(t.Context(), api.Claim{Worker: "clerk", N: 1000,
		From: []job.KindState{{Kind: "test.letter", State: "Posted"}}})
	if err != nil {
		t.Fatal(err)
	}
	reports := api.Reports{Worker: "clerk"}
	for _, c := range claimed {
		report := api.Report{Job: c.ID, Epoch: c.Epoch, Wait: &job.Blocker{Code: "desk",
			Sentence: "it waits for a clerk"}}
		if c.ID == id {
			report = api.Report{Job: c.ID, Epoch: c.Epoch, Fail: why, Cause: "address",
				Log: []api.LogEntry{{N: 1, Text: "reads the address"}, {N: 2, Level: "error", Text: why + " " +
					hostile}}}
		}
		reports.Reports = append(reports.Reports, report)
	}
	results, err := w.Client.Report(t.Context(), reports)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range results {
		if r.Problem != nil {
			t.Fatalf("%s: %s", r.Job, r.Problem.Error())
		}
	}
	j, err := w.Client.Job(t.Context(), id)
	if err != nil || j.Outcome != lifecycle.Failed {
		t.Fatalf("it did not fail: %+v, %v", j.Position, err)
	}
	return id
}

// TestPageCosts: the first page is small, with its style sheets and its script, and so is the list of jobs as browsers
// get it.
func TestPageCosts(t *testing.T) {
	const most = 60 << 10
	w := office(t)
	for i := range 200 {
		w.order(t, fmt.Sprint("Letter ", i), "many", "ann")
	}
	assets := []string{"/assets/app.css", "/assets/lifecycle.css", "/assets/app.js"}
	size := func(encoding string, paths ...string) (bytes int) {
		for _, path := range paths {
			r := w.Request(http.MethodGet, path, "")
			r.Header.Set("Accept-Encoding", encoding)
			answer, text := w.Harness.AskPage(r)
			asset, got := strings.HasPrefix(path, "/assets/"), answer.Header.Get("Content-Encoding")
			if (got == "gzip") != (asset && encoding == "gzip") || asset &&
				answer.Header.Get("Vary") != "Accept-Encoding" {
				t.Errorf("%s, %s: the headers are %v", path, encoding, answer.Header)
			}
			bytes += len(text)
		}
		return bytes
	}
	if bytes := size("gzip;q=0", append(assets, "/")...); bytes > most {
		t.Errorf("the first page has %d bytes, more than %d", bytes, most)
	}
	if bytes := size("gzip", append(assets, "/jobs")...); bytes > most {
		t.Errorf("the list of jobs has %d bytes, more than %d", bytes, most)
	}
	if _, page := w.Harness.AskPage(w.Request(http.MethodGet, "/jobs", "")); !strings.Contains(page,
		"200 jobs match") ||
		!strings.Contains(page, "Next page") {
		t.Error("the list of jobs does not state how many there are")
	}
}
