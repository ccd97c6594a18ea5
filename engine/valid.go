package engine

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// mistakes collects what is wrong with a work.
type mistakes struct {
	name string
	all  []error
}

func (m *mistakes) add(format string, args ...any) {
	m.all = append(m.all, fmt.Errorf("%s: %w", m.name, fmt.Errorf(format, args...)))
}

// validate returns all mistakes of a registration.
func (w *Work) validate() error {
	if w.Life == nil {
		return errors.New("a work needs a lifecycle")
	}
	m := &mistakes{name: w.Life.Name()}
	switch {
	case w.Prefix == "":
		m.add("a work needs a prefix for its ids")
	case !plainPrefix(w.Prefix):
		m.add("the prefix %q is not made of letters, digits and hyphens", w.Prefix)
	}
	if w.Slots < 0 {
		m.add("%d slots are fewer than none", w.Slots)
	}
	w.validateSteps(m)
	w.validateTimes(m)
	for _, s := range slices.Sorted(maps.Keys(w.Requires)) {
		if !w.moves(s) {
			m.add("labels are required for %s, which is not a state to work on", s)
		}
		if _, err := job.Required(w.Requires[s]...); err != nil {
			m.add("the labels required for %s: %s", s, job.Reason(err))
		}
	}
	for i := range w.Limits {
		w.validateLimit(m, &w.Limits[i])
	}
	return errors.Join(m.all...)
}

// plainPrefix reports whether ids with the prefix fit into addresses and can be divided at the first underscore.
func plainPrefix(prefix string) bool {
	return !strings.ContainsFunc(prefix, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-'
	})
}

// moves reports whether s is a state of the table in which a job has not ended.
func (w *Work) moves(s lifecycle.State) bool {
	k := w.Life.Kind(s)
	return k != "" && k != lifecycle.End
}

func (w *Work) validateSteps(m *mistakes) {
	for _, s := range slices.Sorted(maps.Keys(w.Steps)) {
		if !w.moves(s) {
			m.add("there is a step for %s, which is not a state to work on", s)
		}
	}
	for _, s := range slices.Sorted(maps.Keys(w.Gates)) {
		if w.Steps[s] == nil {
			m.add("there is a gate for %s, which has no step", s)
		}
	}
	for _, s := range w.Shared {
		if w.Steps[s] == nil {
			m.add("%s is shared with remote workers and has no step", s)
		}
	}
	for _, s := range w.Programs {
		if !w.Outside || !w.moves(s) || w.Steps[s] != nil {
			m.add("%s is no state that programs outside work on", s)
		}
	}
	for _, st := range w.Life.Stages() {
		if !w.Outside && (st.Kind == lifecycle.Work || st.Kind == lifecycle.Queue) && w.Steps[st.State] == nil {
			m.add("%s has no step", st.State)
		}
	}
}

// validateTimes checks the policies and the times after which a timer moves jobs.
func (w *Work) validateTimes(m *mistakes) {
	for _, s := range slices.Sorted(maps.Keys(w.Elapsed)) {
		if a, ok := w.Life.Transition(s, w.Elapsed[s]); !ok || a.By&lifecycle.Timer == 0 {
			m.add("no timer takes %s out of %s", w.Elapsed[s], s)
		}
	}
	for _, s := range slices.Sorted(maps.Keys(w.Policies)) {
		switch kind := w.Life.Kind(s); {
		case kind == "":
			m.add("there is a policy for %s, which is not a state of the lifecycle", s)
		case kind == lifecycle.End && w.Policies[s].Timeout > 0:
			m.add("there is a timeout for %s, which is an end: Keep has the time until a timer leaves it", s)
		}
	}
	retained := slices.ContainsFunc(w.Life.Stages(), func(st lifecycle.Stage) bool {
		return st.Kind == lifecycle.End && slices.ContainsFunc(st.Transitions, func(a lifecycle.Transition) bool {
			return a.By&lifecycle.Timer != 0
		})
	})
	if w.Keep > 0 && !retained {
		m.add("ended jobs are kept for a time, and no timer leaves an end")
	}
}

func (w *Work) validateLimit(m *mistakes, l *job.Limit) {
	if l.Kind != w.kind() {
		m.add("limit %s is for kind %s", l.Name, l.Kind)
	}
	if l.Max < 0 {
		m.add("limit %s allows %d jobs", l.Name, l.Max)
	}
	for _, s := range slices.Concat(l.Guard, l.Occupy) {
		if w.Life.Kind(s) == "" {
			m.add("limit %s names %s, which is not a state of the lifecycle", l.Name, s)
		}
	}
}

// sharesPrefix refuses a work whose ids cannot be distinguished from those of another kind. The ids of children follow
// from the prefix, so that those of two kinds would be equal.
func (e *Engine) sharesPrefix(w *Work) error {
	for kind, other := range e.kindsNow().works {
		if kind != w.kind() && other.Prefix == w.Prefix {
			return job.Errorf(job.Invalid, "register", "", "%s: the ids of %s have the prefix %s", w.kind(), kind,
				w.Prefix)
		}
	}
	return nil
}
