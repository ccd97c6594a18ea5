package engine_test

import (
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/store/mem"
)

// sharedStore is a store that several servers may use.
type sharedStore struct{ job.Store }

func (s sharedStore) Properties() job.Properties {
	p := s.Store.Properties()
	p.Exclusive = false
	return p
}

// TestOnlyTheLeaderSweeps has two engines on one store. A job whose deadline passes stays until one of them leads; the
// other one searches nothing. Control: on a store that one process owns, the engine sweeps whatever Leads reports.
func TestOnlyTheLeaderSweeps(t *testing.T) {
	for _, c := range []struct {
		name      string
		exclusive bool
	}{{"shared", false}, {"control: exclusive", true}} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var store job.Store = sharedStore{mem.New()}
				if c.exclusive {
					store = mem.New()
				}
				var leads atomic.Bool
				first := startKillable(t, store, engine.Options{Name: "first", Leads: leads.Load}, letters(nil))
				defer first.stop()
				if !c.exclusive {
					other := startKillable(t, store, engine.Options{Name: "other",
						Leads: func() bool { return false }}, letters(nil))
					defer func() {
						other.stop()
						if n := other.line.count("Overdue"); n > 0 {
							t.Errorf("the engine that does not lead searched %d times", n)
						}
					}()
				}
				all := job.Scope{Kind: "test.letter"}
				_, err := first.Operator().Hold(t.Context(), all, "ann", "flood", time.Time{})
				if err != nil {
					t.Fatal(err)
				}
				id := first.post(engine.Order{Deadline: time.Now().Add(30 * time.Second)}).ID
				time.Sleep(40 * time.Second)
				synctest.Wait()
				if j := first.get(id); (j.State == "Lost") != c.exclusive {
					t.Errorf("without a leader it is %s ten seconds after its deadline", j.State)
				}
				leads.Store(true)
				time.Sleep(2 * time.Second)
				synctest.Wait()
				if j := first.get(id); j.State != "Lost" {
					t.Errorf("with a leader it is %s", j.State)
				}
			})
		})
	}
}

// TestRetentionOfSeveralServers has two engines with files of logs on one store. Only the one that leads deletes the
// ended jobs; each removes its own logs. Control: without a leader the jobs stay.
func TestRetentionOfSeveralServers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := sharedStore{mem.New()}
		var leads atomic.Bool
		work := letters(nil)
		work.Keep = time.Hour
		open := func(name string, leads func() bool) (*killable, *logList) {
			logs := &logList{}
			return startKillable(t, store, engine.Options{Name: name, Leads: leads, JobLogs: logs, Sweep: time.Minute,
				Retain: engine.Retention{Logs: 10 * time.Hour}}, work), logs
		}
		first, logs := open("first", leads.Load)
		defer first.stop()
		other, others := open("other", func() bool { return false })
		defer other.stop()
		id := first.post(engine.Order{}).ID
		logs.put(map[job.ID]time.Time{id: time.Now()})
		others.put(map[job.ID]time.Time{id: time.Now(), "let_nobody": time.Now()})
		time.Sleep(20 * time.Hour)
		synctest.Wait()
		if first.burnt() != 0 {
			t.Error("control: jobs were deleted without a leader")
		}
		if !slices.Equal(logs.gone(), []job.ID{id}) || len(others.gone()) != 2 {
			t.Errorf("removed logs: %v and %v", logs.gone(), others.gone())
		}
		leads.Store(true)
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		if first.burnt() != 1 {
			t.Error("the leader did not delete the ended job")
		}
		if n := other.line.count("Count"); n > 0 {
			t.Errorf("the engine that does not lead began %d checks of the jobs", n)
		}
	})
}
