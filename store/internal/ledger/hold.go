package ledger

import (
	"cmp"
	"slices"

	"github.com/stagepost/stagepost/job"
)

// Hold implements job.Store.
func (l *Ledger) Hold(r Records, c *job.HoldChange) ([]job.Hold, error) {
	if c == nil {
		return l.Holds(), nil
	}
	at := slices.IndexFunc(l.holds, func(h job.Hold) bool { return h.Scope == c.Hold.Scope })
	if c.Release {
		if at < 0 {
			return nil, job.Errorf(job.NotFound, "release", "", "there is no hold on %s", c.Hold.Scope)
		}
		if err := r.DropHold(c.Hold.Scope); err != nil {
			return nil, err
		}
		if err := l.note(r, job.AuditedHold(c)); err != nil {
			return nil, err
		}
		l.holds = slices.Delete(l.holds, at, at+1)
		l.revised++
		l.queue.SetHolds(l.holds)
		return l.Holds(), nil
	}
	h := c.Hold
	h.Version = l.revised + 1
	if err := r.PutHold(&h); err != nil {
		return nil, err
	}
	if err := l.note(r, job.AuditedHold(c)); err != nil {
		return nil, err
	}
	l.revised++
	if at >= 0 {
		l.holds = slices.Delete(l.holds, at, at+1)
	}
	l.holds = append(l.holds, h)
	l.sortHolds()
	l.queue.SetHolds(l.holds)
	return l.Holds(), nil
}

func (l *Ledger) sortHolds() {
	slices.SortStableFunc(l.holds, func(a, b job.Hold) int {
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Version, b.Version))
	})
}
