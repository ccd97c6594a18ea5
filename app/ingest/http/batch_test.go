package ingesthttp_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	ingesthttp "github.com/stagepost/stagepost/app/ingest/http"
	"github.com/stagepost/stagepost/app/ingest/record"
	"github.com/stagepost/stagepost/app/ingest/share"
	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/server"
	"github.com/stagepost/stagepost/server/servertest"
	"github.com/stagepost/stagepost/store/mem"
	"github.com/stagepost/stagepost/web"
)

// batches is a server with the pages of all and a batch, which workers outside work on.
func batches(t *testing.T, of client.BatchReport) (*servertest.Harness, job.ID) {
	t.Helper()
	e, err := engine.New(mem.New(), []engine.Work{{Life: record.BatchLife, Prefix: "bat", Outside: true},
		{Life: record.JobLife, Prefix: "ing", Outside: true}}, engine.Options{})
	if err != nil {
		t.Fatal(err)
	}
	links, profiles := share.Open(t.TempDir(), time.Now), newShelf(t)
	w := servertest.Serve(t, server.Options{Engine: e},
		func(w *servertest.Harness) server.Part { return web.Part(w.Server) },
		func(w *servertest.Harness) server.Part {
			return ingesthttp.Part(w.Server, ingesthttp.Options{Ingest: &reporter{report: of}, Shares: links,
				Profiles: profiles, Hooks: newPigeons()})
		})
	j, err := e.Submit(t.Context(), engine.Order{Kind: record.BatchKind, Owner: "ann"})
	if err != nil {
		t.Fatal(err)
	}
	return w, j.ID
}

// TestBatchOnThePage: the page about a batch has the outcome of each object, the report, and its forms.
func TestBatchOnThePage(t *testing.T) {
	w, id := batches(t, hostile())
	if _, err := w.Client.ShareBatch(t.Context(), id, client.ShareOrder{Note: "for ben " + "\u202e<b>"}); err != nil {
		t.Fatal(err)
	}
	r := w.Request(http.MethodGet, "/jobs/"+string(id), "")
	r.Header.Set("Accept", "text/html")
	answer, text := w.Ask(r)
	if answer.StatusCode != http.StatusOK {
		t.Fatalf("got %s: %s", answer.Status, text)
	}
	for _, want := range []string{"We are fetching your files.", "a file is missing", "Put it there.",
		`<span class="badge bad">Failed</span>`, "Try what failed again (1)", "404 more are in the report",
		"/report?format=csv-failed", `action="/batches/` + string(id) + `/shares"`, "for ben", "shares/revoke",
		"&lt;script&gt;alert(1)"} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %q: %s", want, text)
		}
	}
	for _, never := range []string{"<script>alert", "<img", "\u202e", "\x1b"} {
		if strings.Contains(text, never) {
			t.Errorf("the page has %q", never)
		}
	}
}

// TestOnlyRetriesThatCanSucceed: an object that needs a new submission is not counted as one that can be tried again,
// and without another one the page has no form for it.
func TestOnlyRetriesThatCanSucceed(t *testing.T) {
	of := hostile()
	of.Jobs = []client.JobReport{
		{Job: "ing_1", State: "Failed", Outcome: "failed", Cause: "payload-digest", Remedy: "new-submission"},
		{Job: "ing_2", State: "Failed", Outcome: "failed", Cause: "download", Remedy: "staff-retry"},
	}
	for failed, want := range map[int]string{2: "Try what failed again (1)", 1: ""} {
		part := of
		part.Jobs = of.Jobs[:failed]
		w, id := batches(t, part)
		_, text := w.AskPage(w.Request(http.MethodGet, "/jobs/"+string(id), ""))
		if !strings.Contains(text, "The submission") || !strings.Contains(text, want) ||
			want == "" && strings.Contains(text, "Try what failed again") {
			t.Errorf("%d failed: %s", failed, text)
		}
		if want == "" {
			answer, text := w.AskPage(w.Form("/batches/"+string(id)+"/retry", "note", "x"))
			if answer.StatusCode != http.StatusConflict || !strings.Contains(text, "needs a new submission") {
				t.Errorf("the form: got %s %s", answer.Status, text)
			}
		}
	}
}

// TestBrowser runs scripts/browser/ingest.mjs.
func TestBrowser(t *testing.T) {
	of := hostile()
	of.Jobs = of.Jobs[597:]
	w, id := batches(t, of)
	made, err := w.Client.ShareBatch(t.Context(), id, client.ShareOrder{Note: "<img src=x onerror=alert(1)>"})
	if err != nil {
		t.Fatal(err)
	}
	w.Browser(t, "ingest.mjs", map[string]any{"batch": id, "pages": []string{"/jobs/" + string(id), "/profiles",
		"/profiles/maps", "/hooks"},
		"plain": []string{"/batches/" + string(id) + "?refresh=off", made.Path + "?refresh=off"}})
}
