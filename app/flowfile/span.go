package flowfile

import (
	"fmt"
	"regexp"
	"strconv"
	"time"
)

var (
	spanForm = regexp.MustCompile(`^(?:[0-9]+(?:\.[0-9]+)?(?:ns|us|ms|s|m|h|d))+$`)
	dayForm  = regexp.MustCompile(`([0-9]+(?:\.[0-9]+)?)d`)
)

// longestSpan bounds every time in a file.
const longestSpan = 10 * 365 * 24 * time.Hour

// span reads a time such as "90s", "1h30m" or "2d".
func span(text string) (time.Duration, error) {
	if !spanForm.MatchString(text) || len(text) > 40 {
		return 0, fmt.Errorf("%.40q is no time; write it as 10s, 1h30m or 2d", text)
	}
	hours := dayForm.ReplaceAllStringFunc(text, func(days string) string {
		n, _ := strconv.ParseFloat(days[:len(days)-1], 64)
		return strconv.FormatFloat(n*24, 'f', -1, 64) + "h"
	})
	d, err := time.ParseDuration(hours)
	if err != nil || d > longestSpan {
		return 0, fmt.Errorf("%.40q is longer than ten years", text)
	}
	return d, nil
}
