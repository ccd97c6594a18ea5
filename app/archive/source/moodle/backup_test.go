package moodle_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stagepost/stagepost/app/archive/source"
	"github.com/stagepost/stagepost/app/archive/source/moodle"
	"github.com/stagepost/stagepost/app/archive/source/moodle/replay"
	"github.com/stagepost/stagepost/app/archive/source/sourcetest"
	"github.com/stagepost/stagepost/format/mbz"
)

// fixture is a Moodle, and a job that makes a backup of its course.
type fixture struct {
	t      testing.TB
	site   *replay.Server
	source *moodle.Source // of the running process
	o      moodle.Options

	mu     sync.Mutex
	now    time.Time
	faults func(n int) string // by the number of a request: before, after, or nothing
	n      int

	activity string
	saved    []byte // the request, as the job saved it
	scratch  *os.Root
	out      *sourcetest.Out
	got      *source.Backup
}

func newFixture(t testing.TB) *fixture {
	t.Helper()
	site, err := replay.New()
	if err != nil {
		t.Fatal(err)
	}
	f := &fixture{t: t, site: site, now: time.Date(2026, 11, 23, 10, 0, 5, 0, time.UTC), out: &sourcetest.Out{}}
	site.Now = f.clock
	server := httptest.NewServer(http.HandlerFunc(f.serve))
	t.Cleanup(server.Close)
	f.o.URL = server.URL
	if f.scratch, err = os.OpenRoot(t.TempDir()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.scratch.Close() })
	f.o = moodle.Options{
		URL: f.o.URL, Token: replay.Token, Now: f.clock,
		Login: moodle.Login{User: replay.User, Password: replay.Password},
	}
	f.restart()
	return f
}

func (f *fixture) clock() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.now
}

func (f *fixture) pass(d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.now = f.now.Add(d)
}

// serve breaks requests: before they arrive, or after they were handled.
func (f *fixture) serve(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	f.n++
	fault := ""
	if f.faults != nil {
		fault = f.faults(f.n)
	}
	f.mu.Unlock()
	switch fault {
	case "before":
		panic(http.ErrAbortHandler)
	case "after":
		f.site.ServeHTTP(httptest.NewRecorder(), r)
		panic(http.ErrAbortHandler)
	}
	f.site.ServeHTTP(w, r)
}

// restart is a crash: only what was saved remains.
func (f *fixture) restart() {
	f.t.Helper()
	var err error
	if f.source, err = moodle.New(f.o); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) request() *source.BackupRequest {
	f.t.Helper()
	r := &source.BackupRequest{}
	if err := json.Unmarshal(f.saved, r); err != nil {
		f.t.Fatal(err)
	}
	return r
}

func (f *fixture) save(r *source.BackupRequest) error {
	text, err := json.Marshal(r)
	f.saved = text
	return err
}

// step does what a job does next.
func (f *fixture) step() error {
	f.t.Helper()
	ctx := f.t.Context()
	if f.saved == nil {
		r, err := f.source.PrepareBackup(ctx, replay.Course, f.activity)
		if err != nil {
			return err
		}
		return f.save(r)
	}
	r := f.request()
	state, err := f.source.BackupState(ctx, r)
	switch {
	case err != nil:
		return err
	case state == source.BackupNew:
		return f.source.StartBackup(ctx, r, func() error { return f.save(r) })
	case state == source.BackupDone:
		f.got, err = f.source.FetchBackup(ctx, r, f.scratch, f.out)
		return errors.Join(err, f.save(r))
	}
	return f.site.Cron()
}

// run does steps until the backup is there, with a crash after each error. It gives the first error that stays.
func (f *fixture) run() error {
	f.t.Helper()
	for range 100 {
		if f.got != nil {
			return nil
		}
		f.pass(20 * time.Second)
		if err := f.step(); err != nil {
			var e *source.Error
			if !errors.As(err, &e) || !e.Temporary() || errors.Is(err, source.ErrBackupGone) {
				return err
			}
			f.restart()
		}
	}
	return errors.New("the backup was not done after 100 steps")
}

// check: there is one backup, and its file has its id.
func (f *fixture) check(when string) {
	f.t.Helper()
	id := f.request().ID
	if started := f.site.Started(); !slices.Equal(started, []string{id}) {
		f.t.Errorf("%s: backups %q were started, want %q", when, started, id)
	}
	names := f.out.Names()
	if len(names) != 1 || f.got == nil || f.got.ID != id {
		f.t.Errorf("%s: got %q, %+v", when, names, f.got)
		return
	}
	body := f.out.Body(names[0])
	b, err := mbz.Check(strings.NewReader(body), int64(len(body)))
	if err != nil || b.ID != id {
		f.t.Errorf("%s: got %+v, %v", when, b, err)
	}
	dir, err := f.scratch.Open(".")
	if err != nil {
		f.t.Fatal(err)
	}
	defer dir.Close()
	if rest, err := dir.Readdirnames(-1); err != nil || len(rest) != 0 {
		f.t.Errorf("%s: scratch has %q, %v", when, rest, err)
	}
}

func TestBackup(t *testing.T) {
	for _, async := range []bool{false, true} {
		for _, activity := range []string{"", replay.Quiz} {
			t.Run(fmt.Sprintf("async=%t,activity=%s", async, activity), func(t *testing.T) {
				f := newFixture(t)
				f.site.Backups.Async, f.activity = async, activity
				if err := f.run(); err != nil {
					t.Fatal(err)
				}
				f.check("done")
				r := f.request()
				want := map[string]string{"users": "1", "activities": "1", "files": "1", "logs": "1",
					"grade_histories": "1", "anonymize": "0", "imscc11": "0"}
				if got := f.site.Settings(r.ID); fmt.Sprint(got) != fmt.Sprint(want) {
					t.Errorf("got settings %v", got)
				}
				if len(r.Warnings) != 0 || !f.got.Users {
					t.Errorf("got %q, %+v", r.Warnings, f.got)
				}
				o := f.out.Origin(f.out.Names()[0])
				if o.Type != "application/vnd.moodle.backup" || len(o.SHA1) != 40 || o.Modified.IsZero() ||
					!strings.Contains(o.URL, "/webservice/pluginfile.php/") {
					t.Errorf("got %+v", o)
				}
			})
		}
	}
}

// TestBackupCrashes breaks each request, before it arrives and after it was handled, with a crash after each. There is
// never a second backup, and always the file of the first one. Another account makes a backup in the same minutes.
func TestBackupCrashes(t *testing.T) {
	for _, async := range []bool{false, true} {
		for _, kind := range []string{"before", "after"} {
			t.Run(fmt.Sprintf("async=%t,%s", async, kind), func(t *testing.T) {
				for at := 1; ; at++ {
					f := newFixture(t)
					f.site.Backups.Async = async
					f.faults = func(n int) string {
						if n == at {
							return kind
						}
						return ""
					}
					if _, err := f.site.Backup(); err != nil {
						t.Fatal(err)
					}
					f.pass(time.Minute)
					if err := f.run(); err != nil {
						t.Fatalf("request %d: %v", at, err)
					}
					f.check(fmt.Sprintf("request %d", at))
					if f.n < at {
						return
					}
				}
			})
		}
	}
}

// TestBackupSave: nothing is started if the request cannot be saved.
func TestBackupSave(t *testing.T) {
	f := newFixture(t)
	if err := f.step(); err != nil {
		t.Fatal(err)
	}
	full := errors.New("disk full")
	if err := f.source.StartBackup(t.Context(), f.request(), func() error { return full }); !errors.Is(err, full) {
		t.Errorf("got %v", err)
	}
	if got := f.site.Started(); len(got) != 0 {
		t.Errorf("%q were started", got)
	}
	if err := f.run(); err != nil {
		t.Fatal(err)
	}
	f.check("after it could be saved")
}

// TestBackupGrace: a start that was sent and did not arrive is sent again, but not at once: it may be on its way.
func TestBackupGrace(t *testing.T) {
	f := newFixture(t)
	if err := f.step(); err != nil {
		t.Fatal(err)
	}
	r := f.request()
	f.site.Intercept(func(_ http.ResponseWriter, r *http.Request, _ string) bool {
		if r.PostForm.Get("oneclickbackup") != "" {
			panic(http.ErrAbortHandler)
		}
		return false
	})
	var e *source.Error
	err := f.source.StartBackup(t.Context(), r, func() error { return f.save(r) })
	if !errors.As(err, &e) || !e.Temporary() {
		t.Fatalf("got %v", err)
	}
	f.site.Intercept(nil)
	f.restart()
	state := func() source.BackupState {
		got, err := f.source.BackupState(t.Context(), f.request())
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	r = f.request()
	if got := state(); got != source.BackupRunning {
		t.Errorf("at once: got %s", got)
	}
	if err := f.source.StartBackup(t.Context(), r, func() error { return nil }); err != nil {
		t.Error(err)
	}
	if got := f.site.Started(); len(got) != 0 {
		t.Errorf("started again at once: %q", got)
	}
	f.pass(3 * time.Minute)
	if got := state(); got != source.BackupNew {
		t.Errorf("later: got %s", got)
	}
	if err := f.run(); err != nil {
		t.Fatal(err)
	}
	f.check("later")
}

// TestBackupSameMinute: another backup with the same name replaces ours. Its file is never taken, and a new request
// helps.
func TestBackupSameMinute(t *testing.T) {
	f := newFixture(t)
	for range 2 { // prepared and started
		if err := f.step(); err != nil {
			t.Fatal(err)
		}
	}
	other, err := f.site.Backup()
	if err != nil {
		t.Fatal(err)
	}
	err = f.run()
	var e *source.Error
	if !errors.Is(err, source.ErrBackupGone) || !errors.As(err, &e) || !e.Temporary() || len(f.out.Names()) != 0 {
		t.Fatalf("got %v, %q (other is %s)", err, f.out.Names(), other)
	}
	for _, minute := range []string{"1024", "1025"} { // older than the request
		old := "44/backup/course/backup-moodle2-course-5-alg0181-20261120-" + minute + ".mbz"
		if n := f.site.Calls(old); n != 0 {
			t.Errorf("%d requests for %s", n, old)
		}
	}
	f.saved = nil
	if err := f.run(); err != nil {
		t.Fatal(err)
	}
	if started := f.site.Started(); len(started) != 2 || f.got.ID != started[1] || started[1] == other {
		t.Errorf("got %+v of %q", f.got, started)
	}
}

// TestBackupDownload breaks the download in the middle and starts again in a new process: it continues.
func TestBackupDownload(t *testing.T) {
	f := newFixture(t)
	cuts, from, inner := 0, []string{}, false
	f.site.Intercept(func(w http.ResponseWriter, r *http.Request, what string) bool {
		if inner || !strings.HasSuffix(what, ".mbz") {
			return false
		}
		from = append(from, r.Header.Get("Range"))
		if cuts++; cuts > 12 {
			return false
		}
		rec := httptest.NewRecorder()
		inner = true
		f.site.ServeHTTP(rec, r)
		inner = false
		for k, v := range rec.Header() {
			w.Header()[k] = v
		}
		w.WriteHeader(rec.Code)
		_, _ = w.Write(rec.Body.Bytes()[:min(900, rec.Body.Len())])
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	})
	if err := f.run(); err != nil {
		t.Fatal(err)
	}
	f.check("after cuts")
	if last := from[len(from)-1]; last == "" || last == "bytes=900-" {
		t.Errorf("requests began with %q", from)
	}
}

// TestBackupScratch: a download continues with right bytes only.
func TestBackupScratch(t *testing.T) {
	for name, body := range map[string][]byte{"shorter": []byte("wrong"), "longer": bytes.Repeat([]byte("x"), 1<<20)} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			for range 2 {
				if err := f.step(); err != nil {
					t.Fatal(err)
				}
			}
			f.site.Intercept(func(_ http.ResponseWriter, r *http.Request, what string) bool {
				if strings.HasSuffix(what, ".mbz") && r.Header.Get("Range") == "" {
					rec := httptest.NewRecorder()
					f.site.Intercept(nil)
					f.site.ServeHTTP(rec, r)
					name := "backup-" + strings.Trim(rec.Header().Get("ETag"), `"`) + ".part"
					if err := f.scratch.WriteFile(name, body, 0o600); err != nil {
						t.Error(err)
					}
				}
				return false
			})
			if err := f.run(); err != nil {
				t.Fatal(err)
			}
			f.check(name)
		})
	}
}
