package web

import (
	"time"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/web/amount"
)

// stay is the time that a job spent in one state, from its entry to its exit.
type stay struct {
	State    lifecycle.State
	Tone     Tone
	Waits    bool // for a worker, a person or something outside; else a worker works
	From     time.Time
	Took     time.Duration
	Attempts []attempt
	Open     bool // the job is in this state
	End      bool // it is an end: no time is counted
	X, W     int  // in a bar of 1000 units
	Text     string
}

// attempt is a failed attempt within a stay, which ended in a backoff.
type attempt struct {
	At    time.Time
	Took  time.Duration
	Cause string
	Note  string
}

// backoff is the loop by which a failed attempt stays in its state.
const backoff lifecycle.Event = "backoff"

// staysOf makes the timeline of a history: waiting and working time by state and attempt.
func staysOf(kinds Kinds, j *job.Job, history []job.Event, now time.Time) (all []stay) {
	for i := range history {
		e := &history[i]
		if n := len(all); n > 0 && all[n-1].State == e.To && e.From == e.To {
			last := &all[n-1]
			if e.Event == backoff {
				began := last.From
				if k := len(last.Attempts); k > 0 {
					began = last.Attempts[k-1].At
				}
				last.Attempts = append(last.Attempts, attempt{e.At, e.At.Sub(began), e.Cause, e.Note})
			}
			continue
		}
		if n := len(all); n > 0 {
			all[n-1].Took = e.At.Sub(all[n-1].From)
		}
		stage := kinds.Stage(j.Kind, e.To)
		all = append(all, stay{State: e.To, From: e.At, Waits: stage.Kind != lifecycle.Work,
			End:  stage.Kind == lifecycle.End,
			Tone: ToneOf(&stage, e.Outcome, stage.Kind == lifecycle.End, stage.Kind == lifecycle.Work)})
	}
	if n := len(all); n > 0 && !j.Ended {
		all[n-1].Took, all[n-1].Open = now.Sub(all[n-1].From), true
	}
	divide(all)
	return all
}

// least is the width of a stay that took nearly no time, so that it can be seen.
const least = 8

// divide divides a bar of 1000 units among the stays.
func divide(all []stay) {
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
	}
}
