package main

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// byteUnits are the units of sizes, the largest first: powers of 1024 as IEC 80000-13 names them, and powers of 1000.
var byteUnits = []struct {
	name string
	size int64
}{
	{"PiB", 1 << 50}, {"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10},
	{"PB", 1e15}, {"TB", 1e12}, {"GB", 1e9}, {"MB", 1e6}, {"kB", 1e3}, {"B", 1},
}

// parseBytes reads a size: a number of bytes, or a number with a unit ("64GiB", "1.5 TB", "512k" is not one: it could mean both).
func parseBytes(text string) (int64, error) {
	text = strings.TrimSpace(text)
	for _, u := range byteUnits {
		number, ok := cutSuffixFold(text, u.name)
		if !ok {
			continue
		}
		number = strings.TrimSpace(number)
		if n, err := strconv.ParseInt(number, 10, 64); err == nil {
			if n > math.MaxInt64/u.size {
				return 0, errors.New("it is too large")
			}
			return n * u.size, nil
		}
		f, err := strconv.ParseFloat(number, 64)
		if err != nil || math.IsNaN(f) || !plainNumber.MatchString(number) {
			return 0, errors.New("it is not a size (64GiB, 1.5TB, 1048576)")
		}
		if f *= float64(u.size); math.Abs(f) >= math.MaxInt64 {
			return 0, errors.New("it is too large")
		}
		return int64(f), nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if errors.Is(err, strconv.ErrRange) {
		return 0, errors.New("it is too large")
	}
	if err != nil {
		return 0, errors.New("it is not a size (64GiB, 1.5TB, 1048576)")
	}
	return n, nil
}

var plainNumber = regexp.MustCompile(`^-?[0-9]+(\.[0-9]+)?$`)

func cutSuffixFold(s, suffix string) (string, bool) {
	if len(s) < len(suffix) || !strings.EqualFold(s[len(s)-len(suffix):], suffix) {
		return s, false
	}
	return s[:len(s)-len(suffix)], true
}

// formatBytes writes a size with the largest unit of 1024 that leaves no remainder.
func formatBytes(n int64) string {
	for _, u := range byteUnits[:5] {
		if n != 0 && n%u.size == 0 {
			return strconv.FormatInt(n/u.size, 10) + u.name
		}
	}
	return strconv.FormatInt(n, 10)
}

// days is the part of a duration that time.ParseDuration does not know: weeks and days, which are 24 hours here, before the rest.
var days = regexp.MustCompile(`^(?:([0-9]+)w)?(?:([0-9]+)d)?(.*)$`)

// parseDuration reads "90d", "2w", "1d12h", "15s", "1h30m".
func parseDuration(text string) (time.Duration, error) {
	parts := days.FindStringSubmatch(strings.TrimSpace(text))
	if parts == nil {
		return 0, fmt.Errorf("it is not a duration (15s, 1h30m, 90d, 2w)")
	}
	var sum time.Duration
	for i, unit := range []time.Duration{7 * 24 * time.Hour, 24 * time.Hour} {
		if parts[i+1] == "" {
			continue
		}
		n, err := strconv.ParseInt(parts[i+1], 10, 64)
		if err != nil || n > int64(math.MaxInt64/unit) || sum > math.MaxInt64-time.Duration(n)*unit {
			return 0, errors.New("it is too long")
		}
		sum += time.Duration(n) * unit
	}
	rest := parts[3]
	if rest == "" && (parts[1] != "" || parts[2] != "") {
		return sum, nil
	}
	d, err := time.ParseDuration(rest)
	if err != nil {
		return 0, errors.New("it is not a duration (15s, 1h30m, 90d, 2w)")
	}
	if sum > 0 && (d < 0 || sum > math.MaxInt64-d) {
		return 0, errors.New("it is too long")
	}
	return sum + d, nil
}

// formatDuration writes a duration without the units that are zero: "6h", "90d", "1h30m".
func formatDuration(d time.Duration) string {
	const day = 24 * time.Hour
	if d >= day && d%day == 0 {
		return strconv.FormatInt(int64(d/day), 10) + "d"
	}
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}
