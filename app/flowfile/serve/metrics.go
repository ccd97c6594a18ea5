package flowserve

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/stagepost/stagepost/flow"
	"github.com/stagepost/stagepost/server/metrics"
)

// meter counts what flows do. Names of flows and tasks are no labels: the writers of files choose them. What flows as
// jobs do is in the metrics of all jobs.
type meter struct {
	atoms  *prometheus.CounterVec
	took   *prometheus.HistogramVec
	again  *prometheus.CounterVec
	causes *metrics.Values
}

// NewMeter registers the metrics of flows. A [flow.Metering] of it is made for each flow.
func NewMeter(m *metrics.Metrics) flow.Meter {
	return &meter{
		causes: m.Causes(),
		atoms: m.Counter("flow_atoms_total", "Tasks and retry controllers of flows by the state that they came to.",
			"kind", "state"),
		took: m.Histogram("flow_atom_duration_seconds",
			"Time that tasks and retry controllers of flows spent RUNNING or "+
				"REVERTING, waiting included, as far as one worker saw it.",
			[]float64{.001, .005, .025, .1, .5, 2, 10, 60, 300, 1800, 7200, 28800}, "kind", "state"),
		again: m.Counter("flow_task_retries_total",
			"Failed attempts of tasks that try again by themselves, by the type of the failure.", "cause"),
	}
}

// Changed is part of [flow.Meter].
func (m *meter) Changed(c flow.Changed) {
	if c.Atom == "" {
		return
	}
	m.atoms.WithLabelValues(string(c.Kind), string(c.To)).Inc()
	if c.Took > 0 && (c.From == flow.Running || c.From == flow.Reverting) {
		m.took.WithLabelValues(string(c.Kind), string(c.From)).Observe(c.Took.Seconds())
	}
}

// TriedAgain is part of [flow.Meter].
func (m *meter) TriedAgain(a flow.Again) { m.again.WithLabelValues(m.causes.Bound(a.Cause)).Inc() }
