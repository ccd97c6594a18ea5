package archive

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stagepost/stagepost/app/archive/source"
	"github.com/stagepost/stagepost/engine/operator"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

var errWrong = &source.Error{Op: "fetch", Err: errors.New("it is damaged")}

// fakeBackups makes backups in memory.
type fakeBackups struct {
	point func(string) error // a process can crash here

	mu       sync.Mutex
	running  bool            // those that are started are not done
	broken   error           // what a deletion fails with
	breaks   int             // deletions that fail; -1: all
	onDelete func(id string) // called before a file is deleted; may be nil
	files    map[string]bool // by the ids of backups
	started  int             // counts ids
	deleted  []string        // ids, in their order
	asked    int             // calls of DeleteBackup
}

// withBackups gives a source that makes backups.
func withBackups(activities int) *fake {
	src := newFake(activities, 1)
	src.backups = &fakeBackups{files: map[string]bool{"of-a-person": true}, point: src.point}
	return src
}

func (b *fakeBackups) CanBackup(context.Context) (string, error) { return "", nil }

func (b *fakeBackups) PrepareBackup(_ context.Context, course, activity string) (*source.BackupRequest, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.started++
	r := &source.BackupRequest{Course: course, Activity: activity, ID: fmt.Sprintf("backup-%d", b.started)}
	return r, b.point("prepare")
}

func (b *fakeBackups) StartBackup(_ context.Context, r *source.BackupRequest, save func() error) error {
	r.Posted = time.Now().UTC()
	if err := errors.Join(save(), b.point("before the start")); err != nil {
		return err
	}
	b.mu.Lock()
	b.files[r.ID] = true
	b.mu.Unlock()
	return b.point("started")
}

func (b *fakeBackups) BackupState(_ context.Context, r *source.BackupRequest) (source.BackupState, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case !b.files[r.ID]:
		return source.BackupNew, nil
	case b.running:
		return source.BackupRunning, nil
	}
	return source.BackupDone, nil
}

func (b *fakeBackups) FetchBackup(
	ctx context.Context, r *source.BackupRequest, _ *os.Root, out source.Out,
) (*source.Backup, error) {
	name := "backups/" + r.ID + ".mbz"
	err := out.Put(ctx, name, &source.Origin{}, func(w io.Writer) error {
		_, err := io.WriteString(w, r.ID)
		return err
	})
	r.File = &source.BackupFile{Name: r.ID + ".mbz"}
	return &source.Backup{Name: name}, errors.Join(err, b.point("fetched"))
}

func (b *fakeBackups) DeleteBackup(_ context.Context, r *source.BackupRequest, _ *os.Root) error {
	if err := b.point("before the deletion"); err != nil {
		return err
	}
	b.mu.Lock()
	if b.asked++; b.breaks != 0 {
		b.breaks--
		b.mu.Unlock()
		return b.broken
	}
	if b.files[r.ID] {
		if b.onDelete != nil {
			b.onDelete(r.ID)
		}
		delete(b.files, r.ID)
		b.deleted = append(b.deleted, r.ID)
	}
	b.mu.Unlock()
	return b.point("deleted")
}

// withEveryBackup asks for backups of the course and of each activity.
func withEveryBackup() Request {
	yes := true
	return Request{Settings: Settings{CourseBackup: &yes, ActivityBackups: &yes}}
}

// withBackup asks for a backup of the course.
func withBackup() Request {
	yes := true
	return Request{Settings: Settings{CourseBackup: &yes}}
}

// onlyAfterCopies makes the source check at each deletion that both locations have the whole archive with its time
// stamp: package, checksum, seal and stamp. It calls wrong with what is missing.
func (b *fakeBackups) onlyAfterCopies(t *testing.T, dir string, wrong func(format string, args ...any)) {
	b.onDelete = func(id string) {
		near, far := digests(t, dir+"/near"), digests(t, dir+"/far")
		if len(near) != 4 || !slices.Equal(near, far) || !strings.Contains(strings.Join(near, " "), ".tsr ") {
			wrong("%s was deleted when the locations had %v and %v", id, near, far)
		}
	}
}

// deletions gives the events of deletions in the source.
func (h *harness) deletions(id job.ID) (all []string) {
	h.t.Helper()
	events, err := h.options.Catalog.Events(h.t.Context(), string(id), "", 1000)
	if err != nil {
		h.t.Fatal(err)
	}
	for _, e := range events {
		if e.Type == "source deletion" {
			all = append(all, e.Outcome+" "+e.Detail)
		}
	}
	return all
}

// TestDeleteBackups: the backups that a job started are deleted after its archive has verified copies and a time
// stamp, and are in the archive. Other backups stay.
func TestDeleteBackups(t *testing.T) {
	src := withBackups(2)
	bubble(t, src, nil, func(h *harness) {
		t := h.t
		src.backups.onlyAfterCopies(t, h.options.Dir, t.Errorf)
		j := h.end(h.submit(withEveryBackup()).ID)
		if j.State != Completed || j.Message != "" {
			t.Fatalf("got %s: %s", j.State, j.Message)
		}
		if got := src.backups.deleted; len(got) != 3 || len(src.backups.files) != 1 {
			t.Errorf("deleted %v, left %v", got, src.backups.files)
		}
		if got := h.deletions(j.ID); len(got) != 3 || !strings.HasPrefix(got[0], "success the backup backup-") {
			t.Errorf("events %q", got)
		}
	})
}

// TestDeleteBackupsOff: with the setting off, nothing is deleted, also after a failure.
func TestDeleteBackupsOff(t *testing.T) {
	for _, want := range []lifecycle.State{Completed, Failure} {
		src := withBackups(1)
		if want == Failure {
			src.failures["1/item-0"] = errWrong
		}
		bubble(t, src, nil, func(h *harness) {
			t := h.t
			r, no := withEveryBackup(), false
			r.Settings.DeleteBackups = &no
			j := h.end(h.submit(r).ID)
			if j.State != want || src.backups.asked != 0 || len(src.backups.files) != 3 {
				t.Errorf("got %s, %d calls, left %v", j.State, src.backups.asked, src.backups.files)
			}
		})
	}
}

// TestDeleteBackupsFails: a deletion that fails does not change that the archive is complete. It is tried again, and
// a backup that remains is named.
func TestDeleteBackupsFails(t *testing.T) {
	busy := &source.Error{Op: "page", Err: errors.New("busy"), Transient: true}
	right := &source.Error{Op: "page", Code: "nopermissions", Err: errors.New("give it moodle/restore:uploadfile")}
	for name, c := range map[string]struct {
		err           error
		breaks, asked int
		remains       bool
	}{
		"control":     {nil, 0, 1, false},
		"busy":        {busy, 3, 4, false},
		"permanently": {busy, -1, maxDeletions, true},
		"right":       {right, -1, 1, true},
		"other":       {&source.Error{Op: "x", Err: source.ErrBackupOther}, -1, 1, true},
		"the last":    {busy, maxDeletions - 1, maxDeletions, false},
		"one fewer":   {busy, maxDeletions, maxDeletions, true},
	} {
		t.Run(name, func(t *testing.T) {
			src := withBackups(1)
			src.backups.broken, src.backups.breaks = c.err, c.breaks
			bubble(t, src, nil, func(h *harness) {
				t := h.t
				j := h.end(h.submit(withBackup()).ID)
				if j.State != Completed || src.backups.asked != c.asked {
					t.Fatalf("got %s: %s after %d calls", j.State, j.Message, src.backups.asked)
				}
				if c.remains != strings.Contains(j.Message, "backup-1.mbz") ||
					c.remains != src.backups.files["backup-1"] {
					t.Errorf("message %q, left %v", j.Message, src.backups.files)
				}
				got := h.deletions(j.ID)
				if len(got) != 1 || strings.HasPrefix(got[0], "failure ") != c.remains {
					t.Errorf("events %q", got)
				}
				tasks, err := h.store.Tasks(t.Context(), j.ID)
				if err != nil {
					t.Fatal(err)
				}
				for _, one := range tasks {
					if one.Name == backupTask+courseTask && strings.Contains(one.Message, "remains") != c.remains {
						t.Errorf("the task has %s %q", one.State, one.Message)
					}
				}
			})
		})
	}
}

// TestDeleteBackupsAfterFailure: backups of a job that failed or was cancelled are deleted, those that were fetched and
// those that were not. One that is still being made is tried again, and named if that takes too long.
func TestDeleteBackupsAfterFailure(t *testing.T) {
	cancelled := func(h *harness, id job.ID) {
		_, err := h.engine.Do(h.t.Context(), operator.Act{Job: id, Event: Cancel, By: lifecycle.Owner, Actor: "ann"})
		if err != nil {
			h.t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		running time.Duration // from the request on
		fail    bool
		want    lifecycle.State
		left    bool
	}{
		"failed":          {0, true, Failure, false},
		"cancelled":       {4 * time.Minute, false, Cancelled, false},
		"never done":      {100 * time.Hour, false, Cancelled, true},
		"failed and slow": {4 * time.Minute, true, Failure, false},
	} {
		t.Run(name, func(t *testing.T) {
			src := withBackups(1)
			src.backups.running = c.running > 0
			if c.fail {
				src.failures["1/item-0"] = errWrong
			}
			bubble(t, src, nil, func(h *harness) {
				t := h.t
				id := h.submit(withBackup()).ID
				time.AfterFunc(c.running, func() {
					src.backups.mu.Lock()
					defer src.backups.mu.Unlock()
					src.backups.running = false
				})
				time.Sleep(time.Minute)
				if !c.fail {
					cancelled(h, id)
				}
				j := h.end(id)
				if j.State != c.want || src.backups.files["backup-1"] != c.left || !src.backups.files["of-a-person"] {
					t.Errorf("got %s: %s (%s), left %v", j.State, j.Message, h.events(id), src.backups.files)
				}
				if c.left && j.Entered.Sub(j.Created) > time.Hour {
					t.Errorf("it took %s", j.Entered.Sub(j.Created))
				}
				tasks, err := h.store.Tasks(t.Context(), id)
				if err != nil {
					t.Fatal(err)
				}
				for _, one := range tasks {
					if !TaskLife.Ended(one.State) {
						t.Errorf("the task %s is %s", one.Name, one.State)
					}
				}
				got := h.deletions(id)
				if len(got) != 1 || strings.HasPrefix(got[0], "failure ") != c.left {
					t.Errorf("events %q", got)
				}
				if strings.Contains(j.Message, "remain") {
					t.Errorf("the message is not that of the failure: %q", j.Message)
				}
			})
		})
	}
}

// TestDeleteBackupsWithoutCopies: a copy that is found damaged after the job had stored it keeps the backup in the
// source.
func TestDeleteBackupsWithoutCopies(t *testing.T) {
	src := withBackups(1)
	bubble(t, src, nil, func(h *harness) {
		t := h.t
		src.backups.mu.Lock()
		src.backups.broken, src.backups.breaks = &source.Error{Op: "page", Err: errors.New("busy"), Transient: true}, 1
		src.backups.mu.Unlock()
		id := h.submit(withBackup()).ID
		time.Sleep(20 * time.Second) // the first attempt failed; the second one comes after 30 s
		if src.backups.asked != 1 {
			t.Fatalf("%d calls: %s", src.backups.asked, h.events(id))
		}
		all, err := h.options.Catalog.Copies(t.Context(), string(id), "")
		if err != nil || len(all) == 0 {
			t.Fatal(err)
		}
		if err := h.options.Catalog.PutDeleted(t.Context(), all[0].CopyKey, "ann", "lost", h.wall()); err != nil {
			t.Fatal(err)
		}
		j := h.end(id)
		if j.State != Completed || len(src.backups.deleted) != 0 || !strings.Contains(j.Message, "backup-1.mbz") {
			t.Errorf("got %s: %s, deleted %v", j.State, j.Message, src.backups.deleted)
		}
	})
}
