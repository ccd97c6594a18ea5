package explain

import "testing"

// TestNumbersWithNouns: a noun agrees with its number.
func TestNumbersWithNouns(t *testing.T) {
	for got, want := range map[string]string{
		taken(1): "the only slot is taken", taken(2): "all 2 slots are taken",
		Usual{Stays: 1}.basis():        "default, because only 1 stay was measured",
		Usual{Stays: 2}.basis():        "default, because only 2 stays were measured",
		jobsWere(1):                    "1 job was",
		counted(0, "retry", "retries"): "0 retries",
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
