package tes

import (
	"archive/zip"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// made are the results of a job: names and contents in turns; a name that ends in "=>" is a link, one that ends in "!"
// can be executed.
type made []string

func (m made) Results(*job.Job) (*os.File, *compute.Results, error) {
	if m == nil {
		return nil, nil, job.Errorf(job.Gone, "results", "", "they were cleaned")
	}
	f, err := os.CreateTemp("", "results")
	if err != nil {
		return nil, nil, err
	}
	if err := os.Remove(f.Name()); err != nil {
		return nil, nil, err
	}
	z := zip.NewWriter(f)
	for i := 0; i < len(m); i += 2 {
		h := &zip.FileHeader{Name: m[i], Method: zip.Deflate}
		h.SetMode(0o640)
		if name, link := strings.CutSuffix(m[i], "=>"); link {
			h.Name = name
			h.SetMode(0o777 | fs.ModeSymlink)
		}
		if name, exec := strings.CutSuffix(h.Name, "!"); exec {
			h.Name = name
			h.SetMode(0o750)
		}
		w, err := z.CreateHeader(h)
		if err == nil {
			_, err = io.WriteString(w, m[i+1])
		}
		if err != nil {
			return nil, nil, err
		}
	}
	err = z.Close()
	size, wrong := f.Seek(0, io.SeekEnd)
	return f, &compute.Results{Bytes: size}, errors.Join(err, wrong)
}

func (m made) Input(*job.Job, string) (*os.File, error) { return nil, fs.ErrNotExist }

// delivered copies the outputs of a task twice, as after a crash, and gives what lies below a directory then.
func delivered(t *testing.T, a *Adapter, dir string, files made, outputs ...Output) (map[string]string, error) {
	t.Helper()
	task := simple()
	task.Outputs = outputs
	p, err := a.Plan(task)
	if err != nil {
		t.Fatal(err)
	}
	j := asJob(t, compute.Spec{TES: p.Order.TES})
	deliver := a.Deliver(func(context.Context, job.ID) (job.Job, error) { return *j, nil }, files)
	err = deliver(t.Context(), job.Message{})
	if again := deliver(t.Context(), job.Message{}); (again == nil) != (err == nil) {
		t.Errorf("the second time: %v, the first: %v", again, err)
	}
	got := map[string]string{}
	walked := filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(name)
		got[strings.TrimPrefix(name, dir+"/")] = string(text)
		return err
	})
	if walked != nil {
		t.Fatal(walked)
	}
	return got, err
}

// TestDeliver copies files, directories and patterns, over what is there, and nothing else.
func TestDeliver(t *testing.T) {
	dir := t.TempDir()
	a, _ := adapter(t, func(o *Options) { o.Outputs = []string{dir} })
	if err := os.WriteFile(filepath.Join(dir, "one"), []byte("older and longer"), 0o600); err != nil {
		t.Fatal(err)
	}
	files := made{"tes/out/a", "A", "tes/out/sub/b c%", "B", "tes/out/link=>", "/etc/passwd", "tes/x/1.t!", "1",
		"tes/x/2.u", "2", "stdout", "said", "tes.log/executors", "x"}
	got, err := delivered(t, a, dir, files, Output{Path: "/out/a", URL: "file://" + dir + "/one"},
		Output{Path: "/out", Type: TypeDirectory, URL: "file://" + dir + "/all/"},
		Output{Path: "/x/*.t", PathPrefix: "/x", URL: dir + "/t"}, Output{Path: "/not/made", Type: TypeDirectory,
			URL: dir + "/n"}, Output{Path: "/not/copied"})
	want := map[string]string{"one": "A", "all/a": "A", "all/sub/b c%": "B", "t/1.t": "1"}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v %s", err, diff)
	}
	if info, err := os.Stat(filepath.Join(dir, "t/1.t")); err != nil || info.Mode().Perm()&0o100 == 0 {
		t.Errorf("it cannot be executed: %v, %v", info.Mode(), err)
	}
}

// TestDeliverRefused has outputs that cannot be copied: what can be is copied all the same, and nothing is written
// beyond the roots. The control is TestDeliver.
func TestDeliverRefused(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	a, root := adapter(t, func(o *Options) { o.Outputs = []string{dir} })
	if err := os.Symlink(outside, filepath.Join(dir, "way-out")); err != nil {
		t.Fatal(err)
	}
	got, err := delivered(t, a, dir, made{"tes/a", "A"}, Output{Path: "/none", URL: dir + "/none"},
		Output{Path: "/a", URL: dir + "/a"})
	if got["a"] != "A" || len(got) != 1 || err == nil || !strings.Contains(err.Error(), "/none was not made") {
		t.Errorf("got %v, %v", got, err)
	}
	if _, err := delivered(t, a, dir, made{"tes/a", "A"}, Output{Path: "/a", URL: dir + "/way-out/a"}); err == nil {
		t.Error("it was written through a link that leads out")
	}
	if left, err := os.ReadDir(outside); err != nil || len(left) > 0 {
		t.Errorf("outside there is %v, %v", left, err)
	}
	if _, err := delivered(t, a, dir, nil, Output{Path: "/a", URL: dir + "/b"}); err == nil {
		t.Error("results that are gone were copied")
	}
	for _, url := range []string{"file://" + root + "/x", "file://" + dir, "file://" + dir + "/../x", "s3://b/c",
		"http://example.org/", "file://other" + dir + "/x"} {
		task := simple()
		task.Outputs = []Output{{Path: "/a", URL: url}}
		if _, err := a.Plan(task); job.KindOf(err) != job.Invalid {
			t.Errorf("%s: got %v", url, err)
		}
	}
}

// TestAnnounce: completion brings the message, and nothing else does.
func TestAnnounce(t *testing.T) {
	dir := t.TempDir()
	a, _ := adapter(t, func(o *Options) { o.Outputs = []string{dir} })
	task := simple()
	plain, err := a.Plan(task)
	if err != nil {
		t.Fatal(err)
	}
	task.Outputs = []Output{{Path: "/a", URL: dir + "/a"}}
	copies, err := a.Plan(task)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		spec     compute.Spec
		from, to lifecycle.State
		want     int
	}{
		{compute.Spec{TES: copies.Order.TES}, compute.Retrieving, compute.Completed, 1},
		{compute.Spec{TES: copies.Order.TES}, compute.Retrieving, compute.Failed, 0},
		{compute.Spec{TES: copies.Order.TES}, compute.Completed, compute.Completed, 0},
		{compute.Spec{TES: plain.Order.TES}, compute.Retrieving, compute.Completed, 0}, {compute.Spec{},
			compute.Retrieving, compute.Completed, 0},
	} {
		j := asJob(t, test.spec)
		j.ID, j.State = "cmp_1", test.from
		c := &job.Change{}
		c.To.State = test.to
		if got := a.Announce(j, c); len(got) != test.want ||
			test.want > 0 && (got[0].Key != "cmp_1/tes-outputs" || got[0].Topic != Topic || got[0].Job != "cmp_1") {
			t.Errorf("%s to %s: got %v", test.from, test.to, got)
		}
	}
}

// TestSettle: a task runs until its outputs are copied, and has failed if they cannot be.
func TestSettle(t *testing.T) {
	for settled, want := range map[job.Settled]State{job.Delivered: Complete, job.Abandoned: SystemError, "": Running} {
		s := Settle(Standing{State: compute.Completed}, []job.Message{{Settled: settled, Error: "no space"}})
		if got := StateOf(s.State, s.Cause); got != want ||
			want != Complete && !strings.Contains(s.Sentence, "no space") {
			t.Errorf("%q: got %s, %q", settled, got, s.Sentence)
		}
		if !has(Where(want), compute.Completed) {
			t.Errorf("a list of %s lacks completed jobs", want)
		}
	}
	if s := Settle(Standing{State: compute.Completed}, nil); s.State != compute.Completed { // purged long ago
		t.Errorf("got %s", s.State)
	}
}
