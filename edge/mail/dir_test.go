package mail

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestDir(t *testing.T) {
	path := t.TempDir()
	d := Dir(path)
	m := good()
	if err := d.Send(context.Background(), m); err != nil {
		t.Fatal(err)
	}
	names, err := filepath.Glob(filepath.Join(path, "*"))
	if err != nil || len(names) != 1 ||
		!strings.HasPrefix(filepath.Base(names[0]), "bid-1.report@stagepost.example.org-") {
		t.Fatalf("files %q, %v", names, err)
	}
	raw, err := os.ReadFile(names[0])
	if err != nil {
		t.Fatal(err)
	}
	if got := check(t, raw, m).Get("Bcc"); got != `"Admin" <root@example.com>` {
		t.Errorf("bcc %q", got)
	}
	m.Text = "again"
	if err := d.Send(context.Background(), m); err != nil {
		t.Fatal(err)
	}
	again, err := os.ReadFile(names[0])
	if err != nil || string(again) != string(raw) {
		t.Errorf("the second send changed the file (%v)", err)
	}
	m.MessageID = "BID-1.report@stagepost.example.org"
	if err := d.Send(context.Background(), m); err != nil {
		t.Fatal(err)
	}
	if entries, err := os.ReadDir(path); err != nil || len(entries) != 2 {
		t.Errorf("entries %v, %v; want two files and nothing unfinished", entries, err)
	}
}

func TestDirNames(t *testing.T) {
	seen := map[string]string{}
	for _, id := range []string{"a@b", "A@b", "a_@b", "a*@b", "a/../../b@c",
		"../../etc@x", ".hidden@x", "-rf@x", strings.Repeat("a", 190) + "@b", strings.Repeat("a", 191) + "@b",
		"CON@x"} {
		name := fileName(id)
		if !filepath.IsLocal(name) ||
			strings.ContainsAny(name, `/\*`) || strings.HasPrefix(name, ".") || strings.HasPrefix(name, "-") ||
			len(name) > 150 {
			t.Errorf("%q becomes %q", id, name)
		}
		if other, ok := seen[strings.ToLower(name)]; ok {
			t.Errorf("%q and %q both become %q", id, other, name)
		}
		seen[strings.ToLower(name)] = id
	}
}

func TestDirErrors(t *testing.T) {
	var e *Error
	err := Dir(filepath.Join(t.TempDir(), "missing")).Send(context.Background(), good())
	if !errors.As(err, &e) || !e.Temporary() {
		t.Errorf("missing directory: %v, want a temporary error", err)
	}
	path := t.TempDir()
	bad := good()
	bad.Subject = "a\r\nb"
	if err := Dir(path).Send(context.Background(), bad); !errors.As(err, &e) || e.Temporary() {
		t.Errorf("bad message: %v, want a permanent error", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := Dir(path).Send(ctx, good()); !errors.As(err, &e) || !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if entries, err := os.ReadDir(path); err != nil || len(entries) != 0 {
		t.Errorf("entries %v, %v; want none", entries, err)
	}
}
