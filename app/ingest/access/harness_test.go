package access

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stagepost/stagepost/app/ingest"
	"github.com/stagepost/stagepost/app/ingest/profile"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/engine/clock"
	"github.com/stagepost/stagepost/engine/enginetest"
	"github.com/stagepost/stagepost/engine/operator"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/mem"
)

// fastClock is a clock that can be set forward.
type fastClock struct {
	clock.Clock
	ahead atomic.Int64
}

func (c *fastClock) Now() time.Time  { return c.Clock.Now().Add(time.Duration(c.ahead.Load())) }
func (c *fastClock) Wall() time.Time { return c.Clock.Wall().Add(time.Duration(c.ahead.Load())) }

// harness is ingest and access on one engine that runs.
type harness struct {
	*App
	t      *testing.T
	dir    string
	ingest *ingest.App
	e      *engine.Engine
	store  job.Store
	clock  *fastClock
	stop   func()
}

// start runs everything on a store in memory and a fresh directory; change may set options.
func start(t *testing.T, change func(*Options)) *harness {
	t.Helper()
	return startOn(t, mem.New(), t.TempDir(), change)
}

func openIngest(t *testing.T, dir string) *ingest.App {
	t.Helper()
	set, err := profile.New(profile.Profile{ID: "test", Collection: "maps", Owner: "library",
		Storage: []string{"first", "second"}})
	if err != nil {
		t.Fatal(err)
	}
	a, err := ingest.New(ingest.Options{
		Dir: dir, Profiles: set, Backoff: engine.Backoff{First: time.Millisecond, Max: 5 * time.Millisecond},
		Disk: func(string) (int64, int64, error) { return 1 << 50, 1 << 50, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func openAccess(t *testing.T, dir string, holdings Holdings, change func(*Options)) *App {
	t.Helper()
	o := Options{Dir: dir, Holdings: holdings,
		Backoff: engine.Backoff{First: time.Millisecond, Max: 5 * time.Millisecond}}
	if change != nil {
		change(&o)
	}
	a, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func startOn(t *testing.T, store job.Store, dir string, change func(*Options)) *harness {
	t.Helper()
	w := &harness{t: t, dir: dir, store: store, ingest: openIngest(t, dir), clock: &fastClock{Clock: clock.System()}}
	w.clock.ahead.Store(int64(10 * time.Minute)) // the leases of a process that crashed are over
	w.App = openAccess(t, dir, w.ingest, change)
	var err error
	w.e, err = engine.New(store, append(w.ingest.Works(), w.Works()...), engine.Options{
		Deliver: w.ingest.Deliver(), Sweep: 20 * time.Millisecond, Grace: 5 * time.Second, Clock: w.clock,
		Retain: engine.Retention{Every: time.Millisecond},
	})
	if err != nil {
		t.Fatal(err)
	}
	w.ingest.Bind(w.e)
	w.Bind(w.e)
	w.stop = enginetest.Run(t, w.e, w.Close, w.ingest.Close)
	return w
}

// object stores an object of files as the depositor's container, and gives its ARK.
func (w *harness) object(localID string, files map[string]string) string {
	w.t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		f, err := z.Create(name)
		if err == nil {
			_, err = io.WriteString(f, files[name])
		}
		if err != nil {
			w.t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		w.t.Fatal(err)
	}
	s := ingest.Submission{Profile: "test", Submitter: "ann", Type: ingest.TypeContainer, Filename: "c.zip",
		LocalIDs: []string{localID}}
	batch, err := w.ingest.Submit(w.t.Context(), s, &b)
	if err != nil {
		w.t.Fatal(err)
	}
	if j := w.end(batch.ID); j.Outcome != lifecycle.OK {
		r, err := w.ingest.Report(w.t.Context(), batch.ID)
		w.t.Fatalf("%s, %v", r.Text(), err)
	}
	all, err := w.ingest.Objects(w.t.Context(), ingest.ObjectQuery{LocalID: localID})
	if err != nil || len(all) != 1 {
		w.t.Fatalf("%d objects, %v", len(all), err)
	}
	return all[0].ARK
}

func (w *harness) end(id job.ID) job.Job {
	w.t.Helper()
	return w.until(id, func(j *job.Job) bool { return j.Ended })
}

func (w *harness) until(id job.ID, done func(*job.Job) bool) job.Job {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
	defer cancel()
	j, err := w.e.Await(ctx, id, done)
	if err != nil {
		now, _ := w.store.Get(w.t.Context(), id)
		w.t.Fatalf("%v: it is %s (%s: %s)", err, now.State, now.Cause, now.Message)
	}
	return j
}

func (w *harness) request(r Request) Status {
	w.t.Helper()
	s, err := w.Request(w.t.Context(), r)
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

// ready requests a package and waits until it can be fetched.
func (w *harness) ready(r Request) Status {
	w.t.Helper()
	s := w.request(r)
	w.end(s.Job)
	s = w.status(s.Token)
	if s.Code != CodeReady {
		w.t.Fatalf("got %+v", s)
	}
	return s
}

func (w *harness) status(token string) Status {
	w.t.Helper()
	s, err := w.Status(w.t.Context(), token)
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

func (w *harness) open(token string) *Package {
	w.t.Helper()
	p, err := w.Open(w.t.Context(), token)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		if err := p.Close(); err != nil {
			w.t.Error(err)
		}
	})
	return p
}

// fetch reads a whole package.
func (w *harness) fetch(token string) []byte {
	w.t.Helper()
	p, err := w.Open(w.t.Context(), token)
	if err != nil {
		w.t.Fatal(err)
	}
	defer p.Close()
	all, err := io.ReadAll(p)
	if err != nil || int64(len(all)) != p.Size {
		w.t.Fatalf("%d bytes of %d, %v", len(all), p.Size, err)
	}
	return all
}

func (w *harness) do(id job.ID, ev lifecycle.Event) {
	w.t.Helper()
	if _, err := w.e.Do(w.t.Context(),
		operator.Act{Job: id, Event: ev, By: lifecycle.Operator, Actor: "op", Note: "test"}); err != nil {
		w.t.Fatal(err)
	}
}

// stored gives the files of a version as storage has them.
func (w *harness) stored(ark string, version int) map[string]string {
	w.t.Helper()
	all, err := w.ingest.Objects(w.t.Context(), ingest.ObjectQuery{ARK: ark})
	if err != nil || len(all) != 1 {
		w.t.Fatalf("%d objects, %v", len(all), err)
	}
	place := all[0].Versions[version-1].Places[0]
	paths, err := w.ingest.Content(w.t.Context(), ark, place)
	if err != nil {
		w.t.Fatal(err)
	}
	got := map[string]string{}
	for name, at := range paths {
		text, err := os.ReadFile(filepath.Join(w.dir, place.Dir, at))
		if err != nil {
			w.t.Fatal(err)
		}
		got[name] = string(text)
	}
	return got
}

// inStorage returns the path on disk of a file of the newest version in a storage location.
func (w *harness) inStorage(ark, place, name string) string {
	w.t.Helper()
	all, err := w.ingest.Objects(w.t.Context(), ingest.ObjectQuery{ARK: ark})
	if err != nil || len(all) != 1 {
		w.t.Fatalf("%d objects, %v", len(all), err)
	}
	for _, p := range all[0].Versions[len(all[0].Versions)-1].Places {
		if p.Dir == place {
			paths, err := w.ingest.Content(w.t.Context(), ark, p)
			if err != nil || paths[name] == "" {
				w.t.Fatalf("%s in %s: %v", name, place, err)
			}
			return filepath.Join(w.dir, place, paths[name])
		}
	}
	w.t.Fatalf("not found: storage location %s", place)
	return ""
}

// unpacked reads an archive with the standard library.
func unpacked(t *testing.T, format string, data []byte) map[string]string {
	t.Helper()
	got := map[string]string{}
	take := func(name string, in io.Reader) {
		text, err := io.ReadAll(in)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if _, twice := got[name]; twice {
			t.Errorf("%s is there twice", name)
		}
		got[name] = string(text)
	}
	if strings.HasSuffix(format, "tar") {
		for r := tar.NewReader(bytes.NewReader(data)); ; {
			h, err := r.Next()
			if errors.Is(err, io.EOF) {
				return got
			}
			if err != nil {
				t.Fatal(err)
			}
			take(h.Name, r)
		}
	}
	z, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range z.File {
		in, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		take(f.Name, in)
		_ = in.Close()
	}
	return got
}

// rewrite changes a file in storage, which is written to be read only.
func rewrite(t *testing.T, name, text string) {
	t.Helper()
	if err := os.Chmod(name, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// gone waits until a file or directory is not there any more. Nothing signals that.
func gone(t *testing.T, name string) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); <-tick.C {
		if _, err := os.Stat(name); errors.Is(err, os.ErrNotExist) {
			return
		}
	}
	t.Errorf("%s is still there", name)
}
