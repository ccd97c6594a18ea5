package archive

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/app/archive/audit"
	"github.com/stagepost/stagepost/app/archive/packaging"
	"github.com/stagepost/stagepost/app/archive/settings"
	"github.com/stagepost/stagepost/app/archive/sign"
	"github.com/stagepost/stagepost/app/archive/source"
	"github.com/stagepost/stagepost/format/ocfl"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/store/mem"
)

// depots are the two storage roots of OCFL of a test.
type depots struct {
	t     *testing.T
	dirs  map[string]string
	roots map[string]*ocfl.Root

	checks int // of all versions, each a month after the last
}

func newDepots(t *testing.T) *depots {
	t.Helper()
	d := &depots{t: t, dirs: map[string]string{}, roots: map[string]*ocfl.Root{}}
	for _, name := range []string{"one", "two"} {
		d.dirs[name] = filepath.Join(quickDir(t), name)
		root, err := ocfl.InitRoot(d.dirs[name], ocfl.DefaultLayout())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { root.Close() })
		d.roots[name] = root
	}
	return d
}

func (d *depots) use(o *Options) { o.Objects = func() map[string]*ocfl.Root { return d.roots } }

// down makes a storage root unreadable, or readable again.
func (d *depots) down(name string, is bool) {
	d.t.Helper()
	declaration := filepath.Join(d.dirs[name], "0=ocfl_1.1")
	from, to := declaration, filepath.Join(filepath.Dir(d.dirs[name]), "hidden")
	if !is {
		from, to = to, from
	}
	if err := os.Rename(from, to); err != nil {
		d.t.Fatal(err)
	}
}

var objectOne = packaging.ObjectID(source.Facts{Kind: "fake", Name: "fake"}, "1")

// wrong reports what is wrong: each root is valid and has the versions of these jobs and no byte of others, the catalog
// has the same, and a fixity check of all of them finds nothing.
func (d *depots) wrong(h *harness, gone []string, jobs ...job.ID) error {
	d.t.Helper()
	for name, root := range d.roots {
		r, err := ocfl.Validate(h.t.Context(), d.dirs[name])
		if err != nil || !r.Valid() {
			return fmt.Errorf("%s: %+v, %w", name, r, err)
		}
		if err := hasNone(d.dirs[name], gone); err != nil {
			return err
		}
		rows, err := h.options.Catalog.Versions(h.t.Context(), audit.RootPrefix+name, objectOne)
		if err != nil || len(rows) != len(jobs) {
			return fmt.Errorf("%s: the catalog has %d versions, want %d, %w", name, len(rows), len(jobs), err)
		}
		o, err := root.Object(objectOne)
		if len(jobs) == 0 {
			if !errors.Is(err, ocfl.ErrNotFound) {
				return fmt.Errorf("%s: the object is there, %w", name, err)
			}
			continue
		}
		if err != nil || len(o.Versions()) != len(jobs) {
			return fmt.Errorf("%s: got %+v, %w", name, o, err)
		}
		for i, id := range jobs {
			v := fmt.Sprintf("v%d", i+1)
			if key := o.Inventory().Versions[v].Key(); key != string(id) {
				return fmt.Errorf("%s: %s is of %s, want %s", name, v, key, id)
			}
			if rows[i].Name != v || rows[i].Job != string(id) {
				return fmt.Errorf("%s: the catalog has %+v as %s", name, rows[i], v)
			}
		}
	}
	result, err := d.check(h)
	if err != nil || result.Faults > 0 || result.Copies < int64(2*len(jobs)) {
		return fmt.Errorf("the check: %+v, %w", result, err)
	}
	return nil
}

// check checks every version, as if a month had passed.
func (d *depots) check(h *harness) (audit.Result, error) {
	d.checks++
	checker := audit.New(audit.Options{
		Catalog: h.options.Catalog, Copies: h.options.Copies, Objects: h.options.Objects,
		Now:    func() time.Time { return time.Now().AddDate(0, 0, 31*d.checks) },
		Report: func(context.Context, string, string, string) error { return nil },
	})
	return checker.Pass(h.t.Context())
}

// hasNone reports a file below a directory whose name or content has one of the texts.
func hasNone(dir string, texts []string) error {
	return filepath.WalkDir(dir, func(name string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		b, err := os.ReadFile(name)
		for _, text := range texts {
			if strings.Contains(string(b), text) {
				return fmt.Errorf("%s has %q", name, text)
			}
		}
		return err
	})
}

// archives makes archives whose files differ, and gives the text that only each has.
func (h *harness) archives(src *fake, n int) (jobs []job.ID, texts []string) {
	h.t.Helper()
	for i := range n {
		text := fmt.Sprintf("the answer of round %d", i)
		src.mu.Lock()
		src.files["1"]["item-0"] = text
		src.mu.Unlock()
		j := h.end(h.submit(Request{Settings: Settings{Package: settings.PackageOCFL}}).ID)
		if j.State != Completed {
			h.t.Fatalf("got %s: %s", j.State, h.events(j.ID))
		}
		jobs, texts = append(jobs, j.ID), append(texts, text)
	}
	return jobs, texts
}

// remove deletes an archive as two persons do.
func (h *harness) remove(id job.ID) error {
	h.t.Helper()
	d, err := h.RequestDeletion(h.t.Context(), id, "ann", "wrong")
	if err != nil {
		return err
	}
	_, err = h.DecideDeletion(h.t.Context(), d.Request, "ben", true, "")
	return err
}

// TestDeleteVersions: an archive that is deleted leaves no version and no byte in any storage root; the versions of the
// others are as they were.
func TestDeleteVersions(t *testing.T) {
	for _, c := range []struct{ of, nth int }{{1, 0}, {3, 0}, {3, 1}, {3, 2}} {
		src, d := newFake(1, 2), newDepots(t)
		bubble(t, src, d.use, func(h *harness) {
			t := h.t
			jobs, texts := h.archives(src, c.of)
			gone := jobs[c.nth]
			if d.wrong(h, texts[c.nth:c.nth+1], jobs...) == nil {
				t.Error("control: the text of the archive is not noticed")
			}
			left := filepath.Join(d.dirs["one"], "extensions", "stagepost-staging", "crashed-1")
			if err := errors.Join(os.MkdirAll(left, 0o750),
				os.WriteFile(filepath.Join(left, "x"), []byte(texts[c.nth]), 0o600)); err != nil {
				t.Fatal(err)
			}
			if err := h.remove(gone); err != nil {
				t.Fatal(err)
			}
			others := slices.Delete(jobs, c.nth, c.nth+1)
			x := h.deleted(gone)
			if err := d.wrong(h, texts[c.nth:c.nth+1], others...); err != nil {
				t.Errorf("%+v: %v", c, err)
			}
			events, err := h.options.Catalog.Events(t.Context(), string(gone), "", 1000)
			if err != nil {
				t.Fatal(err)
			}
			n := 0
			for _, e := range events {
				if e.Type == "deletion" && strings.HasPrefix(e.Detail, "version of "+objectOne+" in objects/") {
					n++
				}
			}
			if n != 2 || x.Tombstone.Copies != 4*2+2 {
				t.Errorf("%d events, tombstone %+v", n, x.Tombstone)
			}
		})
	}
}

// failingSigner fails permanently.
type failingSigner struct{ reached func() }

func (s failingSigner) Sign(_ context.Context, d sign.Document) (sign.Result, error) {
	s.reached()
	return sign.Result{}, &sign.FailedError{Subject: d.Path, Errs: []error{errBusy}}
}

// TestFailedJobLeavesNoVersion: a job that fails after its versions were stored leaves none, also if a storage root is
// down for a while.
func TestFailedJobLeavesNoVersion(t *testing.T) {
	for _, isDown := range []bool{false, true} {
		src, d := newFake(1, 2), newDepots(t)
		stored := false
		change := func(o *Options) {
			d.use(o)
			o.Signer = failingSigner{func() {
				if _, err := d.roots["one"].Object(objectOne); err == nil && !stored {
					stored = true
					if isDown {
						d.down("two", true)
					}
				}
			}}
		}
		bubble(t, src, change, func(h *harness) {
			t := h.t
			j := h.end(h.submit(Request{Settings: Settings{Package: settings.PackageOCFL}}).ID)
			if j.State != Failure || !stored {
				t.Fatalf("it is %s, stored %t: %s", j.State, stored, h.events(j.ID))
			}
			if isDown {
				if err := h.Expire(t.Context()); err == nil || !strings.Contains(err.Error(), "objects/two") {
					t.Errorf("the root is down: got %v", err)
				}
				d.down("two", false)
				if d.wrong(h, nil) == nil {
					t.Error("control: the version is not noticed")
				}
				if err := h.Expire(t.Context()); err != nil {
					t.Error(err)
				}
			}
			if err := d.wrong(h, []string{"1/0 1/0"}); err != nil {
				t.Errorf("down %t: %v", isDown, err)
			}
		})
	}
}

// TestDeleteVersionsRootDown: a storage root that is down leaves the deletion open; then it goes on. No fixity check
// takes what is removed for damage.
func TestDeleteVersionsRootDown(t *testing.T) {
	src, d := newFake(1, 2), newDepots(t)
	bubble(t, src, d.use, func(h *harness) {
		t := h.t
		jobs, texts := h.archives(src, 3)
		d.down("two", true)
		_ = h.remove(jobs[0])
		time.Sleep(time.Minute)
		if err := h.Expire(t.Context()); err == nil || !strings.Contains(err.Error(), "objects/two") {
			t.Fatalf("got %v", err)
		}
		x, err := h.Details(t.Context(), jobs[0])
		if err != nil || x.Tombstone != nil {
			t.Errorf("the deletion ended: %+v, %v", x.Tombstone, err)
		}
		if err := hasNone(d.dirs["one"], texts[:1]); err != nil {
			t.Errorf("the root that is not down: %v", err)
		}
		d.down("two", false)
		if hasNone(d.dirs["two"], texts[:1]) == nil {
			t.Error("control: the version is not noticed")
		}
		if err := h.Expire(t.Context()); err != nil {
			t.Fatal(err)
		}
		h.deleted(jobs[0])
		if err := d.wrong(h, texts[:1], jobs[1:]...); err != nil {
			t.Error(err)
		}
	})
}

// TestDeleteVersionsHeld: a legal hold keeps the versions of its archive, and does not keep those of others.
func TestDeleteVersionsHeld(t *testing.T) {
	src, d := newFake(1, 2), newDepots(t)
	bubble(t, src, d.use, func(h *harness) {
		t := h.t
		jobs, texts := h.archives(src, 2)
		hold := api.HoldArchive{Name: "case", Actor: "ann", Note: "court"}
		if _, err := h.Hold(t.Context(), jobs[0], hold); err != nil {
			t.Fatal(err)
		}
		if err := h.remove(jobs[0]); err == nil {
			t.Error("a held archive is deleted")
		}
		if err := d.wrong(h, nil, jobs...); err != nil {
			t.Error(err)
		}
		if err := h.remove(jobs[1]); err != nil {
			t.Fatal(err)
		}
		h.deleted(jobs[1])
		if err := d.wrong(h, texts[1:], jobs[0]); err != nil {
			t.Error(err)
		}
	})
}

// TestDeleteVersionsAfterACrash: wherever the catalog's steps are interrupted, the deletion goes on.
func TestDeleteVersionsAfterACrash(t *testing.T) {
	for n := 1; ; n++ {
		src, d := newFake(1, 1), newDepots(t)
		reached := false
		synctest.Test(t, func(t *testing.T) {
			h := start(t, mem.New(), quickDir(t), src, d.use)
			defer h.stop()
			jobs, texts := h.archives(src, 2)
			request, err := h.RequestDeletion(t.Context(), jobs[0], "ann", "wrong")
			if err != nil {
				t.Fatal(err)
			}
			src.crashAt(n, &reached)
			h.approve(request.Request)
			synctest.Wait()
			_, _ = d.check(h) // it reports the copies in locations that are being deleted
			if bad, err := h.options.Catalog.FaultyVersions(t.Context(), 10); err != nil && !errors.Is(err, errCrash) ||
				len(bad) > 0 {
				t.Errorf("point %d: a check in between found %+v, %v", n, bad, err)
			}
			if err := h.Expire(t.Context()); err != nil && !errors.Is(err, errCrash) {
				t.Fatalf("point %d: %v", n, err)
			}
			h.deleted(jobs[0])
			src.mu.Lock()
			src.crash = nil
			src.mu.Unlock()
			if err := d.wrong(h, texts[:1], jobs[1]); err != nil {
				t.Errorf("point %d: %v", n, err)
			}
		})
		if !reached {
			if n < 12 {
				t.Errorf("only %d points were tried", n-1)
			}
			return
		}
	}
}

// TestCheckAgainAtTheSameTime: a version that gets another name is due again. A pass checks it once, even if the clock
// has not moved since the last one.
func TestCheckAgainAtTheSameTime(t *testing.T) {
	src, d := newFake(1, 2), newDepots(t)
	bubble(t, src, d.use, func(h *harness) {
		t := h.t
		jobs, _ := h.archives(src, 3)
		now, calls := time.Now().AddDate(0, 0, 31), 0
		checker := audit.New(audit.Options{
			Catalog: h.options.Catalog, Copies: h.options.Copies, Objects: h.options.Objects,
			Now: func() time.Time { return now },
			Pace: func(context.Context, int) error {
				if calls++; calls > 1000 {
					return errors.New("the pass does not end")
				}
				return nil
			},
			Report: func(context.Context, string, string, string) error { return nil },
		})
		for _, remove := range []bool{false, true} {
			if remove {
				if err := h.remove(jobs[0]); err != nil {
					t.Fatal(err)
				}
				h.deleted(jobs[0])
			}
			calls = 0
			if r, err := checker.Pass(t.Context()); err != nil || r.Copies == 0 {
				t.Errorf("removed %t: %d copies in %d reads, %v", remove, r.Copies, calls, err)
			}
		}
	})
}

// TestDeleteVersionsDuringACheck: a fixity check that has listed versions finds no fault in them when a deletion
// removes or renames them meanwhile.
func TestDeleteVersionsDuringACheck(t *testing.T) {
	last, raced := 1, 0
	for at := 1; at <= last; at += 6 {
		src, d := newFake(1, 2), newDepots(t)
		bubble(t, src, d.use, func(h *harness) {
			t := h.t
			jobs, texts := h.archives(src, 3)
			calls := 0
			checker := audit.New(audit.Options{
				Catalog: h.options.Catalog, Copies: h.options.Copies, Objects: h.options.Objects,
				Now: func() time.Time { return time.Now().AddDate(0, 0, 31) },
				Pace: func(context.Context, int) error {
					if calls++; calls != at {
						return nil
					}
					raced++
					err := h.remove(jobs[0])
					h.deleted(jobs[0])
					return err
				},
				Report: func(_ context.Context, event, object, note string) error {
					if strings.HasPrefix(object, audit.RootPrefix) {
						t.Errorf("call %d: %s %s %s", at, event, object, note)
					}
					return nil
				},
			})
			_, _ = checker.Pass(t.Context()) // copies that are deleted while they are read are another matter
			last = max(last, calls)
			if calls >= at {
				d.checks = 2
				if err := d.wrong(h, texts[:1], jobs[1:]...); err != nil {
					t.Errorf("call %d: %v", at, err)
				}
			}
		})
	}
	if raced < 5 {
		t.Errorf("only %d points were tried", raced)
	}
}
