package notation

import (
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/stagepost/stagepost/lifecycle"
)

// endings has the outcomes for names of ends, in lower case without separators.
var endings = map[string]lifecycle.Outcome{
	"completed": lifecycle.OK, "complete": lifecycle.OK, "success": lifecycle.OK, "succeeded": lifecycle.OK,
	"done": lifecycle.OK, "finished": lifecycle.OK,
	"failed": lifecycle.Failed, "failure": lifecycle.Failed, "invalid": lifecycle.Failed, "rejected": lifecycle.Failed,
	"reverted": lifecycle.Failed, "revertfailure": lifecycle.Failed,
	"timeout": lifecycle.TimedOut, "timedout": lifecycle.TimedOut, "expired": lifecycle.TimedOut,
	"cancelled": lifecycle.Cancelled, "canceled": lifecycle.Cancelled, "killed": lifecycle.Cancelled,
	"aborted": lifecycle.Cancelled,
	"deleted": lifecycle.None, "cleaned": lifecycle.None, "removed": lifecycle.None, "purged": lifecycle.None,
}

// resting has names of wait states, and queues names of queue states.
var (
	resting = []string{"held", "hold", "suspended", "paused", "waiting", "unknown", "unclaimed", "awaiting"}
	queues  = []string{"pending", "queued", "created", "new", "uninitialized", "ready", "open"}
)

var (
	finalWord = regexp.MustCompile(`(?i)\bfinal\b`)
	guardText = regexp.MustCompile(`^(.*?)\s*\[([^\[\]]+)\]$`)
)

func bare(name string) string {
	return strings.ToLower(strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			return r
		}
		return -1
	}, name))
}

// document makes stages of a flat diagram.
func (g *graph) document(name string, f flat) *Document {
	d := &Document{File: g.file, Name: name, Format: Mermaid, start: Position{1, 1}}
	names := g.sort(f)
	if len(names) > 0 {
		d.start = g.vertices[names[0]].at
	}
	for _, n := range names {
		v := g.vertices[n]
		s := lifecycle.Stage{State: lifecycle.State(n), Doc: v.doc}
		var positions []Position
		for _, e := range f.edges {
			a := transitionOf(e)
			same := func(b lifecycle.Transition) bool { return b.Event == a.Event && b.To == a.To }
			if e.from != n || slices.ContainsFunc(s.Transitions, same) {
				continue
			}
			s.Transitions = append(s.Transitions, a)
			positions = append(positions, e.at)
		}
		s.Kind = kindOf(v, s, slices.ContainsFunc(f.finals, func(e edge) bool { return e.from == n }))
		if s.Kind == lifecycle.End {
			s.Outcome = endings[bare(n)]
			for i, a := range s.Transitions { // a person's transition out of an end restarts the job
				s.Transitions[i].Restart = a.By&^(lifecycle.Operator|lifecycle.Owner) == 0
			}
		}
		d.described = d.described || v.doc != ""
		d.Stages = append(d.Stages, s)
		d.states = append(d.states, v.at)
		d.transitions = append(d.transitions, positions)
	}
	return d
}

// sort puts the start first and keeps the others in the order in which they are mentioned.
func (g *graph) sort(f flat) []string {
	in := map[string]bool{}
	for _, n := range f.names {
		in[n] = true
	}
	for _, e := range f.edges { // a transition of an inner diagram may name a state of an outer one
		in[e.from], in[e.to] = true, true
	}
	var names []string
	for _, e := range f.starts {
		if e.to != "" && !slices.Contains(names, e.to) {
			names = append(names, e.to)
			in[e.to] = false
		}
	}
	if len(names) > 1 {
		g.problem(f.starts[1].at, "the lifecycle already starts in %s; it has one start", names[0])
	}
	for _, n := range g.order {
		if in[n] && !g.vertices[n].pseudo {
			names = append(names, n)
		}
	}
	return names
}

// transitionOf makes a transition from the label and the line of an edge.
func transitionOf(e edge) lifecycle.Transition {
	a := lifecycle.On(lifecycle.Event("to "+e.to), lifecycle.State(e.to),
		lifecycle.Worker|lifecycle.Timer|lifecycle.Engine, e.label)
	if e.dashed {
		a.By = lifecycle.Operator
	}
	label := e.label
	if m := guardText.FindStringSubmatch(label); m != nil {
		label = m[1]
		if by, err := lifecycle.ParseActor(m[2]); err == nil {
			a.By = by
		} else {
			a.Budget = m[2]
		}
	}
	if label != "" {
		a.Event = lifecycle.Event(label)
	}
	return a
}

func kindOf(v *vertex, s lifecycle.Stage, final bool) lifecycle.Kind {
	name := bare(v.name)
	_, ending := endings[name]
	for _, a := range s.Transitions {
		ending = ending && a.By&^(lifecycle.Operator|lifecycle.Owner) == 0
	}
	switch {
	case final || v.final || ending:
		return lifecycle.End
	case slices.Contains(queues, name):
		return lifecycle.Queue
	case slices.Contains(resting, name):
		return lifecycle.Wait
	}
	return lifecycle.Work
}
