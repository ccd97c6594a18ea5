package decimal

import "testing"

func TestCompare(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{
		{"1", "1.0", 0}, {"10e-1", "1", 0}, {"0.1", "1e-1", 0}, {"0", "-0.00e5", 0}, {"100", "1E+2", 0},
		{"9007199254740993", "9007199254740992", 1}, {"18446744073709551615", "18446744073709551616", -1},
		{"-3", "2", -1}, {"-3", "-4", 1}, {"0", "-1", 1}, {"0.09", "0.1", -1}, {"12", "9", 1}, {"0.12", "0.119", 1},
		{"1e400", "1e401", -1}, {"1e99999999999999999999", "1e400", 1}, {"1e-99999999999999999999", "0", 1},
	} {
		if got, ok := Compare(c.a, c.b); !ok || got != c.want {
			t.Errorf("%s, %s: %d, %t", c.a, c.b, got, ok)
		}
		if got, ok := Compare(c.b, c.a); !ok || got != -c.want {
			t.Errorf("%s, %s: %d, %t", c.b, c.a, got, ok)
		}
	}
	for _, bad := range []string{"", "-", ".", "x", "1e", "1x", "NaN", "+Inf"} {
		if _, ok := Compare(bad, "1"); ok {
			t.Errorf("%q counts as a number", bad)
		}
	}
}
