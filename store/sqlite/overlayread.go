package sqlite

import (
	"slices"

	"github.com/stagepost/stagepost/job"
)

// audits returns the audit entries with numbers from after to before, both excluded: the n newest of them, or the n
// oldest if oldest is set, ascending. They follow those of the database.
func (v *view) audits(after, before int64, n int, oldest bool) []job.Audit {
	var all []job.Audit
	v.each(func(g *generation) bool {
		part := g.audits
		if len(part) == 0 {
			return false
		}
		first := part[0].Seq
		from := min(max(0, after+1-first), int64(len(part)))
		to := min(max(from, before-first), int64(len(part)))
		all = slices.Concat(part[from:to], all) // the newer generation comes first
		return false
	})
	if skip := len(all) - n; skip > 0 && oldest {
		all = all[:n]
	} else if skip > 0 {
		all = all[skip:]
	}
	for i := range all {
		all[i].At = stored(all[i].At)
	}
	return all
}

// ids returns the rows whose id fits, in no order.
func (v *view) ids(fits func(job.ID) bool) (found []idMatch) {
	v.each(func(g *generation) bool {
		for id, e := range g.jobs {
			if fits(id) {
				found = append(found, idMatch{n: e.n, id: id})
			}
		}
		return false
	})
	return found
}
