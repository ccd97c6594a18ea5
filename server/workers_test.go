package server_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/server/servertest"
)

// TestWorkersOverHTTP: a worker that claimed is listed with what its claim has and its jobs, takes no jobs while it is
// drained, and reads its job while it has the claim.
func TestWorkersOverHTTP(t *testing.T) {
	w := servertest.Open(t, nil, nil)
	ctx, id := t.Context(), w.Post(engine.Order{Spec: map[string]int{"stamps": 2}}).ID
	claim := client.Claim{Worker: "coach", From: posted, N: 1, Labels: []string{"horses=4"}, Host: "inn", Version: "v2",
		Slots: 3}
	jobs, err := w.Client.Claim(ctx, claim)
	if err != nil || len(jobs) != 1 || jobs[0].Definition == "" {
		t.Fatalf("%+v, %v", jobs, err)
	}
	find := func() (one api.WorkerInfo) {
		all, err := w.Client.Workers(ctx)
		if err != nil || len(all) < 2 || all[0].Where != "server" {
			t.Fatalf("%+v, %v", all, err)
		}
		for _, i := range all {
			if i.Name == "coach" {
				one = i
			}
		}
		return one
	}
	if got := find(); got.State != api.WorkerBusy || got.Host != "inn" || got.Version != "v2" || got.Slots != 3 ||
		len(got.Running) != 1 || got.Running[0] != id || strings.Join(got.Labels, " ") != "horses=4" {
		t.Errorf("got %+v", got)
	}
	lease := api.WorkerLease{Worker: "coach", Job: id, Epoch: jobs[0].Epoch}
	if got, err := w.Client.WorkerJob(ctx, lease); err != nil || string(got.Job.Spec) != `{"stamps":2}` {
		t.Errorf("got %+v, %v", got, err)
	}
	lease.Epoch++
	if _, err := w.Client.WorkerJob(ctx, lease); job.KindOf(err) != job.Stale {
		t.Errorf("under another epoch: %v", err)
	}
	if _, err := w.Client.DrainWorker(ctx, "coach", api.WorkerDrain{Note: "a wheel"}); err != nil {
		t.Fatal(err)
	}
	w.Post(engine.Order{})
	if got := find(); got.State != api.WorkerDraining || got.Drain == nil || got.Drain.Why != "a wheel" {
		t.Errorf("got %+v", got)
	}
	if jobs, err := w.Client.Claim(ctx, claim); err != nil || len(jobs) != 0 {
		t.Errorf("a drained worker got %v, %v", jobs, err)
	}
	if _, err := w.Client.ResumeWorker(ctx, "coach", api.WorkerDrain{Note: "repaired"}); err != nil {
		t.Fatal(err)
	}
	if jobs, err := w.Client.Claim(ctx, claim); err != nil || len(jobs) != 1 {
		t.Errorf("a worker that was resumed got %v, %v", jobs, err)
	}
	own := w.Server.Engine.Status().Worker
	if _, err := w.Client.DrainWorker(ctx, own, api.WorkerDrain{Note: "x"}); err == nil {
		t.Error("the engine of the server was drained as a worker")
	}
	w.Problem(w.Request(http.MethodPost, "/api/v1/worker/claim",
		`{"worker":"x","from":[{"kind":"test.letter","state":"Posted"}],"n":1,"labels":["a\nb"]}`), http.StatusBadRequest,
		job.Invalid)
}
