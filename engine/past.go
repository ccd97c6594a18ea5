package engine

import (
	"context"
	"maps"
	"slices"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// heldThen adds the holds that concerned job j, which stood at p, at x.At: as the audit list tells, if the store keeps one.
func (e *Engine) heldThen(ctx context.Context, j job.Job, p lifecycle.Position, x *Explanation) error {
	auditor, ok := e.store.(job.Auditor)
	if !ok || e.works[j.Kind].Life.Ended(p.State) {
		return nil
	}
	holds := map[job.Scope]job.Hold{}
	for seq := int64(0); ; {
		page, err := auditor.Audit(ctx, seq, 1000)
		if err != nil {
			return err
		}
		for i := range page {
			a := &page[i]
			seq = a.Seq
			if a.At.After(x.At) {
				continue // in order of writing, which the clock need not follow
			}
			switch h, put, ok := a.Held(); {
			case ok && put:
				holds[h.Scope] = h
			case ok:
				delete(holds, h.Scope)
			}
		}
		if len(page) < 1000 {
			break
		}
	}
	j.Position = p
	for _, h := range slices.SortedFunc(maps.Values(holds), func(a, b job.Hold) int { return a.Since.Compare(b.Since) }) {
		if h.Matches(&j) && h.On(x.At) {
			x.Blockers = append(x.Blockers, heldBy(&h))
		}
	}
	return nil
}
