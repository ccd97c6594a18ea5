package ledger

import (
	"cmp"
	"slices"

	"github.com/stagepost/stagepost/job"
)

// Hold is job.Store's.
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
		l.holds = slices.Delete(l.holds, at, at+1)
		l.revised++
		return l.Holds(), nil
	}
	h := c.Hold
	h.Version = l.revised + 1
	if err := r.PutHold(&h); err != nil {
		return nil, err
	}
	l.revised++
	if at >= 0 {
		l.holds = slices.Delete(l.holds, at, at+1)
	}
	l.holds = append(l.holds, h)
	l.sortHolds()
	return l.Holds(), nil
}

func (l *Ledger) sortHolds() {
	slices.SortStableFunc(l.holds, func(a, b job.Hold) int {
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Version, b.Version))
	})
}

// Outbox is job.Store's.
func (l *Ledger) Outbox(r Records, c *job.OutboxCall) ([]job.Message, error) {
	if c.Job != "" {
		return r.Messages(c.Now, 0, c.Job)
	}
	for i := range c.Settle {
		s := &c.Settle[i]
		m, err := r.Message(s.Key)
		if err != nil {
			return nil, err
		}
		if m == nil || m.Settled != job.Pending {
			continue
		}
		m.Settled, m.Error, m.Due = s.Settled, s.Error, s.Due
		if err := r.PutMessage(m); err != nil {
			return nil, err
		}
	}
	if c.Take == 0 {
		return nil, nil
	}
	taken, err := r.Messages(c.Now, c.Take, "")
	if err != nil {
		return nil, err
	}
	for i := range taken {
		taken[i].Attempts++
		taken[i].Due = c.Now.Add(c.Lease)
		if err := r.PutMessage(&taken[i]); err != nil {
			return nil, err
		}
	}
	return taken, nil
}
