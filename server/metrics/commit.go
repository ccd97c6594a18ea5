package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// commits counts what the store's commit loop reports.
type commits struct {
	took, size prometheus.Observer
}

func newCommits(r *prometheus.Registry) commits {
	return commits{
		took: histogram(r, "commit_duration_seconds", "Time of one transaction of the store, its sync included.",
			[]float64{.0002, .0005, .001, .002, .005, .01, .025, .05, .1, .25, 1, 5}).WithLabelValues(),
		size: histogram(r, "commit_operations", "Operations that one transaction of the store carried out.",
			[]float64{1, 2, 4, 8, 16, 32, 64, 128, 256, 512}).WithLabelValues(),
	}
}

// Committed counts one transaction; it fits sqlite.Options.OnCommit.
func (m *Metrics) Committed(ops int, took time.Duration) {
	m.commits.took.Observe(took.Seconds())
	m.commits.size.Observe(float64(ops))
}
