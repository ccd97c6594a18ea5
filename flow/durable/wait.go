package durable

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/flow"
	"github.com/stagepost/stagepost/job"
)

// soon is the shortest time for which a claim is given back.
const soon = 100 * time.Millisecond

// wait gives the claim back until something happens.
func (s *session) wait(rest *flow.Rest) error {
	b := job.Blocker{Code: BlockTime, Until: rest.Until} // explain states the rest of it
	var signals, times waiters
	var names []string // of signals
	for _, name := range rest.Atoms {
		a, _ := s.runner.Atom(name)
		if a.Awaits == "" {
			times.add(&a)
			continue
		}
		signals.add(&a)
		names = append(names, a.Awaits)
	}
	var parts []string
	if len(names) > 0 {
		slices.Sort(names)
		names = slices.Compact(names)
		what := "the signal "
		if len(names) > 1 {
			what = "the signals "
		}
		what += someOf(names)
		b.Code = BlockSignal
		parts = append(parts, signals.phrase(" for "+what))
	}
	if len(times.names) > 0 {
		parts = append(parts, times.phrase(""))
	}
	// a pause before something is tried again
	if !rest.Until.IsZero() && !rest.Until.Equal(signals.first) && !rest.Until.Equal(times.first) {
		parts = append(parts, "it waits until "+rest.Until.UTC().Format(time.RFC3339))
	}
	b.Sentence = strings.Join(parts, "; ")
	if at := s.limit(); !at.IsZero() && (b.Until.IsZero() || at.Before(b.Until)) {
		b.Until = at
	}
	switch now := s.run.Now(); {
	case b.Until.IsZero() || b.Until.Sub(now) > longestWait:
		b.Until = now.Add(longestWait)
	case b.Until.Sub(now) < soon: // a time that has passed when it is stored counts as none
		b.Until = now.Add(soon)
	}
	return engine.Wait(b)
}

// explain states who ends what a flow waits for, and how.
func explain(j *job.Job, b *job.Blocker) {
	switch b.Code {
	case BlockSignal:
		b.Holder, b.Remedy = "the sender of the signal", "send the signal"
	case BlockTime:
		b.Remedy = "nothing: it goes on by itself"
	case BlockFactory:
		b.Holder, b.Remedy = "a worker with that factory", "start a worker with that factory, or register it here"
	case BlockSuspended:
		b.Remedies = []job.Remedy{job.Causing("run", j.ID, false, "continues the flow")}
	}
}

// waiters are atoms that wait for the same kind of thing.
type waiters struct {
	names []string
	first time.Time // the earliest time at which one of them goes on by itself; zero: none does
}

func (w *waiters) add(a *flow.Record) {
	w.names = append(w.names, a.Name)
	if !a.Due.IsZero() && (w.first.IsZero() || a.Due.Before(w.first)) {
		w.first = a.Due
	}
}

// phrase makes a sentence of who waits, what for, and how long.
func (w *waiters) phrase(what string) string {
	text, until := someOf(w.names)+" waits"+what, " until "
	if len(w.names) > 1 {
		text, until = someOf(w.names)+" wait"+what, ", the first until "
	}
	if !w.first.IsZero() {
		text += until + w.first.UTC().Format(time.RFC3339)
	}
	return text
}

// someOf lists names as a sentence has space for.
func someOf(names []string) string {
	const most = 5
	if len(names) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
	}
	return strings.Join(names, ", ")
}
