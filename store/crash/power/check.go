package power

import "testing"

// Check requires that cut, which cuts the power at the moments that a test is about, finds nothing lost. The controls
// are names as of [Options.Ignore]: without the syncs of each of them something is lost.
func Check(t *testing.T, cut func(t *testing.T, ignore ...string) (lost []string), controls ...string) {
	t.Helper()
	if lost := cut(t); len(lost) > 0 {
		t.Errorf("lost: %q", lost)
	}
	for _, ignore := range controls {
		if lost := cut(t, ignore); len(lost) == 0 {
			t.Errorf("nothing is lost without the syncs of %s: the test is blind", ignore)
		}
	}
}

// CheckEach requires that cut, which cuts the power at least so many times, finds nothing wrong, whether names reach
// the disk by themselves ([Options.Names]) or not. The controls are as those of [Check], where names do not.
func CheckEach(t *testing.T, least int,
	cut func(t *testing.T, names bool, ignore ...string) (cuts int, wrong []string), controls ...string) {
	t.Helper()
	for _, names := range []bool{false, true} {
		if cuts, wrong := cut(t, names); cuts < least || len(wrong) > 0 {
			t.Errorf("names at once %t: %d cuts, wrong: %q", names, cuts, wrong)
		}
	}
	for _, ignore := range controls {
		if _, wrong := cut(t, false, ignore); len(wrong) == 0 {
			t.Errorf("nothing is wrong without the syncs of %s: the test is blind", ignore)
		}
	}
}
