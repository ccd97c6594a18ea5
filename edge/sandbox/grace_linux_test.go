package sandbox

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"
)

// heedful writes a line when it has begun to listen for SIGTERM, and ends in its own way.
const heedful = "trap 'echo bye; exit 6' TERM; echo ready; while :; do sleep 0.1; done"

// TestTermIsHeard is the control for the grace: who listens ends in its own way. Where the time was up before it
// listened it gets more.
func TestTermIsHeard(t *testing.T) {
	each(t, func(t *testing.T, s *Sandbox, tier string) {
		var g got
		for wall := 300 * time.Millisecond; wall < patience/4 && !strings.HasPrefix(g.out, "ready\n"); wall *= 4 {
			g = shell(t, s, tier, heedful, func(c *Command) {
				c.Limits.Wall = wall
				c.Grace = patience / 2
			})
		}
		if g.out != "ready\nbye\n" || g.Exit != 6 || g.Cause != Timeout || g.Wall > patience/2 {
			t.Errorf("got %q, %+v, want bye, 6, timeout", g.out, g.Ending)
		}
	})
}

// TestCancelSignals cancels commands at their first output: they are signalled to end, even if the sandbox has not seen
// yet that they began.
func TestCancelSignals(t *testing.T) {
	each(t, func(t *testing.T, s *Sandbox, tier string) {
		for range 20 {
			ctx, cancel := context.WithCancel(t.Context())
			var out strings.Builder
			begun := notify(func(text string) {
				out.WriteString(text)
				cancel()
			})
			e, err := s.run(ctx, tier, &Command{Argv: []string{"/bin/bash", "-c", heedful}, Dir: t.TempDir(),
				Stdout: begun, Grace: patience / 2})
			cancel()
			if err != nil || out.String() != "ready\nbye\n" || e.Exit != 6 || e.Cause != Killed {
				t.Errorf("got %q, %+v, %v, want bye, 6, killed", out.String(), e, err)
			}
		}
	})
}

// TestSandboxesOfOneName: two sandboxes of one process that have one name run commands at the same time.
func TestSandboxesOfOneName(t *testing.T) {
	var both [2]*Sandbox
	for i := range both {
		s, err := Open(t.Context(), Options{Name: fmt.Sprintf("stagepost-twin-%d", os.Getpid())})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		both[i] = s
	}
	one, two := both[0], both[1]
	began, end := make(chan struct{}), make(chan error, 1)
	var once sync.Once
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		_, err := one.Run(ctx, &Command{Argv: []string{"/bin/bash", "-c", heedful}, Dir: t.TempDir(),
			Stdout: notify(func(string) { once.Do(func() { close(began) }) }), Grace: patience / 2})
		end <- err
	}()
	<-began
	e, err := two.Run(t.Context(), &Command{Argv: []string{"/bin/true"}, Dir: t.TempDir()})
	if err != nil || e.Exit != 0 {
		t.Errorf("the second: %+v, %v", e, err)
	}
	cancel()
	if err := <-end; err != nil {
		t.Errorf("the first: %v", err)
	}
}
