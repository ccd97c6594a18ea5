package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/stagepost/stagepost/flow"
)

// flows counts what flows do. Names of flows and atoms are no labels: whoever writes a file makes them up. What flows as jobs do is in the metrics of all jobs.
type flows struct {
	atoms  *prometheus.CounterVec
	took   *prometheus.HistogramVec
	again  *prometheus.CounterVec
	causes *words
}

func newFlows(r *prometheus.Registry, causes int) *flows {
	return &flows{
		causes: newWords(causes),
		atoms:  counter(r, "flow_atoms_total", "Tasks and retry controllers of flows by the state that they came to.", "kind", "state"),
		took: histogram(r, "flow_atom_duration_seconds", "Time that tasks and retry controllers of flows spent RUNNING or REVERTING, waiting included, as far as one worker saw it.",
			[]float64{.001, .005, .025, .1, .5, 2, 10, 60, 300, 1800, 7200, 28800}, "kind", "state"),
		again: counter(r, "flow_task_retries_total", "Failed attempts of tasks that try again by themselves, by the type of the failure.", "cause"),
	}
}

// Flows is what flows are to tell: a [flow.Metering] of it is made for each.
func (m *Metrics) Flows() flow.Meter { return m.flows }

// Changed is part of [flow.Meter].
func (f *flows) Changed(c flow.Changed) {
	if c.Atom == "" {
		return
	}
	f.atoms.WithLabelValues(string(c.Kind), string(c.To)).Inc()
	if c.Took > 0 && (c.From == flow.Running || c.From == flow.Reverting) {
		f.took.WithLabelValues(string(c.Kind), string(c.From)).Observe(c.Took.Seconds())
	}
}

// TriedAgain is part of [flow.Meter].
func (f *flows) TriedAgain(a flow.Again) {
	f.again.WithLabelValues(f.causes.bound(a.Cause)).Inc()
}
