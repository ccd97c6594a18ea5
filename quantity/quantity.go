// Package quantity parses and formats sizes and durations for settings, flags, files and requests, in one notation.
package quantity

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// byteUnits are the units of sizes, largest first: powers of 1024 as in IEC 80000-13, and powers of 1000.
var byteUnits = []struct {
	name string
	size int64
}{
	{"PiB", 1 << 50}, {"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10},
	{"PB", 1e15}, {"TB", 1e12}, {"GB", 1e9}, {"MB", 1e6}, {"kB", 1e3}, {"B", 1},
}

// The errors do not contain the text: the caller names it.
var (
	errNoSize     = errors.New("it is not a size (64GiB, 1.5TB, 1048576)")
	errBothUnits  = errors.New("it could mean two sizes: write 4GiB (of 1024) or 4GB (of 1000)")
	errLarge      = errors.New("it is too large")
	errNoDuration = errors.New("it is not a duration (15s, 1h30m, 90d, 2w)")
	errLong       = errors.New("it is too long")
	errNegative   = errors.New("it must not be negative")
)

// ParseBytes parses a size: a number of bytes, or a number with a unit ("64GiB", "1.5 TB"). It refuses "512k", which
// could mean a unit of 1024 or of 1000.
func ParseBytes(text string) (int64, error) {
	text = strings.TrimSpace(text)
	if size, negative := strings.CutPrefix(text, "-"); negative {
		if _, err := ParseBytes(size); err == nil {
			return 0, errNegative
		}
		return 0, errNoSize
	}
	number, unit := text, int64(1)
	for _, u := range byteUnits {
		if before, ok := cutSuffixFold(text, u.name); ok {
			number, unit = strings.TrimSpace(before), u.size
			break
		}
	}
	if bareUnit.MatchString(number) {
		return 0, errBothUnits
	}
	if !plainNumber.MatchString(number) || unit == 1 && strings.Contains(number, ".") {
		return 0, errNoSize
	}
	if n, err := strconv.ParseInt(number, 10, 64); err == nil {
		if n > math.MaxInt64/unit {
			return 0, errLarge
		}
		return n * unit, nil
	}
	f, err := strconv.ParseFloat(number, 64)
	if f *= float64(unit); err != nil || f >= math.MaxInt64 {
		return 0, errLarge
	}
	return int64(f), nil
}

// bareUnit is a size with an ambiguous unit, of 1024 or of 1000.
var bareUnit = regexp.MustCompile(`^[0-9]+(\.[0-9]+)? *[kKmMgGtTpP]$`)

var plainNumber = regexp.MustCompile(`^[0-9]+(\.[0-9]+)?$`)

func cutSuffixFold(s, suffix string) (string, bool) {
	if len(s) < len(suffix) || !strings.EqualFold(s[len(s)-len(suffix):], suffix) {
		return s, false
	}
	return s[:len(s)-len(suffix)], true
}

// Size formats a size for people, rounded to a tenth of a unit: "1.4 GiB".
func Size(n int64) string {
	const step = 1024
	if n < step {
		return fmt.Sprintf("%d B", n)
	}
	x, units := float64(n), "KMGTPE"
	i := -1
	for x >= step && i < len(units)-1 {
		x /= step
		i++
	}
	return fmt.Sprintf("%.1f %ciB", x, units[i])
}

// FormatBytes formats a size with the largest unit of 1024 that leaves no remainder.
func FormatBytes(n int64) string {
	for _, u := range byteUnits[:5] {
		if n != 0 && n%u.size == 0 {
			return strconv.FormatInt(n/u.size, 10) + u.name
		}
	}
	return strconv.FormatInt(n, 10)
}

// days is the prefix of a duration that time.ParseDuration does not support: weeks and days of 24 hours.
var days = regexp.MustCompile(`^(?:([0-9]+)w)?(?:([0-9]+)d)?(.*)$`)

// ParseDuration parses "90d", "2w", "1d12h", "15s", "1h30m": the syntax of [time.ParseDuration] with weeks and days
// before it.
func ParseDuration(text string) (time.Duration, error) {
	parts := days.FindStringSubmatch(strings.TrimSpace(text))
	if parts == nil {
		return 0, errNoDuration
	}
	var sum time.Duration
	for i, unit := range []time.Duration{7 * 24 * time.Hour, 24 * time.Hour} {
		if parts[i+1] == "" {
			continue
		}
		n, err := strconv.ParseInt(parts[i+1], 10, 64)
		if err != nil || n > int64(math.MaxInt64/unit) || sum > math.MaxInt64-time.Duration(n)*unit {
			return 0, errLong
		}
		sum += time.Duration(n) * unit
	}
	rest := parts[3]
	if rest == "" && (parts[1] != "" || parts[2] != "") {
		return sum, nil
	}
	d, err := time.ParseDuration(rest)
	switch {
	case err != nil:
		return 0, errNoDuration
	case d < 0:
		return 0, errNegative
	case sum > math.MaxInt64-d:
		return 0, errLong
	}
	return sum + d, nil
}

// FormatDuration formats a duration without the units that are zero: "6h", "90d", "1h30m".
func FormatDuration(d time.Duration) string {
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
