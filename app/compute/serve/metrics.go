package computeserve

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/server/metrics"
)

// Meters count what compute jobs do. Operators choose the names of services; the number of series is limited all the
// same.
type Meters struct {
	ends     *prometheus.CounterVec
	ran      *prometheus.HistogramVec
	bytes    *prometheus.CounterVec
	services *metrics.Values
	causes   *metrics.Values
}

// NewMeters registers the metrics of compute jobs.
func NewMeters(m *metrics.Metrics) *Meters {
	return &Meters{
		services: m.Groups(), causes: m.Causes(),
		ends: m.Counter("compute_ends_total",
			"Compute jobs that ended, by service, final state and cause; the cause of "+
				"those that ended well is \"none\".", "service", "state", "cause"),
		ran: m.Histogram("compute_run_seconds", "Time that run.sh of a compute job ran, by service and final state. "+
			"Jobs that never ran are left out.",
			[]float64{.1, .5, 2, 10, 60, 300, 1800, 7200, 28800, 86400, 259200}, "service", "state"),
		bytes: m.Counter("compute_bytes_total",
			"Bytes of compute jobs' files between the server and its agents, by way: "+
				"to-agent, from-agent. What is sent again is counted again.", "way", "service"),
	}
}

// Ended counts a compute job that ended. ran is how long run.sh ran; 0: it did not run. It fits compute.Options.Ended.
func (m *Meters) Ended(service, state, cause string, ran time.Duration) {
	service = m.services.Bound(service)
	if cause == "" {
		cause = "none"
	}
	m.ends.WithLabelValues(service, state, m.causes.Bound(cause)).Inc()
	if ran > 0 {
		m.ran.WithLabelValues(service, state).Observe(ran.Seconds())
	}
}

// Moved counts bytes between the server and its agents. It fits compute.Options.Moved.
func (m *Meters) Moved(way, service string, n int64) {
	m.bytes.WithLabelValues(way, m.services.Bound(service)).Add(float64(n))
}

// agentGauges describe the agents.
type agentGauges struct {
	up, slots, used, waiting, load, draining *prometheus.Desc
	largest                                  *metrics.Largest
	list                                     func() []compute.Agent
}

// AgentGauges gives the gauges of the agents in a list.
func AgentGauges(m *metrics.Metrics, list func() []compute.Agent) metrics.Source {
	const rest = " Agents beyond a number are \"other\", as one."
	a := &agentGauges{
		largest: m.LargestGroups(), list: list,
		up: metrics.NewGauge("compute_agent_up",
			"1 if an agent of compute jobs answers, else 0; of \"other\" 1 if all do."+rest, "agent"),
		slots: metrics.NewGauge("compute_agent_slots",
			"Compute jobs that an agent runs at once. It is left out, with the "+
				"rest, for an agent that does not answer, and for one that does not report it."+rest, "agent"),
		used: metrics.NewGauge("compute_agent_slots_used", "Slots of an agent that are taken."+rest, "agent"),
		waiting: metrics.NewGauge("compute_agent_waiting", "Compute jobs that wait for a slot at an agent."+rest,
			"agent"),
		load: metrics.NewGauge("compute_agent_load_ratio",
			"Load of an agent's processors, 1 for all of them; of \"other\" the highest."+rest, "agent"),
		draining: metrics.NewGauge("compute_agent_draining",
			"1 if an agent is draining, else 0; of \"other\" the number of draining agents."+rest, "agent"),
	}
	return metrics.Source{
		Name: "agents", Collect: a.collect,
		Gauges: []*prometheus.Desc{a.up, a.slots, a.used, a.waiting, a.load, a.draining},
	}
}

func (a *agentGauges) collect(_ context.Context, put metrics.Putter) error {
	all := a.list()
	names := map[string]int64{}
	for i := range all {
		all[i].Name = metrics.Valid(all[i].Name)
		names[all[i].Name] = 1
	}
	own := a.largest.Choose(names)
	under := map[string][]compute.Agent{}
	for i := range all {
		name := all[i].Name
		if !own[name] {
			name = metrics.Other
		}
		under[name] = append(under[name], all[i])
	}
	for name, some := range under {
		a.sum(put, name, some)
	}
	return nil
}

// sum gives the gauges of agents under one name.
func (a *agentGauges) sum(put metrics.Putter, name string, some []compute.Agent) {
	up, answer, sized := 1.0, false, false
	slots, free, waiting, load, draining := 0, 0, 0, 0.0, 0.0
	for i := range some {
		one := &some[i]
		if !one.Up {
			up = 0
			continue
		}
		answer = true
		if one.Slots > 0 {
			sized = true
			slots, free = slots+one.Slots, free+min(max(one.Free, 0), one.Slots)
		}
		waiting += one.Waiting
		load = max(load, one.Load)
		if one.Draining {
			draining++
		}
	}
	put(a.up, up, name)
	if sized {
		put(a.slots, float64(slots), name)
		put(a.used, float64(slots-free), name)
	}
	if answer {
		put(a.waiting, float64(waiting), name)
		put(a.load, load/100, name)
		put(a.draining, draining, name)
	}
}
