package storetest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// Histories plays n random histories of workers that claim, renew, pause, give back and finish one job, beside a
// sweep that takes claims away when they ran out, and gives the number that are not linearizable by the model of
// claims with epochs. Each history has its own store, made by open inside a bubble of testing/synctest, so hours pass
// in microseconds; the store must not start goroutines that outlive ctx.
func Histories(t *testing.T, n int, open func() job.Store) (wrong int) {
	t.Helper()
	const perBubble = 500
	for from := 0; from < n; from += perBubble {
		synctest.Test(t, func(t *testing.T) {
			for seed := from; seed < min(n, from+perBubble); seed++ {
				h := &histories{ctx: t.Context(), st: open(), id: "tst_1", now: time.Now, sleep: time.Sleep}
				if err := h.play(uint64(seed)); err != nil {
					t.Fatalf("seed %d: %v", seed, err)
				}
				if !h.linearizable() {
					wrong++
				}
			}
		})
	}
	return wrong
}

var parallelTests = []test{{"of claims are linearizable", historiesParallel}}

// historiesParallel plays histories in which calls really overlap: workers move the clock instead of sleeping.
func historiesParallel(w *harness) {
	for seed := range w.scale(500, 10) {
		clock := &atomic.Int64{}
		h := &histories{ctx: w.Context(), st: w.st, id: job.ID(fmt.Sprintf("tst_%026d", seed))}
		h.now = func() time.Time { return w.clock.Add(time.Duration(clock.Load())) }
		h.sleep = func(d time.Duration) { clock.Add(int64(d / 4)); runtime.Gosched() }
		if err := h.play(uint64(seed)); err != nil {
			w.Fatalf("seed %d: %v", seed, err)
		}
		if !h.linearizable() {
			w.Errorf("seed %d is not linearizable: %+v", seed, h.operations)
		}
	}
}

const lease = 15 * time.Second

// histories plays one history.
type histories struct {
	ctx   context.Context
	st    job.Store
	id    job.ID
	now   func() time.Time
	sleep func(time.Duration)

	clock      atomic.Int64 // order of calls and returns; simulated time has ties
	mu         sync.Mutex   // guards operations and err
	operations []porcupine.Operation
	err        error
}

// op is an operation of a worker or the sweep, and its result.
type op struct {
	do     string // "claim", "renew", "finish", "back" or "expire"
	worker string
	epoch  int64 // of the claim it means
}

// answer is an epoch granted, or whether the call took effect.
type answer struct {
	epoch int64
	ok    bool
}

// state is the model: who holds the job under which epoch, and whether it has ended.
type state struct {
	epoch  int64
	holder string
	ended  bool
}

// claims is the sequential truth about one job.
var claims = porcupine.Model{
	Init: func() any { return state{} },
	Step: func(s, in, out any) (bool, any) {
		ok, next := s.(state).step(in.(op), out.(answer))
		return ok, next
	},
}

func (s state) step(o op, a answer) (bool, state) {
	held := s.holder != "" && s.epoch == o.epoch
	switch o.do {
	case "claim":
		if !a.ok {
			return s.holder != "" || s.ended, s
		}
		return s.holder == "" && !s.ended && a.epoch == s.epoch+1, state{a.epoch, o.worker, false}
	case "renew":
		return a.ok == (held && s.holder == o.worker), s
	case "finish":
		return a.ok == held, pick(a.ok, state{s.epoch, "", true}, s)
	case "back":
		return a.ok == held, pick(a.ok, state{s.epoch, "", false}, s)
	case "expire": // made with the version it saw: a conflict proves nothing
		return !a.ok || held, pick(a.ok, state{s.epoch + 1, "", false}, s)
	}
	return false, s
}

func pick(first bool, a, b state) state {
	if first {
		return a
	}
	return b
}

func (h *histories) play(seed uint64) error {
	random := rand.New(rand.NewPCG(seed, 1))
	j, e := job.New(job.Job{ID: h.id, Kind: h.kind(), Position: Step.Start(), Definition: Step.Hash()}, lifecycle.Owner,
		"alice", h.now())
	if _, err := h.st.Create(h.ctx, job.Created{Job: j, Event: e}); err != nil {
		return err
	}
	var all sync.WaitGroup
	for i := range 3 + random.IntN(3) {
		mine := rand.New(rand.NewPCG(seed, uint64(i)+2))
		all.Go(func() { h.work(fmt.Sprint("w", i), i, mine) })
	}
	sweeps := rand.New(rand.NewPCG(seed, 99))
	all.Go(func() { h.sweep(sweeps) })
	all.Wait()
	return h.err
}

// kind is the job's own, so that histories in one store do not meet.
func (h *histories) kind() job.Kind { return stepKind + job.Kind("."+h.id) }

// linearizable checks the history. In a store that several servers share, a claim passes over a job that another call
// has locked at that moment, so an empty answer proves nothing about that moment.
func (h *histories) linearizable() bool {
	operations := h.operations
	if !h.st.Properties().Exclusive {
		operations = slices.DeleteFunc(slices.Clone(operations), h.locked)
	}
	return porcupine.CheckOperations(claims, operations)
}

// locked reports whether an operation is a claim that found nothing while another operation was under way.
func (h *histories) locked(o porcupine.Operation) bool {
	return o.Input.(op).do == "claim" && !o.Output.(answer).ok &&
		slices.ContainsFunc(h.operations, func(x porcupine.Operation) bool {
			return x.Call != o.Call && x.Call < o.Return && o.Call < x.Return
		})
}

// do runs one operation and notes it.
func (h *histories) do(client int, o op, call func() (answer, error)) answer {
	at := h.clock.Add(1)
	got, err := call()
	end := h.clock.Add(1)
	h.mu.Lock()
	defer h.mu.Unlock()
	if err != nil && h.err == nil {
		h.err = fmt.Errorf("%+v: %w", o, err)
	}
	h.operations = append(h.operations,
		porcupine.Operation{ClientId: client, Input: o, Output: got, Call: at, Return: end})
	return got
}

// work is the life of a worker: it may pause for longer than its lease at any point, as a machine under load does.
func (h *histories) work(name string, client int, random *rand.Rand) {
	pause := func(d time.Duration) { h.sleep(time.Duration(random.Int64N(int64(d)))) }
	for range 3 {
		pause(20 * time.Second)
		got := h.do(client, op{do: "claim", worker: name}, func() (answer, error) { return h.claim(name) })
		if !got.ok {
			continue
		}
		mine := op{worker: name, epoch: got.epoch}
		for range random.IntN(3) {
			pause(lease)
			mine.do = "renew"
			if !h.do(client, mine, func() (answer, error) { return h.renew(mine) }).ok && random.IntN(2) == 0 {
				break // half of the workers ignore the answer
			}
		}
		pause(2 * lease)
		mine.do = "finish"
		if random.IntN(3) > 0 {
			mine.do = "back"
		}
		h.do(client, mine, func() (answer, error) { return h.leave(mine) })
	}
}

func (h *histories) claim(name string) (answer, error) {
	now := h.now()
	got, err := h.st.Claim(h.ctx, job.Claim{Worker: name, N: 1, Now: now, Lease: lease,
		From: []job.KindState{{Kind: h.kind(), State: waiting}}})
	if err != nil || len(got) == 0 {
		return answer{}, err
	}
	return answer{got[0].Epoch, true}, nil
}

func (h *histories) renew(o op) (answer, error) {
	lost, err := h.st.Renew(h.ctx,
		job.Renewal{Worker: o.worker, Leases: []job.Lease{{Job: h.id, Epoch: o.epoch}}, Lease: lease, Now: h.now()})
	return answer{ok: len(lost) == 0}, err
}

// leave finishes the job under its claim or gives it back.
func (h *histories) leave(o op) (answer, error) {
	c := job.Change{Job: h.id, Epoch: o.epoch, At: h.now()}
	if o.do == "finish" {
		c.Event, c.By, c.Ended = "cancel", lifecycle.Worker, true
		c.To = lifecycle.Position{State: stopped, Outcome: lifecycle.Cancelled}
	}
	return h.commit(c)
}

func (h *histories) commit(c job.Change) (answer, error) {
	r, err := h.st.Commit(h.ctx, c)
	if err != nil {
		return answer{}, err
	}
	switch kind := job.KindOf(r[0].Err); kind {
	case "":
		return answer{ok: true}, nil
	case job.Stale, job.Conflict:
		return answer{}, nil
	}
	return answer{}, r[0].Err
}

// sweep finds an expired claim and ends it, with the version it saw.
func (h *histories) sweep(random *rand.Rand) {
	for range 12 {
		h.sleep(time.Duration(random.Int64N(int64(10 * time.Second))))
		j, err := h.st.Get(h.ctx, h.id)
		if err != nil || !j.Claimed() || h.now().Before(j.Until) {
			continue
		}
		h.sleep(time.Duration(random.Int64N(int64(time.Second)))) // a renewal or another claim may come between
		c, err := Transition(Step, j, lifecycle.Lost, lifecycle.Timer, h.now())
		if err != nil {
			continue
		}
		h.do(99, op{do: "expire", epoch: j.Epoch}, func() (answer, error) { return h.commit(c) })
	}
}
