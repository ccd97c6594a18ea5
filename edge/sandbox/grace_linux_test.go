package sandbox

import (
	"context"
	"strings"
	"testing"
	"time"
)

// heedful says when it has begun to listen for SIGTERM, and ends in its own way.
const heedful = "trap 'echo bye; exit 6' TERM; echo ready; while :; do sleep 0.1; done"

// TestTermIsHeard is the control for the grace: who listens ends in its own way. Where the time was up before it listened it gets more.
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

// TestCancelIsHeard calls commands off at their first word: they are told to end, even if the sandbox has not seen yet that they began.
func TestCancelIsHeard(t *testing.T) {
	each(t, func(t *testing.T, s *Sandbox, tier string) {
		for range 20 {
			ctx, cancel := context.WithCancel(t.Context())
			var out strings.Builder
			begun := told(func(text string) {
				out.WriteString(text)
				cancel()
			})
			e, err := s.run(ctx, tier, &Command{Argv: []string{"/bin/bash", "-c", heedful}, Dir: t.TempDir(), Stdout: begun, Grace: patience / 2})
			cancel()
			if err != nil || out.String() != "ready\nbye\n" || e.Exit != 6 || e.Cause != Killed {
				t.Errorf("got %q, %+v, %v, want bye, 6, killed", out.String(), e, err)
			}
		}
	})
}
