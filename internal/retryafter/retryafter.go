// Package retryafter parses the header field Retry-After.
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
