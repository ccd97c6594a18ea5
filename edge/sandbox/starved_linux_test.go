package sandbox

import (
	"strings"
	"testing"
)

// TestChildKilledForMemory: a command that ends well although a child of it was ended for its memory has ended well,
// and the ending mentions the child. Only control groups report it.
func TestChildKilledForMemory(t *testing.T) {
	if opened(t).groups == nil {
		return
	}
	each(t, func(t *testing.T, s *Sandbox, tier string) {
		for script, starved := range map[string]bool{
			"bash -c 'x=a; for i in {1..26}; do x=$x$x; done; sleep 600; : $x'; exit 0": true, "exit 0": false,
		} {
			g := shell(t, s, tier, script, func(c *Command) { c.Limits.Memory = 48 << 20 })
			if g.Exit != 0 || g.Cause != Itself || (g.Starved > 0) != starved ||
				strings.Contains(g.Sentence, "memory") != starved {
				t.Errorf("%s: got %+v, want a word on memory: %v", script, g.Ending, starved)
			}
		}
	})
}
