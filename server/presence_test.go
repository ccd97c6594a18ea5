package server_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/server"
	"github.com/stagepost/stagepost/server/servertest"
	"github.com/stagepost/stagepost/server/workers"
	"github.com/stagepost/stagepost/store/mem"
)

// severals is a store that several servers could use.
type severals struct{ job.Store }

func (s severals) Properties() job.Properties {
	p := s.Store.Properties()
	p.Exclusive = false
	return p
}

// board keeps announcements in memory.
type board struct {
	mu   sync.Mutex
	text map[string][]byte
	at   map[string]time.Time
}

func (b *board) Announce(_ context.Context, name string, text []byte) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.text[name], b.at[name] = text, time.Now()
	return nil
}

func (b *board) Announced(_ context.Context, each func(string, []byte, time.Duration)) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for name, text := range b.text {
		each(name, text, time.Since(b.at[name]))
	}
	return nil
}

// TestNoWorkerOfSeveralServers: on a store of several servers no-worker is reported while no worker of any server takes
// the job, and not while it is unknown what the others have.
func TestNoWorkerOfSeveralServers(t *testing.T) {
	posted := job.KindState{Kind: "test.letter", State: "Posted"}
	for name, c := range map[string]struct {
		alone bool // the servers announce nothing
		other *workers.Shared
		after time.Duration
		want  bool
	}{
		"no announcements": {alone: true},
		"no other server":  {want: true},
		"its worker":       {other: &workers.Shared{Workers: []workers.SharedWorker{{Claim: coachOf(posted)}}}},
		"its worker is silent": {want: true, other: &workers.Shared{
			Workers: []workers.SharedWorker{{Claim: coachOf(posted), Age: time.Hour}}}},
		"it is silent": {other: &workers.Shared{Workers: []workers.SharedWorker{{Claim: coachOf(posted)}}},
			after: time.Hour, want: true},
		"it is new": {other: &workers.Shared{New: true}},
		"its engine": {other: &workers.Shared{Engine: api.WorkerInfo{Name: "there/1", State: api.WorkerIdle,
			From: []job.KindState{posted}}}},
		"its engine is drained": {other: &workers.Shared{Engine: api.WorkerInfo{Name: "there/1",
			State: api.WorkerDraining, From: []job.KindState{posted}}}, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e, err := engine.New(severals{mem.New()}, []engine.Work{
					{Life: servertest.Letter, Prefix: "let", Outside: true, Orders: true}}, engine.Options{})
				if err != nil {
					t.Fatal(err)
				}
				b := &board{text: map[string][]byte{}, at: map[string]time.Time{}}
				o := server.Options{Engine: e, Presence: b}
				if c.alone {
					o.Presence = nil
				}
				s := server.New(o)
				defer s.Close()
				time.Sleep(2 * time.Minute) // of the bubble: this server is not new any more
				if c.other != nil {
					text, err := json.Marshal(c.other)
					if err != nil {
						t.Fatal(err)
					}
					if err := b.Announce(t.Context(), "there", text); err != nil {
						t.Fatal(err)
					}
				}
				time.Sleep(c.after)
				j, err := e.Submit(t.Context(), engine.Order{Kind: "test.letter"})
				if err != nil {
					t.Fatal(err)
				}
				w := httptest.NewRecorder()
				s.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://localhost/api/v1/jobs/"+string(j.ID)+"/why",
					nil))
				if got := strings.Contains(w.Body.String(), `"no-worker"`); got != c.want || w.Code != http.StatusOK {
					t.Errorf("reported: %t, want %t: %d %s", got, c.want, w.Code, w.Body)
				}
			})
		})
	}
}

func coachOf(p job.KindState) api.Claim { return api.Claim{Worker: "coach", From: []job.KindState{p}} }

// TestAgentsOfAllServers: a server lists the agents that another server announces, and answers that it does not drain
// them.
func TestAgentsOfAllServers(t *testing.T) {
	b := &board{text: map[string][]byte{}, at: map[string]time.Time{}}
	store := severals{mem.New()}
	open := func(name string, agents ...api.WorkerInfo) *servertest.Harness {
		e, err := engine.New(store, []engine.Work{{Life: servertest.Letter, Prefix: "let", Outside: true}},
			engine.Options{Name: name})
		if err != nil {
			t.Fatal(err)
		}
		return servertest.Serve(t, server.Options{Engine: e, Presence: b,
			Workers: func() []api.WorkerInfo { return agents }})
	}
	here := open("here/1")
	there := open("there/1", api.WorkerInfo{Name: "node7", Where: "agent", State: api.WorkerIdle, Seen: time.Now(),
		Jobs: 2, Tag: "agent=node7", Running: []job.ID{}, From: []job.KindState{}, Labels: []string{}})
	if err := there.Server.Announce(t.Context()); err != nil {
		t.Fatal(err)
	}
	all, err := here.Client.Workers(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(all, func(w api.WorkerInfo) bool {
		return w.Name == "node7" && w.Where == "agent" && w.State == api.WorkerIdle && w.Jobs == 2 &&
			w.Tag == "agent=node7"
	}) {
		t.Errorf("the agent of another server is not listed: %+v", all)
	}
	_, err = here.Client.DrainWorker(t.Context(), "node7", api.WorkerDrain{Note: "repair"})
	if job.KindOf(err) != job.Refused {
		t.Errorf("an agent is drained as a worker of the API: %v", err)
	}
}
