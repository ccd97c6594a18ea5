package server_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/job"
	lc "github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/server"
	"github.com/stagepost/stagepost/server/servertest"
	"github.com/stagepost/stagepost/store/mem"
)

// boxes are batches of letters.
var boxes = lc.Must("test.batch",
	lc.OnQueue("Open", "it is filled",
		lc.OnPass("close", "Full", lc.Worker, "it is full"),
		lc.OnFail("fail", "Broken", lc.Worker|lc.Timer, "it broke")),
	lc.OnEnd("Full", lc.OK, "it is full"),
	lc.OnEnd("Broken", lc.Failed, "it broke"),
)

// TestPagesOfEveryList: see [servertest.CheckPages].
func TestPagesOfEveryList(t *testing.T) {
	e, err := engine.New(mem.New(), []engine.Work{
		{Life: servertest.Letter, Prefix: "let", Outside: true}, {Life: boxes, Prefix: "box", Outside: true},
	}, engine.Options{})
	if err != nil {
		t.Fatal(err)
	}
	w := servertest.Serve(t, server.Options{Engine: e, Fixity: map[string]server.Fixity{
		"one": &checks{own: "a", objects: []string{"1", "2"}}, "two": &checks{own: "b", objects: []string{"1", "2"}},
	}})
	first := w.Post(engine.Order{})
	five := 5
	change := job.Change{Job: first.ID, Version: first.Version, At: time.Now(), Set: job.Fields{Expected: &five}}
	for i := range five {
		change.Outbox = append(change.Outbox, job.Message{
			Key: fmt.Sprint("let/", i), Job: first.ID, Topic: "callback", Body: []byte("{}"),
			Created: time.Now(), Due: time.Now(),
		})
	}
	if r, err := w.Store().Commit(t.Context(), change); err != nil || r[0].Err != nil {
		t.Fatal(r, err)
	}
	for i := range five {
		event := []lc.Event{"hold", "release"}[i%2]
		if _, err := w.Client.Do(t.Context(), first.ID, event, client.Act{Note: "x"}); err != nil {
			t.Fatal(err)
		}
		w.Post(engine.Order{Parent: first.ID})
		if _, err := w.Submit(t.Context(), engine.Order{Kind: "test.batch"}); err != nil {
			t.Fatal(err)
		}
	}
	of := "/api/v1/jobs/" + string(first.ID)
	servertest.CheckPages(t, w, w.Server.All(), map[string]servertest.Paged{
		"GET /api/v1/jobs":               {Path: "/api/v1/jobs", List: "jobs"},
		"GET /api/v1/lookup":             {Why: "at most 11 jobs, of which a person chooses"},
		"GET /api/v1/jobs/{id}/children": {Path: of + "/children", List: "jobs"},
		"GET /api/v1/jobs/{id}/history":  {Path: of + "/history", List: "history"},
		"GET /api/v1/jobs/{id}/log":      {Why: "a log is read by bytes, from offset on"},
		"GET /api/v1/outbox":             {Path: "/api/v1/outbox?topic=callback", List: "messages"},
		"GET /api/v1/queue/batches":      {Path: "/api/v1/queue/batches", List: "batches"},
		"GET /api/v1/stuck":              {Why: "the worst of a report, which has no further pages"},
		"GET /api/v1/fixity/objects":     {Path: "/api/v1/fixity/objects", List: "objects"},
		"GET /api/v1/audit":              {Path: "/api/v1/audit", List: "entries", After: "0"},
	})
	lists := slices.DeleteFunc(slices.Clone(w.Server.All()), func(r server.Route) bool {
		return r.Pattern == "/api/v1/lookup" // no list: its name is required, and each name is possible
	})
	servertest.CheckFilters(t, w, lists, map[string]string{
		"GET /api/v1/jobs/{id}/children": of + "/children",
	}, nil)
}
