package amount

import (
	"testing"
	"time"

	"github.com/stagepost/stagepost/api"
)

var noon = time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)

func TestSpan(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0 ms", 999 * time.Millisecond: "999 ms", 1500 * time.Millisecond: "1.5 s", 59 * time.Second: "59 s",
		61 * time.Second: "1 min 1 s", time.Hour: "1 h", 90 * time.Minute: "1 h 30 min", 49 * time.Hour: "2 days 1 h",
		-time.Minute: "-1 min",
	} {
		if got := Span(d); got != want {
			t.Errorf("%v: got %q, want %q", d, got, want)
		}
	}
	for d, want := range map[time.Duration]string{90 * time.Minute: "1 h ago", -90 * time.Minute: "in 1 h",
		0: "just now"} {
		if got := Ago(noon, noon.Add(-d)); got != want {
			t.Errorf("%v ago: got %q, want %q", d, got, want)
		}
	}
	if got := Ago(noon, time.Time{}); got != "" {
		t.Errorf("no time: got %q", got)
	}
}

func TestCount(t *testing.T) {
	for n, want := range map[int]string{0: "0", 9999: "9999", 12345: "12\u202f345", 1234567: "1\u202f234\u202f567",
		-12345: "-12\u202f345"} {
		if got := Count(n); got != want {
			t.Errorf("%d: got %q, want %q", n, got, want)
		}
	}
}

func TestExpectation(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	in := func(d time.Duration) time.Time { return now.Add(d) }
	for want, x := range map[string]api.Expected{
		"": {},
		"Usually 12 minutes for this step; about 3 hours until the end at present.": {
			StepMS: 12 * 60_000, Finish: in(3*time.Hour + 10*time.Minute)},
		"Usually less than a minute for this step.":                                  {StepMS: 30_000},
		"About 2 days until the end at present.":                                     {Finish: in(49 * time.Hour)},
		"Usually 1 minute for this step. This step takes longer than usual now.":     {StepMS: 60_000, Longer: true},
		"This step takes longer than usual now.":                                     {Longer: true},
		"Usually 1 hour for this step; less than a minute until the end at present.": {StepMS: 55 * 60_000, Finish: in(0)},
	} {
		x.At = now
		if got := Expectation(&x); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
