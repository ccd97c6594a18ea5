package quiet

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stagepost/stagepost/job"
)

// TestQuiet: messages about a full disk are written once a minute, with the number of those that were not. Control:
// other messages are all written.
func TestQuiet(t *testing.T) {
	var out bytes.Buffer
	now := time.Unix(0, 0)
	h := &handler{slog.NewTextHandler(&out, nil), &seen{now: func() time.Time { return now }}}
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
