package retryafter

import (
	"testing"
	"time"
)

func TestParse(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for value, want := range map[string]time.Duration{
		"": 0, "7": 7 * time.Second, "-1": 0, "x": 0, "99999999": 24 * time.Hour, "99999999999999999999": 0,
		"Fri, 02 Jan 2026 03:04:35 GMT": 30 * time.Second, "Fri, 02 Jan 2026 03:04:00 GMT": 0,
		"Fri, 02 Jan 2099 03:04:00 GMT": 24 * time.Hour,
	} {
		if got := Parse(value, now); got != want {
			t.Errorf("%q: %v, want %v", value, got, want)
		}
	}
}

func TestPasses(t *testing.T) {
	for status, want := range map[int]bool{
		200: false, 301: false, 400: false, 401: false, 404: false, 408: true, 410: false, 425: true, 429: true,
		499: false, 500: true, 503: true, 599: true,
	} {
		if got := Passes(status); got != want {
			t.Errorf("%d: %v, want %v", status, got, want)
		}
	}
}
