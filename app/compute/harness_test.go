package compute_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/internal/ziptest"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/mem"
)

// inBubble runs a test beside others, in fake time: its clock stands still for as long as anything works, however slow
// the machine is, and jumps to what is next when all wait.
func inBubble(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, test)
}

// runInBubble is inBubble for a part of a test.
func runInBubble(t *testing.T, name string, test func(t *testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { inBubble(t, test) })
}

// patience is how long a test waits for what must come, in fake time.
const patience = 20 * time.Second

// eventually lets time pass until a condition holds that has no signal. Whatever is to happen at a moment has happened
// when it checks.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for limit := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		synctest.Wait()
		if is() {
			return
		}
		if time.Now().After(limit) {
			t.Fatalf("never: %s", what)
		}
	}
}

// harness is an application on a store in memory, with scripted executors.
type harness struct {
	t     *testing.T
	app   *compute.App
	eng   *engine.Engine
	store job.Store
	dir   string
	stop  func()
}

// quick are options under which nothing takes long.
func quick(t *testing.T) compute.Options {
	return compute.Options{
		Dir: t.TempDir(), Services: []compute.Service{{Name: "example", RunsPerUser: 100, MaxRuns: 200}},
		RetryFor: 50 * time.Millisecond, Silence: 50 * time.Millisecond,
		Poll: 5 * time.Millisecond, Recheck: time.Minute, Lost: time.Minute,
	}
}

func newHarness(t *testing.T, o compute.Options, executors map[string]compute.Executor) *harness {
	return newHarnessOn(t, mem.New(), o, executors)
}

func newHarnessOn(t *testing.T, store job.Store, o compute.Options, executors map[string]compute.Executor,
	tune ...func(*engine.Options)) *harness {
	t.Helper()
	app, err := compute.New(o)
	if err != nil {
		t.Fatal(err)
	}
	options := engine.Options{Deliver: app.Deliver(), Sweep: 20 * time.Millisecond, Lease: 2 * time.Second,
		Grace: 200 * time.Millisecond}
	for _, change := range tune {
		change(&options)
	}
	e, err := engine.New(store, app.Works(), options)
	if err != nil {
		t.Fatal(err)
	}
	for name, x := range executors {
		app.Join(name, x)
	}
	app.Bind(e)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx) }()
	w := &harness{t: t, app: app, eng: e, store: store, dir: o.Dir}
	once := sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if err := app.Close(); err != nil {
			t.Error(err)
		}
	})
	w.stop = once
	t.Cleanup(once)
	return w
}

// upload makes a job of a user with a script.
func (w *harness) upload(user, script string) job.Job {
	w.t.Helper()
	j, err := w.order(compute.Order{Owner: user, Service: "example"}, map[string]string{compute.Script: script})
	if err != nil {
		w.t.Fatal(err)
	}
	return j
}

func (w *harness) order(o compute.Order, files map[string]string) (job.Job, error) {
	u, err := w.app.Begin(w.t.Context())
	if err != nil {
		return job.Job{}, err
	}
	defer u.Discard()
	for name, text := range files {
		if err := u.File(name, strings.NewReader(text)); err != nil {
			return job.Job{}, err
		}
	}
	return u.Commit(w.t.Context(), o)
}

// until waits until a job is in one of the states.
func (w *harness) until(id job.ID, states ...lifecycle.State) job.Job {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	j, err := w.eng.Await(ctx, id, func(j *job.Job) bool {
		for _, s := range states {
			if j.State == s {
				return true
			}
		}
		return false
	})
	if err != nil {
		now, _ := w.store.Get(w.t.Context(), id)
		w.t.Fatalf("%s never came to %v: it is %s (%s: %s)", id, states, now.State, now.Cause, now.Message)
	}
	return j
}

// path gives the states that a job went through.
func (w *harness) path(id job.ID) string {
	w.t.Helper()
	history, err := w.store.History(w.t.Context(), id, 0, 0)
	if err != nil {
		w.t.Fatal(err)
	}
	var states []string
	for _, e := range history {
		if len(states) == 0 || states[len(states)-1] != string(e.To) {
			states = append(states, string(e.To))
		}
	}
	return strings.Join(states, " ")
}

// fake is an executor whose payloads a test plays.
type fake struct {
	mu       sync.Mutex // guards the rest
	instance string
	slots    int
	payloads map[string]*played
	runs     map[string]int // how often each ticket was begun
	down     error          // what every call returns
	fault    func(call string, ticket compute.Ticket) error
	after    func(call string, ticket compute.Ticket) error // the call works, and its answer is this error
	changed  func(id job.ID)
	auto     bool // payloads end by themselves, at once
	forgot   []compute.Ticket
	most     int // that ran at once
	draining bool
	space    *int64                  // on its disk; nil: it does not report it
	unsure   bool                    // gives no digest of results
	broken   func(zip []byte) []byte // what becomes of results on their way
}

// cut cuts a ZIP in the middle.
func cut(zip []byte) []byte { return zip[:len(zip)/2] }

// played is a payload.
type played struct {
	parcel compute.Parcel
	files  map[string]string
	notice compute.Notice
	zip    []byte
}

func newFake() *fake {
	return &fake{instance: "one", slots: 4, payloads: map[string]*played{}, runs: map[string]int{}, auto: true}
}

func key(t compute.Ticket) string { return fmt.Sprintf("%s/%d", t.Job, t.Attempt) }

// enter is the beginning of each call.
func (f *fake) enter(call string, t compute.Ticket) error {
	if f.down != nil {
		return f.down
	}
	if f.fault != nil {
		return f.fault(call, t)
	}
	return nil
}

func (f *fake) leave(call string, t compute.Ticket) error {
	if f.after != nil {
		return f.after(call, t)
	}
	return nil
}

func (f *fake) Capacity(context.Context) (compute.Capacity, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.down != nil {
		return compute.Capacity{}, f.down
	}
	running := f.running()
	return compute.Capacity{Instance: f.instance, Slots: max(f.slots, -f.slots), Free: max(0, f.slots-running),
		Kind: "agent", Draining: f.draining, Space: f.space}, nil
}

func (f *fake) running() int {
	n := 0
	for _, p := range f.payloads {
		if p.notice.Standing == compute.Works || p.notice.Standing == compute.Waits {
			n++
		}
	}
	f.most = max(f.most, n)
	return n
}

func (f *fake) Submit(_ context.Context, p *compute.Parcel) (compute.Notice, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.enter("submit", p.Ticket); err != nil {
		return compute.Notice{}, err
	}
	if p.Instance != "" && p.Instance != f.instance {
		return compute.Notice{Standing: compute.Lost, Reason: "another memory"}, nil
	}
	one := f.payloads[key(p.Ticket)]
	if one == nil {
		one = &played{parcel: *p, files: map[string]string{}}
		for _, file := range p.Files {
			r, err := p.Open(file.Name)
			if err != nil {
				return compute.Notice{}, err
			}
			text, err := io.ReadAll(r)
			r.Close()
			if err != nil {
				return compute.Notice{}, err
			}
			one.files[file.Name] = string(text)
		}
		f.payloads[key(p.Ticket)] = one
		f.runs[key(p.Ticket)]++
		one.notice = compute.Notice{Standing: compute.Works, Remote: key(p.Ticket), Instance: f.instance,
			Started: time.Now()}
		f.running()
		if f.auto {
			f.end(one, nil)
		}
	}
	return one.notice, f.leave("submit", p.Ticket)
}

// end plays the end of a payload.
func (f *fake) end(p *played, e *compute.Ending) {
	if e == nil {
		e = &compute.Ending{}
	}
	p.zip = ziptest.Zip(map[string]string{"stdout": "hello\n", "answer.txt": "42"})
	sum := sha256.Sum256(p.zip)
	p.notice.Standing, p.notice.Ending, p.notice.HasResult = compute.Ended, e, true
	p.notice.Bytes, p.notice.SHA256 = int64(len(p.zip)), hex.EncodeToString(sum[:])
	if f.unsure {
		p.notice.Bytes, p.notice.SHA256 = -1, ""
	}
}

// finish plays the end of the payload of a job, and notifies.
func (f *fake) finish(id job.ID, e *compute.Ending) {
	f.mu.Lock()
	for _, p := range f.payloads {
		if p.parcel.Job == id && p.notice.Standing != compute.Ended {
			f.end(p, e)
		}
	}
	changed := f.changed
	f.mu.Unlock()
	if changed != nil {
		changed(id)
		changed("")
	}
}

func (f *fake) find(call string, h compute.Handle) (*played, error) {
	if err := f.enter(call, h.Ticket); err != nil {
		return nil, err
	}
	return f.payloads[key(h.Ticket)], nil
}

func (f *fake) Query(_ context.Context, h compute.Handle) (compute.Notice, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	p, err := f.find("look", h)
	switch {
	case err != nil:
		return compute.Notice{}, err
	case p == nil && h.Instance != "" && h.Instance != f.instance:
		return compute.Notice{Standing: compute.Lost, Reason: "another memory"}, nil
	case p == nil:
		return compute.Notice{Standing: compute.Stranger, Instance: f.instance}, nil
	}
	return p.notice, f.leave("look", h.Ticket)
}

func (f *fake) Kill(_ context.Context, h compute.Handle) error {
	f.mu.Lock()
	p, err := f.find("kill", h)
	if p != nil && p.notice.Standing != compute.Ended {
		f.end(p, &compute.Ending{Exit: -1, Signal: "SIGTERM", Cause: compute.CauseKilled, Sentence: "ended on request"})
	}
	changed := f.changed
	reached := err == nil
	if reached {
		err = f.leave("kill", h.Ticket)
	}
	f.mu.Unlock()
	if changed != nil && reached {
		changed(h.Job)
	}
	return err
}

func (f *fake) Results(_ context.Context, h compute.Handle) (io.ReadCloser, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	p, err := f.find("results", h)
	if err != nil {
		return nil, err
	}
	if p == nil || p.zip == nil {
		return nil, compute.ErrNoPayload
	}
	text := p.zip
	if f.broken != nil {
		text = f.broken(bytes.Clone(text))
	}
	return io.NopCloser(bytes.NewReader(text)), f.leave("results", h.Ticket)
}

func (f *fake) Partial(_ context.Context, h compute.Handle) (io.ReadCloser, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	p, err := f.find("partial", h)
	if err != nil {
		return nil, err
	}
	if p == nil {
		return nil, compute.ErrNoPayload
	}
	return io.NopCloser(bytes.NewReader(ziptest.Zip(map[string]string{"part.txt": "so far"}))), nil
}

func (f *fake) Log(context.Context, compute.Handle, string, int64, bool) (io.ReadCloser, error) {
	return io.NopCloser(strings.NewReader("hello\n")), nil
}

func (f *fake) Forget(_ context.Context, h compute.Handle) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.enter("forget", h.Ticket); err != nil {
		return err
	}
	f.forgot = append(f.forgot, h.Ticket)
	return nil
}

// notifier is a fake that notifies of changes.
type notifier struct{ *fake }

func (f notifier) Notify(ctx context.Context, connected func(), changed func(id job.ID)) error {
	f.mu.Lock()
	f.changed = changed
	f.mu.Unlock()
	connected()
	<-ctx.Done()
	return ctx.Err()
}
