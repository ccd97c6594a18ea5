package explain_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/engine/explain"
	"github.com/stagepost/stagepost/job"
	lc "github.com/stagepost/stagepost/lifecycle"
)

// TestMain fails if a goroutine is left over.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// letter is a small life with everything in it: a queue, two stages of work, a wait for a person, a retry to where it
// failed.
var letter = lc.Must("test.letter",
	lc.OnQueue("Posted", "a sender brings it, a clerk takes it",
		lc.OnPass("begin", "Sorting", lc.Worker, "a clerk has time"),
		lc.On("hold", "Held", lc.Worker|lc.Operator, "its town is shut"),
		lc.OnFail("fail", "Lost", lc.Worker|lc.Timer, "it cannot be read")),
	lc.OnWait("Held", "its town is shut; an operator lets it go on",
		lc.On("release", "Posted", lc.Operator, "the town is open again"),
		lc.On("delete", "Burnt", lc.Operator, "it is not needed").Sets(lc.Cancelled)),
	lc.OnWork("Sorting", "a clerk reads the address",
		lc.OnPass("next", "Riding", lc.Worker, "the address is known"),
		lc.OnFail("fail", "Lost", lc.Worker|lc.Timer, "the address does not exist"),
		lc.OnFail("stop", "Lost", lc.Operator, "an operator takes it out")),
	lc.OnWork("Riding", "a coach carries it",
		lc.OnPass("finish", "Delivered", lc.Worker, "the addressee has it"),
		lc.OnFail("fail", "Lost", lc.Worker|lc.Timer, "the coach broke down")),
	lc.OnEnd("Delivered", lc.OK, "the addressee has it",
		lc.On("delete", "Burnt", lc.Operator|lc.Timer, "kept long enough")),
	lc.OnEnd("Lost", lc.Failed, "it went wrong somewhere",
		lc.OnReenter("retry", lc.Operator|lc.Owner, "try again where it went wrong", "Posted", "Sorting", "Riding"),
		lc.On("delete", "Burnt", lc.Operator|lc.Timer, "it is not needed")),
	lc.OnEnd("Burnt", lc.None, "only the record is left"),
)

// bag is a batch of letters.
var bag = lc.Must("test.bag",
	lc.OnQueue("Packed", "a sender brings it", lc.OnPass("begin", "Open", lc.Worker, "a clerk opens it")).Bounded("after its attempts it waits for a person"),
	lc.OnWork("Open", "its letters travel",
		lc.OnPass("report", "Emptied", lc.Engine, "all letters have ended"),
		lc.OnFail("fail", "Torn", lc.Worker|lc.Timer, "it holds nothing")),
	lc.OnEnd("Emptied", lc.OK, "all letters have ended"),
	lc.OnEnd("Torn", lc.Failed, "it held nothing"),
)

// note is a child's life with a single step.
var note = lc.Must("test.note",
	lc.OnQueue("Written", "a batch brings it, a clerk takes it",
		lc.OnPass("send", "Sent", lc.Worker, "it is on its way"),
		lc.OnFail("fail", "Torn", lc.Worker|lc.Timer, "it cannot be read")),
	lc.OnEnd("Sent", lc.OK, "it is on its way"),
	lc.OnEnd("Torn", lc.Failed, "it cannot be read"),
)

func notes() engine.Work {
	return engine.Work{Life: note, Prefix: "not", Steps: map[lc.State]engine.Step{"Written": takes(0)}}
}

func letters(steps map[lc.State]engine.Step) engine.Work {
	all := map[lc.State]engine.Step{}
	for _, s := range []lc.State{"Posted", "Sorting", "Riding"} {
		all[s] = func(context.Context, *engine.Run) error { return nil }
	}
	for s, step := range steps {
		all[s] = step
	}
	return engine.Work{Life: letter, Prefix: "let", Steps: all}
}

// bagOf is the work of a batch with n children.
func bagOf(n int, kind job.Kind) engine.Work {
	return engine.Work{Life: bag, Prefix: "bag", Steps: map[lc.State]engine.Step{
		"Packed": takes(0),
		"Open": func(ctx context.Context, r *engine.Run) error {
			err := r.Spawn(ctx, n, func(int) (engine.Order, error) { return engine.Order{Kind: kind}, nil })
			if err != nil {
				return err
			}
			return r.WaitChildren()
		},
	}}
}

// harness is an engine with its explainer, inside a synctest bubble.
type harness struct {
	*engine.Engine
	*explain.Explainer
	t     *testing.T
	store job.Store
	stop  func()
}

func start(t *testing.T, store job.Store, o engine.Options, works ...engine.Work) *harness {
	t.Helper()
	if o.Rand == nil {
		o.Rand = rand.New(rand.NewPCG(1, 2))
	}
	e, err := engine.New(store, works, o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx) }()
	synctest.Wait()
	return &harness{Engine: e, Explainer: explain.New(e), t: t, store: store, stop: func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}}
}

func (w *harness) post(o engine.Order) job.Job {
	w.t.Helper()
	if o.Kind == "" {
		o.Kind = "test.letter"
	}
	j, err := w.Submit(w.t.Context(), o)
	if err != nil {
		w.t.Fatal(err)
	}
	return j
}

func (w *harness) end(id job.ID) job.Job {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 24*time.Hour)
	defer cancel()
	j, err := w.Await(ctx, id, func(j *job.Job) bool { return j.Ended })
	if err != nil {
		w.t.Fatalf("%v (it is %s: %s)", err, j.State, j.Message)
	}
	return j
}

// takes is a step that needs some time.
func takes(d time.Duration) engine.Step {
	return func(ctx context.Context, _ *engine.Run) error {
		way := make(chan struct{})
		if d == 0 {
			go close(way)
		} else {
			timer := time.AfterFunc(d, func() { close(way) })
			defer timer.Stop()
		}
		select {
		case <-way:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func blocked(ctx context.Context, _ *engine.Run) error {
	<-ctx.Done()
	return ctx.Err()
}

func blocks(x api.Explanation, code string) bool {
	for _, b := range x.Blockers {
		if b.Code == code {
			return true
		}
	}
	return false
}

var errBroken = errors.New("the axle broke")
