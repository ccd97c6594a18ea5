package archive

import (
	"context"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/store/crash"
	"github.com/stagepost/stagepost/store/mem"
)

var (
	crashActivities = flag.Int("crash.activities", 1, "activities of the archive of TestCrashAnywhere")
	crashStride     = flag.Int("crash.stride", 9, "TestCrashAnywhere: try every so-manieth window; odd")
)

// TestCrashAnywhere simulates a crash before and after every call of the store, every write of the catalog and every
// fetch, and starts again. The job completes; each location has each artifact once and nothing else, with the digests
// of the catalog; nothing is left in the working directory; each item was fetched at most once more; each end is
// reported once, and mailed under one Message-ID. The backup that the job started is deleted in the source once, after
// both locations had everything, and no other backup is. It takes every ninth window; -crash.stride 1 takes all.
func TestCrashAnywhere(t *testing.T) {
	report := crash.Sample("archive", *crashStride, func(f *crash.Fuse) (faults []string) {
		synctest.Test(t, func(t *testing.T) { faults = crashOnce(t, f) })
		return faults
	})
	t.Log(report)
	if report.Inconsistent > 0 || report.Windows < 100 {
		t.Errorf("%d windows: %s", report.Windows, strings.Join(report.Faults, "\n"))
	}
}

// fused is a store whose hints do not count as calls: the store in memory gives them within a call.
type fused struct {
	*crash.Store
	inner job.Store
}

func (f fused) Watch(ctx context.Context, wake func([]job.Hint)) { f.inner.Watch(ctx, wake) }

func crashOnce(t *testing.T, f *crash.Fuse) (faults []string) {
	store, dir, src := mem.New(), quickDir(t), withBackups(*crashActivities)
	wrong := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	src.backups.onlyAfterCopies(t, dir, wrong)
	src.crash = func() error { return f.Call(func() error { return nil }) }
	box, hooks := &mailbox{crash: f.Call}, notified(t, everyEvent...)
	change := func(o *Options) { hooks(o); box.mailed(o) }
	first := start(t, fused{crash.NewStore(store, f), store}, dir, src, change)
	order := withBackup()
	order.Source, order.Course, order.Settings.Notify = "campus", "5", []string{"ann@example.org"}
	_, _ = first.Submit(t.Context(), order, Ordered{}) // it may have no answer
	time.Sleep(time.Minute)
	first.stop()

	src.crash, box.crash = nil, nil
	second := start(t, store, dir, src, change)
	defer second.stop()
	page, err := store.List(t.Context(), job.Query{Kinds: []job.Kind{Kind}})
	if err != nil {
		t.Fatal(err)
	}
	if len(page.Jobs) == 0 { // the crash came before the job was created
		return nil
	}
	j := second.end(page.Jobs[0].ID)
	if j.State != Completed {
		wrong("it is %s: %s (%s)", j.State, j.Message, second.events(j.ID))
	}
	notices := second.notices(j.ID)
	for _, want := range append(second.ofTasks(j.ID), "archive_job_created Queued", "archive_job_completed Completed") {
		if n := count(notices, want); n != 1 {
			wrong("%d notifications %s", n, want)
		}
	}
	for deadline := time.Now().Add(time.Hour); len(box.all()) == 0 && time.Now().Before(deadline); {
		time.Sleep(10 * time.Second) // a mail that was being sent is free when its lease ends
	}
	if got := box.all(); len(got) < 1 || len(got) > 2 || got[0].MessageID != got[len(got)-1].MessageID ||
		len(second.mails(j.ID)) != 1 {
		wrong("%d mails, %d in the outbox", len(got), len(second.mails(j.ID)))
	}
	for key, n := range src.fetched {
		if n > 2 {
			wrong("%s was fetched %d times", key, n)
		}
	}
	if b := src.backups; len(b.files) != 1 || len(b.deleted) != 1 {
		wrong("deleted the backups %v, left %v", b.deleted, b.files)
	}
	return append(faults, second.stored(&j, dir)...)
}

// ofTasks lists the notifications of the ends of a completed job's tasks.
func (h *harness) ofTasks(id job.ID) (all []string) {
	h.t.Helper()
	tasks, err := h.store.Tasks(h.t.Context(), id)
	if err != nil {
		h.t.Fatal(err)
	}
	for _, one := range tasks {
		all = append(all, "task_completed "+one.Name)
	}
	return all
}

// stored checks that each location has the artifacts of a completed job, each once, and that no more is left.
func (h *harness) stored(j *job.Job, dir string) (faults []string) {
	h.t.Helper()
	wrong := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	all, err := h.options.Catalog.Artifacts(h.t.Context(), string(j.ID), "", 100)
	if err != nil {
		h.t.Fatal(err)
	}
	if len(all) != 4 { // package, its checksum, the seal, the time stamp
		wrong("%d artifacts", len(all))
	}
	for _, location := range []string{"near", "far"} {
		var want []string
		for _, a := range all {
			want = append(want, a.Key+" "+a.SHA256)
		}
		if got := digests(h.t, filepath.Join(dir, location)); !slices.Equal(got, slices.Sorted(slices.Values(want))) {
			wrong("%s has %v, not %v", location, got, want)
		}
	}
	tasks, err := h.store.Tasks(h.t.Context(), j.ID)
	if err != nil {
		h.t.Fatal(err)
	}
	for _, one := range tasks {
		if one.State != Finished {
			wrong("the task %s is %s: %s", one.Name, one.State, one.Message)
		}
	}
	left, err := fs.Glob(os.DirFS(h.workDir()), "*/*")
	if err != nil || len(left) != 1 || !strings.HasSuffix(left[0], "/lock") {
		wrong("left in the working directory: %v, %v", left, err)
	}
	return faults
}

// digests lists the files of a location with their SHA-256, without the files that the location itself has.
func digests(t *testing.T, dir string) (all []string) {
	t.Helper()
	err := fs.WalkDir(os.DirFS(dir), ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || strings.HasPrefix(name, ".") || name == "stagepost-location.txt" {
			return err
		}
		root, err := os.OpenRoot(dir)
		if err != nil {
			return err
		}
		defer root.Close()
		a, err := artifactOf(root, name)
		all = append(all, name+" "+a.SHA256)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return slices.Sorted(slices.Values(all))
}
