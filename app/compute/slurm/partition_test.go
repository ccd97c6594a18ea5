package slurm

import (
	"errors"
	"testing"
	"time"

	"github.com/stagepost/stagepost/app/compute"
)

// TestWallBeyondPartition: a payload that its partition would never start is refused when it comes, and one that fits
// is handed over.
func TestWallBeyondPartition(t *testing.T) {
	f, o := newFake(t)
	s := open(t, o)
	long := script("too_long", "true")
	long.Limits.Wall = time.Hour
	_, err := s.Submit(t.Context(), long)
	refusal, ok := errors.AsType[*compute.Refusal](err)
	if !ok || !refusal.Here {
		t.Errorf("got %v, want a refusal of this executor", err)
	}
	if n := f.state().Sent; n != 0 {
		t.Errorf("%d were handed over", n)
	}
	fits := script("fits", "true")
	fits.Limits.Wall = 50 * time.Minute
	submit(t, s, fits)
	if n := f.state().Sent; n != 1 {
		t.Errorf("%d were handed over, want the one that fits", n)
	}
}

func TestLongest(t *testing.T) {
	for _, c := range []struct {
		out       string
		byDefault bool
		most      int64
		bounded   bool
	}{
		{"a*|1:00:00\nb|infinite\n", true, 60, true}, {"a|1:00:00\nb|infinite\n", true, 0, false},
		{"a|1-12:00:00\na|30:00\n", false, 36 * 60, true},
		{"", true, 0, false}, {"what is this", true, 0, false}, {"a*|n/a\n", true, 0, false}, {"a|2-00:00:00\n", false,
			2880, true}, {"a|-5:00\n", false, 0, false},
	} {
		if _, most, bounded := longest(c.out, c.byDefault); bounded != c.bounded || bounded && most != c.most {
			t.Errorf("%q: got %d, %v", c.out, most, bounded)
		}
	}
}
