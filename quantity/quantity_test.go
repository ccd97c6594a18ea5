package quantity_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stagepost/stagepost/quantity"
)

func TestBytes(t *testing.T) {
	for text, want := range map[string]int64{
		"0": 0, "1048576": 1 << 20, "64GiB": 64 << 30, "64 gib": 64 << 30, "1.5KiB": 1536, "3kB": 3000, "3KB": 3000,
		"2TB": 2e12, "7B": 7,
		"8191PiB": 8191 << 50, "9223372036854775807": math.MaxInt64,
	} {
		if got, err := quantity.ParseBytes(text); err != nil || got != want {
			t.Errorf("%q: got %d, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "B", "k", "512k", "1.5", "1.5B", "-1", "-1GiB", "-9007199254740993PiB",
		"--1", "+1", "1X", "1GiBs", "Inf", "i", "1e3GB", "NaNGB", "0x10", "8192PiB", "9223372036854775808", "1 000",
		"1_000"} {
		if got, err := quantity.ParseBytes(text); err == nil {
			t.Errorf("%q: got %d", text, got)
		}
	}
	for n, want := range map[int64]string{0: "0", 1: "1", 1024: "1KiB", 1 << 30: "1GiB", 1<<30 + 1: "1073741825",
		3e9: "3000000000"} {
		if got := quantity.FormatBytes(n); got != want {
			t.Errorf("%d: got %s", n, got)
		} else if again, err := quantity.ParseBytes(got); err != nil || again != n {
			t.Errorf("%s is read as %d, %v", got, again, err)
		}
	}
}

func TestDurations(t *testing.T) {
	const day = 24 * time.Hour
	for text, want := range map[string]time.Duration{
		"0s": 0, "0": 0, "15s": 15 * time.Second, "1h30m": 90 * time.Minute, "90d": 90 * day, "2w": 14 * day,
		"1w2d3h": 9*day + 3*time.Hour,
	} {
		if got, err := quantity.ParseDuration(text); err != nil || got != want {
			t.Errorf("%q: got %s, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "d", "-3s", "-1d", "1.5d", "3d2w", "1d-2h", "99999999d", "16000w",
		"106751d24h1000000h", "soon", "12"} {
		if got, err := quantity.ParseDuration(text); err == nil {
			t.Errorf("%q: got %s", text, got)
		}
	}
	for d, want := range map[time.Duration]string{
		0: "0s", time.Second: "1s", time.Minute: "1m",
		6 * time.Hour: "6h", 90 * time.Minute: "1h30m", day: "1d", 25 * time.Hour: "25h", time.Hour +
			time.Second: "1h0m1s",
	} {
		if got := quantity.FormatDuration(d); got != want {
			t.Errorf("%d: got %s, want %s", d, got, want)
		} else if again, err := quantity.ParseDuration(got); err != nil || again != d {
			t.Errorf("%s is read as %s, %v", got, again, err)
		}
	}
}

// TestAmbiguousSizes: a letter alone is answered with the two units that it may mean.
func TestAmbiguousSizes(t *testing.T) {
	for _, text := range []string{"4G", "512k", "1.5 T"} {
		if n, err := quantity.ParseBytes(text); err == nil || !strings.Contains(err.Error(), "4GiB") {
			t.Errorf("%q: got %d, %v", text, n, err)
		}
	}
}

// FuzzBytes: what is read is never negative, and is read again as it is written.
func FuzzBytes(f *testing.F) {
	for _, text := range []string{"4GiB", "1e3", "1.5 TB", "-1", "9223372036854775807", "0.000001PiB"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		n, err := quantity.ParseBytes(text)
		if err != nil {
			return
		}
		if again, err := quantity.ParseBytes(quantity.FormatBytes(n)); n < 0 || err != nil || again != n {
			t.Errorf("%q is %d, and %q is %d, %v", text, n, quantity.FormatBytes(n), again, err)
		}
	})
}

// FuzzDuration: the same for durations.
func FuzzDuration(f *testing.F) {
	for _, text := range []string{"1w2d3h", "90d", "15s", "-3s", "1.5h", "106751d23h47m16.854775807s"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		d, err := quantity.ParseDuration(text)
		if err != nil {
			return
		}
		if again, err := quantity.ParseDuration(quantity.FormatDuration(d)); d < 0 || err != nil || again != d {
			t.Errorf("%q is %d, and %q is %d, %v", text, d, quantity.FormatDuration(d), again, err)
		}
	})
}
