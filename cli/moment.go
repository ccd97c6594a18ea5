package cli

import (
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/quantity"
)

// Past reads a time in the past as people write it: "2h" is two hours ago.
func Past(text string) (time.Time, error) { return moment(text, time.Now(), -1) }

// Future reads a time in the future as people write it: "2h" is in two hours.
func Future(text string) (time.Time, error) { return moment(text, time.Now(), 1) }

// layouts are the forms of a time that people write. Without a zone it is local.
var layouts = []string{time.DateTime, "2006-01-02 15:04", "2006-01-02T15:04:05", "2006-01-02T15:04", time.DateOnly}

func moment(text string, now time.Time, sign time.Duration) (time.Time, error) {
	text = strings.TrimSpace(text)
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		return t, nil
	}
	for _, layout := range layouts {
		if t, err := time.ParseInLocation(layout, text, time.Local); err == nil {
			return t, nil
		}
	}
	if d, err := quantity.ParseDuration(text); err == nil {
		return now.Add(sign * d), nil
	}
	return time.Time{}, fmt.Errorf("%q is not a time (%s, %s or %s)", text, "2026-11-22 11:16", "2026-11-22T11:16:00Z",
		"2h")
}

// shortID is how many of the last characters of an id a terminal shows: enough to distinguish a million jobs. Each
// command accepts them.
const shortID = 8

// ShortID returns the short form of an id.
func ShortID(id job.ID) string { return string(id[max(0, len(id)-shortID):]) }

// ID writes the id of a job: the short form on a terminal, the whole in a pipe.
func (p *Printer) ID(id job.ID) string {
	if p.Terminal && p.Mode == ModeTable {
		return ShortID(id)
	}
	return string(id)
}

// ids are the ids of jobs in a text.
var ids = regexp.MustCompile(`\b[a-z]+_[0-9A-Z]{26}\b`)

// Short returns a text with the ids of jobs as [Printer.ID] writes them.
func (p *Printer) Short(text string) string {
	return ids.ReplaceAllStringFunc(text, func(id string) string { return p.ID(job.ID(id)) })
}

// localTime is how times are shown to people.
const localTime = "2006-01-02 15:04:05 MST"

// instant is a time in a sentence of the server.
var instant = regexp.MustCompile(`\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)`)

// Local returns a sentence of the server with its times in the local zone, for people.
func (p *Printer) Local(text string) string {
	if p.Mode != ModeTable {
		return text
	}
	return instant.ReplaceAllStringFunc(text, func(s string) string {
		t, err := time.Parse(time.RFC3339, s)
		if err != nil {
			return s
		}
		return t.Local().Format(localTime)
	})
}
