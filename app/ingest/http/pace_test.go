package ingesthttp

import (
	"bytes"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stagepost/stagepost/server"
)

// TestPatience: each piece has 30 s, and who reads less than 1 KiB/s over the first minute and after has none left.
func TestPatience(t *testing.T) {
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
		if got := server.Patience(start, now, c.n).Sub(now); got != c.left {
			t.Errorf("after %s and %d bytes: %s, want %s", c.passed, c.n, got, c.left)
		}
	}
}

// timed is a connection that remembers until when writes may take.
type timed struct {
	httptest.ResponseRecorder
	until []time.Time
}

func (w *timed) SetWriteDeadline(t time.Time) error { w.until = append(w.until, t); return nil }

// TestContentHasDeadlines: a reader who hangs cannot hang for ever, and what follows on the connection has its time again.
func TestContentHasDeadlines(t *testing.T) {
	w := &timed{ResponseRecorder: *httptest.NewRecorder()}
	s := &server.Server{}
	if err := s.ServeContent(w, httptest.NewRequest("GET", "/", nil), "x.zip", time.Time{}, bytes.NewReader(make([]byte, 1<<20))); err != nil {
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
