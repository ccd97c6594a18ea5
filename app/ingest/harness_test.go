package ingest

import (
	"bytes"
	"context"
	"crypto/md5"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stagepost/stagepost/app/ingest/profile"
	"github.com/stagepost/stagepost/app/ingest/record"
	"github.com/stagepost/stagepost/app/ingest/report"
	"github.com/stagepost/stagepost/app/ingest/workdir"
	"github.com/stagepost/stagepost/edge/fetch"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/engine/clock"
	"github.com/stagepost/stagepost/engine/enginetest"
	"github.com/stagepost/stagepost/engine/operator"
	"github.com/stagepost/stagepost/format/ocfl"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/mem"
)

// A depositor's server: files by path. Paths that it lacks are 404.
type site struct {
	*httptest.Server
	mu    sync.Mutex // guards the rest
	files map[string]string
	gets  map[string]int
	odd   map[string]http.HandlerFunc // answers instead
}

func newSite(t *testing.T, files map[string]string) *site {
	t.Helper()
	s := &site{files: map[string]string{}, gets: map[string]int{}, odd: map[string]http.HandlerFunc{}}
	for name, text := range files {
		s.files[name] = text
	}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimPrefix(r.URL.Path, "/")
	s.mu.Lock()
	text, ok := s.files[name]
	odd := s.odd[name]
	if r.Method == http.MethodGet {
		s.gets[name]++
	}
	s.mu.Unlock()
	switch {
	case odd != nil:
		odd(w, r)
	case !ok:
		http.NotFound(w, r)
	default:
		http.ServeContent(w, r, "", time.Unix(1_700_000_000, 0), strings.NewReader(text))
	}
}

func (s *site) put(name, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.files[name] = text
}

func (s *site) answer(name string, h http.HandlerFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if h == nil {
		delete(s.odd, name)
	} else {
		s.odd[name] = h
	}
}

// manifest writes an object manifest of files of the server, with digests.
func (s *site) manifest(names ...string) string {
	var rows []string
	for _, name := range names {
		s.mu.Lock()
		text := s.files[name]
		s.mu.Unlock()
		rows = append(rows, fmt.Sprintf("%s/%s | md5 | %s | %d |  | %s", s.URL, name, md5Hex(text), len(text), name))
	}
	return manifest("mrt-ingest-manifest", rows...)
}

// row is a row of a batch manifest.
func (s *site) row(name, localID, title string) string {
	return fmt.Sprintf("%s/%s |  |  |  |  | %s |  | %s | A. Person | %s | 2009", s.URL, name, name, localID, title)
}

func manifest(profile string, rows ...string) string {
	return "#%checkm_0.7\n#%profile | http://uc3.cdlib.org/registry/ingest/manifest/" + profile + "\n" +
		strings.Join(rows, "\n") + "\n#%eof\n"
}

func md5Hex(text string) string {
	sum := md5.Sum([]byte(text))
	return hex.EncodeToString(sum[:])
}

func sha256Hex(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// harness is the application on a store, with an engine that runs.
type harness struct {
	*App
	t     *testing.T
	dir   string
	store job.Store
	e     *engine.Engine
	stop  func()
}

// testProfile may fetch from the test's own servers.
func testProfile() profile.Profile {
	return profile.Profile{ID: "test", Collection: "maps", Owner: "library",
		Networks: []string{"127.0.0.0/8", "::1/128"}, Notification: []string{"curator@example.org"}}
}

// guard ends a test that hangs. It measures nothing: machines may be as slow as they like.
const guard = 3 * time.Minute

func plenty(string) (int64, int64, error) { return 1 << 50, 1 << 50, nil }

func options(t *testing.T, dir string, profiles ...profile.Profile) Options {
	t.Helper()
	if len(profiles) == 0 {
		profiles = []profile.Profile{testProfile()}
	}
	set, err := profile.New(profiles...)
	if err != nil {
		t.Fatal(err)
	}
	return Options{
		Dir: dir, Profiles: set, Disk: plenty, Look: 10 * time.Millisecond, TrashKeep: job.Off,
		Fetch:   fetch.Policy{Retries: -1, Backoff: time.Millisecond, IdleTimeout: 5 * time.Second},
		Backoff: engine.Backoff{First: time.Millisecond, Max: 5 * time.Millisecond},
	}
}

// leavable gives a directory for a process that crashes: what of it still runs when the test has ended may write there
// while it is removed.
func leavable(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "stagepost")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// start runs the application on a store in memory in a fresh directory.
func start(t *testing.T, profiles ...profile.Profile) *harness {
	t.Helper()
	return startOn(t, mem.New(), options(t, t.TempDir(), profiles...))
}

func startOn(t *testing.T, store job.Store, o Options) *harness {
	t.Helper()
	w := wire(t, store, o)
	w.run()
	return w
}

// run runs the engine until the test ends, or stop is called.
func (w *harness) run() { w.stop = enginetest.Run(w.t, w.e, w.Close) }

// later is a clock that is ahead of that of a process which crashed: what it had leased has run out.
type later struct{ clock.Clock }

func (l later) Now() time.Time { return l.Clock.Now().Add(10 * time.Minute) }

// wire makes application and engine without running them.
func wire(t *testing.T, store job.Store, o Options) *harness {
	t.Helper()
	a, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	e, err := engine.New(store, a.Works(), engine.Options{
		Deliver: a.Deliver(), Sweep: 20 * time.Millisecond, Grace: 5 * time.Second, Clock: later{clock.System()},
	})
	if err != nil {
		t.Fatal(err)
	}
	a.Bind(e)
	return &harness{App: a, t: t, dir: o.Dir, store: store, e: e}
}

func (w *harness) submit(s Submission, text string) job.Job {
	w.t.Helper()
	if s.Profile == "" {
		s.Profile = "test"
	}
	if s.Submitter == "" {
		s.Submitter = "ann"
	}
	b, err := w.Submit(w.t.Context(), s, strings.NewReader(text))
	if err != nil {
		w.t.Fatal(err)
	}
	return b
}

func (w *harness) end(id job.ID) job.Job {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 2*time.Minute)
	defer cancel()
	j, err := w.e.Await(ctx, id, func(j *job.Job) bool { return j.Ended })
	if err != nil {
		w.t.Fatalf("%v: it is %s (%s: %s)", err, j.State, j.Cause, j.Message)
	}
	return j
}

// ingest submits a payload and gives the report at the end.
func (w *harness) ingest(s Submission, text string) report.Batch {
	w.t.Helper()
	b := w.end(w.submit(s, text).ID)
	return w.reported(b.ID)
}

func (w *harness) reported(batch job.ID) report.Batch {
	w.t.Helper()
	r, err := w.Report(w.t.Context(), batch)
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

// one ingests a payload that is to complete with a single object.
func (w *harness) one(s Submission, text string) report.Job {
	w.t.Helper()
	r := w.ingest(s, text)
	if r.State != record.Completed || len(r.Jobs) != 1 {
		w.t.Fatalf("got %s", r.Text())
	}
	return r.Jobs[0]
}

func (w *harness) do(id job.ID, ev lifecycle.Event) error {
	_, err := w.e.Do(w.t.Context(), operator.Act{Job: id, Event: ev, By: lifecycle.Operator, Actor: "op", Note: "test"})
	return err
}

func (w *harness) object(ark string) Object {
	w.t.Helper()
	all, err := w.Objects(w.t.Context(), ObjectQuery{ARK: ark})
	if err != nil || len(all) != 1 {
		w.t.Fatalf("object %s: got %d, %v", ark, len(all), err)
	}
	return all[0]
}

// files reads a version from storage by the layout of OCFL alone: logical path to content.
func (w *harness) files(ark, version string) map[string]string {
	w.t.Helper()
	root, err := ocfl.OpenRoot(filepath.Join(w.dir, "storage"))
	if err != nil {
		w.t.Fatal(err)
	}
	defer root.Close()
	o, err := root.Object(ark)
	if err != nil {
		w.t.Fatal(err)
	}
	all, err := o.Files(version)
	if err != nil {
		w.t.Fatal(err)
	}
	got := map[string]string{}
	for _, f := range all {
		in, err := o.Open(version, f.Path)
		if err != nil {
			w.t.Fatal(err)
		}
		text, err := io.ReadAll(in)
		if err != nil {
			w.t.Fatal(err)
		}
		in.Close()
		got[f.Path] = string(text)
	}
	return got
}

// valid checks every storage location, and that nothing lies about in work and trash.
func (w *harness) valid(places ...string) {
	w.t.Helper()
	if len(places) == 0 {
		places = []string{"storage"}
	}
	for _, dir := range places {
		path := filepath.Join(w.dir, dir)
		if _, err := os.Stat(path); os.IsNotExist(err) {
			continue
		}
		r, err := ocfl.Validate(w.t.Context(), path)
		if err != nil {
			w.t.Fatal(err)
		}
		if !r.Valid() {
			w.t.Errorf("%s: %v", dir, r.Errors)
		}
		root, err := ocfl.OpenRoot(path)
		if err != nil {
			w.t.Fatal(err)
		}
		if stages, err := root.Stages(); err != nil || len(stages) > 0 {
			w.t.Errorf("%s: stages %v, %v", dir, stages, err)
		}
		root.Close()
	}
	if left, err := os.ReadDir(filepath.Join(w.dir, workdir.TrashName)); err != nil || len(left) > 0 {
		w.t.Errorf("trash: %v, %v", left, err)
	}
}

// nothingStored checks that a failed submission left no object behind.
func (w *harness) nothingStored() {
	w.t.Helper()
	objects, versions, _, err := w.inventory.Counts(w.t.Context())
	if err != nil || objects+versions > 0 {
		w.t.Errorf("got %d objects and %d versions, %v", objects, versions, err)
	}
	err = filepath.WalkDir(filepath.Join(w.dir, "storage"), func(path string, d fs.DirEntry, err error) error {
		if os.IsNotExist(err) {
			return nil
		}
		if err == nil && strings.HasPrefix(d.Name(), "0=ocfl_object") {
			w.t.Errorf("%s was stored", path)
		}
		return err
	})
	if err != nil {
		w.t.Error(err)
	}
	w.valid()
}

// mails reads the .eml files.
func (w *harness) mails() []string {
	w.t.Helper()
	names, err := filepath.Glob(filepath.Join(w.dir, workdir.MailName, "*.eml"))
	if err != nil {
		w.t.Fatal(err)
	}
	var all []string
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			w.t.Fatal(err)
		}
		all = append(all, string(bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n"))))
	}
	return all
}

// workDirs lists the directories of batches.
func (w *harness) workDirs() []string {
	w.t.Helper()
	entries, err := os.ReadDir(filepath.Join(w.dir, workdir.WorkName))
	if err != nil {
		w.t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// mute answers GET without a length, and no HEAD at all.
func (s *site) mute(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodHead || r.Header.Get("Range") != "" {
			http.Error(w, "no", http.StatusInternalServerError)
			return
		}
		w.(http.Flusher).Flush()
		_, _ = io.WriteString(w, text)
	}
}

var (
	modified = time.Unix(1_700_000_000, 0)
	never    time.Time
)

// awaitMails waits until so many mails lie in the mail directory.
func (w *harness) awaitMails(n int) []string {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 2*time.Minute)
	defer cancel()
	for {
		all := w.mails()
		if len(all) >= n {
			return all
		}
		select {
		case <-ctx.Done():
			w.t.Fatalf("got %d mails, want %d", len(all), n)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// children waits for the jobs of a batch and gives them in their order.
func (w *harness) children(batch job.ID, n int) []job.Job {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 2*time.Minute)
	defer cancel()
	if _, err := w.e.Await(ctx, batch, func(b *job.Job) bool { return b.Children.Created() >= n }); err != nil {
		w.t.Fatal(err)
	}
	page, err := w.store.List(ctx, job.Query{Parent: batch, Oldest: true, Limit: 1000})
	if err != nil {
		w.t.Fatal(err)
	}
	return page.Jobs
}

// until waits until a job is as wanted.
func (w *harness) until(id job.ID, done func(*job.Job) bool) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 2*time.Minute)
	defer cancel()
	if j, err := w.e.Await(ctx, id, done); err != nil {
		w.t.Fatalf("%v: it is %s", err, j.State)
	}
}

// verify checks a job's history against its record.
func (w *harness) verify(id job.ID) {
	w.t.Helper()
	j, err := w.store.Get(w.t.Context(), id)
	if err != nil {
		w.t.Fatal(err)
	}
	history, err := w.store.History(w.t.Context(), id, 0, 0)
	if err == nil {
		err = job.Verify(j, history, w.e.Life(j.Kind))
	}
	if err != nil {
		w.t.Errorf("%s: %v", id, err)
	}
}

// hasWork reports whether a job has a work directory.
func (w *harness) hasWork(batch, id job.ID) bool {
	_, err := os.Stat(filepath.Join(w.dir, workdir.WorkName, string(batch), string(id)))
	return err == nil
}
