package archive

import (
	"context"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stagepost/stagepost/app/archive/catalog"
	"github.com/stagepost/stagepost/app/archive/copies"
	"github.com/stagepost/stagepost/app/archive/packaging"
	"github.com/stagepost/stagepost/app/archive/settings"
	"github.com/stagepost/stagepost/app/archive/sign"
	"github.com/stagepost/stagepost/app/archive/source"
	"github.com/stagepost/stagepost/edge/storage"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/mem"
)

// fake is a source in memory: one course, whose activities have items of one file each.
type fake struct {
	mu       sync.Mutex
	files    map[string]map[string]string // activity, item: content
	failures map[string]error             // by item: what the next fetch returns
	fetched  map[string]int               // by activity/item
	onFetch  func(activity, item string)  // may be nil
	crash    func() error                 // called at points where a process can crash; may be nil
	onStep   map[lifecycle.State]func()   // called before each attempt at a state; may be nil
	self     source.Source                // what Source gives; nil: the fake
	attempts bool                         // items are attempts: HTML files with an attachment each
	backups  *fakeBackups                 // nil: the source makes no backups
	warnings []string                     // of the source, and of each plan
	twice    bool                         // a plan has an item twice
	asked    int                          // fingerprints
	slots    int                          // of the engine; 0: its default
}

// point is a point at which a process can crash.
func (f *fake) point(string) error {
	if f.crash == nil {
		return nil
	}
	return f.crash()
}

func newFake(activities, items int) *fake {
	f := &fake{files: map[string]map[string]string{}, failures: map[string]error{}, fetched: map[string]int{}}
	for a := range activities {
		id := fmt.Sprint(a + 1)
		f.files[id] = map[string]string{}
		for i := range items {
			f.files[id][fmt.Sprintf("item-%d", i)] = strings.Repeat(fmt.Sprintf("%d/%d ", a, i), 100)
		}
	}
	return f
}

func (f *fake) Check(context.Context) (source.Facts, error) {
	return source.Facts{Kind: "fake", Name: "fake", Warnings: f.warnings}, nil
}

func (f *fake) Courses(context.Context, []string) ([]source.Course, error) {
	return []source.Course{{ID: "5", Name: "Algebra", ShortName: "ALG"}}, nil
}

func (f *fake) Activities(context.Context, string) (all []source.Activity, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(f.files)) {
		all = append(all, source.Activity{Course: "5", ID: id, Module: "quiz", Name: "Quiz " + id})
	}
	return append(all, source.Activity{Course: "5", ID: "99", Module: "label", Name: "Label"}), nil
}

func (f *fake) Describe(
	ctx context.Context, _ string, _ source.Settings, out source.Out,
) ([]source.Person, error) {
	err := out.Put(ctx, "course.json", &source.Origin{}, func(w io.Writer) error {
		_, err := io.WriteString(w, `{"id": 5}`)
		return err
	})
	return []source.Person{{ID: "19", Name: "Ann"}}, err
}

func (f *fake) Archivable(a source.Activity) string {
	if a.Module == "quiz" {
		return ""
	}
	return "labels have no content"
}

func (f *fake) Fingerprint(_ context.Context, a source.Activity) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked++
	return hash(f.files[a.ID]), nil
}

func (f *fake) Plan(_ context.Context, a source.Activity, _ source.Settings) (*source.Plan, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	p := &source.Plan{People: []source.Person{{ID: "19", Name: "Ann"}}}
	for _, key := range slices.Sorted(maps.Keys(f.files[a.ID])) {
		p.Items = append(p.Items, source.Item{Key: key, Person: "19"})
	}
	if p.Warnings = f.warnings; f.twice {
		p.Items = append(p.Items, p.Items[0])
	}
	return p, nil
}

func (f *fake) Fetch(
	ctx context.Context, a source.Activity, item source.Item, _ source.Settings, out source.Out,
) error {
	if f.onFetch != nil {
		f.onFetch(a.ID, item.Key)
	}
	f.mu.Lock()
	key := a.ID + "/" + item.Key
	err, text := f.failures[key], f.files[a.ID][item.Key]
	f.fetched[key]++
	f.mu.Unlock()
	if err := f.point("fetch"); err != nil {
		return err
	}
	if err != nil {
		return err
	}
	if f.attempts {
		return putAttempt(ctx, item, text, out)
	}
	return out.Put(ctx, item.Key+".txt", &source.Origin{Person: item.Person}, func(w io.Writer) error {
		_, err := io.WriteString(w, text)
		return err
	})
}

func (f *fake) Names() []string { return []string{"campus"} }

func (f *fake) Source(name string) (source.Source, error) {
	if name != "campus" {
		return nil, job.Errorf(job.Invalid, "archive", "", "there is no source %q", name)
	}
	if f.backups != nil {
		return struct {
			*fake
			*fakeBackups
		}{f, f.backups}, nil
	}
	if f.self != nil {
		return f.self, nil
	}
	return f, nil
}

// harness is the application on an engine on a store in memory, inside a synctest bubble.
type harness struct {
	*App
	t     *testing.T
	store job.Store
	stop  func()
}

func start(t *testing.T, store job.Store, dir string, src *fake, change func(*Options)) *harness {
	t.Helper()
	o := options(t, src, dir)
	if change != nil {
		change(&o)
	}
	a, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	works := a.Works()
	for state, do := range src.onStep {
		step := works[0].Steps[state]
		works[0].Steps[state] = func(ctx context.Context, r *engine.Run) error {
			do()
			return step(ctx, r)
		}
	}
	e, err := engine.New(store, works, engine.Options{
		Rand: rand.New(rand.NewPCG(1, 2)), Deliver: a.Deliver(), Slots: src.slots,
	})
	if err != nil {
		t.Fatal(err)
	}
	a.Bind(e)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx) }()
	synctest.Wait()
	return &harness{App: a, t: t, store: store, stop: func() {
		cancel()
		if err := <-done; err != nil && job.KindOf(err) != job.Unavailable {
			t.Error(err)
		}
		if err := o.Catalog.Close(); err != nil {
			t.Error(err)
		}
	}}
}

// options are those of an application with two directories as storage locations.
func options(t *testing.T, src *fake, dir string) Options {
	t.Helper()
	c, err := catalog.Open(t.Context(), filepath.Join(dir, "archive.db"), catalog.Options{
		Installation: "here", Before: src.point, After: src.point,
	})
	if err != nil {
		t.Fatal(err)
	}
	var targets []copies.Target
	for _, name := range []string{"near", "far"} {
		at := filepath.Join(dir, name)
		if err := os.MkdirAll(at, 0o750); err != nil {
			t.Fatal(err)
		}
		d, err := storage.OpenDir(at, storage.Local)
		if err != nil {
			t.Fatal(err)
		}
		targets = append(targets, copies.Target{Name: name, At: d})
	}
	s, err := copies.New(copies.Options{Catalog: c, Targets: targets})
	if err != nil {
		t.Fatal(err)
	}
	return Options{
		Dir: dir, Sources: src, Catalog: c, Copies: s, Signer: &stamps{}, Version: "1",
		Presets:  func(name string) (settings.Preset, bool) { return settings.Preset{}, name == "default" },
		Describe: func(name string) packaging.Location { return packaging.Location{Name: name, Kind: "directory"} },
	}
}

// stamps is a signer whose first calls fail.
type stamps struct {
	mu    sync.Mutex
	fails int
	calls int
}

func (s *stamps) Sign(_ context.Context, d sign.Document) (sign.Result, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.calls++; s.calls <= s.fails {
		return sign.Result{}, &sign.FailedError{Subject: d.Path, Errs: []error{errBusy}, Transient: true}
	}
	name := d.Path + ".tsr"
	if err := d.Dir.WriteFile(name, []byte("stamp of "+d.Path), 0o600); err != nil {
		return sign.Result{}, err
	}
	return sign.Result{Files: []string{name}}, nil
}

func (h *harness) submit(r Request) job.Job {
	h.t.Helper()
	r.Source, r.Course = "campus", "5"
	j, err := h.Submit(h.t.Context(), r, Ordered{Owner: "ann"})
	if err != nil {
		h.t.Fatal(err)
	}
	return j
}

func (h *harness) end(id job.ID) job.Job {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(h.t.Context(), 24*time.Hour)
	defer cancel()
	j, err := h.engine.Await(ctx, id, func(j *job.Job) bool { return j.Ended })
	if err != nil {
		now, _ := h.store.Get(h.t.Context(), id)
		h.t.Fatalf("%v (it is %s: %s; %s)", err, now.State, now.Message, h.events(id))
	}
	return j
}

// events lists the events of a job without those that change no state.
func (h *harness) events(id job.ID) string {
	h.t.Helper()
	history, err := h.store.History(h.t.Context(), id, 0, 0)
	if err != nil {
		h.t.Fatal(err)
	}
	var all []string
	for _, e := range history {
		all = append(all, string(e.Event))
	}
	return strings.Join(all, " ")
}

// bubble runs a test on a new store in a bubble.
func bubble(t *testing.T, src *fake, change func(*Options), test func(*harness)) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t, mem.New(), quickDir(t), src, change)
		defer h.stop()
		test(h)
	})
}

// quickDir gives a directory in memory where there is one: a sync costs nothing there, and no simulated crash loses
// writes.
func quickDir(t *testing.T) string {
	dir, err := os.MkdirTemp("/dev/shm", "stagepost-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}
