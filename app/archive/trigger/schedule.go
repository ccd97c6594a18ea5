// Package trigger starts archive jobs: by schedules, and by events of other systems.
//
//	schedule -> run, a job of the kind archive.run -> one archive job for each course
//	event    -> signed request                     -> one archive job
//
// A run reads the courses of a schedule, compares each activity with its newest archive, and requests an archive of
// those that are missing or changed. It records what it decided about each activity, and why.
package trigger

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/robfig/cron/v3"

	"github.com/stagepost/stagepost/app/archive/catalog"
	"github.com/stagepost/stagepost/quantity"
)

// Schedule states when and what is archived without a person. It is part of the configuration.
type Schedule struct {
	Source     string   `json:"source" need:"true" doc:"Source by its name in sources."`
	Courses    []string `json:"courses,omitempty" doc:"Courses by their ids. Defaults to all that the source has."`
	Categories []string `json:"categories,omitempty" doc:"Categories by their ids: courses in them, and in the categories below them, are archived. Defaults to all."`

	Cron     string `json:"cron" need:"true" doc:"Times as a cron expression of five fields: minute, hour, day of the month, month, day of the week. 30 2 * * 1-5 is half past two on working days."`
	TimeZone string `json:"time_zone" need:"true" doc:"Time zone of the times, such as Europe/Vienna or UTC."`

	Preset           string `json:"preset,omitempty" doc:"Preset of the jobs. Defaults to default."`
	Owner            string `json:"owner,omitempty" doc:"Owner of the jobs. Defaults to schedule/ and the name."`
	DryRun           bool   `json:"dry_run,omitempty" doc:"Runs record what they decide and start no job."`
	ArchiveUnchanged bool   `json:"archive_unchanged,omitempty" doc:"Activities that did not change since their newest archive are archived again."`
	Backoff          string `json:"backoff,omitempty" doc:"Pause after a failed archive of an activity with the same content. It doubles with each failure, up to 30d. Defaults to 1d."`
	Paused           bool   `json:"paused,omitempty" doc:"No run begins."`
}

// Bounds of the pause after failures.
const (
	firstBackoff = 24 * time.Hour
	mostBackoff  = 30 * 24 * time.Hour
)

// Mistake is what is wrong with a field of a schedule.
type Mistake struct {
	Field string // key in the configuration
	Err   error
}

// Check gives what is wrong with a schedule. It does not check that names exist.
func (s *Schedule) Check() (all []Mistake) {
	if _, err := parseRule(s.Cron, "UTC"); err != nil {
		all = append(all, Mistake{"cron", err})
	} else if _, err := parseRule(s.Cron, s.TimeZone); err != nil {
		all = append(all, Mistake{"time_zone", err})
	}
	if d, err := quantity.ParseDuration(cmp.Or(s.Backoff, "1d")); err != nil {
		all = append(all, Mistake{"backoff", err})
	} else if d < time.Minute || d > mostBackoff {
		all = append(all, Mistake{"backoff", errors.New("it must be between 1m and 30d")})
	}
	return all
}

// backoff gives the pauses after failures. The schedule has passed Check.
func (s *Schedule) backoff() catalog.Backoff {
	b := catalog.Backoff{First: firstBackoff, Most: mostBackoff}
	if d, err := quantity.ParseDuration(s.Backoff); err == nil && d > 0 {
		b.First = d
	}
	return b
}

// rule gives the times of a schedule.
type rule struct{ times cron.Schedule }

// fields of a cron expression. Names such as @every depend on the time at which they are read, and are refused.
var fields = cron.NewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow)

// parseRule reads a cron expression. Its times are in a time zone, which must be named: that of the machine is none.
func parseRule(expression, zone string) (rule, error) {
	if n := len(strings.Fields(expression)); n != 5 || strings.ContainsAny(expression, "@=") {
		return rule{}, fmt.Errorf("%q is not a cron expression of five fields: minute, hour, day of the month, month, "+
			"day of the week", expression)
	}
	times, err := fields.Parse(expression)
	if err != nil {
		return rule{}, fmt.Errorf("cron expression %q: %w", expression, err)
	}
	at, err := time.LoadLocation(zone)
	if err != nil || zone == "" || strings.EqualFold(zone, "local") {
		return rule{}, fmt.Errorf("%q is not a time zone: use a name such as Europe/Vienna, or UTC", zone)
	}
	spec, ok := times.(*cron.SpecSchedule)
	if !ok {
		return rule{}, fmt.Errorf("cron expression %q has no fixed times", expression)
	}
	spec.Location = at
	if spec.Next(time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)).IsZero() {
		return rule{}, fmt.Errorf("cron expression %q: there is no such day", expression)
	}
	return rule{spec}, nil
}

// next gives the first time after t, in UTC.
func (r rule) next(t time.Time) time.Time { return r.times.Next(t).UTC() }

// windows are how far back newest searches, step by step: a rule has many times, or few.
var windows = []time.Duration{2 * time.Hour, 2 * 24 * time.Hour, 62 * 24 * time.Hour, 9 * 366 * 24 * time.Hour}

// newest gives the newest time after one, and not after another; zero: there is none. earlier reports that there are
// more.
func (r rule) newest(after, until time.Time) (at time.Time, earlier bool) {
	for _, w := range windows {
		from := until.Add(-w)
		if from.Before(after) {
			from = after
		}
		for t := r.next(from); !t.IsZero() && !t.After(until); t = r.next(t) {
			at = t
		}
		if !at.IsZero() || from.Equal(after) {
			break
		}
	}
	if at.IsZero() {
		return at, false
	}
	return at, r.next(after).Before(at)
}

// chosen gives the courses that a schedule names, without repetitions; nil: all.
func (s *Schedule) chosen() []string {
	if len(s.Courses) == 0 {
		return nil
	}
	ids := slices.Clone(s.Courses)
	slices.Sort(ids)
	return slices.Compact(ids)
}
