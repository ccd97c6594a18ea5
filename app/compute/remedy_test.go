package compute

import (
	"testing"
	"time"
)

// TestLargerLimit: after a limit was exceeded the remedy asks for twice as much, or for as much as the service allows;
// where that is no more, or there was no limit of the job's own, it asks for nothing.
func TestLargerLimit(t *testing.T) {
	for _, c := range []struct {
		cause       string
		l, most     Limits
		name, value string
	}{
		{CauseMemory, Limits{Memory: 256 << 20}, Limits{}, "memory", "512MiB"},
		{CauseMemory, Limits{Memory: 3 << 30}, Limits{Memory: 4 << 30}, "memory", "4GiB"},
		{CauseMemory, Limits{Memory: 4 << 30}, Limits{Memory: 4 << 30}, "memory", ""},
		{CauseMemory, Limits{}, Limits{Memory: 4 << 30}, "", ""},
		{CauseTimeout, Limits{Wall: 10 * time.Minute}, Limits{}, "wall", "20m"},
		{CauseCPU, Limits{CPU: 12 * time.Hour}, Limits{}, "cpu", "1d"},
		{CauseDisk, Limits{Disk: 10 << 30}, Limits{}, "disk", "20GiB"},
		{CauseExit, Limits{Memory: 1 << 30}, Limits{}, "", ""},
	} {
		if name, value := larger(c.cause, c.l, c.most); name != c.name || value != c.value {
			t.Errorf("%s %+v of %+v: got %s=%s, want %s=%s", c.cause, c.l, c.most, name, value, c.name, c.value)
		}
	}
}
