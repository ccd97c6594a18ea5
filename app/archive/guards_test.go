package archive

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stagepost/stagepost/app/archive/catalog"
	"github.com/stagepost/stagepost/app/archive/settings"
	"github.com/stagepost/stagepost/app/archive/sign"
	"github.com/stagepost/stagepost/app/archive/source"
	"github.com/stagepost/stagepost/lifecycle"
)

// TestRecords: what a completed job records of its archive.
func TestRecords(t *testing.T) {
	src := newFake(1, 3)
	src.warnings = []string{"the source is old"}
	bubble(t, src, nil, func(h *harness) {
		j := h.end(h.submit(Request{Settings: Settings{Pack: settings.PackNone, FileName: "${cmname}"}}).ID)
		id, c := string(j.ID), h.options.Catalog
		var d data
		if err := decode(j.Data, &d); err != nil || !slices.Equal(d.Warnings, src.warnings) || d.Started.IsZero() {
			t.Errorf("got %+v, %v", d, err)
		}
		activities, err := c.Activities(h.t.Context(), id)
		if err != nil || len(activities) != 1 || activities[0].Items != 3 || activities[0].Bytes == 0 {
			t.Errorf("got the activities %+v, %v", activities, err)
		}
		all, err := c.Artifacts(h.t.Context(), id, "", 1000)
		if err != nil {
			t.Fatal(err)
		}
		roles := map[catalog.Role]int{}
		var names []string
		for _, a := range all {
			roles[a.Role]++
			names = append(names, path.Base(a.Path))
			if !strings.HasPrefix(a.Path, "Quiz 1") && !strings.HasPrefix(a.Path, "Quiz_1") {
				t.Errorf("the name of %s is not that of the activity", a.Path)
			}
		}
		if roles[catalog.Metadata] == 0 || roles[catalog.Signature] != 1 || roles[catalog.Payload] < 4 {
			t.Errorf("got the roles %v of %q", roles, names)
		}
		if j.Bytes < activities[0].Bytes {
			t.Errorf("the job has %d bytes, its activity %d", j.Bytes, activities[0].Bytes)
		}
		h.described(names, id)
	})
}

// described checks that the archive has what the source states of the course, and of the people.
func (h *harness) described(names []string, id string) {
	h.t.Helper()
	for _, name := range []string{"course.json", "item-0.txt", "item-2.txt"} {
		if !slices.Contains(names, name) {
			h.t.Errorf("the archive lacks %s: %q", name, names)
		}
	}
	var premis string
	err := filepath.WalkDir(filepath.Join(h.options.Dir, "near"), func(name string, e fs.DirEntry, err error) error {
		if err == nil && e.Name() == "premis.json" {
			text, err := os.ReadFile(name)
			premis = string(text)
			return err
		}
		return err
	})
	if err != nil || !strings.Contains(premis, "warning") || !strings.Contains(premis, "the source is old") {
		h.t.Errorf("%s: the events lack the warning, %v", id, err)
	}
}

// TestSameKeyTwice: a source that plans two items under one key loses one of them: the job fails.
func TestSameKeyTwice(t *testing.T) {
	src := newFake(1, 2)
	src.twice = true
	bubble(t, src, nil, func(h *harness) {
		j := h.end(h.submit(Request{}).ID)
		if j.State != Failure || !strings.Contains(j.Message, "under one key") {
			t.Errorf("got %s: %s", j.State, j.Message)
		}
	})
}

// TestPrintsWithoutTheSource: while PDF files are printed, the source is not asked again. If the working directory is
// lost meanwhile, everything is fetched again.
func TestPrintsWithoutTheSource(t *testing.T) {
	for _, lost := range []bool{false, true} {
		src := newFake(1, 2)
		src.attempts = true
		p := newPrints(4)
		bubble(t, src, func(o *Options) { o.PDF = p }, func(h *harness) {
			j := h.submit(Request{Settings: Settings{
				Content: source.Settings{PDF: settings.PDFRequired}, Pack: settings.PackNone,
			}})
			time.Sleep(time.Second)
			asked, fetched := src.asked, src.fetched["1/item-0"]
			if asked != 2 || fetched != 1 {
				t.Fatalf("asked %d times, fetched %d times", asked, fetched)
			}
			if lost {
				names, err := filepath.Glob(filepath.Join(h.workDir(), "*", "*"))
				if err != nil || len(names) < 2 {
					t.Fatal(names, err)
				}
				for _, name := range names {
					if err := os.RemoveAll(name); err != nil && filepath.Base(name) != "lock" {
						t.Fatal(err)
					}
				}
			}
			j = h.end(j.ID)
			again := map[bool]int{false: 0, true: 1}[lost]
			if j.State != Completed || src.asked != asked+2*again || src.fetched["1/item-0"] != 1+again {
				t.Errorf("lost %t: %s, asked %d times, fetched %v", lost, j.State, src.asked, src.fetched)
			}
			all, err := h.options.Catalog.Artifacts(h.t.Context(), string(j.ID), "", 1000)
			if n := endingWith(all, ".pdf"); err != nil || n != 2 {
				t.Errorf("%d PDF files, %v", n, err)
			}
		})
	}
}

func endingWith(all []catalog.Artifact, ending string) (n int) {
	for _, a := range all {
		if strings.HasSuffix(a.Path, ending) {
			n++
		}
	}
	return n
}

// TestDamagedBeforePackaging: a file that is damaged after it was fetched fails PostProcessing, and is fetched again.
func TestDamagedBeforePackaging(t *testing.T) {
	b, yes := newBackups(newFake(1, 2)), true
	var h *harness
	damaged := false
	b.fails[fetchCall] = func() error {
		if damaged {
			return nil
		}
		damaged = true
		names, err := filepath.Glob(filepath.Join(h.workDir(), "*", "*", "*", "*", "item-1.txt"))
		if err != nil || len(names) != 1 {
			t.Errorf("got %q, %v", names, err)
			return nil
		}
		if err := os.Chmod(names[0], 0o600); err != nil {
			t.Error(err)
		}
		text, err := os.ReadFile(names[0])
		if err != nil {
			t.Error(err)
			return nil
		}
		text[0] ^= 1
		if err := os.WriteFile(names[0], text, 0o600); err != nil {
			t.Error(err)
		}
		return nil
	}
	bubble(t, b.fake, func(o *Options) { o.Sources = b }, func(now *harness) {
		h = now
		j := h.end(h.submit(Request{Settings: Settings{CourseBackup: &yes}}).ID)
		want := "create enqueue begin next next next error recover retry next next next finish"
		if got := h.events(j.ID); got != want || j.State != Completed {
			t.Errorf("got %s: %s", got, j.Message)
		}
		if b.fetched["1/item-0"] != 1 || b.fetched["1/item-1"] != 2 {
			t.Errorf("fetched %v", b.fetched)
		}
		var d data
		if err := decode(j.Data, &d); err != nil || len(d.Errors) != 1 || d.Errors[0].Cause != "damaged" {
			t.Errorf("got %+v, %v", d.Errors, err)
		}
	})
}

// TestUnsigned: an archive without a time stamp is complete; one that needs a time stamp of no authority is refused.
func TestUnsigned(t *testing.T) {
	no := false
	signer := &stamps{}
	bubble(t, newFake(1, 1), func(o *Options) { o.Signer = signer }, func(h *harness) {
		j := h.end(h.submit(Request{Settings: Settings{Sign: &no}}).ID)
		all, err := h.options.Catalog.Artifacts(h.t.Context(), string(j.ID), "", 100)
		if j.State != Completed || err != nil || endingWith(all, ".tsr") > 0 || signer.calls > 0 {
			t.Errorf("got %s with %d files, %v; the authority was asked %d times", j.State, len(all), err, signer.calls)
		}
	})
	bubble(t, newFake(1, 1), func(o *Options) { o.Signer = nil }, func(h *harness) {
		_, err := h.Submit(h.t.Context(), Request{Source: "campus", Course: "5"}, Ordered{})
		if err == nil || !strings.Contains(err.Error(), "no time-stamp authority") {
			t.Errorf("got %v", err)
		}
	})
}

// TestStorageTasks: the tasks of a job state which copies are stored, and why others are not.
func TestStorageTasks(t *testing.T) {
	b := newBackups(newFake(1, 1))
	bubble(t, b.fake, flaws["location"].plan(t, b, 1), func(h *harness) {
		j := h.submit(Request{})
		time.Sleep(10 * time.Second)
		for i, want := range []map[lifecycle.State]int{{Failed: 3, Finished: 3}, {Finished: 8}} {
			if i == 1 {
				j = h.end(j.ID)
			}
			tasks, err := h.store.Tasks(h.t.Context(), j.ID)
			if err != nil {
				t.Fatal(err)
			}
			got := map[lifecycle.State]int{}
			for _, one := range tasks {
				if !strings.HasPrefix(one.Name, storageTask) {
					continue
				}
				got[one.State]++
				failed := one.State == Failed
				if (one.Message != "") != failed || (one.Done == one.Total) == failed || one.Total == 0 {
					t.Errorf("got %+v", one)
				}
			}
			if len(got) != len(want) || got[Finished] != want[Finished] || got[Failed] != want[Failed] {
				t.Errorf("%d: got %v, want %v", i, got, want)
			}
		}
	})
}

// TestBlame: a failed job enters the activities that it could not archive, with the reason. If one activity fails, the
// others are not blamed; if the job fails after its activities, all are; a job that a person cancels blames none.
func TestBlame(t *testing.T) {
	refused := &source.Error{Op: "fetch", Err: os.ErrPermission}
	for name, c := range map[string]struct {
		plan func(*fake) func(*Options)
		want []string
	}{
		"activity": {func(f *fake) func(*Options) { f.failures["2/item-0"] = refused; return nil }, []string{"2"}},
		"signing": {func(*fake) func(*Options) {
			return func(o *Options) {
				o.Signer = &flakySigner{attempt: attempts(9, &sign.FailedError{Errs: []error{refused}})}
			}
		}, []string{"1", "2", "3"}},
		"nothing": {func(*fake) func(*Options) { return nil }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			src := newFake(3, 1)
			bubble(t, src, c.plan(src), func(h *harness) {
				j := h.end(h.submit(Request{}).ID)
				if got := h.blamed(src); !slices.Equal(got, c.want) {
					t.Errorf("%s blames %q, want %q", j.State, got, c.want)
				}
			})
		})
	}
}

// blamed lists the activities that a job could not archive.
func (h *harness) blamed(src *fake) (ids []string) {
	h.t.Helper()
	for _, id := range []string{"1", "2", "3"} {
		print, err := src.Fingerprint(h.t.Context(), source.Activity{ID: id})
		if err != nil {
			h.t.Fatal(err)
		}
		a, err := h.options.Catalog.Attempts(h.t.Context(), "campus", id, print, catalog.Backoff{})
		if err != nil || (a.Failures > 0) != (a.Cause != "") {
			h.t.Fatal(a, err)
		}
		if a.Failures > 0 {
			ids = append(ids, id)
		}
	}
	return ids
}

// TestBlameBeforeTasks: a job that fails before it has tasks blames the activities that it was to archive.
func TestBlameBeforeTasks(t *testing.T) {
	bubble(t, newFake(1, 1), nil, func(h *harness) {
		yes := true
		j := h.end(h.submit(Request{Activities: []string{"1"}, Settings: Settings{CourseBackup: &yes}}).ID)
		a, err := h.options.Catalog.Attempts(h.t.Context(), "campus", "1", "", catalog.Backoff{})
		if err != nil || j.State != Failure || a.Failures != 1 || !strings.Contains(a.Cause, "backups") {
			t.Errorf("got %s, %+v, %v", j.State, a, err)
		}
	})
}

// TestChosenActivities: a request names the activities that are archived. One that cannot be archived is left out, or
// refused if the settings need it; so is a course without activities.
func TestChosenActivities(t *testing.T) {
	no := false
	for name, c := range map[string]struct {
		activities []string
		settings   Settings
		courses    int // activities of the course
		archived   []string
		message    string // of a job that fails
	}{
		"all":         {nil, Settings{}, 3, []string{"1", "2", "3"}, ""},
		"one":         {[]string{"2"}, Settings{}, 3, []string{"2"}, ""},
		"left out":    {[]string{"2", "99"}, Settings{}, 3, []string{"2"}, ""},
		"needed":      {[]string{"2", "99"}, Settings{ActivityOptional: &no}, 3, nil, "labels have no content"},
		"not there":   {[]string{"2", "7"}, Settings{}, 3, nil, "no activity 7"},
		"nothing":     {nil, Settings{}, 0, nil, "no activity that can be archived"},
		"only a page": {[]string{"99"}, Settings{}, 3, nil, "no activity that can be archived"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, newFake(c.courses, 1), nil, func(h *harness) {
				j := h.end(h.submit(Request{Activities: c.activities, Settings: c.settings}).ID)
				all, err := h.options.Catalog.Activities(h.t.Context(), string(j.ID))
				if err != nil {
					t.Fatal(err)
				}
				var ids []string
				for _, a := range all {
					ids = append(ids, a.Activity)
				}
				if (j.State == Completed) != (c.message == "") || !slices.Equal(ids, c.archived) ||
					!strings.Contains(j.Message, c.message) {
					t.Errorf("%s has %q: %s", j.State, ids, j.Message)
				}
			})
		})
	}
}
