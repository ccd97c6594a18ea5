package cgroup

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestCoresAreAShare reads from the kernel that it held a group back, which does not depend on what else the machine
// does.
func TestCoresAreAShare(t *testing.T) {
	m := real(t)
	if m == nil || !m.cpu {
		return
	}
	const spin = "echo begun; while :; do :; done"
	bound := newGroup(t, m, "bound", Limits{Cores: 0.02})
	s := start(t, bound, spin)
	s.line(t)
	began, before := time.Now(), usage(t, bound).CPU
	waitFor(t, "a group that was held back ten times", func() bool { return heldBack(t, bound) >= 10 })
	used, wall := usage(t, bound).CPU-before, time.Since(began)
	if share := used.Seconds() / wall.Seconds(); used == 0 || share > 0.25 {
		t.Errorf("used %v of %v: a share of %.2f", used, wall, share)
	}
	free := newGroup(t, m, "free", Limits{}) // the control: the same work uses more and is not held back
	start(t, free, spin)
	waitFor(t, "the same use without a limit", func() bool { return usage(t, free).CPU > used })
	if n := heldBack(t, free); n != 0 {
		t.Errorf("without a limit it was held back %d times", n)
	}
}

// heldBack reports in how many periods a group has used up its share of the processors.
func heldBack(t *testing.T, g *Group) int {
	t.Helper()
	for _, s := range g.spots {
		text, err := os.ReadFile(filepath.Join(s.path, "cpu.stat"))
		if _, after, ok := strings.Cut("\n"+string(text), "\nnr_throttled "); err == nil && ok {
			n, _, _ := strings.Cut(after, "\n")
			return atoi(t, n)
		}
	}
	t.Fatal("it is not reported how often a group was held back")
	return 0
}
