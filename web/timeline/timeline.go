// Package timeline divides the history of a job into its stays in states, with the attempts that failed.
package timeline

import (
	"slices"
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
	Worked   time.Duration // of this, as far as the history has it
	Attempts []Attempt
	Open     bool   // the job is in this state
	End      bool   // it is an end: no time is counted
	Parts    []Part // of the bar
	Text     string

	kind  lifecycle.Kind
	spans []span
}

// Attempt is a failed attempt within a stay, which ended in a backoff.
type Attempt struct {
	At     time.Time
	Took   time.Duration // since the entry into the state or the attempt before
	Worked time.Duration // of this; 0: not known
	Cause  string
	Note   string
}

// Part is a part of a bar of 1000 units.
type Part struct {
	X, W  int
	Waits bool
}

// span is a part of a stay.
type span struct {
	took time.Duration
	is   string // waiting, working or either
}

// Until is how a job is at the end of a timeline.
type Until struct {
	At      time.Time
	Claimed bool
	Past    bool // an earlier moment, of which no claims are known
}

// What a job does during a stay, or a part of it.
const (
	waiting = "waiting"
	working = "working"
	claimed = "a worker has it"
	either  = "waiting and working" // a claim may have begun and ended without an entry that has its beginning
)

// Of makes the timeline of a history.
func Of(stageOf func(lifecycle.State) lifecycle.Stage, history []job.Event, until Until) (all []Stay) {
	begun := beginnings(history)
	for i := range history {
		e := &history[i]
		if n := len(all); n > 0 {
			last := &all[n-1]
			last.divide(&history[i-1], e, begun[i])
			if last.State == e.To && e.From == e.To {
				if e.Event == lifecycle.Backoff {
					last.failed(e)
				}
				continue
			}
			last.Took = e.At.Sub(last.From)
			last.Spent = last.words()
		}
		kind := stageOf(e.To).Kind
		all = append(all, Stay{State: e.To, Outcome: e.Outcome, From: e.At, Spent: waiting, kind: kind,
			End: kind == lifecycle.End})
	}
	if n := len(all); n > 0 && !all[n-1].End {
		last := &all[n-1]
		last.Took, last.Open = until.At.Sub(last.From), true
		last.spend(until.At.Sub(history[len(history)-1].At), last.now(until))
		last.Spent = last.now(until)
		if last.Worked > 0 {
			last.Spent += ", after " + amount.Span(last.Worked) + " of work"
		}
	}
	for i := range all {
		all[i].Waits = !slices.ContainsFunc(all[i].spans, func(s span) bool { return s.is != waiting })
	}
	bar(all)
	return all
}

// now states what the job does in the state in which it is.
func (s *Stay) now(until Until) string {
	switch {
	case until.Past && s.kind == lifecycle.Work:
		return either
	case until.Claimed && !until.Past:
		return claimed
	}
	return waiting
}

// beginnings returns for each entry when the work began that goes on until the entry; zero: it is not known. Work that
// an entry ends went on at the entries after its beginning, such as that of a new priority.
func beginnings(history []job.Event) []time.Time {
	all, since := make([]time.Time, len(history)), time.Time{}
	for i := len(history) - 1; i >= 0; i-- {
		e := &history[i]
		if !e.Began.IsZero() {
			since = e.Began
		} else if !since.Before(e.At) {
			since = time.Time{}
		}
		all[i] = since
	}
	return all
}

// divide divides the time from one entry to the next into waiting and working.
func (s *Stay) divide(prev, e *job.Event, began time.Time) {
	took := max(e.At.Sub(prev.At), 0)
	switch {
	case !began.IsZero():
		worked := min(e.At.Sub(began), took)
		s.spend(took-worked, waiting)
		s.spend(worked, working)
		s.Worked += worked
	case s.kind == lifecycle.Work && !unclaimed(prev, e):
		s.spend(took, either)
	default:
		s.spend(took, waiting)
	}
}

// unclaimed reports whether no worker had the job between two entries. Each claim has an epoch of its own.
func unclaimed(prev, e *job.Event) bool {
	switch prev.Event {
	case job.Create, lifecycle.Backoff, lifecycle.Waiting, lifecycle.Yield: // without a claim afterwards
		return e.Epoch == prev.Epoch
	}
	return false
}

func (s *Stay) spend(took time.Duration, is string) {
	if took <= 0 {
		return
	}
	if n := len(s.spans); n > 0 && s.spans[n-1].is == is {
		s.spans[n-1].took += took
		return
	}
	s.spans = append(s.spans, span{took, is})
}

// shown is the shortest time that words name.
const shown = time.Millisecond

// words states what the job did in a stay that is over.
func (s *Stay) words() string {
	sums := map[string]time.Duration{}
	for _, one := range s.spans {
		sums[one.is] += one.took
	}
	waited, worked := sums[waiting] >= shown, s.Worked >= shown
	switch {
	case sums[either] > 0 && worked:
		return either + ", at least " + amount.Span(s.Worked) + " of it working"
	case sums[either] > 0:
		return either
	case waited && worked:
		return waiting + " " + amount.Span(sums[waiting]) + ", " + working + " " + amount.Span(s.Worked)
	case worked, s.Worked > 0 && !waited:
		return working
	}
	return waiting
}

// failed adds an attempt.
func (s *Stay) failed(e *job.Event) {
	began, worked := s.From, s.Worked
	for _, a := range s.Attempts {
		worked -= a.Worked
	}
	if k := len(s.Attempts); k > 0 {
		began = s.Attempts[k-1].At
	}
	s.Attempts = append(s.Attempts, Attempt{e.At, e.At.Sub(began), worked, e.Cause, e.Note})
}

// least is the width of a stay that took nearly no time, so that it can be seen.
const least = 8

// bar divides a bar of 1000 units among the stays, and each share among the parts of the stay.
func bar(all []Stay) {
	total := time.Duration(0)
	for i := range all {
		total += max(all[i].Took, 0)
	}
	rest := 1000 - least*len(all)
	x := 0
	for i := range all {
		s := &all[i]
		w := least
		if total > 0 && rest > 0 {
			w += int(float64(rest) * float64(max(s.Took, 0)) / float64(total))
		}
		s.Parts = s.parts(x, w)
		x += w
		s.Text = string(s.State) + ": " + amount.Span(max(s.Took, 0))
		if !s.End {
			s.Text += ", " + s.Spent
		}
	}
}

// parts divides a part of the bar among the parts of the stay. Neighbors of the same kind, and what is narrower than a
// unit, become one.
func (s *Stay) parts(x, w int) (all []Part) {
	total, sum := time.Duration(0), time.Duration(0)
	for _, one := range s.spans {
		total += one.took
	}
	at := 0
	for _, one := range s.spans {
		sum += one.took
		end := int(float64(w) * float64(sum) / float64(total))
		waits := one.is == waiting
		switch n := len(all); {
		case end == at:
		case n > 0 && all[n-1].Waits == waits:
			all[n-1].W += end - at
		default:
			all = append(all, Part{x + at, end - at, waits})
		}
		at = end
	}
	if len(all) == 0 {
		return []Part{{x, w, s.Waits}}
	}
	return all
}
