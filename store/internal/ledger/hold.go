package ledger

import (
	"cmp"
	"slices"

	"github.com/stagepost/stagepost/job"
)

// Holds implements job.Store.
func (l *Ledger) Holds() []job.Hold { return slices.Clone(l.holds) }

// Hold implements job.Store.
func (l *Ledger) Hold(r Records, h job.Hold) ([]job.Hold, error) {
	h.Version = l.revised + 1
	if err := r.PutHold(&h); err != nil {
		return nil, err
	}
	if err := l.note(r, job.AuditedHold(&h)); err != nil {
		return nil, err
	}
	l.holds = append(slices.DeleteFunc(l.holds, on(h.Scope)), h)
	l.sortHolds()
	l.revise()
	return l.Holds(), nil
}

// Release implements job.Store.
func (l *Ledger) Release(r Records, h job.Hold) ([]job.Hold, error) {
	if !slices.ContainsFunc(l.holds, on(h.Scope)) {
		return nil, job.Errorf(job.NotFound, "release", "", "there is no hold on %s", h.Scope)
	}
	if err := r.DropHold(h.Scope); err != nil {
		return nil, err
	}
	if err := l.note(r, job.AuditedRelease(&h)); err != nil {
		return nil, err
	}
	l.holds = slices.DeleteFunc(l.holds, on(h.Scope))
	l.revise()
	return l.Holds(), nil
}

func on(s job.Scope) func(job.Hold) bool {
	return func(h job.Hold) bool { return h.Scope == s }
}

// revise puts the changed holds in force.
func (l *Ledger) revise() {
	l.revised++
	l.queue.SetHolds(l.holds)
}

func (l *Ledger) sortHolds() {
	slices.SortStableFunc(l.holds, func(a, b job.Hold) int {
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Version, b.Version))
	})
}
