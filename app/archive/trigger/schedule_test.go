package trigger

import (
	"encoding/json"
	"testing"
	"time"
)

func decoded[T any](t *testing.T, text json.RawMessage) (v T) {
	t.Helper()
	if len(text) == 0 {
		return v
	}
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// at reads a time.
func at(t *testing.T, text string) time.Time {
	t.Helper()
	v, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// TestRule: times are in the time zone of the schedule, also where its clocks change. A time that the clocks skip is
// left out on that day; one that comes twice has two runs.
func TestRule(t *testing.T) {
	for _, c := range []struct{ cron, zone, from, want string }{
		{"30 2 * * *", "UTC", "2026-01-01T00:00:00Z", "2026-01-01T02:30:00Z"},
		{"30 2 * * *", "Europe/Vienna", "2026-01-01T00:00:00Z", "2026-01-01T01:30:00Z"},
		{"30 2 * * *", "Europe/Vienna", "2026-07-01T00:00:00Z", "2026-07-01T00:30:00Z"},
		{"30 2 * * *", "Europe/Vienna", "2026-03-28T12:00:00Z", "2026-03-30T00:30:00Z"}, // skipped on the 29th
		{"30 2 * * *", "Europe/Vienna", "2026-10-24T12:00:00Z", "2026-10-25T00:30:00Z"},
		{"30 2 * * *", "Europe/Vienna", "2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z"}, // the second time
		{"0 3 * * MON-FRI", "UTC", "2026-11-20T04:00:00Z", "2026-11-23T03:00:00Z"},
		{"0 0 29 2 *", "UTC", "2026-01-01T00:00:00Z", "2028-02-29T00:00:00Z"},
	} {
		r, err := parseRule(c.cron, c.zone)
		if err != nil {
			t.Fatal(err)
		}
		if got := r.next(at(t, c.from)); !got.Equal(at(t, c.want)) {
			t.Errorf("%s in %s after %s: %s, want %s", c.cron, c.zone, c.from, got, c.want)
		}
	}
}

// TestRuleMistakes: what has no fixed times is refused.
func TestRuleMistakes(t *testing.T) {
	for _, c := range []struct{ cron, zone string }{
		{"", "UTC"}, {"* * * *", "UTC"}, {"* * * * * *", "UTC"}, {"@daily", "UTC"}, {"@every 1h 1 2 3", "UTC"},
		{"TZ=UTC 1 2 3 4", "UTC"}, {"60 * * * *", "UTC"}, {"0 0 30 2 *", "UTC"}, {"* * * * *", ""},
		{"* * * * *", "Local"}, {"* * * * *", "Mars/Olympus"},
	} {
		if _, err := parseRule(c.cron, c.zone); err == nil {
			t.Errorf("%q in %q is accepted", c.cron, c.zone)
		}
	}
	s := Schedule{Cron: "bad", TimeZone: "bad", Backoff: "0s"}
	var fields []string
	for _, m := range s.Check() {
		fields = append(fields, m.Field)
	}
	if len(fields) != 2 || fields[0] != "cron" || fields[1] != "backoff" {
		t.Errorf("mistakes: %v", fields)
	}
	if s = (Schedule{Cron: "* * * * *", TimeZone: "UTC"}); len(s.Check()) > 0 {
		t.Errorf("mistakes: %v", s.Check())
	}
}

// TestNewest: of the times that passed, the newest counts, however many there are.
func TestNewest(t *testing.T) {
	for _, c := range []struct {
		cron, after, until, want string
		earlier                  bool
	}{
		{"* * * * *", "2020-01-01T00:00:00Z", "2026-01-01T00:00:30Z", "2026-01-01T00:00:00Z", true},
		{"0 2 * * *", "2026-01-01T02:00:00Z", "2026-01-02T01:59:59Z", "", false},
		{"0 2 * * *", "2026-01-01T02:00:00Z", "2026-01-02T02:00:00Z", "2026-01-02T02:00:00Z", false},
		{"0 2 * * *", "2026-01-01T02:00:00Z", "2026-01-20T00:00:00Z", "2026-01-19T02:00:00Z", true},
		{"0 0 1 1 *", "2023-06-01T00:00:00Z", "2026-12-01T00:00:00Z", "2026-01-01T00:00:00Z", true},
		{"0 0 1 1 *", "2026-06-01T00:00:00Z", "2026-12-01T00:00:00Z", "", false},
	} {
		r, err := parseRule(c.cron, "UTC")
		if err != nil {
			t.Fatal(err)
		}
		var want time.Time
		if c.want != "" {
			want = at(t, c.want)
		}
		got, earlier := r.newest(at(t, c.after), at(t, c.until))
		if !got.Equal(want) || earlier != c.earlier {
			t.Errorf("%s from %s to %s: %s, %t", c.cron, c.after, c.until, got, earlier)
		}
	}
}

// FuzzRule: no text makes the parser or the times panic.
func FuzzRule(f *testing.F) {
	for _, text := range []string{"30 2 * * 1-5", "*/5 * * * *", "TZ= 1 2 3 4", "0 0 31 2 *", "1-0 , - / ?"} {
		f.Add(text, "UTC")
	}
	f.Fuzz(func(t *testing.T, text, zone string) {
		r, err := parseRule(text, zone)
		if err != nil {
			return
		}
		from := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		if next := r.next(from); !next.After(from) {
			t.Errorf("%q: %s", text, next)
		}
	})
}
