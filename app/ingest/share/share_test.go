package share

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stagepost/stagepost/job"
)

// TestLinks: a link is found by its secret alone, until it expires or is revoked; the file has no secret.
func TestLinks(t *testing.T) {
	dir, now := t.TempDir(), time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	l := Open(dir, func() time.Time { return now })
	one, key, err := l.Add(Link{Batch: "bat_1", By: "ann", Note: "for ben"}, time.Hour)
	if err != nil || len(key) < 32 {
		t.Fatalf("got %q, %v", key, err)
	}
	other, otherKey, err := l.Add(Link{Batch: "bat_2"}, 2*time.Hour)
	if err != nil || otherKey == key {
		t.Fatal(err)
	}
	text, err := os.ReadFile(l.file)
	if err != nil || strings.Contains(string(text), key) || !strings.Contains(string(text), one.Hash) {
		t.Errorf("the file has the secret, or lacks the hash: %s, %v", text, err)
	}
	if info, err := os.Stat(l.file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the mode of the file is %v, %v", info.Mode(), err)
	}
	if got, err := Open(dir, l.now).Find(key); err != nil || got.Batch != "bat_1" || got.By != "ann" {
		t.Errorf("after a restart: got %+v, %v", got, err)
	}
	for _, wrong := range []string{"", "x", one.ID, one.Hash, strings.ToLower(key), key + "A"} {
		if _, err := l.Find(wrong); job.KindOf(err) != job.NotFound {
			t.Errorf("%q: got %v", wrong, err)
		}
	}
	if list, err := l.Of("bat_1"); err != nil || len(list) != 1 || list[0].ID != one.ID {
		t.Errorf("got %+v, %v", list, err)
	}
	if err := l.Revoke("bat_1", other.ID); job.KindOf(err) != job.NotFound {
		t.Errorf("a link of another batch: got %v", err)
	}
	now = now.Add(time.Hour)
	if _, err := l.Find(key); job.KindOf(err) != job.NotFound {
		t.Errorf("an expired one: got %v", err)
	}
	if got, err := l.Find(otherKey); err != nil || got.ID != other.ID { // the control
		t.Errorf("one that has not expired: got %v", err)
	}
	if err := l.Revoke("bat_2", other.ID); err != nil {
		t.Error(err)
	}
	if _, err := l.Find(otherKey); job.KindOf(err) != job.NotFound {
		t.Errorf("a revoked one: got %v", err)
	}
}

func TestBoundsOfLinks(t *testing.T) {
	l := Open(t.TempDir(), time.Now)
	for _, d := range []time.Duration{0, -1, Longest + 1} {
		if _, _, err := l.Add(Link{Batch: "b"}, d); job.KindOf(err) != job.Invalid {
			t.Errorf("%s: got %v", d, err)
		}
	}
	for range most {
		if _, _, err := l.Add(Link{Batch: "b"}, Longest); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := l.Add(Link{Batch: "b"}, time.Hour); job.KindOf(err) != job.Refused {
		t.Errorf("one too many: got %v", err)
	}
	if _, _, err := l.Add(Link{Batch: "c"}, time.Hour); err != nil { // the control
		t.Error(err)
	}
	if err := os.WriteFile(l.file, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Find("x"); job.KindOf(err) != job.Internal {
		t.Errorf("a file that is no JSON: got %v", err)
	}
}
