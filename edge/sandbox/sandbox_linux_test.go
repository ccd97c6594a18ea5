package sandbox

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestMain(m *testing.M) {
	Init()
	if len(os.Args) > 1 && os.Args[1] == hostileMarker {
		os.Exit(hostileMain(os.Args[2:]))
	}
	code := m.Run()
	if shared.s != nil {
		_ = shared.s.Close()
	}
	os.Exit(code)
}

// shared is one sandbox for all tests that do not need their own: opening one tries every tier.
var shared struct {
	once sync.Once
	s    *Sandbox
	err  error
}

func opened(t testing.TB) *Sandbox {
	t.Helper()
	shared.once.Do(func() {
		shared.s, shared.err = Open(context.Background(), Options{Name: fmt.Sprintf("stagepost-test-%d", os.Getpid())})
	})
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return shared.s
}

// ungrouped is a sandbox as on a machine where no control groups are delegated.
func ungrouped(t testing.TB) *Sandbox {
	t.Helper()
	s, err := open(t.Context(), Options{Name: "stagepost-test"}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// tiers gives those that work here; none works everywhere.
func tiers(t testing.TB) []string {
	t.Helper()
	var out []string
	for _, c := range opened(t).Checks() {
		if tier, is := strings.CutPrefix(c.Name, "tier "); is && c.OK {
			out = append(out, tier)
		}
	}
	if len(out) == 0 {
		t.Fatal("no tier works here")
	}
	return out
}

// each runs a test in every tier.
func each(t *testing.T, f func(t *testing.T, s *Sandbox, tier string)) {
	for _, tier := range tiers(t) {
		t.Run(tier, func(t *testing.T) { f(t, opened(t), tier) })
	}
}

// got is what a command did.
type got struct {
	Ending
	out, err string
}

// patience bounds how long a test waits for what must come, however slow the machine is.
const patience = 5 * time.Minute

// shell runs a script; change may be nil.
func shell(t *testing.T, s *Sandbox, tier, script string, change func(*Command)) got {
	t.Helper()
	var out, errs bytes.Buffer
	c := &Command{Argv: []string{"/bin/bash", "-c", script}, Dir: t.TempDir(), Stdout: &out, Stderr: &errs,
		Grace: 200 * time.Millisecond}
	if err := os.Chmod(filepath.Dir(c.Dir), 0o711); err != nil { // in tier none a user of its own may pass
		t.Fatal(err)
	}
	if change != nil {
		change(c)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	e, err := s.run(ctx, tier, c)
	if err != nil {
		t.Fatalf("%s: %v", script, err)
	}
	if ctx.Err() != nil {
		t.Fatalf("%s: it did not end: %+v", script, e)
	}
	return got{e, out.String(), errs.String()}
}
