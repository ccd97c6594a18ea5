package transfer_test

import (
	"bytes"
	"log/slog"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stagepost/stagepost/server/transfer"
)

// TestDeadline: each piece has 30 s. A reader slower than 1 KiB/s after the first minute has no time left.
func TestDeadline(t *testing.T) {
	start := time.Unix(1000, 0)
	for _, c := range []struct {
		passed time.Duration
		n      int64
		left   time.Duration
	}{
		{0, 0, 30 * time.Second},
		{40 * time.Second, 0, 20 * time.Second},
		{2 * time.Minute, 0, -time.Minute},
		{2 * time.Minute, 60 << 10, 0},
		{time.Hour, 1 << 30, 30 * time.Second},
	} {
		now := start.Add(c.passed)
		if got := transfer.Deadline(start, now, c.n).Sub(now); got != c.left {
			t.Errorf("after %s and %d bytes: %s, want %s", c.passed, c.n, got, c.left)
		}
	}
}

// timed is a connection that keeps the deadlines of writes.
type timed struct {
	httptest.ResponseRecorder
	until []time.Time
}

func (w *timed) SetWriteDeadline(t time.Time) error { w.until = append(w.until, t); return nil }

// TestContentHasDeadlines: a reader that stops has a deadline, and the next answer on the connection has its full time.
func TestContentHasDeadlines(t *testing.T) {
	w := &timed{ResponseRecorder: *httptest.NewRecorder()}
	content := bytes.NewReader(make([]byte, 1<<20))
	err := transfer.Serve(w, httptest.NewRequest("GET", "/", nil), slog.New(slog.DiscardHandler), "x.zip", time.Time{},
		content)
	if err != nil {
		t.Fatal(err)
	}
	if w.Body.Len() != 1<<20 || len(w.until) < 2 {
		t.Fatalf("%d bytes, %d deadlines", w.Body.Len(), len(w.until))
	}
	for _, until := range w.until {
		if left := time.Until(until); left <= 0 || left > 30*time.Second {
			t.Errorf("a deadline in %s", left)
		}
	}
}
