package bulk

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/engine/operator"
	"github.com/stagepost/stagepost/job"
	lc "github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/mem"
)

// sender is the address from which bulks are started.
const sender = "192.0.2.7"

// parcel is a small life with every sort of move that a person can make.
var parcel = lc.Must("test.parcel",
	lc.OnQueue("Waiting", "a sender brings it",
		lc.OnPass("begin", "Working", lc.Worker, "a packer has time"),
		lc.On("hold", "Held", lc.Worker|lc.Operator, "not now"),
		lc.OnFail("fail", "Broken", lc.Worker|lc.Timer, "it cannot be read")),
	lc.OnWait("Held", "somebody holds it",
		lc.On("release", "Waiting", lc.Operator, "it may go on"),
		lc.On("delete", "Gone", lc.Operator, "it is not needed").Sets(lc.Cancelled)),
	lc.OnWork("Working", "a packer packs it",
		lc.OnPass("finish", "Done", lc.Worker, "it is packed"),
		lc.OnFail("fail", "Broken", lc.Worker|lc.Timer, "it broke"),
		lc.OnFail("stop", "Broken", lc.Operator, "an operator takes it out")),
	lc.OnEnd("Done", lc.OK, "packed", lc.On("delete", "Gone", lc.Operator|lc.Timer, "kept long enough")),
	lc.OnEnd("Broken", lc.Failed, "it went wrong",
		lc.OnReenter("retry", lc.Operator|lc.Owner, "once more", "Waiting", "Working"),
		lc.On("delete", "Gone", lc.Operator|lc.Timer, "it is not needed")),
	lc.OnEnd("Gone", lc.None, "only the record is left"),
)

// order is what a parcel is created with: how its packing goes.
type order struct {
	Fails string `json:"fails"` // cause
}

// fixture is the application with parcels, in fake time. Its engine packs parcels only if asked; else they stay where
// they are put.
type fixture struct {
	*App
	t     *testing.T
	store job.Store
	e     *engine.Engine
	allow func(*job.Job, *operator.Act) error // beyond: deletion needs confirmation
	stop  func()
}

// open runs application and engine on a store. It is called inside a bubble of fake time.
func open(t *testing.T, store job.Store, o Options, packs bool) *fixture {
	t.Helper()
	w := &fixture{App: New(o), t: t, store: store}
	work := engine.Work{Life: parcel, Prefix: "par", Outside: !packs,
		Allow: func(_ context.Context, j *job.Job, a *operator.Act) (job.Require, error) {
			if a.Event == "delete" && !a.Confirm {
				return job.Require{}, job.Errorf(job.Refused, "delete", j.ID, "%s cannot be restored: confirm it", j.ID)
			}
			if w.allow != nil {
				return job.Require{}, w.allow(j, a)
			}
			return job.Require{}, nil
		}}
	if packs {
		work.Steps = map[lc.State]engine.Step{
			"Waiting": func(context.Context, *engine.Run) error { return nil },
			"Working": func(_ context.Context, r *engine.Run) error {
				var o order
				if err := r.Spec(&o); err != nil {
					return err
				}
				if o.Fails != "" {
					return engine.Fail(o.Fails, errors.New("it broke by "+o.Fails))
				}
				return nil
			},
		}
	}
	e, err := engine.New(store, append(w.Works(), work), engine.Options{})
	if err != nil {
		t.Fatal(err)
	}
	w.Bind(e)
	w.e = e
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx) }()
	w.stop = func() {
		cancel()
		if err := <-done; err != nil && !errors.Is(err, context.Canceled) && job.KindOf(err) != job.Unavailable {
			t.Error(err)
		}
	}
	return w
}

// shelf makes a store with parcels in fake time: broken ones by cause, done ones, waiting ones.
func shelf(t *testing.T, broken map[string]int, done, waiting int) (job.Store, []job.ID) {
	t.Helper()
	store := mem.New()
	w := open(t, store, Options{}, true)
	var ids []job.ID
	add := func(fails string) {
		j, err := w.e.Submit(t.Context(),
			engine.Order{Kind: "test.parcel", Group: "maps", Owner: "ann", Bytes: 10, Spec: order{fails}})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Millisecond) // ids sort by time
		ids = append(ids, j.ID)
	}
	for cause, n := range broken {
		for range n {
			add(cause)
		}
	}
	for range done {
		add("")
	}
	time.Sleep(time.Minute)
	synctest.Wait()
	w.stop()
	for range waiting {
		add("")
	}
	return store, ids
}

func (w *fixture) get(id job.ID) job.Job {
	w.t.Helper()
	j, err := w.store.Get(w.t.Context(), id)
	if err != nil {
		w.t.Fatal(err)
	}
	return j
}

// run starts a bulk and waits for its end.
func (w *fixture) run(r Request) (job.Job, Result) {
	w.t.Helper()
	j, err := w.Start(job.WithAddress(w.t.Context(), sender), r, "")
	if err != nil {
		w.t.Fatal(err)
	}
	return w.end(j.ID)
}

func (w *fixture) end(id job.ID) (job.Job, Result) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), time.Hour)
	defer cancel()
	j, err := w.e.Await(ctx, id, func(j *job.Job) bool { return j.Ended })
	if err != nil {
		w.t.Fatalf("%v: it is %s (%s: %s)", err, j.State, j.Cause, j.Message)
	}
	result, err := w.Result(ctx, id)
	if err != nil {
		w.t.Fatal(err)
	}
	return j, result
}

// acts counts the entries that a bulk made in a job's history.
func (w *fixture) acts(id, bulk job.ID) int {
	w.t.Helper()
	history, err := w.store.History(w.t.Context(), id, 0, 0)
	if err != nil {
		w.t.Fatal(err)
	}
	n := 0
	for _, e := range history {
		if strings.HasSuffix(e.Note, mark(bulk)) {
			n++
		}
	}
	return n
}

// verify checks every history against its record.
func (w *fixture) verify() []string {
	w.t.Helper()
	page, err := w.store.List(w.t.Context(), job.Query{Limit: 1000})
	if err != nil {
		w.t.Fatal(err)
	}
	var faults []string
	for _, j := range page.Jobs {
		history, err := w.store.History(w.t.Context(), j.ID, 0, 0)
		if err == nil {
			err = job.Verify(j, history, w.e.Life(j.Kind))
		}
		if err != nil {
			faults = append(faults, fmt.Sprintf("%s: %v", j.ID, err))
		}
	}
	return faults
}

func ptr(n int) *int { return &n }

// retry is the request of most tests.
func retry(expect int) Request {
	return Request{
		Kinds: []job.Kind{"test.parcel"}, States: []lc.State{"Broken"}, Event: "retry", Note: "glue is back",
		Actor: "ann", Expect: ptr(expect),
	}
}
