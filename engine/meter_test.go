package engine_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/engine/meter"
	"github.com/stagepost/stagepost/engine/operator"
	"github.com/stagepost/stagepost/engine/remote"
	"github.com/stagepost/stagepost/job"
	lc "github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/mem"
)

// index is a meter that records a line for each event.
type book struct {
	mu    sync.Mutex // guards lines
	lines []string
}

func (b *book) write(format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lines = append(b.lines, fmt.Sprintf(format, args...))
}

func (b *book) Claimed(c meter.Claimed) {
	b.write("claimed %s chain=%v first=%v %s", c.State, c.Chain, c.First, c.Waited)
}
func (b *book) Attempted(a meter.Attempt) {
	b.write("%s %s %q %s", a.State, a.Ending, a.Cause, a.Took)
}
func (b *book) Lost(l meter.Lost) { b.write("lost %s silent=%v", l.State, l.Silent) }
func (b *book) Delivered(d meter.Delivery) {
	b.write("delivered %s %q %s %s", d.Topic, d.Settled, d.Took, d.Lag)
}

// take returns the lines so far and removes them.
func (b *book) take() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	lines := b.lines
	b.lines = nil
	return lines
}

// TestMeterCountsEndingsOfAttempts checks each ending of a step.
func TestMeterCountsEndingsOfAttempts(t *testing.T) {
	for _, c := range []struct {
		name   string
		step   engine.Step
		policy engine.Policy
		want   []string
	}{
		{"passes", takes(3 * time.Second), engine.Policy{}, []string{
			`Posted passed "" 0s`, `claimed Sorting chain=true first=false 0s`, `Sorting passed "" 3s`,
			`claimed Riding chain=true first=false 0s`, `Riding passed "" 0s`,
		}},
		{"fails", func(context.Context, *engine.Run) error {
			return engine.Fail("no-town", errBroken)
		}, engine.Policy{}, []string{
			`Posted passed "" 0s`, `claimed Sorting chain=true first=false 0s`, `Sorting failed "no-town" 0s`,
		}},
		{"tries again", func(context.Context, *engine.Run) error {
			return errBroken
		}, engine.Policy{MaxAttempts: 2}, []string{
			`Posted passed "" 0s`, `claimed Sorting chain=true first=false 0s`, `Sorting backed-up "error" 0s`,
			`claimed Sorting chain=false first=false X`, `Sorting failed "error" 0s`,
		}},
		// between two sweeps
		{"runs out of time", takes(time.Hour), engine.Policy{Timeout: 59500 * time.Millisecond}, []string{
			`Posted passed "" 0s`, `claimed Sorting chain=true first=false 0s`, `Sorting timed-out "timeout" 59.5s`,
		}},
		{"waits", func(_ context.Context, r *engine.Run) error {
			if r.Now().Sub(r.Job().Entered) < 5*time.Second {
				return engine.Wait(job.Blocker{Code: "rain", Sentence: "it rains"})
			}
			return engine.Fail("flood", errBroken)
		}, engine.Policy{}, []string{
			`Posted passed "" 0s`, `claimed Sorting chain=true first=false 0s`, `Sorting waited "rain" 0s`,
			`claimed Sorting chain=false first=false 5s`, `Sorting failed "flood" 0s`,
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := &book{}
				w := letters(map[lc.State]engine.Step{"Sorting": c.step})
				w.Policies = map[lc.State]engine.Policy{"Sorting": c.policy}
				x := start(t, mem.New(), engine.Options{Meter: b}, w)
				x.end(x.post(engine.Order{}).ID)
				x.stop()
				got := b.take()
				if c.name == "tries again" && len(got) > 4 { // the pause is by chance
					got[4] = `claimed Sorting chain=false first=false X`
				}
				want := append([]string{`claimed Posted chain=false first=true 0s`}, c.want...)
				if diff := cmp.Diff(want, got); diff != "" {
					t.Error(diff)
				}
			})
		})
	}
}

// TestMeterMeasuresTheQueue checks the time for which a job waited for a slot, and that the engine counts a job that it
// returns when it stops.
func TestMeterMeasuresTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &book{}
		w := start(t, mem.New(), engine.Options{Meter: b, Slots: 1},
			letters(map[lc.State]engine.Step{"Posted": takes(time.Minute)}))
		first := w.post(engine.Order{})
		second := w.post(engine.Order{})
		w.end(first.ID)
		if s := w.Status(); s.Running > s.Slots || s.Slots != 1 {
			t.Errorf("%d of %d slots", s.Running, s.Slots)
		}
		synctest.Wait()
		b.take()
		w.stop()
		if diff := cmp.Diff([]string{`Posted yielded "" 10s`}, b.take()); diff != "" {
			t.Error(diff)
		}
		w = start(t, w.store, engine.Options{Meter: b}, letters(nil))
		w.end(second.ID)
		w.stop()
		if got := b.take(); len(got) == 0 || got[0] != `claimed Posted chain=false first=true 1m10s` {
			t.Errorf("got %q", got)
		}
	})
}

// TestMeterCountsLostClaims checks expired leases, jobs that were taken away, and the last start before poison.
func TestMeterCountsLostClaims(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, store := &book{}, mem.New()
		work := letters(map[lc.State]engine.Step{"Sorting": blocked})
		work.Policy.MaxStarts = 2
		w := start(t, store, engine.Options{Meter: b, Name: "host"}, work)
		stopped := w.post(engine.Order{})
		synctest.Wait()
		b.take()
		if _, err := w.Do(t.Context(), operator.Act{Job: stopped.ID, Event: "stop", By: lc.Operator,
			Actor: "ann"}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if diff := cmp.Diff([]string{"lost Sorting silent=false"}, b.take()); diff != "" {
			t.Error(diff)
		}
		w.stop()

		var id job.ID
		for n := range 2 {
			m := startKillable(t, store, named("victim", n), work)
			if n == 0 {
				id = m.post(engine.Order{}).ID
			}
			m.until(id, func(j *job.Job) bool { return j.State == "Sorting" && j.Worker == m.Status().Worker })
			m.kill()
		}
		time.Sleep(time.Minute)
		b.take()
		w = start(t, store, engine.Options{Meter: b, Name: "host"}, work)
		defer w.stop()
		w.end(id)
		synctest.Wait() // the meter is notified after the commit
		if diff := cmp.Diff([]string{`Sorting poisoned "poison" 0s`, "lost Sorting silent=true"},
			b.take()); diff != "" {
			t.Error(diff)
		}
	})
}

// TestMeterCountsRemoteWorkers checks that attempts of remote workers are counted without a time.
func TestMeterCountsRemoteWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &book{}
		w := start(t, mem.New(), engine.Options{Meter: b}, remoteLetters())
		w.stop()
		w.post(engine.Order{})
		time.Sleep(time.Second)
		j := w.acquire("far", 1)[0]
		time.Sleep(time.Second)
		j = w.report("far", j, remote.Report{Again: true}).Job
		w.report("far", j, remote.Report{Wait: &job.Blocker{Code: "rain", Sentence: "it rains"}})
		j.Epoch = 99
		w.report("far", j, remote.Report{Fail: "too late", Cause: "late"}) // refused: it is not reported
		if diff := cmp.Diff([]string{
			`claimed Posted chain=false first=true 1s`, `Posted passed "" 0s`,
			`claimed Sorting chain=true first=false 0s`, `Sorting waited "rain" 0s`,
		}, b.take()); diff != "" {
			t.Error(diff)
		}
	})
}

// TestMeterCountsDeliveries checks a message that is delivered, and one that is retried and then abandoned.
func TestMeterCountsDeliveries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &book{}
		w := start(t, mem.New(), engine.Options{Meter: b, Attempts: 2, Deliver: map[string]engine.Deliver{
			"mail": func(context.Context, job.Message) error { time.Sleep(time.Second); return nil },
			"fax":  func(context.Context, job.Message) error { return errors.New("engaged") },
		}}, engine.Work{Life: bag, Prefix: "bag", Outside: true})
		defer w.stop()
		send := func(topic string) {
			now := time.Now()
			w.post(engine.Order{Kind: "test.bag", Outbox: []job.Message{{Key: topic, Topic: topic,
				Created: now.Add(-time.Minute), Due: now}}})
		}
		send("mail")
		time.Sleep(5 * time.Second)
		if diff := cmp.Diff([]string{`delivered mail "delivered" 1s 1m1s`}, b.take()); diff != "" {
			t.Error(diff)
		}
		send("fax")
		time.Sleep(time.Minute)
		got := b.take()
		if len(got) != 2 || got[0] != `delivered fax "" 0s 1m0s` ||
			got[1][:len(`delivered fax "abandoned"`)] != `delivered fax "abandoned"` {
			t.Errorf("got %q", got)
		}
	})
}

// TestStalled checks that a sweep that does not progress is reported while its store hangs. In the control the store
// answers.
func TestStalled(t *testing.T) {
	for _, hangs := range []bool{true, false} {
		t.Run(fmt.Sprint("hangs=", hangs), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := &hanging{Store: mem.New(), free: make(chan struct{})}
				w := start(t, store, engine.Options{}, letters(nil))
				time.Sleep(time.Minute)
				if got := w.Status().Stalled; got > time.Second {
					t.Errorf("it stands still for %s", got)
				}
				store.mu.Lock()
				store.hangs = hangs
				store.mu.Unlock()
				time.Sleep(time.Minute)
				if got := w.Status().Stalled; (got > 50*time.Second) != hangs {
					t.Errorf("it stands still for %s", got)
				}
				close(store.free)
				w.stop()
				if got := w.Status().Stalled; got != 0 {
					t.Errorf("an engine that does not run stands still for %s", got)
				}
			})
		})
	}
}

// hanging is a store that may hang in the search for overdue jobs until it is freed.
type hanging struct {
	job.Store
	mu    sync.Mutex // guards hangs
	hangs bool
	free  chan struct{}
}

func (h *hanging) Overdue(ctx context.Context, now time.Time, kinds []job.Kind, n int) ([]job.Job, error) {
	h.mu.Lock()
	hangs := h.hangs
	h.mu.Unlock()
	if hangs {
		<-h.free
	}
	return h.Store.Overdue(ctx, now, kinds, n)
}
