package host

import (
	"encoding/json"
	"log/slog"
	"testing"
	"time"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/server/workers"
)

// TestWorkersOfAllServers: each server of a store lists the engines and the agents of all, and a worker that sent its
// requests to another one, with what its claim has.
func TestWorkersOfAllServers(t *testing.T) {
	store, shared := newDatabase(t), t.TempDir()
	a, err := sharing(t, store, shared, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	b, err := sharing(t, store, shared, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	to := func(r *Server) *client.Client {
		c, err := client.New(r.URL, client.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	ctx := t.Context()
	third := workers.New(time.Now) // a server with a kind that these do not have
	third.Claims(&api.Claim{Worker: "coach", N: 1, Version: "v2", Labels: []string{"gpu"},
		From: []job.KindState{{Kind: "lab.check", State: "Queued"}}})(nil)
	text, err := json.Marshal(third.Share(api.WorkerInfo{Name: "third/1", Where: "server"},
		api.WorkerInfo{Name: "node7", Where: "agent", State: api.WorkerIdle, Slots: 3, Seen: time.Now(),
			Running: []job.ID{}, From: []job.KindState{}, Labels: []string{}}))
	if err != nil {
		t.Fatal(err)
	}
	if err := a.store.Presence.Announce(ctx, "third", text); err != nil {
		t.Fatal(err)
	}
	for _, r := range []*Server{a, b} {
		if err := r.server.Announce(ctx); err != nil {
			t.Fatal(err)
		}
	}
	for i, r := range []*Server{a, b} {
		all, err := to(r).Workers(ctx)
		if err != nil {
			t.Fatal(err)
		}
		engines := map[string]bool{}
		var coach, agents []api.WorkerInfo
		for _, w := range all {
			switch {
			case w.Where == "agent":
				agents = append(agents, w)
			case w.Where == "server":
				engines[w.Name] = true
			case w.Name == "coach":
				coach = append(coach, w)
			}
		}
		if len(engines) != 3 || len(coach) != 1 || coach[0].Version != "v2" || coach[0].State != api.WorkerIdle ||
			len(coach[0].Labels) != 1 {
			t.Errorf("server %d lists %v and %+v", i, engines, coach)
		}
		if len(agents) != 1 || agents[0].Name != "node7" || agents[0].Slots != 3 || agents[0].Seen.IsZero() {
			t.Errorf("server %d lists the agents %+v", i, agents)
		}
		if _, err := to(r).DrainWorker(ctx, "node7", api.WorkerDrain{Note: "repair"}); job.KindOf(err) != job.Refused {
			t.Errorf("server %d drains an agent as a worker of the API: %v", i, err)
		}
	}
}

// TestThroughputOfAllServers: the throughput counts the jobs that another server of the store ended, and those that
// ended before the server started.
func TestThroughputOfAllServers(t *testing.T) {
	ctx := t.Context()
	for _, shares := range []bool{true, false} {
		store, shared, data := "sqlite", "", t.TempDir()
		if shares {
			store, shared = newDatabase(t), t.TempDir()
		}
		s := NewSettings()
		s.Data, s.Listen, s.Store, s.Shared = data, "127.0.0.1:0", store, shared
		first, err := Start(ctx, s, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		j, e := job.New(job.Job{ID: "lab_1", Kind: "lab.check", Position: lifecycle.Position{State: "Queued"}},
			lifecycle.Owner, "ann", time.Now())
		made, err := first.store.Jobs.Create(ctx, job.Created{Job: j, Event: e})
		if err != nil {
			t.Fatal(err)
		}
		done, err := first.store.Jobs.Commit(ctx, job.Change{Job: j.ID, Version: made[0].Version, At: time.Now(),
			Event: "finish", To: lifecycle.Position{State: "Done", Outcome: lifecycle.OK}, Ended: true,
			By: lifecycle.Engine})
		if err != nil || done[0].Err != nil {
			t.Fatal(err, done)
		}
		if shares {
			data = t.TempDir()
		} else if err := first.Stop(); err != nil {
			t.Fatal(err)
		}
		second, err := sharing(t, store, shared, data)
		if err != nil {
			t.Fatal(err)
		}
		c, err := client.New(second.URL, client.Options{})
		if err != nil {
			t.Fatal(err)
		}
		all, err := c.Throughput(ctx)
		if err != nil {
			t.Fatal(err)
		}
		var kinds []api.ThroughputKind
		for _, h := range all.Hours {
			kinds = append(kinds, h.Kinds...)
		}
		if len(kinds) != 1 || kinds[0] != (api.ThroughputKind{Kind: "lab.check", Jobs: 1, OK: 1}) {
			t.Errorf("several servers %t: %+v", shares, kinds)
		}
		if shares {
			if err := first.Stop(); err != nil {
				t.Fatal(err)
			}
		}
	}
}
