package server_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/server"
	"github.com/stagepost/stagepost/server/servertest"
)

// TestAgain: a job stays with its worker by a report, and the answer has it as a claim would, with the lease that the
// worker asked for. The controls are a report without a lease, whose answer has it not, one that does not ask, and a
// worker that was drained meanwhile.
func TestAgain(t *testing.T) {
	w := servertest.Open(t, nil, nil)
	for _, c := range []struct {
		name        string
		again       bool
		lease       float64
		drain       bool
		held, whole bool
	}{
		{name: "with a lease", again: true, lease: 30, held: true, whole: true},
		{name: "without a lease", again: true, held: true},
		{name: "does not ask", lease: 30},
		{name: "drained", again: true, lease: 30, drain: true},
	} {
		j := w.Post(engine.Order{Owner: "ann", Spec: map[string]string{"to": "ben"}})
		from := []job.KindState{{Kind: j.Kind, State: "Posted"}}
		jobs, err := w.Client.Claim(t.Context(), client.Claim{Worker: "mule", From: from, N: 1})
		if err != nil || len(jobs) != 1 {
			t.Fatal(jobs, err)
		}
		if c.drain {
			drain := api.WorkerDrain{Actor: "ann", Note: "disk"}
			if _, err := w.Client.DrainWorker(t.Context(), "mule", drain); err != nil {
				t.Fatal(err)
			}
		}
		results, err := w.Client.Report(t.Context(), client.Reports{Worker: "mule", Lease: c.lease,
			Reports: []client.Report{{Job: j.ID, Epoch: jobs[0].Epoch, Again: c.again}}})
		if err != nil || len(results) != 1 {
			t.Fatal(results, err)
		}
		got := results[0]
		if got.State != "Sorting" || got.Held != c.held || (got.Leased != nil) != c.whole {
			t.Errorf("%s: got %+v", c.name, got)
		}
		if l := got.Leased; l != nil && (l.ID != j.ID || l.State != got.State || l.Epoch != got.Epoch ||
			l.Spec != nil || l.Owner != "ann") {
			t.Errorf("%s: got %+v", c.name, l)
		}
		now, err := w.Store().Get(t.Context(), j.ID)
		if err != nil || now.Claimed() != c.held {
			t.Errorf("%s: it is claimed by %q, %v", c.name, now.Worker, err)
		}
		if lease := now.Until.Sub(now.Changed).Seconds(); c.whole && lease != c.lease {
			t.Errorf("%s: the lease is %g s", c.name, lease)
		}
	}
}

// TestAgainInScope: a job stays with a worker only in states that its token names.
func TestAgainInScope(t *testing.T) {
	secrets := map[string]string{}
	g := servertest.GuardWith(t, func(g *servertest.Guarded, _ *server.Options) {
		secrets["one"] = addWorker(t, g, "one", "test.letter/Posted")
		secrets["all"] = addWorker(t, g, "all", "test.letter")
	})
	for name, secret := range secrets {
		id := g.Post(engine.Order{}).ID
		claim := g.With(secret, http.MethodPost, "/api/v1/worker/claim", claimOf("", "Posted"))
		if answer, text := g.Ask(claim); answer.StatusCode != http.StatusOK {
			t.Fatalf("claim: got %s %s", answer.Status, text)
		}
		report := fmt.Sprintf(`{"worker":"","lease":30,"reports":[{"job":%q,"epoch":1,"again":true}]}`, id)
		answer, text := g.Ask(g.With(secret, http.MethodPost, "/api/v1/worker/report", report))
		j, err := g.Store().Get(t.Context(), id)
		if answer.StatusCode != http.StatusOK || err != nil || j.State != "Sorting" || j.Claimed() != (name == "all") {
			t.Errorf("%s: got %s %s; it is %s, claimed by %q, %v", name, answer.Status, text, j.State, j.Worker, err)
		}
	}
}
