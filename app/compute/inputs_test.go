package compute_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/engine/explain"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/mem"
)

// origin is where inputs come from. It gives the first half of a file, and the rest when its gate is open.
type origin struct {
	mu      sync.Mutex // guards the rest
	gate    chan struct{}
	fault   func(url string, call int) error // of the nth call for a URL
	calls   map[string]int
	aborted int
	now     int
	most    map[string]int // that came at once, by host
}

func newOrigin() *origin {
	o := &origin{gate: make(chan struct{}), calls: map[string]int{}, most: map[string]int{}}
	close(o.gate)
	return o
}

// shut has files come in half from now on.
func (o *origin) shut() (open func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	gate := make(chan struct{})
	o.gate = gate
	return sync.OnceFunc(func() { close(gate) })
}

func (o *origin) all() (calls int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, n := range o.calls {
		calls += n
	}
	return calls
}

// Host is part of compute.Source.
func (o *origin) Host(url string) string {
	host, _, _ := strings.Cut(strings.TrimPrefix(url, "http://"), "/")
	return host
}

// enter counts a call.
func (o *origin) enter(url string) (gate chan struct{}, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.calls[url]++
	o.now++
	o.most[o.Host(url)] = max(o.most[o.Host(url)], o.now)
	if o.fault != nil {
		err = o.fault(url, o.calls[url])
	}
	return o.gate, err
}

// Fetch is part of compute.Source. The content of a file is its URL.
func (o *origin) Fetch(ctx context.Context, f compute.RemoteFile, to compute.Arrival) error {
	gate, err := o.enter(f.URL)
	defer func() { o.mu.Lock(); o.now--; o.mu.Unlock() }()
	size := int64(len(f.URL))
	part := path.Join(to.Scratch, f.Name+".part")
	if wrong := to.Root.WriteFile(part, []byte(f.URL[:size/2]), 0o600); wrong != nil {
		return wrong
	}
	if err == nil {
		err = to.Progress(size/2, size)
	}
	if err != nil {
		return err
	}
	select {
	case <-gate:
	case <-ctx.Done():
		o.mu.Lock()
		o.aborted++
		o.mu.Unlock()
		return context.Cause(ctx)
	}
	if err := errors.Join(to.Root.WriteFile(part, []byte(f.URL), 0o600), to.Progress(size, size)); err != nil {
		return err
	}
	return to.Root.Rename(part, to.Name)
}

// inputs gives the files that an executor got with a job; nil: it does not have it.
func (f *fake) inputs(id job.ID) map[string]string {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, p := range f.payloads {
		if p.parcel.Job == id {
			return p.files
		}
	}
	return nil
}

// eventuallyLong is eventually for what takes up to an hour.
func eventuallyLong(t *testing.T, what string, is func() bool) {
	t.Helper()
	for limit := time.Now().Add(time.Hour); !is(); time.Sleep(time.Second) {
		if time.Now().After(limit) {
			t.Fatalf("never: %s", what)
		}
	}
}

// passing is an error that may go away.
type passing struct{ error }

func (passing) Temporary() bool { return true }

// fetching makes a job with a script and inputs behind URLs, which are called i0, i1, ...
func (w *harness) fetching(o compute.Order, urls ...string) job.Job {
	w.t.Helper()
	o.Owner, o.Service = either(o.Owner, "ada"), "example"
	for i, url := range urls {
		o.Fetch = append(o.Fetch, compute.RemoteFile{Name: fmt.Sprint("i", i), URL: url})
	}
	j, err := w.order(o, map[string]string{compute.Script: hello})
	if err != nil {
		w.t.Fatal(err)
	}
	return j
}

func either(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}

// waitsFor waits until a job waits for something.
func (w *harness) waitsFor(id job.ID, code string) job.Job {
	w.t.Helper()
	eventually(w.t, "it waits for "+code, func() bool {
		j, err := w.store.Get(w.t.Context(), id)
		return err == nil && j.State == compute.Queued && j.Cause == code
	})
	j, err := w.store.Get(w.t.Context(), id)
	if err != nil {
		w.t.Fatal(err)
	}
	return j
}

// leftovers lists what is in a job's directory beside the files that its record names.
func leftovers(t *testing.T, dir string, j *job.Job) (left []string) {
	t.Helper()
	files, err := compute.InputsOf(j)
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{"results.zip": true, "results.sums": true}
	for _, f := range files {
		known["in/"+f.Name] = true
		info, err := os.Stat(filepath.Join(dir, "compute", compute.DirOf(j.ID), "in", f.Name))
		if err != nil || info.Size() != f.Size {
			t.Errorf("the record names %s: %v", f.Name, err)
		}
	}
	root := os.DirFS(filepath.Join(dir, "compute", compute.DirOf(j.ID)))
	err = fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		if err == nil && name != "." && name != "in" && !known[name] {
			left = append(left, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return left
}

// TestInputsAreFetched: the job is there at once and waits for its inputs without a slot, while another one of the same
// user runs in the only slot. Then it runs with them.
func TestInputsAreFetched(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		o, from, f := quick(t), newOrigin(), manual()
		o.Services = []compute.Service{{Name: "example", RunsPerUser: 1, MaxRuns: 1}}
		o.Source, o.UserBytes = from, 1<<20
		open := from.shut()
		w := newHarness(t, o, one(f))
		j := w.fetching(compute.Order{}, "http://a/1", "http://b/22")
		j = w.waitsFor(j.ID, compute.WaitsForInputs)
		if !strings.Contains(j.Message, "fetches inputs: 0 of 2") {
			t.Errorf("the message is %q", j.Message)
		}
		why, err := explain.New(w.eng).Why(t.Context(), j.ID, time.Time{})
		if text := fmt.Sprintf("%+v", why); err != nil || !strings.Contains(text, "fetches inputs: 0 of 2, 5 bytes") {
			t.Errorf("why: %s, %v", text, err)
		}
		other := w.until(w.upload("ada", hello).ID, compute.Running)
		f.finish(other.ID, nil)
		w.until(other.ID, compute.Completed)
		if j = w.waitsFor(j.ID, compute.WaitsForInputs); f.inputs(j.ID) != nil {
			t.Error("the agent has it without its inputs")
		}
		before := j.Bytes
		open()
		w.until(j.ID, compute.Running)
		if got := f.inputs(j.ID); len(got) != 3 || got["i0"] != "http://a/1" || got["i1"] != "http://b/22" ||
			got[compute.Script] != hello {
			t.Errorf("the agent got %v", got)
		}
		f.finish(j.ID, nil)
		j = w.until(j.ID, compute.Completed)
		d, err := compute.DataOf(&j)
		if err != nil || j.Bytes != before+10+11+d.Results.Bytes || w.app.Usage("ada") < j.Bytes {
			t.Errorf("%d bytes, before %d, of the owner %d: %v", j.Bytes, before, w.app.Usage("ada"), err)
		}
		if left := leftovers(t, o.Dir, &j); left != nil {
			t.Errorf("left: %v", left)
		}
	})
}

// notifying is a store in which a notification of the job is committed just before a wait for inputs, once for each
// message: the wait is a conflict, and the engine repeats the step.
type notifying struct {
	job.Store
	notify func(job.ID)

	mu   sync.Mutex // guards seen
	seen map[string]bool
}

// Commit is part of job.Store.
func (s *notifying) Commit(ctx context.Context, changes ...job.Change) ([]job.Result, error) {
	for i := range changes {
		c := &changes[i]
		if !c.Keep && c.Version > 0 && c.Set.Cause != nil && *c.Set.Cause == compute.WaitsForInputs &&
			s.first(*c.Set.Message) {
			s.notify(c.Job)
		}
	}
	return s.Store.Commit(ctx, changes...)
}

// first reports whether a message has not been seen before.
func (s *notifying) first(message string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	again := s.seen[message]
	s.seen[message] = true
	return !again
}

// TestInputsFail: each way in which inputs do not come, and what becomes of the job. It is the same when the steps that
// wait are repeated.
func TestInputsFail(t *testing.T) {
	lasting := errors.New("404 Not Found")
	always := func(err error) func(string, int) error { return func(string, int) error { return err } }
	for name, c := range map[string]struct {
		fault  func(url string, call int) error
		sha    string
		quota  int64
		state  lifecycle.State
		says   string
		called int
	}{
		"gone": {fault: always(lasting), state: compute.Failed, says: "inputs[0]: 404 Not Found", called: 1},
		"silent": {fault: always(passing{errors.New("no answer")}), state: compute.Failed, says: "no answer",
			called: 8},
		"twice": {fault: func(_ string, call int) error {
			return map[bool]error{true: passing{errors.New("no answer")}}[call < 3]
		}, state: compute.Completed, called: 3},
		"digest":     {sha: strings.Repeat("0", 64), state: compute.Failed, says: "SHA-256", called: 1},
		"quota":      {quota: int64(len(hello)) + 5, state: compute.Failed, says: "may have", called: 1},
		"no trouble": {quota: 1 << 20, state: compute.Completed, called: 1},
	} {
		runInBubble(t, name, func(t *testing.T) {
			o, from := quick(t), newOrigin()
			from.fault, o.Source, o.UserBytes = c.fault, from, c.quota
			store := &notifying{Store: mem.New(), seen: map[string]bool{}}
			w := newHarnessOn(t, store, o, one(newFake()))
			store.notify = func(id job.ID) {
				if err := w.eng.Notify(t.Context(), id, compute.WaitsForInputs); err != nil {
					t.Error(err)
				}
			}
			order := compute.Order{Owner: "ada", Service: "example",
				Fetch: []compute.RemoteFile{{Name: "i0", URL: "http://a/1", SHA256: c.sha}}}
			j, err := w.order(order, map[string]string{compute.Script: hello})
			if err != nil {
				t.Fatal(err)
			}
			eventuallyLong(t, "it ends", func() bool {
				j, err = w.store.Get(t.Context(), j.ID)
				return err != nil || j.Ended
			})
			if j.State != c.state || c.state == compute.Failed && j.Cause != compute.CauseInputs ||
				!strings.Contains(j.Message, c.says) {
				t.Errorf("%s, cause %q: %s", j.State, j.Cause, j.Message)
			}
			if n := from.all(); n != c.called {
				t.Errorf("asked %d times, want %d", n, c.called)
			}
			if len(store.seen) < c.called {
				t.Errorf("the control: %d steps were repeated", len(store.seen))
			}
			if left := leftovers(t, o.Dir, &j); left != nil {
				t.Errorf("left: %v", left)
			}
			if c.quota > 0 && w.app.Usage("ada") != j.Bytes {
				t.Errorf("the owner has %d bytes, the job %d", w.app.Usage("ada"), j.Bytes)
			}
		})
	}
}

// TestInputsWaitForSpace: on a full disk the job waits, and no attempt is counted. Then it goes on.
func TestInputsWaitForSpace(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		o, from := quick(t), newOrigin()
		var mu sync.Mutex
		full := true
		o.Source, o.Space = from, func(int64) error {
			mu.Lock()
			defer mu.Unlock()
			if full {
				return syscall.ENOSPC
			}
			return nil
		}
		w := newHarness(t, o, one(newFake()))
		j := w.waitsFor(w.fetching(compute.Order{}, "http://a/1").ID, "disk")
		if d, err := compute.DataOf(&j); err != nil || d.Loads != 0 {
			t.Errorf("%+v, %v", d, err)
		}
		mu.Lock()
		full = false
		mu.Unlock()
		eventuallyLong(t, "it goes on", func() bool {
			j, _ = w.store.Get(t.Context(), j.ID)
			return j.State == compute.Completed
		})
	})
}

// TestInputsCancelled: a job that is cancelled while its inputs come leaves nothing, and its owner has the space again.
func TestInputsCancelled(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		o, from := quick(t), newOrigin()
		o.Source, o.UserBytes = from, 1<<20
		defer from.shut()()
		w := newHarness(t, o, one(newFake()))
		j := w.waitsFor(w.fetching(compute.Order{}, "http://a/1").ID, compute.WaitsForInputs)
		if left := leftovers(t, o.Dir, &j); len(left) == 0 || w.app.Usage("ada") <= j.Bytes {
			t.Errorf("control: %v, %d bytes", left, w.app.Usage("ada"))
		}
		if _, err := w.app.Cancel(t.Context(), j.ID, compute.Request{By: lifecycle.Owner, Actor: "ada"}); err != nil {
			t.Fatal(err)
		}
		j = w.until(j.ID, compute.Killed)
		eventually(t, "its fetch has ended", func() bool {
			return w.app.Loads() == 0 && w.app.Usage("ada") == j.Bytes && leftovers(t, o.Dir, &j) == nil
		})
		if from.aborted != 1 {
			t.Errorf("%d fetches were aborted", from.aborted)
		}
	})
}

// TestInputsAreShared: one owner, and one host, do not take all slots. Each waiting job gets its turn, also behind a
// job that was cancelled.
func TestInputsAreShared(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		o, from := quick(t), newOrigin()
		o.Source = from
		open, f := from.shut(), newFake()
		f.slots = 100
		w := newHarness(t, o, one(f))
		var all []job.ID
		for i := range 12 {
			all = append(all, w.fetching(compute.Order{}, fmt.Sprintf("http://h%d/x", i)).ID)
		}
		for i := range 10 {
			all = append(all, w.fetching(compute.Order{Owner: fmt.Sprint("user", i)}, "http://silent/x").ID)
		}
		eventually(t, "eight of each come", func() bool { return from.all() == 16 })
		for _, id := range all {
			w.waitsFor(id, compute.WaitsForInputs)
		}
		if n := from.all(); n != 16 {
			t.Errorf("%d come, want 8 of the owner and 8 from the host", n)
		}
		free := w.fetching(compute.Order{Owner: "bob"}, "http://other/x")
		eventually(t, "another owner's input comes", func() bool { return from.all() == 17 })
		if _, err := w.app.Cancel(t.Context(), all[8], compute.Request{By: lifecycle.Owner, Actor: "ada"}); err != nil {
			t.Fatal(err)
		}
		open()
		for _, id := range append(all[9:], free.ID) {
			w.until(id, compute.Completed)
		}
	})
}

// TestRepeatFetches: the copy of a job takes what is here, and fetches the rest. One key makes one copy, whether the
// inputs were here or not.
func TestRepeatFetches(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		o, from := quick(t), newOrigin()
		broken := true
		from.fault = func(url string, _ int) error {
			return map[bool]error{true: errors.New("gone")}[broken && url == "http://b/2"]
		}
		o.Source = from
		w := newHarness(t, o, one(newFake()))
		first := w.until(w.fetching(compute.Order{}, "http://a/1", "http://b/2").ID, compute.Failed)
		broken = false
		keyed := func(o *compute.Order) { o.Key = "k" }
		second, err := w.app.Repeat(t.Context(), first.ID, keyed)
		if err != nil {
			t.Fatal(err)
		}
		second = w.until(second.ID, compute.Completed)
		third, err := w.app.Repeat(t.Context(), second.ID, nil)
		if err != nil {
			t.Fatal(err)
		}
		third = w.until(third.ID, compute.Completed)
		if from.calls["http://a/1"] != 1 || from.calls["http://b/2"] != 2 {
			t.Errorf("asked %v", from.calls)
		}
		for _, j := range []job.Job{second, third} {
			if files, err := compute.InputsOf(&j); err != nil || len(files) != 3 {
				t.Errorf("%v, %v", files, err)
			}
		}
		if again, err := w.app.Repeat(t.Context(), first.ID, keyed); err != nil || again.ID != second.ID {
			t.Errorf("the same key makes %s, %v", again.ID, err)
		}
		other := func(o *compute.Order) { o.Key, o.Fetch = "k", o.Fetch[:1] }
		if _, err := w.app.Repeat(t.Context(), first.ID, other); job.KindOf(err) != job.Conflict {
			t.Errorf("the same key with other inputs: %v", err)
		}
	})
}

// TestFetchIsRefused: orders whose inputs can never come.
func TestFetchIsRefused(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		none := newHarness(t, quick(t), one(newFake()))
		o := quick(t)
		o.Source = newOrigin()
		w := newHarness(t, o, one(newFake()))
		for name, c := range map[string]struct {
			w     *harness
			fetch []compute.RemoteFile
			want  job.ErrorKind
		}{
			"no source": {none, []compute.RemoteFile{{Name: "a", URL: "u"}}, job.Invalid},
			"twice":     {w, []compute.RemoteFile{{Name: "a", URL: "u"}, {Name: "a", URL: "v"}}, job.Invalid},
			"a path":    {w, []compute.RemoteFile{{Name: "a/b", URL: "u"}}, job.Invalid},
			"run.sh":    {w, []compute.RemoteFile{{Name: compute.Script, URL: "u"}}, job.Invalid},
			"control":   {w, []compute.RemoteFile{{Name: "a", URL: "u1"}}, ""},
		} {
			_, err := c.w.order(compute.Order{Owner: "ada", Service: "example", Fetch: c.fetch},
				map[string]string{compute.Script: hello})
			if job.KindOf(err) != c.want {
				t.Errorf("%s: got %v", name, err)
			}
		}
	})
}
