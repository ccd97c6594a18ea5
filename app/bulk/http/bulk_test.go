package bulkhttp_test

import (
	"context"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stagepost/stagepost/app/bulk"
	bulkhttp "github.com/stagepost/stagepost/app/bulk/http"
	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/job"
	lc "github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/server"
	"github.com/stagepost/stagepost/server/servertest"
	"github.com/stagepost/stagepost/store/mem"
)

// bulks is the application beside an engine that does not do its work.
func bulks(e *engine.Engine) *bulk.App {
	app := bulk.New(bulk.Options{})
	app.Bind(e)
	return app
}

// part returns the routes of bulks.
func part(w *servertest.Harness) server.Part { return bulkhttp.Part(w.Server, bulks(w.Engine)) }

// openBulk is a server whose engine does bulks on letters that no worker claims.
func openBulk(t *testing.T) *servertest.Harness {
	t.Helper()
	w, _ := openApp(t)
	return w
}

// openApp gives the application besides, for another server on the engine.
func openApp(t *testing.T) (*servertest.Harness, *bulk.App) {
	t.Helper()
	return openWork(t, engine.Work{Life: servertest.Letter, Prefix: "let", Outside: true})
}

func openWork(t *testing.T, work engine.Work) (*servertest.Harness, *bulk.App) {
	t.Helper()
	app := bulk.New(bulk.Options{})
	e, err := engine.New(mem.New(), append(app.Works(), work), engine.Options{})
	if err != nil {
		t.Fatal(err)
	}
	app.Bind(e)
	w := servertest.Serve(t, server.Options{Engine: e},
		func(w *servertest.Harness) server.Part { return bulkhttp.Part(w.Server, app) })
	w.Run()
	return w, app
}

func TestBulkOverTheAPI(t *testing.T) {
	w := openBulk(t)
	for range 3 {
		w.Post(engine.Order{Group: "maps", Bytes: 7})
	}
	b := client.Bulk{Kinds: []job.Kind{"test.letter"}, States: []lc.State{"Posted"}, Event: "hold", Note: "flood",
		Actor: "ann"}
	p, err := w.Client.BulkPreview(t.Context(), b)
	if err != nil || p.Count != 3 || p.Legal != 3 || p.Bytes != 21 || len(p.Sample) != 3 || len(p.States) != 1 ||
		p.Groups[0].Name != "maps" {
		t.Errorf("got %+v, %v", p, err)
	}
	if _, err = w.Client.StartBulk(t.Context(), b); job.KindOf(err) != job.Refused ||
		client.ProblemOf(err).Status != http.StatusConflict {
		t.Errorf("without the number: got %v", err)
	}
	b.Expect = &p.Count
	j, err := w.Client.StartBulk(t.Context(), b)
	if err != nil || j.Kind != bulk.Kind || len(j.Can["operator"]) == 0 {
		t.Fatalf("got %+v, %v", j, err)
	}
	if _, err := w.Await(t.Context(), j.ID, func(j *job.Job) bool { return j.Ended }); err != nil {
		t.Fatal(err)
	}
	got, err := w.Client.BulkResult(t.Context(), j.ID)
	if want := (client.BulkResult{Matches: 3, Done: 3}); err != nil || cmp.Diff(want, got) != "" {
		t.Errorf("got %+v, %v", got, err)
	}
	b.Event, b.States = "begin", nil
	if _, err = w.Client.BulkPreview(t.Context(), b); job.KindOf(err) != job.Invalid {
		t.Errorf("a worker's event: got %v", err)
	}
	letters := w.Post(engine.Order{})
	if _, err = w.Client.BulkResult(t.Context(), letters.ID); job.KindOf(err) != job.Invalid {
		t.Errorf("no bulk: got %v", err)
	}
	if _, err = w.Client.BulkResult(t.Context(), "blk_x"); job.KindOf(err) != job.NotFound {
		t.Errorf("unknown: got %v", err)
	}
}

func TestHostileBulks(t *testing.T) {
	w := openBulk(t)
	for body, status := range map[string]int{
		`{"kinds":["test.letter"],"event":"hold","note":"n","expect":1}`: 201, // the control
		``:                             415,
		`{}`:                           400,
		`{"kinds":"test.letter"}`:      400,
		`{"event":"hold","unheard":1}`: 400,
		`{"kinds":["test.letter"],"event":"hold","note":"n","expect":-1}`:          400,
		`{"kinds":["test.letter"],"event":"hold","note":"n","expect":1e30}`:        400,
		`{"kinds":["test.letter"],"event":"hold","note":"n","before":"yesterday"}`: 400,
		`{"kinds":["bulk"],"event":"cancel","note":"n","expect":1}`:                400,
		`{"kinds":["test.letter"],"event":"hold","note":"n","expect":1,"event":1}`: 400,
	} {
		if answer, text := w.Ask(w.Request(http.MethodPost, "/api/v1/bulk", body)); answer.StatusCode != status {
			t.Errorf("%s: got %s: %s", body, answer.Status, text)
		}
	}
	w.Problem(w.Request(http.MethodPost, "/api/v1/bulk?dry=perhaps", `{"kinds":["test.letter"],"event":"hold"}`),
		http.StatusBadRequest, job.Invalid)
	absent := func(w *servertest.Harness) server.Part { return bulkhttp.Part(w.Server, nil) }
	none := servertest.Open(t, nil, nil, absent)
	none.Problem(none.Request(http.MethodPost, "/api/v1/bulk", `{"event":"hold"}`), http.StatusNotFound, job.NotFound)
}

func TestListByTagAndCause(t *testing.T) {
	w := servertest.Open(t, nil, nil, part)
	w.Post(engine.Order{Tags: []string{"queue=ingest"}})
	lost := w.Post(engine.Order{})
	cause := "river"
	if r, err := w.Store().Commit(context.Background(),
		job.Change{Job: lost.ID, Version: lost.Version, Set: job.Fields{Cause: &cause}}); err != nil ||
		r[0].Err != nil {
		t.Fatal(r, err)
	}
	for _, c := range []struct {
		q    job.Query
		want int
	}{
		{job.Query{Tag: "queue=ingest"}, 1}, {job.Query{Tag: "queue=other"}, 0},
		{job.Query{Causes: []string{"river", "x"}}, 1},
		{job.Query{Causes: []string{"x"}}, 0}, {job.Query{}, 2},
	} {
		if page, err := w.Client.Jobs(t.Context(), c.q); err != nil || len(page.Jobs) != c.want {
			t.Errorf("%+v: got %d jobs, %v", c.q, len(page.Jobs), err)
		}
	}
}

// TestPreviewNeedsNoReason: if staff must give reasons, a preview requires none.
func TestPreviewNeedsNoReason(t *testing.T) {
	w := servertest.Open(t, func(o *server.Options) { o.ReasonsRequired = true }, nil, part)
	for query, refused := range map[string]bool{"?dry=true": false, "": true} {
		_, text := w.Ask(w.Request(http.MethodPost, "/api/v1/bulk"+query, `{"event":"hold"}`))
		if servertest.ReasonRefused(text) != refused {
			t.Errorf("%q: %s", query, text)
		}
	}
}
