package ledger

import (
	"slices"
	"sort"

	"github.com/stagepost/stagepost/job"
)

// AuditPage returns the page of an audit log that [job.AuditLog] defines. The log has all entries, from number 1.
func AuditPage(log []job.Audit, seq int64, n int) []job.Audit {
	from, to := max(seq, 0), int64(len(log))
	if n < 0 {
		if seq > 0 {
			to = min(to, seq-1)
		}
		from = max(0, to+int64(n))
	} else {
		to = from + max(0, min(to-from, int64(n)))
	}
	if from >= to {
		return nil
	}
	return slices.Clone(log[from:to])
}

// HoldsPage returns the page of the entries about holds that [job.AuditLog] defines. held has all of them, by number.
func HoldsPage(held []job.Audit, seq int64, n int) []job.Audit {
	from := sort.Search(len(held), func(i int) bool { return held[i].Seq > seq })
	list := slices.Clone(held[from:][:max(0, min(n, len(held)-from))])
	for i := range list {
		list[i].Prev = job.Hash{}
	}
	return list
}
