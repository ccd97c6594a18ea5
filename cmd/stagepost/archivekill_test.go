package main

import (
	"archive/tar"
	"cmp"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	cmpdiff "github.com/google/go-cmp/cmp"
	"github.com/johannesboyne/gofakes3"

	"github.com/stagepost/stagepost/app/archive/source/moodle/replay"
	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

var archiveKills = flag.Int("archive-kills", 6,
	"points of each archive job at which TestArchiveKill kills the server; 0: at every point")

// series is a series of equal archive jobs, in each of which the server is killed at another point.
type series struct {
	*campus
	order   client.ArchiveOrder
	server  *victim
	api     *client.Client
	rounds  int
	stored  []string                // what each storage location has: NAME DIGEST
	tasks   []string                // names of the tasks of the first job
	payload string                  // of the manifest of the first job
	states  map[lifecycle.State]int // in which the server was killed
	wrong   []string
}

func (s *series) complain(format string, args ...any) {
	s.wrong = append(s.wrong, fmt.Sprintf(format, args...))
}

// TestArchiveKill kills the server at points of archive jobs that are enumerated: before and after each commit and each
// request to a source, a storage location and an authority. After each kill the server starts again, and the job
// completes: each location has each file once and nothing else, every attempt stores and stamps the same bytes, there
// is one token, the Moodle started one backup, and no temporary file and no upload remains.
func TestArchiveKill(t *testing.T) {
	yes := true
	for name, r := range map[string]client.ArchiveRequest{
		"Moodle": {Source: "campus", Course: replay.Course, Activities: []string{replay.Quiz, replay.Assign},
			Settings: client.ArchiveSettings{CourseBackup: &yes}},
		"large": {Source: "exams", Course: "algebra"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSeries(t, r)
			points := s.round(0) // the control: nothing is killed
			for _, at := range chosen(points, *archiveKills) {
				over := s.round(at) != nil && at > len(points) // no job passes so many
				for _, wrong := range s.wrong {
					t.Error(wrong)
				}
				s.wrong = nil
				if over {
					break
				}
			}
			s.end()
			t.Logf("%d points, %d jobs, killed in %v", len(points), s.rounds, s.states)
		})
	}
}

// TestArchiveKillSees is the control: what must not be after a kill is noticed.
func TestArchiveKillSees(t *testing.T) {
	t.Parallel()
	s := newSeries(t, client.ArchiveRequest{Source: "exams", Course: "algebra"})
	s.round(0)
	if len(s.wrong) > 0 {
		t.Error(s.wrong)
	}
	var id string
	for _, one := range s.stored {
		id, _, _ = strings.Cut(one, "/")
	}
	for _, name := range []string{"near/" + id + "/.part-0", "far/other", "data/archive/work/" + id + "/part"} {
		file := filepath.Join(s.at, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, nil, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"/other?uploads", "/" + id + "/course.tar.gz.sha256"} {
		target := "/" + bucket + name
		method := http.MethodPut
		if strings.HasSuffix(target, "uploads") {
			method = http.MethodPost
		}
		w, r := httptest.NewRecorder(), httptest.NewRequest(method, target, strings.NewReader("other"))
		r.Header.Set("Content-Length", "5")
		s.upload(w, r)
		if w.Code != http.StatusOK {
			t.Fatal(w.Code, w.Body)
		}
	}
	s.imprints, s.stored = append(s.imprints, "other"), nil
	s.tasks, s.payload = append(s.tasks, "another task"), "other"
	s.check(t.Context(), 1)
	all := strings.Join(s.wrong, "\n")
	for _, what := range []string{"/.part-0", "far (-want", "bucket (-want", "/part ", "unfinished uploads",
		"asked to stamp", "another task", "another content", "started 1 backups", "with 2 contents"} {
		if !strings.Contains(all, what) {
			t.Errorf("not noticed: %q:\n%s", what, all)
		}
	}
}

// newSeries starts the server.
func newSeries(t *testing.T, r client.ArchiveRequest) *series {
	r.Settings.FileName = "course"
	s := &series{
		campus: newCampus(t), order: client.ArchiveOrder{ArchiveRequest: r, Owner: "ann"},
		states: map[lifecycle.State]int{},
	}
	s.restart()
	return s
}

// chosen gives the points at which the server is killed: some of them; or all of them, and those of a job that passes
// more points than the first one.
func chosen(points []string, some int) (all []int) {
	if some == 0 {
		for at := range 2 * len(points) {
			all = append(all, at+1)
		}
		return all
	}
	for i := range some {
		all = append(all, 1+(2*i+1)*len(points)/(2*some))
	}
	return all
}

// restart starts the server.
func (s *series) restart() {
	s.t.Helper()
	s.server = s.start()
	var err error
	if s.api, err = client.New(s.server.url, client.Options{}); err != nil {
		s.t.Fatal(err)
	}
}

// round archives once, and kills the server at a point. It gives the points that were passed if there was no kill.
func (s *series) round(at int) []string {
	s.t.Helper()
	s.rounds++
	s.order.Key = fmt.Sprintf("round-%d", s.rounds)
	backups := len(s.moodle.Started())
	s.mu.Lock()
	s.imprints = nil
	s.mu.Unlock()
	hit := s.points.arm(at, func() { _ = s.server.Process.Kill() })
	ctx, cancel := context.WithTimeout(s.t.Context(), 10*time.Minute)
	defer cancel()
	first, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- s.await(first) }()
	var points []string
	select {
	case point := <-hit:
		stop()
		_ = s.server.Wait() // the error of the kill
		s.points.disarm()
		<-ended
		s.api.Close()
		s.t.Logf("killed at point %d, %s", at, point)
		s.restart()
		if err := s.await(ctx); err != nil {
			s.t.Fatal(err)
		}
	case err := <-ended:
		stop()
		if points = s.points.disarm(); err != nil {
			s.t.Fatal(err)
		}
	}
	s.check(ctx, len(s.moodle.Started())-backups)
	return points
}

// await submits the order of the round, unless that was done before, and waits for the end of its job.
func (s *series) await(ctx context.Context) error {
	j, err := s.api.SubmitArchive(ctx, s.order)
	if err != nil {
		return err
	}
	return s.api.Watch(ctx, j.ID, 0, func(client.Update) error { return nil })
}

// check checks what there is after the end of the round's job. started is the number of backups that the Moodle
// started.
func (s *series) check(ctx context.Context, started int) {
	t := s.t
	t.Helper()
	j, err := s.api.SubmitArchive(ctx, s.order)
	if err != nil {
		t.Fatal(err)
	}
	a, err := s.api.Archive(ctx, j.ID)
	if err != nil {
		t.Fatal(err)
	}
	if a.State != "Completed" || a.Outcome != "complete" || len(a.Stamps) != 1 {
		s.complain("%s is %s (%s) with %d time stamps: %s", j.ID, a.State, a.Outcome, len(a.Stamps), a.Message)
	}
	if want := *cmp.Or(s.order.Settings.CourseBackup, new(bool)); want != (started == 1) || started > 1 {
		s.complain("%s: the Moodle started %d backups", j.ID, started)
	}
	s.checkTasks(ctx, j.ID)
	s.checkRequests(j.ID)
	page, err := s.api.ArchiveArtifacts(ctx, j.ID, "", 100)
	if err != nil || page.Next != "" {
		t.Fatal(page, err)
	}
	var names []string
	for _, one := range page.Artifacts {
		s.stored = append(s.stored, string(j.ID)+"/"+one.Path+" "+one.SHA256)
		names = append(names, path.Ext(one.Path))
	}
	slices.Sort(names)
	if want := []string{".gz", ".pem", ".sha256", ".tsq", ".tsr", ".tst", ".txt"}; !slices.Equal(names, want) {
		s.complain("%s has the files %q", j.ID, names)
	}
	slices.Sort(s.stored)
	for location, have := range map[string][]string{
		"near": filesIn(t, filepath.Join(s.at, "near")), "far": filesIn(t, filepath.Join(s.at, "far")),
		"bucket": s.objects(),
	} {
		if diff := cmpdiff.Diff(s.stored, have); diff != "" {
			s.complain("%s: %s (-want +got)\n%s", j.ID, location, diff)
		}
	}
	left := filesIn(t, filepath.Join(s.at, "data", "archive", "work"))
	left = slices.DeleteFunc(left, func(name string) bool { return strings.Contains(name, "/lock ") })
	if len(left) > 0 {
		s.complain("%s: left in the working directory: %q", j.ID, left)
	}
	manifest := payloadOf(t, filepath.Join(s.at, "near", string(j.ID), "course.tar.gz"))
	if s.payload = cmp.Or(s.payload, manifest); manifest != s.payload {
		s.complain("%s has another content:\n%s", j.ID, cmpdiff.Diff(s.payload, manifest))
	}
}

// checkTasks checks that the job has the tasks of the first one, and counts the states in which the server was killed.
func (s *series) checkTasks(ctx context.Context, id job.ID) {
	s.t.Helper()
	tasks, err := s.api.Tasks(ctx, id)
	if err != nil {
		s.t.Fatal(err)
	}
	var names []string
	for _, one := range tasks {
		names = append(names, one.Name+" "+string(one.State))
	}
	slices.Sort(names)
	if s.tasks == nil {
		s.tasks = names
	}
	if diff := cmpdiff.Diff(s.tasks, names); diff != "" {
		s.complain("%s: tasks (-want +got)\n%s", id, diff)
	}
	history, err := s.api.History(ctx, id, 0, 0)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, e := range history {
		switch e.Event {
		case lifecycle.Lost:
			s.states[e.From]++
		case "error", "fail":
			s.complain("%s: %s in %s: %s", id, e.Event, e.From, e.Note)
		}
	}
}

// checkRequests checks that all attempts stored and stamped the same.
func (s *series) checkRequests(id job.ID) {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.imprints); n == 0 || n > 2 || s.imprints[0] != s.imprints[n-1] {
		s.complain("%s: the authority was asked to stamp %q", id, s.imprints)
	}
	for name, digests := range s.uploads {
		if len(digests) != 1 {
			s.complain("%s was uploaded with %d contents", name, len(digests))
		}
	}
	w := httptest.NewRecorder()
	s.s3.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/"+bucket+"?uploads", nil))
	if w.Code != http.StatusNotFound && strings.Contains(w.Body.String(), "<Upload>") {
		s.complain("%s: unfinished uploads: %d %s", id, w.Code, w.Body)
	}
}

// objects lists the bucket.
func (s *series) objects() (all []string) {
	s.t.Helper()
	list, err := s.backend.ListBucket(bucket, nil, gofakes3.ListBucketPage{})
	if err != nil || list.IsTruncated {
		s.t.Fatal(list, err)
	}
	for _, o := range list.Contents {
		if o.Key == locationFile {
			continue
		}
		object, err := s.backend.GetObject(bucket, o.Key, nil)
		if err != nil {
			s.t.Fatal(err)
		}
		sum := sha256.New()
		if _, err := io.Copy(sum, object.Contents); err != nil {
			s.t.Fatal(err)
		}
		_ = object.Contents.Close()
		all = append(all, o.Key+" "+hex.EncodeToString(sum.Sum(nil)))
	}
	slices.Sort(all)
	return all
}

// filesIn lists the files of a directory, without the one that names a storage location.
func filesIn(t *testing.T, dir string) (all []string) {
	t.Helper()
	err := fs.WalkDir(os.DirFS(dir), ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || name == locationFile {
			return err
		}
		content, err := os.ReadFile(filepath.Join(dir, name))
		sum := sha256.Sum256(content)
		all = append(all, name+" "+hex.EncodeToString(sum[:]))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(all)
	return all
}

// payloadOf gives the payload manifest of a packed bag, without backups and metadata: they have ids and times.
func payloadOf(t *testing.T, file string) (lines string) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	zipped, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	for r := tar.NewReader(zipped); ; {
		h, err := r.Next()
		if err != nil {
			t.Fatalf("%s has no manifest: %v", file, err)
		}
		if path.Base(h.Name) != "manifest-sha256.txt" {
			continue
		}
		text, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			if !strings.Contains(line, ".mbz") && !strings.Contains(line, "  data/metadata/") {
				lines += line
			}
		}
		return lines
	}
}

// end stops the server and checks its databases.
func (s *series) end() {
	s.t.Helper()
	s.api.Close()
	s.server.signal(s.t, os.Interrupt)
	if err := s.server.Wait(); err != nil {
		s.t.Errorf("the server did not stop well: %v", err)
	}
	for _, command := range []string{"verify", "fsck"} {
		c := exec.Command(s.server.Path, "admin", command, "--data", filepath.Join(s.at, "data"))
		c.Args[0] = "stagepost"
		if out, err := c.CombinedOutput(); err != nil {
			s.t.Errorf("%s: %v\n%s", command, err, out)
		}
	}
}
