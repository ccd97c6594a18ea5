package archive

import (
	"encoding/json"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stagepost/stagepost/app/archive/settings"
	"github.com/stagepost/stagepost/app/archive/source"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// defects are those of Moodle's local_archiving 1.0.0, with the tests that require something better.
var defects = map[string]string{
	"B1, a timeout becomes a failure":                 "TestDeadlineIsTimeout",
	"B2, queue time counts, and 0 is at once overdue": "TestDeadlineIsTimeout TestTimeInTheQueue",
	"B3, no retry and no cleanup": "TestRecoverable TestFlaky TestCancel " +
		"TestPDFRevoked TestPrintingRevoked TestPrinterTokens",
	"B4, a crash doubles a task, backup or copy":                  "TestCrashAnywhere TestBackupCrashes TestEveryCrash",
	"B5, a failed task counts as completed":                       "TestPartOfAnArchive TestLost",
	"B6, the source is deleted before a copy is read back":        "TestReadBack TestCrashAnywhere",
	"B7, a wrong checksum is stored":                              "TestWrongContent TestChangedFiles",
	"B8, the answer of an authority is not checked":               "TestBadAnswers",
	"B9, a nonce is negative or not minimal":                      "TestRequests",
	"B10, a token without certificates":                           "TestOpenSSL",
	"B11, the settings are deleted":                               "TestSettingsAreKept",
	"B12, an archive cannot be opened without its source":         "TestSourceIsGone",
	"B13, an archive that is not complete can be downloaded":      "TestRetrieveOfCompleteArchives",
	"B14, retention is not enforced":                              "TestLegalHold TestDeletionBeforeItsTimeNeedsTwoPersons",
	"B15, a job for an activity that always fails at every run":   "TestFailingActivityPauses",
	"B16, a running job can be queued again":                      "TestQueuedOnce",
	"B17, names with $1, cut characters, and equal names":         "TestDefectB17 TestNames",
	"B18, a location without sync, rename and modes":              "TestDir TestDirPart",
	"B19, one task and one location for a job, a stub for assign": "TestWalk TestLocationDown TestDescribe TestEvents",
	"B20, status words of the quiz worker have other types":       "TestArchive TestProgress TestOffered",
	"B21, archives differ each time, sums without names":          "TestSameBytes TestArchive",
	"B22, integer ids": "TestJobURN",
}

// TestDefects: each test of the list is there.
func TestDefects(t *testing.T) {
	have := map[string]bool{}
	pattern := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	for _, root := range []string{".", "../../format/rfc3161", "../../edge/storage"} {
		err := fs.WalkDir(os.DirFS(root), ".", func(name string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(name, "_test.go") {
				return err
			}
			text, err := os.ReadFile(filepath.Join(root, name))
			for _, m := range pattern.FindAllSubmatch(text, -1) {
				have[string(m[1])] = true
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, defect := range slices.Sorted(maps.Keys(defects)) {
		for name := range strings.FieldsSeq(defects[defect]) {
			if !have[name] {
				t.Errorf("%s: there is no %s", defect, name)
			}
		}
	}
}

// TestTimeInTheQueue (B2): the deadline counts from the first phase, however long a job waits for a slot.
func TestTimeInTheQueue(t *testing.T) {
	src := newFake(1, 1)
	bubble(t, src, func(o *Options) { o.MaxJobs = 1 }, func(h *harness) {
		src.onFetch = func(string, string) { time.Sleep(50 * time.Minute) }
		var jobs []job.Job
		for range 3 {
			jobs = append(jobs, h.submit(Request{Settings: Settings{Deadline: "60m"}}))
		}
		for _, j := range jobs {
			if j = h.end(j.ID); j.State != Completed {
				t.Errorf("got %s: %s", j.State, h.events(j.ID))
			}
		}
	})
}

// TestConcurrencyLimit: never more jobs are active than the limit allows, however many are queued at once, and all of
// them end. The control has no limit.
func TestConcurrencyLimit(t *testing.T) {
	for _, limit := range []int{2, job.Unlimited} {
		src := newFake(1, 1)
		bubble(t, src, func(o *Options) { o.MaxJobs = limit }, func(h *harness) {
			var mu sync.Mutex
			most := 0
			src.onFetch = func(string, string) {
				page, err := h.store.List(h.t.Context(), job.Query{Kinds: []job.Kind{Kind}, Limit: 100})
				if err != nil {
					h.t.Error(err)
				}
				now := 0
				for i := range page.Jobs {
					if slices.Contains(active(), page.Jobs[i].State) {
						now++
					}
				}
				mu.Lock()
				most = max(most, now)
				mu.Unlock()
				time.Sleep(time.Minute)
			}
			var jobs []job.Job
			for range 6 {
				jobs = append(jobs, h.submit(Request{}))
			}
			for _, j := range jobs {
				if j = h.end(j.ID); j.State != Completed {
					t.Errorf("got %s: %s", j.State, h.events(j.ID))
				}
			}
			if limit > 0 && most != limit || limit < 0 && most <= 2 {
				t.Errorf("limit %d: %d jobs were active at once", limit, most)
			}
		})
	}
}

// TestPartOfAnArchive (B5): a job whose tasks have ended, but not all as Finished, makes no package.
func TestPartOfAnArchive(t *testing.T) {
	src := newFake(3, 1)
	src.failures["2/item-0"] = &source.Error{Op: "fetch", Err: os.ErrPermission}
	bubble(t, src, nil, func(h *harness) {
		j := h.end(h.submit(Request{}).ID)
		tasks, err := h.store.Tasks(h.t.Context(), j.ID)
		if err != nil {
			t.Fatal(err)
		}
		states := map[lifecycle.State]int{}
		for _, one := range tasks {
			states[one.State]++
		}
		if j.State != Failure || states[Finished] != 3 || states[Failed] != 1 {
			t.Errorf("got %s: %s; %v", j.State, h.events(j.ID), states)
		}
		all, err := h.options.Catalog.Artifacts(h.t.Context(), string(j.ID), "", 10)
		if err != nil || len(all) > 0 {
			t.Errorf("got %d artifacts, %v", len(all), err)
		}
	})
}

// TestSettingsAreKept (B11): the record of a completed job and its package have all settings.
func TestSettingsAreKept(t *testing.T) {
	bubble(t, newFake(1, 1), nil, func(h *harness) {
		j := h.end(h.submit(Request{Settings: Settings{Keep: "7y", Pack: settings.PackNone}}).ID)
		var d data
		if err := decode(j.Data, &d); err != nil || d.Settings.Keep != "7y" {
			t.Errorf("the record has %+v, %v", d.Settings, err)
		}
		var found bool
		err := fs.WalkDir(os.DirFS(filepath.Join(h.options.Dir, "near")), ".",
			func(name string, _ fs.DirEntry, err error) error {
				if err != nil || filepath.Base(name) != "job.json" {
					return err
				}
				text, err := os.ReadFile(filepath.Join(h.options.Dir, "near", name))
				found = json.Valid(text) && strings.Contains(string(text), `"7y"`) &&
					strings.Contains(string(text), `"course_backup"`)
				return err
			})
		if err != nil || !found {
			t.Errorf("the package does not have the settings: %v", err)
		}
	})
}

// TestSourceIsGone (B12): an archive can be listed and read after the source, or its course, is gone.
func TestSourceIsGone(t *testing.T) {
	src := newFake(1, 1)
	bubble(t, src, nil, func(h *harness) {
		j := h.end(h.submit(Request{}).ID)
		src.mu.Lock()
		src.files = nil
		src.mu.Unlock()
		all, err := h.options.Catalog.Artifacts(h.t.Context(), string(j.ID), "", 10)
		if err != nil || len(all) != 4 {
			t.Fatalf("got %d artifacts, %v", len(all), err)
		}
		for _, a := range all {
			r, err := h.options.Copies.Open(h.t.Context(), string(j.ID), a.Path, 0)
			if err != nil {
				t.Fatal(err)
			}
			if err := r.Close(); err != nil {
				t.Error(err)
			}
		}
	})
}

// TestQueuedOnce (B16): only a job that was never queued can be queued.
func TestQueuedOnce(t *testing.T) {
	for _, stage := range JobLife.Stages() {
		all := lifecycle.Worker | lifecycle.Timer | lifecycle.Operator | lifecycle.Owner | lifecycle.Engine
		_, err := JobLife.Next(lifecycle.Position{State: stage.State}, Enqueue, all)
		if (err == nil) != (stage.State == Uninitialized) {
			t.Errorf("%s: got %v", stage.State, err)
		}
	}
}

// TestRetrieveOfCompleteArchives (B13): files of an archive can be retrieved when it is complete, not before.
func TestRetrieveOfCompleteArchives(t *testing.T) {
	signer := &stamps{fails: 1}
	bubble(t, newFake(1, 1), func(o *Options) { o.Signer = signer }, func(h *harness) {
		j := h.submit(Request{})
		time.Sleep(10 * time.Second) // it is stored, and waits to be signed
		path := h.payload(j.ID)
		if f, err := h.Retrieve(h.t.Context(), j.ID, path, 0); job.KindOf(err) != job.Refused {
			t.Errorf("before its end: got %v, %v", f, err)
		}
		h.end(j.ID)
		f, err := h.Retrieve(h.t.Context(), j.ID, path, 0)
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
}
