package server_test

import (
	"crypto/rand"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/job"
	lc "github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/server"
	"github.com/stagepost/stagepost/server/identity"
	"github.com/stagepost/stagepost/server/servertest"
	"github.com/stagepost/stagepost/server/token"
)

// addWorker makes a token of a worker with a scope.
func addWorker(t *testing.T, g *servertest.Guarded, owner string, work identity.Work) string {
	t.Helper()
	s, err := token.New(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if err := token.Add(g.File, token.Entry{Hash: s.Hash(), Role: identity.Worker, Owner: owner,
		Work: work}); err != nil {
		t.Fatal(err)
	}
	return s.Reveal()
}

func claimOf(worker string, states ...lc.State) string {
	var from []string
	for _, s := range states {
		from = append(from, fmt.Sprintf(`{"kind":"test.letter","state":%q}`, s))
	}
	return fmt.Sprintf(`{"worker":%q,"n":1,"from":[%s]}`, worker, strings.Join(from, ","))
}

// TestWorkerToken: a worker claims and reports only what its token names, under the name of its owner, whatever the
// request has. An admin is not limited.
func TestWorkerToken(t *testing.T) {
	var posted, all string
	g := servertest.GuardWith(t, func(g *servertest.Guarded, _ *server.Options) {
		posted, all = addWorker(t, g, "poster", "test.letter/Posted"), addWorker(t, g, "carrier",
			"test.letter,test.other/Posted")
	})
	nothing := g.Tokens[identity.Worker]
	for range 8 {
		g.Post(engine.Order{})
	}
	const claim = "/api/v1/worker/claim"
	for name, c := range map[string]struct {
		secret string
		states []lc.State
		status int
	}{
		"named":                {posted, []lc.State{"Posted"}, http.StatusOK},
		"another state":        {posted, []lc.State{"Sorting"}, http.StatusForbidden},
		"one of two":           {posted, []lc.State{"Posted", "Sorting"}, http.StatusForbidden},
		"the whole kind":       {all, []lc.State{"Posted", "Sorting", "Riding"}, http.StatusOK},
		"no scope":             {nothing, []lc.State{"Posted"}, http.StatusForbidden},
		"admin":                {g.Tokens[identity.Admin], []lc.State{"Posted", "Sorting"}, http.StatusOK},
		"user":                 {g.Tokens[identity.Depositor], []lc.State{"Posted"}, http.StatusForbidden},
		"a state without work": {all, []lc.State{"Held"}, http.StatusConflict},
	} {
		if answer, text := g.Ask(g.With(c.secret, http.MethodPost, claim,
			claimOf("somebody", c.states...))); answer.StatusCode != c.status {
			t.Errorf("%s: got %s %s", name, answer.Status, text)
		}
	}
	id := g.Post(engine.Order{Owner: "one"}).ID
	var j job.Job
	for j.ID != id { // whatever else is there goes first
		if answer, text := g.Ask(g.With(posted, http.MethodPost, claim,
			claimOf("carrier", "Posted"))); answer.StatusCode != http.StatusOK || strings.Contains(text, `"jobs":[]`) {
			t.Fatalf("got %s %s", answer.Status, text)
		}
		var err error
		if j, err = g.Store().Get(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		if !j.Claimed() {
			j.ID = ""
		}
	}
	if j.Worker != "poster" {
		t.Errorf("the worker is %q, want the owner of the token", j.Worker)
	}
	report := fmt.Sprintf(`{"worker":"poster","reports":[{"job":%q,"epoch":%d}]}`, id, j.Epoch)
	if answer, _ := g.Ask(g.With(all, http.MethodPost, "/api/v1/worker/report",
		report)); answer.StatusCode != http.StatusConflict {
		t.Errorf("a report under another's name: got %s", answer.Status)
	}
	if answer, text := g.Ask(g.With(posted, http.MethodPost, "/api/v1/worker/report",
		report)); answer.StatusCode != http.StatusOK {
		t.Errorf("its own report: got %s %s", answer.Status, text)
	}
	if answer, text := g.Ask(g.With(posted, http.MethodPost, "/api/v1/worker/report",
		strings.Replace(report, `"epoch":1`, `"epoch":2`, 1))); answer.StatusCode < 400 {
		t.Errorf("a report beyond its scope: got %s %s", answer.Status, text)
	}
}

// TestWorkerTokenSpawns: a worker creates children only of kinds whose start its token names.
func TestWorkerTokenSpawns(t *testing.T) {
	var posted, sorting string
	g := servertest.GuardWith(t, func(g *servertest.Guarded, _ *server.Options) {
		posted, sorting = addWorker(t, g, "poster", "test.letter/Posted"), addWorker(t, g, "sorter",
			"test.letter/Sorting")
	})
	id := g.Post(engine.Order{}).ID
	spawn := func(secret string, state lc.State, keep string, epoch int) (int, string) {
		if answer, text := g.Ask(g.With(secret, http.MethodPost, "/api/v1/worker/claim",
			claimOf("", state))); !strings.Contains(text, string(id)) {
			t.Fatalf("claim: got %s %s", answer.Status, text)
		}
		answer, text := g.Ask(g.With(secret, http.MethodPost, "/api/v1/worker/"+keep, fmt.Sprintf(
			`{"worker":"","reports":[{"job":%q,"epoch":%d,"spawn":{"expected":1,"from":1,"jobs":[{"kind":"test.letter"}]}}]}`,
			id, epoch)))
		return answer.StatusCode, text
	}
	if status, text := spawn(posted, "Posted", "report", 1); status != http.StatusOK {
		t.Fatalf("the control, with its start in scope: got %d %s", status, text)
	}
	if status, text := spawn(sorting, "Sorting", "update", 2); status != http.StatusForbidden {
		t.Errorf("beyond its scope: got %d %s", status, text)
	}
}
