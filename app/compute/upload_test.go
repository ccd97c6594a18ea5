package compute_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/store/mem"
)

func begin(t *testing.T, a *compute.App) *compute.Upload {
	t.Helper()
	u, err := a.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(u.Discard)
	return u
}

// TestFileNames: what is no name for a file here is Invalid, and the upload is not committed any more.
func TestFileNames(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := newHarness(t, quick(t), nil)
		long := strings.Repeat("n", 255)
		for name, ok := range map[string]bool{
			"a": true, "A": true, "文件.txt": true, "e\u0301": true, "\u00e9": true, long: true,
			"stdout": true, "-rf": true,
			"Smith Jr.": true, `back\slash`: false, "CON": false, "nul.txt": false, "C:x": false, "...": false,
			"a\u202eb": false, "a\nb": false,
			"": false, ".": false, "..": false, "run.sh/x": false, "/etc/passwd": false, "a\x00b": false,
			long + "n": false, "\xff": false,
		} {
			u := begin(t, w.app)
			err := u.File(name, strings.NewReader("x"))
			if (err == nil) != ok || !ok && job.KindOf(err) != job.Invalid {
				t.Errorf("%q: %v", name, err)
			}
			if _, err := u.Commit(t.Context(), compute.Order{Owner: "ada", Service: "example"}); (err == nil) != ok ||
				!ok && job.KindOf(err) != job.Invalid {
				t.Errorf("%q committed: %v", name, err)
			}
			if err := u.File("late", strings.NewReader("x")); ok && job.KindOf(err) != job.Invalid {
				t.Errorf("a file after the commit: %v", err)
			}
		}
		u := begin(t, w.app)
		if err := u.Keep("CON", strings.NewReader("x")); err != nil {
			t.Errorf("a file of a job that exists: %v", err)
		}
		for _, name := range []string{"notes", "notes"} { // the control
			if err := u.File(name, strings.NewReader("x")); err != nil {
				t.Errorf("%q: %v", name, err)
			}
		}
		for _, name := range []string{"Notes", "notes.", "notes "} {
			if err := u.File(name, strings.NewReader("x")); job.KindOf(err) != job.Invalid {
				t.Errorf("%q beside notes: %v", name, err)
			}
		}
		u = begin(t, w.app)
		u.Fill(10_000)
		if err := u.File("one-more", strings.NewReader("x")); job.KindOf(err) != job.Invalid {
			t.Errorf("file 10001: %v", err)
		}
	})
}

// TestBrokenReader: an error of the sender is returned as it is, nothing of the file counts, and nothing is left.
func TestBrokenReader(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		o := quick(t)
		w := newHarness(t, o, nil)
		u := begin(t, w.app)
		broken := errors.New("multipart: broken")
		if err := u.File(compute.Script, iotest.ErrReader(broken)); err != broken {
			t.Errorf("got %v, want it as it is", err)
		}
		if _, err := u.Commit(t.Context(), compute.Order{Owner: "ada", Service: "example"}); !errors.Is(err, broken) ||
			job.KindOf(err) != job.Invalid {
			t.Errorf("a file that did not come whole is committed: %v", err)
		}
		u.Discard()
		left(t, o.Dir, "stage", 0)
		left(t, o.Dir, "jobs", 0)
	})
}

// left reports how many entries a directory has.
func left(t *testing.T, dir, name string, want int) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(dir, "compute", name))
	if err != nil || len(entries) != want {
		t.Errorf("%s has %d entries (%v), want %d", name, len(entries), err, want)
	}
}

// TestKeys: the same key gives the same job, however many send it at once, and another content is a conflict.
func TestKeys(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		o := quick(t)
		w := newHarness(t, o, nil)
		var wg sync.WaitGroup
		var mu sync.Mutex
		ids := map[job.ID]int{}
		for range 20 {
			wg.Go(func() {
				j, err := w.order(compute.Order{Owner: "ada", Service: "example", Key: "k"},
					map[string]string{compute.Script: hello})
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				ids[j.ID]++
			})
		}
		wg.Wait()
		if len(ids) != 1 {
			t.Errorf("one key made %v", ids)
		}
		dirs := 0
		_ = filepath.WalkDir(filepath.Join(o.Dir, "compute", "jobs"), func(p string, e os.DirEntry, _ error) error {
			if strings.HasPrefix(e.Name(), "cmp_") {
				dirs++
				return filepath.SkipDir
			}
			return nil
		})
		if dirs != 1 {
			t.Errorf("%d directories of jobs are left, want 1", dirs)
		}
		for name, other := range map[string]compute.Order{
			"file":   {Owner: "ada", Service: "example", Key: "k", Env: nil},
			"env":    {Owner: "ada", Service: "example", Key: "k", Env: map[string]string{"A": "1"}},
			"limits": {Owner: "ada", Service: "example", Key: "k", Limits: compute.Limits{Memory: 1 << 20}},
			"name":   {Owner: "ada", Service: "example", Key: "k", Name: "n"},
			"labels": {Owner: "ada", Service: "example", Key: "k", Labels: map[string]string{"a": "b"}},
			"origin": {Owner: "ada", Service: "example", Key: "k", From: "cmp_X"},
			"task":   {Owner: "ada", Service: "example", Key: "k", TES: []byte(`{"task":{}}`)},
			"inputs": {Owner: "ada", Service: "example", Key: "k", Inputs: new(bool)},
		} {
			script := hello
			if name == "file" {
				script += "exit 1\n"
			}
			if _, err := w.order(other, map[string]string{compute.Script: script}); job.KindOf(err) != job.Conflict {
				t.Errorf("another %s under the key: %v", name, err)
			}
		}
		if j, err := w.order(compute.Order{Owner: "ada", Service: "example", Key: "k"},
			map[string]string{compute.Script: hello}); err != nil || ids[j.ID] == 0 {
			t.Errorf("control: the same order gives %s, %v", j.ID, err)
		}
		if j, err := w.order(compute.Order{Owner: "bob", Service: "example", Key: "k"},
			map[string]string{compute.Script: hello}); err != nil || ids[j.ID] != 0 {
			t.Errorf("another owner's key: %s, %v", j.ID, err)
		}
	})
}

// TestReplacedFileIsANewOne: the files of a repeated job are links, and a file that replaces one leaves the first job's
// as it was.
func TestReplacedFileIsANewOne(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := newHarness(t, quick(t), one(newFake()))
		first := w.until(w.upload("ada", hello).ID, compute.Completed)
		again, err := w.app.Repeat(t.Context(), first.ID, nil)
		if err != nil {
			t.Fatal(err)
		}
		w.until(again.ID, compute.Completed)
		u := begin(t, w.app)
		for _, text := range []string{"one", "three"} {
			if err := u.File("f", strings.NewReader(text)); err != nil {
				t.Fatal(err)
			}
		}
		j, err := u.Commit(t.Context(), compute.Order{Owner: "ada", Service: "example"})
		if err != nil || j.Bytes != 5 {
			t.Fatalf("%d bytes, %v", j.Bytes, err)
		}
		for id, want := range map[job.ID]string{first.ID: hello, again.ID: hello} {
			one, _ := w.store.Get(t.Context(), id)
			f, err := w.app.Input(&one, compute.Script)
			if err != nil {
				t.Fatal(err)
			}
			text := make([]byte, 100)
			n, _ := f.Read(text)
			f.Close()
			if string(text[:n]) != want {
				t.Errorf("%s holds %q", id, text[:n])
			}
		}
	})
}

// TestSweep removes what has no owner and what is old, and nothing else: uploads that are under way and jobs stay (hole
// J1).
func TestSweep(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		o := quick(t)
		w := newHarness(t, o, nil)
		live := w.upload("ada", hello)
		synctest.Wait() // the sweep of the start is over
		under := begin(t, w.app)
		root := filepath.Join(o.Dir, "compute")
		old := time.Now().Add(-compute.Abandoned - time.Hour)
		make := func(name string, aged bool) string {
			p := filepath.Join(root, name)
			if err := os.MkdirAll(filepath.Join(p, "in"), 0o700); err != nil {
				t.Fatal(err)
			}
			if aged {
				if err := os.Chtimes(p, old, old); err != nil {
					t.Fatal(err)
				}
			}
			return p
		}
		gone := []string{make("stage/old", true), make("jobs/xy/cmp_old", true), make("trash/any", false)}
		stays := []string{make("stage/new", false), make("jobs/xy/cmp_new", false),
			filepath.Join(root, compute.DirOf(live.ID))}
		if err := os.Chtimes(stays[2], old, old); err != nil {
			t.Fatal(err)
		}
		entries, _ := os.ReadDir(filepath.Join(root, "stage"))
		for _, e := range entries {
			if e.Name() != "old" && e.Name() != "new" { // the upload that is under way
				if err := os.Chtimes(filepath.Join(root, "stage", e.Name()), old, old); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := w.app.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, p := range gone {
			if _, err := os.Stat(p); err == nil {
				t.Errorf("%s is still there", p)
			}
		}
		for _, p := range stays {
			if _, err := os.Stat(p); err != nil {
				t.Error(err)
			}
		}
		if err := under.File(compute.Script, strings.NewReader(hello)); err != nil {
			t.Errorf("an upload that takes long: %v", err)
		}
	})
}

// TestStageOfEarlierProcess: uploads that a process left are removed when the next one starts, unless another process
// lives that may have begun them.
func TestStageOfEarlierProcess(t *testing.T) {
	for name, another := range map[string]bool{"alone": false, "beside another": true} {
		t.Run(name, func(t *testing.T) {
			o := quick(t)
			left := filepath.Join(o.Dir, "compute", "stage", "left")
			if err := os.MkdirAll(filepath.Join(left, "in"), 0o700); err != nil {
				t.Fatal(err)
			}
			before := time.Now().Add(-time.Minute)
			if err := os.Chtimes(left, before, before); err != nil {
				t.Fatal(err)
			}
			if another {
				stage, err := os.Open(filepath.Dir(left))
				if err != nil {
					t.Fatal(err)
				}
				defer stage.Close()
				if err := syscall.Flock(int(stage.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
					t.Fatal(err)
				}
			}
			w := newHarness(t, o, nil)
			under := begin(t, w.app)
			if err := w.app.Sweep(t.Context()); err != nil {
				t.Fatal(err)
			}
			if _, err := os.Stat(left); (err == nil) != another {
				t.Errorf("it is there: %v, want %v", err == nil, another)
			}
			if err := under.File(compute.Script, strings.NewReader(hello)); err != nil {
				t.Errorf("an upload of this process: %v", err)
			}
		})
	}
}

// TestDeathDuringUpload: whatever an upload had done when its process ended is no job, and goes; once there is a
// record, its files are there (hole J1).
func TestDeathDuringUpload(t *testing.T) {
	for step, want := range map[string]int{"begun": 0, "file": 0, "before the record": 0, "after the record": 1} {
		runInBubble(t, strings.ReplaceAll(step, " ", "-"), func(t *testing.T) {
			store, o := mem.New(), quick(t)
			at, after := 0, false
			if want == 1 || step == "before the record" {
				at, after = 1, want == 1
			}
			m := newKillable(store, at, after)
			w := newCrew(t, "one", m, o, same, newFake())
			func() {
				u, err := w.app.Begin(context.Background())
				if err != nil || step == "begun" {
					return
				}
				if u.File(compute.Script, strings.NewReader(hello)) != nil || step == "file" {
					return
				}
				_, _ = u.Commit(context.Background(), compute.Order{Owner: "ada", Service: "example"})
			}()
			w.kill()
			old := time.Now().Add(-compute.Abandoned - time.Hour)
			_ = filepath.WalkDir(filepath.Join(o.Dir, "compute"), func(p string, _ os.DirEntry, _ error) error {
				return os.Chtimes(p, old, old)
			})
			next := newHarnessOn(t, store, o, one(newFake()))
			if err := next.app.Sweep(t.Context()); err != nil {
				t.Fatal(err)
			}
			left(t, o.Dir, "stage", 0)
			page, err := store.List(t.Context(), job.Query{Kinds: []job.Kind{compute.JobKind}})
			if err != nil || len(page.Jobs) != want {
				t.Fatalf("%d jobs, %v", len(page.Jobs), err)
			}
			for i := range page.Jobs {
				next.until(page.Jobs[i].ID, compute.Completed)
			}
		})
	}
}

// TestUserBytes: of many uploads for the last space one is taken (hole S7); results count; what is cleaned is given
// back; a restart has it all before the first upload.
func TestUserBytes(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		store, o := mem.New(), quick(t)
		o.UserBytes = 1000
		w := newHarnessOn(t, store, o, one(newFake()))
		sized := func(w *harness, owner string, n int) (job.Job, error) {
			return w.order(compute.Order{Owner: owner, Service: "example"}, map[string]string{compute.Script: hello,
				"data": strings.Repeat("x", n-len(hello))})
		}
		first, err := sized(w, "ada", 400)
		if err != nil {
			t.Fatal(err)
		}
		done := w.until(first.ID, compute.Completed)
		d, _ := compute.DataOf(&done)
		if got, want := w.app.Usage("ada"), 400+d.Results.Bytes; got != want {
			t.Errorf("ada has %d bytes, want %d with the results", got, want)
		}
		room := int(1000 - w.app.Usage("ada"))
		var wg sync.WaitGroup
		var mu sync.Mutex
		kinds := map[job.ErrorKind]int{}
		for range 8 {
			wg.Go(func() {
				_, err := sized(w, "ada", room)
				mu.Lock()
				defer mu.Unlock()
				kinds[job.KindOf(err)]++
			})
		}
		for range 10 {
			// in the bounds all together: none is refused, although each is counted as it comes and as it is recorded
			wg.Go(func() {
				if _, err := w.order(compute.Order{Owner: "bob", Service: "example"},
					map[string]string{"data": strings.Repeat("x", 100)}); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if kinds[""] != 1 || kinds[job.Refused] != 7 {
			t.Errorf("for the last space: %v, want one", kinds)
		}
		has := w.app.Usage("bob")
		w.stop()
		slow := &slowList{Store: store, open: make(chan struct{})}
		next := newHarnessOn(t, slow, o, nil)
		early := make(chan error, 1)
		go func() { _, err := sized(next, "bob", 100); early <- err }()
		synctest.Wait() // nothing is left to do before more is known
		select {
		case err := <-early:
			t.Errorf("an upload before everything was counted: %v", err)
			early <- err
		default:
		}
		close(slow.open)
		if err := <-early; job.KindOf(err) != job.Refused {
			t.Errorf("an upload beyond what bob has (%d): %v", has, err)
		}
	})
}

// slowList is a store that lists compute jobs, all of them, only when it is let.
type slowList struct {
	job.Store
	open chan struct{}
}

func (s *slowList) List(ctx context.Context, q job.Query) (job.Page, error) {
	if len(q.Kinds) == 1 && len(q.States) == 0 && q.Oldest {
		<-s.open
	}
	return s.Store.List(ctx, q)
}

// TestEarlyRefusal: when it is known whose upload it is, it is refused while it comes.
func TestEarlyRefusal(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		o := quick(t)
		o.UserBytes = 100
		w := newHarness(t, o, nil)
		for owner, want := range map[string]job.ErrorKind{"ada": job.Refused, "": ""} {
			u := begin(t, w.app)
			u.For(owner)
			if err := u.File("data", strings.NewReader(strings.Repeat("x", 200))); job.KindOf(err) != want {
				t.Errorf("%q: %v", owner, err)
			}
			u.Discard()
		}
		if n := w.app.Usage("ada"); n != 0 {
			t.Errorf("%d bytes are still taken", n)
		}
	})
}
