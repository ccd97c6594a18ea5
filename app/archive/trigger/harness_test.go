package trigger

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/app/archive"
	"github.com/stagepost/stagepost/app/archive/catalog"
	"github.com/stagepost/stagepost/app/archive/copies"
	"github.com/stagepost/stagepost/app/archive/packaging"
	"github.com/stagepost/stagepost/app/archive/settings"
	"github.com/stagepost/stagepost/app/archive/source"
	"github.com/stagepost/stagepost/edge/storage"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/store/mem"
)

// fake is a source in memory. Activities are quizzes of one item, and a label that cannot be archived.
type fake struct {
	mu      sync.Mutex
	courses map[string]map[string]string // content of activities by course and activity
	broken  map[string]error             // by activity: what a fetch returns
	down    map[string]error             // by course: what reading it returns
	gone    error                        // what reading the courses returns
	reads   map[string]int               // of the activities of a course
}

func newFake() *fake {
	return &fake{
		courses: map[string]map[string]string{"5": {"51": "a", "52": "b"}, "6": {"61": "c"}},
		broken:  map[string]error{}, down: map[string]error{}, reads: map[string]int{},
	}
}

func (f *fake) set(course, activity, content string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.courses[course][activity] = content
}

func (f *fake) Names() []string { return []string{"campus"} }

func (f *fake) Source(name string) (source.Source, error) {
	if name != "campus" {
		return nil, job.Errorf(job.Invalid, "archive", "", "there is no source %q", name)
	}
	return f, nil
}

func (f *fake) Check(context.Context) (source.Facts, error) { return source.Facts{Kind: "fake"}, nil }

func (f *fake) Courses(_ context.Context, ids []string) (all []source.Course, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.gone != nil {
		return nil, f.gone
	}
	if ids == nil {
		ids = slices.Sorted(maps.Keys(f.courses))
	}
	for _, id := range ids {
		if f.courses[id] == nil {
			return nil, &source.Error{Op: "course " + id, Err: errors.New("not found")}
		}
		c := source.Course{ID: id, Name: "Course " + id}
		if id == "6" {
			c.CategoryID = "1"
		}
		all = append(all, c)
	}
	return all, nil
}

// Below has one category, 1, with the course 6.
func (f *fake) Below(context.Context, []string) (map[string]bool, error) {
	return map[string]bool{"1": true}, nil
}

func (f *fake) Activities(_ context.Context, course string) (all []source.Activity, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reads[course]++
	if err := f.down[course]; err != nil {
		return nil, err
	}
	if f.courses[course] == nil {
		return nil, &source.Error{Op: "course " + course, Err: errors.New("not found")}
	}
	for _, id := range slices.Sorted(maps.Keys(f.courses[course])) {
		all = append(all, source.Activity{Course: course, ID: id, Module: "quiz", Name: "Quiz " + id})
	}
	return append(all, source.Activity{Course: course, ID: course + "9", Module: "label", Name: "Label"}), nil
}

func (f *fake) Describe(context.Context, string, source.Settings, source.Out) ([]source.Person, error) {
	return nil, nil
}

func (f *fake) Archivable(a source.Activity) string {
	if a.Module == "label" {
		return "labels have no content"
	}
	return ""
}

func (f *fake) Fingerprint(_ context.Context, a source.Activity) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return fmt.Sprintf("%064x", f.courses[a.Course][a.ID]), nil
}

func (f *fake) Plan(context.Context, source.Activity, source.Settings) (*source.Plan, error) {
	return &source.Plan{Items: []source.Item{{Key: "item"}}}, nil
}

func (f *fake) Fetch(
	ctx context.Context, a source.Activity, _ source.Item, _ source.Settings, out source.Out,
) error {
	f.mu.Lock()
	text, err := f.courses[a.Course][a.ID], f.broken[a.ID]
	f.mu.Unlock()
	if err != nil {
		return err
	}
	return out.Put(ctx, "item.txt", &source.Origin{}, func(w io.Writer) error {
		_, err := io.WriteString(w, text)
		return err
	})
}

// harness is the triggers and the archive application on an engine on a store in memory.
type harness struct {
	*App
	t       *testing.T
	fake    *fake
	archive *archive.App
	store   job.Store

	mu        sync.Mutex // guards the rest
	schedules map[string]Schedule
	receivers map[string]*Receiver
	stops     []func()
}

// setSchedule changes the configuration.
func (h *harness) setSchedule(name string, s Schedule) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.schedules[name] = s
}

// bubble runs a test in a bubble, whose time begins at 2000-01-01, a Saturday.
func bubble(t *testing.T, test func(*harness)) {
	synctest.Test(t, func(t *testing.T) {
		h := &harness{
			t: t, fake: newFake(), store: mem.New(),
			schedules: map[string]Schedule{}, receivers: map[string]*Receiver{},
		}
		dir := t.TempDir()
		c, err := catalog.Open(t.Context(), filepath.Join(dir, "archive.db"), catalog.Options{Installation: "here"})
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			for _, stop := range h.stops {
				stop()
			}
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}()
		h.App, h.archive = h.open(dir, c)
		h.stops = append(h.stops, h.serve(h.App, h.archive))
		test(h)
	})
}

// open makes the applications of a server.
func (h *harness) open(dir string, c *catalog.Catalog) (*App, *archive.App) {
	h.t.Helper()
	at := filepath.Join(dir, "near")
	if err := os.MkdirAll(at, 0o750); err != nil {
		h.t.Fatal(err)
	}
	d, err := storage.OpenDir(at, storage.Local)
	if err != nil {
		h.t.Fatal(err)
	}
	s, err := copies.New(copies.Options{Catalog: c, Targets: []copies.Target{{Name: "near", At: d}}})
	if err != nil {
		h.t.Fatal(err)
	}
	no := false
	jobs, err := archive.New(archive.Options{
		Dir: dir, Sources: h.fake, Catalog: c, Copies: s, Version: "1",
		Presets: func(name string) (settings.Preset, bool) {
			return settings.Preset{Settings: archive.Settings{Sign: &no, Attempts: 1}}, name == "default"
		},
		Describe: func(name string) packaging.Location { return packaging.Location{Name: name, Kind: "directory"} },
	})
	if err != nil {
		h.t.Fatal(err)
	}
	a, err := New(Options{
		Schedules: func() map[string]Schedule {
			h.mu.Lock()
			defer h.mu.Unlock()
			return maps.Clone(h.schedules)
		},
		Receivers: func() map[string]*Receiver {
			h.mu.Lock()
			defer h.mu.Unlock()
			return maps.Clone(h.receivers)
		},
		Sources: h.fake, Catalog: c, Jobs: jobs,
	})
	if err != nil {
		h.t.Fatal(err)
	}
	return a, jobs
}

// serve runs an engine with the applications.
func (h *harness) serve(a *App, jobs *archive.App) (stop func()) {
	h.t.Helper()
	return h.serveOn(h.store, engine.Options{}, a, jobs)
}

// serveOn runs an engine with the applications on a store.
func (h *harness) serveOn(store job.Store, o engine.Options, a *App, jobs *archive.App) (stop func()) {
	h.t.Helper()
	o.Rand = rand.New(rand.NewPCG(1, 2))
	e, err := engine.New(store, slices.Concat(jobs.Works(), a.Works()), o)
	if err != nil {
		h.t.Fatal(err)
	}
	jobs.Bind(e)
	a.Bind(e)
	ctx, cancel := context.WithCancel(h.t.Context())
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx) }()
	synctest.Wait()
	return func() {
		cancel()
		if err := <-done; err != nil && job.KindOf(err) != job.Unavailable {
			h.t.Error(err)
		}
	}
}

// schedule runs the scheduler until stop is called.
func (h *harness) schedule(a *App) (stop func()) {
	ctx, cancel := context.WithCancel(h.t.Context())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	return func() {
		cancel()
		if err := <-done; err != nil {
			h.t.Error(err)
		}
	}
}

// runs lists the runs of a schedule, oldest first, without the records from which its times count.
func (h *harness) runs(name string) (all []job.Job) {
	h.t.Helper()
	for _, j := range h.list(job.Query{Kinds: []job.Kind{Kind}, Tag: tagOf(name)}) {
		if o := decoded[Order](h.t, j.Spec); !o.Begins {
			all = append(all, j)
		}
	}
	return all
}

// archives lists the archive jobs, oldest first.
func (h *harness) archives() []job.Job {
	h.t.Helper()
	return h.list(job.Query{Kinds: []job.Kind{archive.Kind}})
}

func (h *harness) list(q job.Query) []job.Job {
	h.t.Helper()
	q.Oldest, q.Limit = true, 1000
	page, err := h.store.List(h.t.Context(), q)
	if err != nil {
		h.t.Fatal(err)
	}
	return page.Jobs
}

// end waits until a job has ended.
func (h *harness) end(id job.ID) job.Job {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(h.t.Context(), 48*time.Hour)
	defer cancel()
	j, err := h.engine.Await(ctx, id, func(j *job.Job) bool { return j.Ended })
	if err != nil {
		h.t.Fatal(err)
	}
	return j
}

// byHand runs a schedule to its end, and gives the record.
func (h *harness) byHand(name string, dry bool) (job.Job, Record) {
	h.t.Helper()
	j, err := h.Start(h.t.Context(), name, api.StartSchedule{DryRun: dry, Actor: "ann"})
	if err != nil {
		h.t.Fatal(err)
	}
	j = h.end(j.ID)
	return j, decoded[Record](h.t, j.Data)
}

// marks gives the marks of a record by activity, or by course where there is no activity.
func marks(r Record) string {
	var all []string
	for _, d := range r.Decisions {
		name := d.Activity
		if name == "" {
			name = "course " + d.Course
		}
		all = append(all, fmt.Sprintf("%s %s", name, d.Mark))
	}
	slices.Sort(all)
	return fmt.Sprint(all)
}
