package archiveserve_test

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stagepost/stagepost/app/archive"
	"github.com/stagepost/stagepost/app/archive/catalog"
	archivemodule "github.com/stagepost/stagepost/app/archive/module"
	archiveserve "github.com/stagepost/stagepost/app/archive/serve"
	"github.com/stagepost/stagepost/app/archive/settings"
	"github.com/stagepost/stagepost/format/rfc3161/authority"
	"github.com/stagepost/stagepost/host"
	hostcli "github.com/stagepost/stagepost/host/cli"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/module"
)

const guard = 2 * time.Minute

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// stamper is a time-stamp authority over HTTP.
type stamper struct {
	name, url, root string // root is the file of its certificate
	requests        chan struct{}

	mu   sync.Mutex // guards hold
	hold bool       // requests are not answered
}

func newStamper(t *testing.T, name string, options ...authority.Option) *stamper {
	t.Helper()
	a, err := authority.New(name, time.Now(), options...)
	must(t, err)
	s := &stamper{name: name, root: filepath.Join(t.TempDir(), "root.pem"), requests: make(chan struct{}, 100)}
	must(t, os.WriteFile(s.root, a.RootPEM(), 0o600))
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.requests <- struct{}{}
		s.mu.Lock()
		hold := s.hold
		s.mu.Unlock()
		if hold {
			_, _ = io.Copy(io.Discard, r.Body) // until then, the end of the connection is not noticed
			<-r.Context().Done()
			return
		}
		a.ServeHTTP(w, r)
	}))
	t.Cleanup(h.Close)
	s.url = h.URL
	return s
}

func (s *stamper) setHold(on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hold = on
}

// fixture is a data directory, a source and two storage locations.
type fixture struct {
	t                      *testing.T
	data, exams, near, far string
	server                 *host.Server
	app                    *archiveserve.App
	workers                int    // archive.pdf.workers
	remote                 bool   // archive.pdf.remote
	quiz                   string // archive.quizworker.listen
	log                    lines  // of the server
}

// lines is a log that tests read.
type lines struct {
	mu   sync.Mutex // guards text
	text strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// count returns how many lines have a text.
func (l *lines) count(text string) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(l.text.String()) {
		if strings.Contains(line, text) {
			n++
		}
	}
	return n
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	at := t.TempDir()
	f := &fixture{t: t}
	for name, to := range map[string]*string{"data": &f.data, "exams": &f.exams, "near": &f.near, "far": &f.far} {
		*to = filepath.Join(at, name)
		must(t, os.MkdirAll(*to, 0o750))
	}
	for name, text := range map[string]string{"algebra/task.txt": "1 + 1", "algebra/ann/answer.txt": "2",
		"logic/task.txt": "p or not p"} {
		file := filepath.Join(f.exams, name)
		must(t, os.MkdirAll(filepath.Dir(file), 0o750))
		must(t, os.WriteFile(file, []byte(text), 0o640))
	}
	return f
}

// configure writes archive.yaml with time-stamp authorities.
func (f *fixture) configure(more string, stampers ...*stamper) {
	f.t.Helper()
	text := fmt.Sprintf("sources:\n  exams: {directory: {path: %s}}\nlocations:\n  near: {directory: {path: %s}}\n"+
		"  far: {directory: {path: %s}}\n%s", f.exams, f.near, f.far, more)
	if len(stampers) > 0 {
		text += "authorities:\n"
	}
	for _, s := range stampers {
		text += fmt.Sprintf("  - {name: %s, url: %q, roots: [%s]}\n", s.name, s.url, s.root)
	}
	must(f.t, os.WriteFile(filepath.Join(f.data, archiveserve.ConfigName), []byte(text), 0o600))
}

// start starts a server.
func (f *fixture) start() error {
	f.t.Helper()
	m := archivemodule.New()
	s := host.NewSettings(m)
	settings := m.Settings.(*archiveserve.Settings)
	settings.PDFWorkers, settings.PDFRemote, settings.QuizListen = f.workers, f.remote, f.quiz
	s.Data, s.Listen, s.Grace, s.AnchorEvery = f.data, "127.0.0.1:0", time.Millisecond, 0
	r, err := host.Start(f.t.Context(), s, slog.New(slog.NewTextHandler(io.MultiWriter(f.t.Output(), &f.log), nil)))
	if err != nil {
		return err
	}
	f.server = r
	f.app, _ = r.App("archive").(*archiveserve.App)
	f.t.Cleanup(f.stop)
	return nil
}

func (f *fixture) stop() {
	if f.server != nil {
		if err := f.server.Stop(); err != nil {
			f.t.Error(err)
		}
		f.server = nil
	}
}

func (f *fixture) restart() {
	f.t.Helper()
	f.stop()
	must(f.t, f.start())
}

func (f *fixture) submit(r archive.Request) job.ID {
	f.t.Helper()
	r.Source = "exams"
	j, err := f.app.Submit(f.t.Context(), r, archive.Ordered{Owner: "ann"})
	must(f.t, err)
	return j.ID
}

// completed waits until a job ended, which must be Completed.
func (f *fixture) completed(id job.ID) {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), guard)
	defer cancel()
	j, err := f.server.Engine.Await(ctx, id, func(j *job.Job) bool { return j.Ended })
	if err != nil || j.State != archive.Completed {
		f.t.Fatalf("%s: %s, %v", j.State, j.Message, err)
	}
}

// signing waits until a job waits for its time stamp. The history of the server is stamped as well: a request for a
// time stamp is not necessarily of the job.
func (f *fixture) signing(id job.ID) {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), guard)
	defer cancel()
	stamping := func(j *job.Job) bool { return j.State == archive.Signing }
	if j, err := f.server.Engine.Await(ctx, id, stamping); err != nil {
		f.t.Fatalf("%s: %s, %v", j.State, j.Message, err)
	}
}

// until waits for a condition.
func (f *fixture) until(what string, done func() bool) {
	f.t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(guard); !done(); <-tick.C {
		if time.Now().After(end) {
			f.t.Fatalf("%s: it does not come about", what)
		}
	}
}

// artifacts gives the keys of the artifacts of an archive by the endings of their paths.
func (f *fixture) artifacts(id job.ID) []catalog.Artifact {
	f.t.Helper()
	all, err := f.app.Catalog.Artifacts(f.t.Context(), string(id), "", 100)
	must(f.t, err)
	return all
}

func run(t *testing.T, dir, name string, args ...string) {
	t.Helper()
	c := exec.Command(name, args...)
	c.Dir = dir
	if out, err := c.CombinedOutput(); err != nil {
		t.Errorf("%s %v: %v\n%s", name, args, err, out)
	}
}

// verified verifies an archive in a location with sha256sum and openssl alone.
func (f *fixture) verified(id job.ID, location string, s *stamper) {
	f.t.Helper()
	sums, stamps := 0, 0
	for _, a := range f.artifacts(id) {
		dir, base := filepath.Split(filepath.Join(location, a.Key))
		switch {
		case strings.HasSuffix(base, ".sha256"):
			run(f.t, dir, "sha256sum", "--strict", "-c", base)
			sums++
		case strings.HasSuffix(base, ".tsr") && !strings.HasSuffix(base, ".2.tsr"):
			run(f.t, dir, "openssl", "ts", "-verify", "-data", strings.TrimSuffix(base, ".tsr"), "-in", base, "-CAfile",
				s.root)
			stamps++
		}
	}
	if sums != 1 || stamps != 1 {
		f.t.Errorf("%s has %d lists of digests and %d time stamps", location, sums, stamps)
	}
}

// TestRestartWhileSigning: a job that was interrupted while it waited for its time stamp completes after a restart.
// Both locations have it whole, as sha256sum and openssl see it, and no working directory is left.
func TestRestartWhileSigning(t *testing.T) {
	f, tsa := newFixture(t), newStamper(t, "tsa")
	f.configure("organization: Example University\n", tsa)
	tsa.setHold(true)
	must(t, f.start())
	id := f.submit(archive.Request{Course: "algebra"})
	f.signing(id)
	f.stop()
	tsa.setHold(false)
	must(t, f.start())
	f.completed(id)
	for _, location := range []string{f.near, f.far} {
		f.verified(id, location, tsa)
	}
	work := filepath.Join(f.data, archiveserve.DirName, archive.WorkName)
	f.until("an empty directory of working directories", func() bool {
		left, err := os.ReadDir(work)
		return err == nil && len(left) == 0
	})
	if found, err := f.app.Check(t.Context()); err != nil || len(found.Faults) > 0 || found.Objects != 1 ||
		found.Versions < 8 {
		t.Errorf("got %+v, %v", found, err)
	}
	if status, text := get(t, f.server.URL+"/api/v1/archive/archives/"+string(id)); status != http.StatusOK ||
		!strings.Contains(text, "near") {
		t.Errorf("got %d, %s", status, text)
	}
	removed := filepath.Join(f.far, f.artifacts(id)[0].Key)
	must(t, os.Remove(removed))
	f.stop()
	s := &archiveserve.Settings{}
	found, err := s.CheckDir(t.Context(), module.Directory{Dir: f.data})
	if err != nil || len(found.Faults) != 1 || !strings.Contains(found.Faults[0], "the copy in far is missing") {
		t.Errorf("control: got %+v, %v", found, err)
	}
}

// TestReload: a configuration that is read again applies without a restart, also to a job that runs; one with a mistake
// changes nothing.
func TestReload(t *testing.T) {
	f, slow, quick := newFixture(t), newStamper(t, "slow"), newStamper(t, "quick")
	slow.setHold(true)
	f.configure("", slow)
	must(t, f.start())
	id := f.submit(archive.Request{Course: "algebra"})
	<-slow.requests
	if _, err := f.app.Submit(t.Context(), archive.Request{Source: "exams", Course: "logic", Preset: "quick"},
		archive.Ordered{}); job.KindOf(err) != job.Invalid {
		t.Errorf("a preset that does not exist: %v", err)
	}
	file := filepath.Join(f.data, archiveserve.ConfigName)
	good, err := os.ReadFile(file)
	must(t, err)
	must(t, os.WriteFile(file, append(good, "surces: {}\n"...), 0o600))
	if err := f.app.Reload(); err == nil || !strings.Contains(err.Error(), "archive.yaml:8:1: surces: there is no such "+
		"key; is it sources?") {
		t.Errorf("a mistake: got %v", err)
	}
	must(t, os.Remove(file))
	if err := f.app.Reload(); err == nil || !strings.Contains(err.Error(), "archive.config") {
		t.Errorf("a missing file: got %v", err)
	}
	f.configure("presets: {quick: {settings: {sign: false, locations: [near]}, locked: [locations]}}\n", quick, slow)
	must(t, f.app.Reload())
	second := f.submit(archive.Request{Course: "logic", Preset: "quick"})
	f.completed(second)
	slow.setHold(false)
	f.restart() // the attempt that waits for the slow authority
	f.completed(id)
	if tokens, err := f.app.Catalog.Tokens(t.Context(), string(id)); err != nil || len(tokens) != 1 ||
		tokens[0].Authority != "quick" {
		t.Errorf("got %v, %v", tokens, err)
	}
	for _, a := range f.artifacts(second) {
		if _, err := os.Stat(filepath.Join(f.far, a.Key)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is in far: %v", a.Key, err)
		}
	}
	yes := true
	for want, settings := range map[string]archive.Settings{
		"setting locations":               {Locations: []string{"far"}},
		"preset locks locations":          {Locations: []string{"near", "far"}},
		`no time-stamp authority "other"`: {Sign: &yes, Authorities: []string{"other"}},
		"quorum":                          {Quorum: "3"},
	} {
		_, err := f.app.Submit(t.Context(), archive.Request{Source: "exams", Course: "logic", Preset: "quick",
			Settings: settings}, archive.Ordered{})
		if err == nil {
			t.Errorf("%s: accepted", want)
		}
	}
}

// TestMissing: without its file the application is left out; a file that a setting names must exist.
func TestMissing(t *testing.T) {
	f := newFixture(t)
	must(t, f.start())
	if f.app != nil || f.server.App("archive") != nil {
		t.Error("there is an application without a configuration")
	}
	if status, text := get(t, f.server.URL+"/api/v1/archive/archives/arc_1"); status != http.StatusNotFound ||
		!strings.Contains(text, "archive.config") {
		t.Errorf("the setting is not named: got %d, %s", status, text)
	}
	f.stop()
	archiver := archivemodule.New()
	archiver.Settings.(*archiveserve.Settings).Config = filepath.Join(f.data, "other.yaml")
	s := host.NewSettings(archiver)
	s.Data, s.Listen = f.data, "127.0.0.1:0"
	if _, err := host.Start(t.Context(), s, slog.New(slog.DiscardHandler)); err == nil ||
		!strings.Contains(err.Error(), "archive.config") {
		t.Errorf("got %v", err)
	}
	f.configure("")
	if err := f.start(); err == nil || !strings.Contains(err.Error(), "presets.default.settings.sign") {
		t.Errorf("a file with a mistake: got %v", err)
	}
}

// TestBackgroundWork: time stamps are renewed before their certificates expire, also after an interruption; archives
// are deleted when their retention time has ended; what crashed jobs left is removed; a location that is away is
// reported, and the server starts.
func TestBackgroundWork(t *testing.T) {
	f := newFixture(t)
	old := newStamper(t, "old", func(c *x509.Certificate) { c.NotAfter = time.Now().AddDate(0, 0, 30) })
	fresh := newStamper(t, "fresh")
	presets := "presets: {short: {settings: {keep: 1ms, sign: false}}}\n"
	f.configure(presets, old)
	must(t, f.start())
	kept := f.submit(archive.Request{Course: "algebra"})
	short := f.submit(archive.Request{Course: "logic", Preset: "short"})
	f.completed(kept)
	f.completed(short)
	if s := series(t, f.server.URL); s[`stagepost_archive_timestamps_expiring`] != "1" ||
		s[`stagepost_archive_location_up{location="near"}`] != "1" ||
		s[`stagepost_archive_copies{location="far"}`] == "" {
		t.Errorf("got %v", s)
	}
	f.stop()
	left := filepath.Join(f.data, archiveserve.DirName, archive.WorkName, "arc_left")
	must(t, os.MkdirAll(filepath.Join(left, "content"), 0o750))
	must(t, os.MkdirAll(filepath.Join(f.data, archiveserve.DirName, "renewals", string(kept)), 0o750)) // interrupted
	f.configure(presets+"retired_roots: ["+old.root+"]\n", fresh)
	must(t, f.start())
	f.until("the renewal in both locations", func() bool {
		return f.generation(kept, f.near) == 2 &&
			f.generation(kept, f.far) == 2
	})
	f.until("no directory of renewals", func() bool {
		left, err := os.ReadDir(filepath.Join(f.data, archiveserve.DirName, "renewals"))
		return err == nil && len(left) == 0
	})
	f.verified(kept, f.far, old)
	f.until("the deletion", func() bool {
		_, err := f.app.Catalog.Tombstone(t.Context(), string(short))
		return err == nil
	})
	f.until("no working directory", func() bool {
		_, err := os.Stat(left)
		return errors.Is(err, fs.ErrNotExist)
	})
	if a, err := f.app.Catalog.Archive(t.Context(), string(kept)); err != nil || a.Outcome != catalog.Complete {
		t.Errorf("control: the archive that is kept: %v, %v", a.Outcome, err)
	}
	f.stop()
	must(t, os.Rename(f.far, f.far+"-away"))
	must(t, f.start())
	f.until("a warning", func() bool {
		return slices.ContainsFunc(f.app.Warn(), func(w string) bool {
			return strings.HasPrefix(w, "archive location far cannot be used: ")
		})
	})
	f.stop()
	must(t, os.Rename(f.far+"-away", f.far))
	must(t, f.start())
	f.until("no warning", func() bool { return len(f.app.Warn()) == 0 })
}

// TestHealthAsksNow: a location that vanishes while the server runs is named by the next query of the health, and not
// after it is back. The control is the query before.
func TestHealthAsksNow(t *testing.T) {
	f := newFixture(t)
	f.configure("presets: {default: {settings: {sign: false}}}\n")
	must(t, f.start())
	f.until("control: no warning", func() bool { return len(f.app.Warn()) == 0 })
	must(t, os.Rename(f.far, f.far+"-away"))
	f.until("a warning", func() bool {
		return slices.ContainsFunc(f.app.Warn(), func(w string) bool {
			return strings.HasPrefix(w, "archive location far cannot be used: ")
		})
	})
	must(t, os.Rename(f.far+"-away", f.far))
	f.until("no warning", func() bool { return len(f.app.Warn()) == 0 })
}

// generation gives the number of time stamps of an archive that a location has.
func (f *fixture) generation(id job.ID, location string) (n int) {
	for _, a := range f.artifacts(id) {
		if strings.HasSuffix(a.Path, ".tsr") {
			if _, err := os.Stat(filepath.Join(location, a.Key)); err == nil {
				n++
			}
		}
	}
	return n
}

// get gives the answer of a server.
func get(t *testing.T, url string) (status int, text string) {
	t.Helper()
	answer, err := http.Get(url)
	must(t, err)
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	must(t, err)
	return answer.StatusCode, string(body)
}

// series gives the metrics of archives.
func series(t *testing.T, url string) map[string]string {
	t.Helper()
	_, text := get(t, url+"/metrics")
	all := map[string]string{}
	for line := range strings.Lines(text) {
		if i := strings.LastIndexByte(line, ' '); strings.HasPrefix(line, "stagepost_archive_") {
			all[line[:i]] = strings.TrimSpace(line[i:])
		}
	}
	return all
}

// TestBackupAndRestore: a backup that is made while a job waits for its time stamp has the catalog, the configuration
// and the working files. The job completes in the restored directory, and its version of the object is there.
func TestBackupAndRestore(t *testing.T) {
	f, tsa := newFixture(t), newStamper(t, "tsa")
	more := "objects: {main: {path: ocfl}}\npresets: {default: {settings: {package: bag+ocfl}}}\n"
	must(t, os.Mkdir(filepath.Join(f.data, "ocfl"), 0o750))
	f.configure(more, tsa)
	tsa.setHold(true)
	must(t, f.start())
	id := f.submit(archive.Request{Course: "algebra"})
	f.signing(id)
	call(t, "admin", "backup", "--data", f.data, "one")
	f.stop()
	set := filepath.Join(f.data, "backups", "one")
	f.data += "-restored"
	call(t, "admin", "restore", set, "--data", f.data)
	work := filepath.Join(f.data, archiveserve.DirName, archive.WorkName, string(id))
	if _, err := os.Stat(filepath.Join(work, "package")); err != nil {
		t.Errorf("control: the working files: %v", err)
	}
	tsa.setHold(false)
	must(t, f.start())
	f.completed(id)
	f.verified(id, f.near, tsa)
	versions, err := filepath.Glob(filepath.Join(f.data, "ocfl", "*", "*", "*", "*", "v1"))
	if err != nil || len(versions) != 1 {
		t.Errorf("versions of objects: %v, %v", versions, err)
	}
	f.stop()
	call(t, "admin", "fsck", "--data", f.data)
}

// TestStaleDownloads: an unfinished download of a failed job is removed while another job is active, and one that may
// be continued is kept.
func TestStaleDownloads(t *testing.T) {
	f, tsa := newFixture(t), newStamper(t, "tsa")
	f.configure("", tsa)
	tsa.setHold(true)
	must(t, f.start())
	id := f.submit(archive.Request{Course: "algebra"})
	f.signing(id)
	f.stop()
	base := filepath.Join(f.data, archiveserve.DirName, "downloads", "web")
	must(t, os.MkdirAll(base, 0o750))
	old, fresh := filepath.Join(base, "old"), filepath.Join(base, "fresh")
	long := time.Now().AddDate(0, 0, -4)
	for _, name := range []string{old, fresh} {
		must(t, os.WriteFile(name, []byte("part"), 0o600))
	}
	must(t, os.Chtimes(old, long, long))
	must(t, f.start())
	f.until("no old download", func() bool {
		_, err := os.Stat(old)
		return errors.Is(err, fs.ErrNotExist)
	})
	if _, err := os.Stat(fresh); err != nil {
		t.Errorf("control: %v", err)
	}
	tsa.setHold(false)
	f.restart()
	f.completed(id)
	f.until("no download", func() bool { // no job is active
		_, err := os.Stat(fresh)
		return errors.Is(err, fs.ErrNotExist)
	})
}

// TestBackupOfLocation: a storage location in the data directory is part of a backup, and its copies are good after a
// restore; without the part storage it is left out, and the copies are missing.
func TestBackupOfLocation(t *testing.T) {
	f, tsa := newFixture(t), newStamper(t, "tsa")
	must(t, os.Mkdir(filepath.Join(f.data, "inside"), 0o750))
	f.configure("  inside: {directory: {path: inside}}\n", tsa)
	must(t, f.start())
	f.completed(f.submit(archive.Request{Course: "algebra"}))
	call(t, "admin", "backup", "--data", f.data, "whole")
	call(t, "admin", "backup", "--data", f.data, "--without", "storage", "part")
	f.stop()
	from := f.data
	for set, whole := range map[string]bool{"whole": true, "part": false} {
		f.data = from + "-" + set
		call(t, "admin", "restore", filepath.Join(from, "backups", set), "--data", f.data)
		must(t, os.MkdirAll(filepath.Join(f.data, "inside"), 0o750))
		s := &archiveserve.Settings{}
		found, err := s.CheckDir(t.Context(), module.Directory{Dir: f.data})
		if err != nil || (len(found.Faults) == 0) != whole {
			t.Errorf("%s: got %+v, %v", set, found, err)
		}
	}
}

// TestReloadObjects: a new organization and a new OCFL storage root apply without a restart.
func TestReloadObjects(t *testing.T) {
	f, tsa := newFixture(t), newStamper(t, "tsa")
	f.configure("organization: Old\n", tsa)
	must(t, f.start())
	ask := archive.Request{Course: "algebra", Settings: archive.Settings{Package: settings.PackageOCFL}}
	ask.Source = "exams"
	if _, err := f.app.Submit(t.Context(), ask, archive.Ordered{}); job.KindOf(err) != job.Invalid {
		t.Errorf("control: without a storage root: %v", err)
	}
	must(t, os.Mkdir(filepath.Join(f.data, "ocfl"), 0o750))
	f.configure("organization: New University\nobjects: {main: {path: ocfl}}\n", tsa)
	must(t, f.app.Reload())
	f.completed(f.submit(ask))
	versions, err := filepath.Glob(filepath.Join(f.data, "ocfl", "*", "*", "*", "*", "v1", "content"))
	if err != nil || len(versions) != 1 {
		t.Fatalf("versions of objects: %v, %v", versions, err)
	}
	named := false
	must(t, filepath.WalkDir(versions[0], func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(name)
		named = named || strings.Contains(string(text), "New University")
		return err
	}))
	if !named {
		t.Error("the version does not name the new organization")
	}
}

// call runs a command of the program.
func call(t *testing.T, args ...string) {
	t.Helper()
	var out bytes.Buffer
	s := host.NewSettings(archivemodule.New())
	if code := hostcli.New(strings.NewReader(""), &out, &out, s).Run(args); code != 0 {
		t.Fatalf("%v: exit code %d: %s", args, code, out.String())
	}
}
