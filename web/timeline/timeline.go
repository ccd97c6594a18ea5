// Package timeline divides the history of a job into its stays in states, with the attempts that failed.
package timeline

import (
	"time"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/web/amount"
)

// Stay is the time that a job spent in one state, from its entry to its exit.
type Stay struct {
	State    lifecycle.State
	Outcome  lifecycle.Outcome // after the entry
	Spent    string            // what the job did in this time, in words
	Waits    bool              // all the time, as far as is known
	From     time.Time
	Took     time.Duration
	Attempts []Attempt
	Open     bool // the job is in this state
	End      bool // it is an end: no time is counted
	X, W     int  // in a bar of 1000 units
	Text     string
}

// Attempt is a failed attempt within a stay, which ended in a backoff.
type Attempt struct {
	At    time.Time
	Took  time.Duration // since the entry into the state or the attempt before
	Cause string
	Note  string
}

// Until is how a job is at the end of a timeline.
type Until struct {
	At      time.Time
	Claimed bool
	Past    bool // an earlier moment, of which no claims are known
}

// What a job does during a stay. Histories have no entries for claims: what a past stay in a state of workers contains
// is not divided.
const (
	waiting = "waiting"
	working = "a worker has it"
	either  = "waiting and working"
)

// Of makes the timeline of a history.
func Of(stageOf func(lifecycle.State) lifecycle.Stage, history []job.Event, until Until) (all []Stay) {
	for i := range history {
		e := &history[i]
		if n := len(all); n > 0 && all[n-1].State == e.To && e.From == e.To {
			if e.Event == lifecycle.Backoff {
				all[n-1].failed(e)
			}
			continue
		}
		if n := len(all); n > 0 {
			all[n-1].Took = e.At.Sub(all[n-1].From)
		}
		all = append(all, Stay{State: e.To, Outcome: e.Outcome, From: e.At, Spent: waiting})
		last := &all[len(all)-1]
		switch stageOf(e.To).Kind {
		case lifecycle.End:
			last.End = true
		case lifecycle.Work:
			last.Spent = either
		}
	}
	if n := len(all); n > 0 && !all[n-1].End {
		last := &all[n-1]
		last.Took, last.Open = until.At.Sub(last.From), true
		switch {
		case until.Past:
		case until.Claimed:
			last.Spent = working
		default:
			last.Spent = waiting
		}
	}
	for i := range all {
		all[i].Waits = all[i].Spent == waiting
	}
	divide(all)
	return all
}

// failed adds an attempt.
func (s *Stay) failed(e *job.Event) {
	began := s.From
	if k := len(s.Attempts); k > 0 {
		began = s.Attempts[k-1].At
	}
	s.Attempts = append(s.Attempts, Attempt{e.At, e.At.Sub(began), e.Cause, e.Note})
}

// least is the width of a stay that took nearly no time, so that it can be seen.
const least = 8

// divide divides a bar of 1000 units among the stays.
func divide(all []Stay) {
	total := time.Duration(0)
	for i := range all {
		total += max(all[i].Took, 0)
	}
	rest := 1000 - least*len(all)
	x := 0
	for i := range all {
		s := &all[i]
		s.X, s.W = x, least
		if total > 0 && rest > 0 {
			s.W += int(float64(rest) * float64(max(s.Took, 0)) / float64(total))
		}
		x += s.W
		s.Text = string(s.State) + ": " + amount.Span(max(s.Took, 0))
		if !s.End {
			s.Text += ", " + s.Spent
		}
	}
}
