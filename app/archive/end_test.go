package archive

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stagepost/stagepost/app/archive/catalog"
	"github.com/stagepost/stagepost/engine/operator"
	"github.com/stagepost/stagepost/lifecycle"
)

// gone checks what must not remain of an archive that failed: copies, running tasks and working files (defect B3).
func (h *harness) gone(dir string, id string) {
	h.t.Helper()
	for _, location := range []string{"near", "far"} {
		if all := digests(h.t, filepath.Join(dir, location)); len(all) > 1 {
			h.t.Errorf("%s has %v", location, all)
		}
	}
	left, err := filepath.Glob(filepath.Join(h.workDir(), "*", "*"))
	if err != nil || len(left) > 1 {
		h.t.Errorf("left in the working directory: %v, %v", left, err)
	}
	a, err := h.options.Catalog.Archive(h.t.Context(), id)
	if err != nil || a.Outcome != catalog.Failed {
		h.t.Errorf("the catalog has %s, %v", a.Outcome, err)
	}
}

// TestCancel: a job that is cancelled while its tasks run ends in Cancelled, its tasks are cancelled, and nothing of it
// remains.
func TestCancel(t *testing.T) {
	src := newFake(3, 2)
	bubble(t, src, notified(t, everyEvent...), func(h *harness) {
		src.onFetch = func(string, string) { time.Sleep(time.Hour) }
		j := h.submit(Request{})
		time.Sleep(time.Minute)
		_, err := h.engine.Do(h.t.Context(), operator.Act{Job: j.ID, Event: Cancel, By: lifecycle.Owner, Actor: "ann"})
		if err != nil {
			t.Fatal(err)
		}
		j = h.end(j.ID)
		if j.State != Cancelled || j.Outcome != lifecycle.Cancelled {
			t.Errorf("got %s: %s", j.State, h.events(j.ID))
		}
		tasks, err := h.store.Tasks(h.t.Context(), j.ID)
		if err != nil {
			t.Fatal(err)
		}
		notices := h.notices(j.ID)
		if count(notices, "archive_job_aborted Cancelled") != 1 {
			t.Errorf("notifications: %v", notices)
		}
		for _, one := range tasks {
			if !TaskLife.Ended(one.State) {
				t.Errorf("%s is %s", one.Name, one.State)
			}
			if one.State == Cancelled && count(notices, "task_aborted "+one.Name) != 1 {
				t.Errorf("notifications of %s: %v", one.Name, notices)
			}
		}
		if ids := h.blamed(src); len(ids) > 0 {
			t.Errorf("it blames %q", ids)
		}
		h.gone(h.options.Dir, string(j.ID))
	})
}

// TestFlaky: a location or an authority that fails k times lets the job wait in RecoverableError; over the limit the
// job ends in Failure, and nothing of it remains.
func TestFlaky(t *testing.T) {
	const once = " error recover retry"
	for _, c := range []struct {
		name   string
		stamps int
		want   string
	}{
		{"control: none", 0, walk},
		{"twice", 2, "create enqueue begin next next next next next" + once + once + " next finish"},
		{"always", 99, "create enqueue begin next next next next next" + once + once + once + once +
			" error fail next fail"},
	} {
		t.Run("authority "+c.name, func(t *testing.T) {
			bubble(t, newFake(1, 2), func(o *Options) { o.Signer = &stamps{fails: c.stamps} }, func(h *harness) {
				j := h.end(h.submit(Request{}).ID)
				if got := h.events(j.ID); got != c.want {
					t.Errorf("got  %s\nwant %s", got, c.want)
				}
				if c.stamps > 5 {
					h.gone(h.options.Dir, string(j.ID))
				} else if faults := h.stored(&j, h.options.Dir); len(faults) > 0 {
					t.Error(faults)
				}
			})
		})
	}
}

// TestPlaceDown: a location that is down lets the job wait; when it is back, the location gets what it lacks, and the
// other one keeps what it has. With a quorum of one the job completes without it.
func TestLocationDown(t *testing.T) {
	for _, quorum := range []string{"all", "1"} {
		bubble(t, newFake(1, 2), nil, func(h *harness) {
			far := filepath.Join(h.options.Dir, "far")
			j := h.submit(Request{Settings: Settings{Quorum: quorum, Deadline: "3h"}})
			if err := os.Chmod(far, 0); err != nil {
				t.Fatal(err)
			}
			if err := os.Rename(far, far+".away"); err != nil {
				t.Fatal(err)
			}
			back := func() error { return errors.Join(os.Rename(far+".away", far), os.Chmod(far, 0o750)) }
			if quorum == "1" {
				if j = h.end(j.ID); j.State != Completed {
					t.Errorf("got %s: %s", j.State, h.events(j.ID))
				}
				if err := back(); err != nil {
					t.Fatal(err)
				}
				return
			}
			time.Sleep(time.Minute)
			if err := back(); err != nil {
				t.Fatal(err)
			}
			j = h.end(j.ID)
			if faults := h.stored(&j, h.options.Dir); j.State != Completed || len(faults) > 0 {
				t.Errorf("got %s: %s; %v", j.State, h.events(j.ID), faults)
			}
		})
	}
}

// TestDrift: an activity that changes while it is archived is archived again, at most twice; then it is archived as it
// is, which the catalog states.
func TestDrift(t *testing.T) {
	for _, changes := range []int{0, 1, 2, 9} {
		src := newFake(1, 2)
		left := changes
		src.onFetch = func(a, item string) {
			src.mu.Lock()
			defer src.mu.Unlock()
			if left--; left >= 0 && item == "item-1" {
				src.files[a]["item-0"] += "changed "
			} else if item != "item-1" {
				left++
			}
		}
		bubble(t, src, nil, func(h *harness) {
			j := h.end(h.submit(Request{}).ID)
			all, err := h.options.Catalog.Activities(h.t.Context(), string(j.ID))
			if err != nil || len(all) != 1 {
				t.Fatalf("got %d activities, %v", len(all), err)
			}
			retries := strings.Count(h.events(j.ID), "retry")
			drift := changes > maxDrifts
			if want := min(changes, maxDrifts); j.State != Completed || retries != want || all[0].Drift != drift {
				t.Errorf("%d changes: got %s, %d retries, drift %t", changes, j.State, retries, all[0].Drift)
			}
			tasks, err := h.store.Tasks(h.t.Context(), j.ID)
			if err != nil {
				t.Fatal(err)
			}
			var d extracted
			for _, one := range tasks {
				if one.Name == activityTask+"1" {
					err = decode(one.Data, &d)
				}
			}
			warned := slices.Contains(d.Warnings, "Quiz 1 changed while it was archived")
			if err != nil || d.Drift != drift || warned != drift {
				t.Errorf("%d changes: the task has %+v, %v", changes, d, err)
			}
		})
	}
}
