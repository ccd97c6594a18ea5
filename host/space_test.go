package host

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stagepost/stagepost/host/stores"
	"github.com/stagepost/stagepost/job"
)

// TestFailingDisk: a directory that accepts no writes is named with the system's reason, in health and in why, until it
// does again.
func TestFailingDisk(t *testing.T) {
	s := &space{dir: filepath.Join(t.TempDir(), "gone"), store: &stores.Store{}}
	err := s.Writable(t.Context())
	if err == nil || !strings.Contains(err.Error(), s.dir+" accepts no writes") || job.IsFull(err) {
		t.Errorf("got %v", err)
	}
	if in := s.impaired(); in == nil || in.Since.IsZero() || in.Err.Error() != err.Error() {
		t.Errorf("got %+v", in)
	}
	if err := os.Mkdir(s.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := s.Writable(t.Context()); err != nil || s.impaired() != nil {
		t.Errorf("control: %v, %+v", err, s.impaired())
	}
	if left, err := os.ReadDir(s.dir); err != nil || len(left) != 0 {
		t.Errorf("the probe left %v, %v", left, err)
	}
}

// TestAdmit: uploads leave the reserve free.
func TestAdmit(t *testing.T) {
	s := &space{dir: t.TempDir(), store: &stores.Store{}}
	if err := s.Admit(0); err != nil {
		t.Errorf("control: %v", err)
	}
	s.reserve = 1 << 60
	if err := s.Admit(5); !job.IsFull(err) ||
		!strings.Contains(fmt.Sprint(err), fmt.Sprintf("of which %d are reserved, and 5 more are needed", s.reserve)) {
		t.Errorf("got %v", err)
	}
}

// TestQuiet: messages about a full disk are written once a minute, with the number of those that were not. Control:
// other messages are all written.
func TestQuiet(t *testing.T) {
	var out bytes.Buffer
	now := time.Unix(0, 0)
	h := &quiet{slog.NewTextHandler(&out, nil), &seen{now: func() time.Time { return now }}}
	log, with := slog.New(h), slog.New(h).With("a", 1).WithGroup("g")
	full := &job.Error{Kind: job.Unavailable, Err: fmt.Errorf("claim: %w", syscall.ENOSPC)}
	for range 100 {
		log.Error("claim", "error", full)
		with.Error("sweep", "error", full)
		with.Warn("attempt failed", "error", full.Error())
		now = now.Add(100 * time.Millisecond)
	}
	if n := strings.Count(out.String(), "\n"); n != 1 {
		t.Errorf("%d lines:\n%s", n, &out)
	}
	now = now.Add(time.Minute)
	log.Error("claim", "error", full)
	if !strings.Contains(out.String(), "suppressed=299") {
		t.Errorf("got\n%s", &out)
	}
	out.Reset()
	for range 10 {
		log.Error("claim", "error", os.ErrClosed)
		log.Info("well")
	}
	if n := strings.Count(out.String(), "\n"); n != 20 {
		t.Errorf("control: %d lines", n)
	}
}
