// Package retryafter determines which answers of HTTP servers may be different later, and when to ask again.
package retryafter

import (
	"net/http"
	"strconv"
	"time"
)

// most is the longest pause that Parse returns.
const most = 24 * time.Hour

// Parse parses both forms of RFC 9110, section 10.2.3. An invalid value and a past time count as 0, and the maximum is
// a day.
func Parse(value string, now time.Time) time.Duration {
	if seconds, err := strconv.ParseUint(value, 10, 31); err == nil {
		return min(time.Duration(seconds)*time.Second, most)
	}
	if at, err := http.ParseTime(value); err == nil && at.After(now) {
		return min(at.Sub(now), most)
	}
	return 0
}

// Passes reports whether the condition that a status states passes, so that a later request may be answered otherwise
// (RFC 9110; 425: RFC 8470; 429: RFC 6585).
func Passes(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return true
	}
	return status >= http.StatusInternalServerError
}
