package moodle_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/stagepost/stagepost/app/archive/source"
	"github.com/stagepost/stagepost/app/archive/source/moodle/replay"
	"github.com/stagepost/stagepost/internal/polltest"
)

// held is a Moodle that makes backups at once and answers when one is done: not before release is called.
type held struct {
	*fixture
	arrived chan struct{} // a value for each start that arrived
	release func(w http.ResponseWriter) bool
	answer  chan struct{}
}

func newHeld(t *testing.T) *held {
	t.Helper()
	h := &held{fixture: newFixture(t), arrived: make(chan struct{}, 10), answer: make(chan struct{})}
	h.release = func(http.ResponseWriter) bool { return false }
	h.site.Intercept(func(w http.ResponseWriter, r *http.Request, _ string) bool {
		if r.PostForm.Get("oneclickbackup") == "" {
			return false
		}
		h.arrived <- struct{}{}
		<-h.answer
		return h.release(w)
	})
	h.source.SetStartWait(time.Millisecond)
	return h
}

// started prepares and starts a backup, whose answer is awaited.
func (h *held) started() *source.BackupRequest {
	h.t.Helper()
	for range 2 {
		if err := h.step(); err != nil {
			h.t.Fatal(err)
		}
	}
	<-h.arrived
	return h.request()
}

func (h *held) state(r *source.BackupRequest) source.BackupState {
	h.t.Helper()
	got, err := h.source.BackupState(h.t.Context(), r)
	if err != nil {
		h.t.Fatal(err)
	}
	return got
}

// TestStartDoesNotWait: a Moodle that makes backups at once answers the start when the backup is done. The call returns
// before, the backup counts as running however long that takes, and other jobs prepare theirs, which start afterwards.
// A test without the guard stands still.
func TestStartDoesNotWait(t *testing.T) {
	h := newHeld(t)
	r := h.started()
	h.pass(30 * time.Minute) // far more than the grace
	if got := h.state(r); got != source.BackupRunning {
		t.Errorf("got %s", got)
	}
	other, err := h.source.PrepareBackup(t.Context(), replay.Course, replay.Quiz)
	if err != nil {
		t.Fatal(err)
	}
	save := func() error { t.Error("a second backup was started at the same time"); return nil }
	for _, one := range []*source.BackupRequest{r, other} {
		if err := h.source.StartBackup(t.Context(), one, save); err != nil {
			t.Error(err)
		}
	}
	if got := h.state(other); got != source.BackupNew {
		t.Errorf("the other one is %s", got)
	}
	close(h.answer)
	polltest.Until(t, "the backup is done", func() bool { return h.state(r) == source.BackupDone })
	if err := h.run(); err != nil {
		t.Fatal(err)
	}
	h.check("done")
	h.source.SetStartWait(time.Minute)
	if err := h.source.StartBackup(t.Context(), other, func() error { return nil }); err != nil {
		t.Fatal(err)
	}
	if got := h.state(other); got != source.BackupDone {
		t.Errorf("the other one is %s", got)
	}
}

// TestStartFailsLate: the failure of a start that comes after the call returned is given once by the next query of the
// state. The start is repeated when its grace is over, and there is one backup.
func TestStartFailsLate(t *testing.T) {
	h := newHeld(t)
	h.release = func(http.ResponseWriter) bool { panic(http.ErrAbortHandler) }
	r := h.started()
	close(h.answer)
	var err error
	polltest.Until(t, "the start has failed", func() bool {
		_, err = h.source.BackupState(t.Context(), r)
		return err != nil
	})
	var e *source.Error
	if !errors.As(err, &e) || !e.Temporary() {
		t.Errorf("got %v", err)
	}
	if got := h.state(r); got != source.BackupRunning {
		t.Errorf("at once: got %s", got)
	}
	h.pass(3 * time.Minute)
	if got := h.state(r); got != source.BackupNew {
		t.Errorf("after the grace: got %s", got)
	}
	h.site.Intercept(nil)
	if err := h.run(); err != nil {
		t.Fatal(err)
	}
	h.check("repeated")
}

// TestStartCancelled: the end of a job does not wait for the answer to a start, and ends the wait for the session. The
// backup in the Moodle goes on.
func TestStartCancelled(t *testing.T) {
	h := newHeld(t)
	if err := h.step(); err != nil {
		t.Fatal(err)
	}
	h.source.SetStartWait(time.Hour)
	r := h.request()
	first, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- h.source.StartBackup(first, r, func() error { return nil }) }()
	<-h.arrived
	second, stop := context.WithCancel(t.Context())
	stop()
	if err := h.source.StartBackup(second, r, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	close(h.answer)
	polltest.Until(t, "the backup is done", func() bool { return h.state(r) == source.BackupDone })
}
