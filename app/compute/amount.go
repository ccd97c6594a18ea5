package compute

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// ParseBytes reads a size: a number of bytes, or a number with B, KB, MB, GB, TB (powers of 1000) or KiB, MiB, GiB, TiB (powers of 1024).
func ParseBytes(text string) (int64, error) {
	units := []struct {
		name  string
		bytes float64
	}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40}, {"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12}, {"B", 1}, {"", 1}}
	trimmed := strings.TrimSpace(text)
	for _, u := range units {
		digits, ok := strings.CutSuffix(trimmed, u.name)
		if !ok {
			continue
		}
		n, err := strconv.ParseFloat(strings.TrimSpace(digits), 64)
		if err != nil || !(n >= 0) || n*u.bytes >= math.MaxInt64 {
			break
		}
		return int64(n * u.bytes), nil
	}
	return 0, fmt.Errorf("%.40q is no size: write 512MiB, 2GB or a number of bytes", text)
}

// ParseDuration reads a time as [time.ParseDuration] does, and days: "7d", "1d12h".
func ParseDuration(text string) (time.Duration, error) {
	rest, days := strings.TrimSpace(text), 0.0
	if before, after, ok := strings.Cut(rest, "d"); ok {
		n, err := strconv.ParseFloat(before, 64)
		if err != nil || !(n >= 0) || n > 36500 {
			return 0, fmt.Errorf("%.40q is no time: write 90s, 2h or 7d", text)
		}
		rest, days = after, n
	}
	var d time.Duration
	var err error
	if rest != "" || days == 0 {
		d, err = time.ParseDuration(rest)
	}
	if err != nil || d < 0 {
		return 0, fmt.Errorf("%.40q is no time: write 90s, 2h or 7d", text)
	}
	return d + time.Duration(days*24*float64(time.Hour)), nil
}
