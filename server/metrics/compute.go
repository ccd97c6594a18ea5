package metrics

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// computing counts what compute jobs do. Services are the operator's own, and bounded all the same.
type computing struct {
	ends     *prometheus.CounterVec
	ran      *prometheus.HistogramVec
	bytes    *prometheus.CounterVec
	services *words
	causes   *words
}

func newComputing(r *prometheus.Registry, o Options) computing {
	return computing{
		services: newWords(o.Groups), causes: newWords(o.Causes),
		ends: counter(r, "compute_ends_total", "Compute jobs that came to an end, by service, the end's state and cause; the cause of those that ended well is \"none\".", "service", "state", "cause"),
		ran: histogram(r, "compute_run_seconds", "Time that run.sh of a compute job ran, by service and the end that the job came to. Jobs that never ran are left out.",
			[]float64{.1, .5, 2, 10, 60, 300, 1800, 7200, 28800, 86400, 259200}, "service", "state"),
		bytes: counter(r, "compute_bytes_total", "Bytes of compute jobs' files between the server and its agents, by way: to-agent, from-agent. What is sent again is counted again.", "way", "service"),
	}
}

// ComputeEnded counts a compute job that came to an end. ran is how long run.sh ran; zero: it did not. It fits compute.Options.Ended.
func (m *Metrics) ComputeEnded(service, state, cause string, ran time.Duration) {
	c := &m.computing
	service = c.services.bound(service)
	if cause == "" {
		cause = "none"
	}
	c.ends.WithLabelValues(service, state, c.causes.bound(cause)).Inc()
	if ran > 0 {
		c.ran.WithLabelValues(service, state).Observe(ran.Seconds())
	}
}

// ComputeMoved counts bytes that went a way between the server and its agents. It fits compute.Options.Moved.
func (m *Metrics) ComputeMoved(way, service string, n int64) {
	m.computing.bytes.WithLabelValues(way, m.computing.services.bound(service)).Add(float64(n))
}

// Agent is how somebody stands who runs compute jobs.
type Agent struct {
	Name     string
	Up       bool // it answers; else only Name counts
	Draining bool
	Slots    int // 0: not known
	Free     int
	Waiting  int     // jobs that wait there
	Load     float64 // of its processors, in percent
}

// agents are the descriptions of what is told of them.
type agents struct {
	up, slots, used, waiting, load, draining *prometheus.Desc
	told                                     chosen
}

func newAgents(o Options, desc func(name, help string, labels ...string) *prometheus.Desc) agents {
	const rest = " Agents beyond a number are \"other\", as one."
	return agents{
		told: chosen{most: o.Groups},
		up:   desc("compute_agent_up", "1 if an agent of compute jobs answers, else 0; of \"other\" 1 if all do."+rest, "agent"),
		slots: desc("compute_agent_slots", "Compute jobs that an agent runs at once. It is left out, with the rest, for an agent that does not answer, and for one that does not say."+rest,
			"agent"),
		used:     desc("compute_agent_slots_used", "Of the slots of an agent, those that are taken."+rest, "agent"),
		waiting:  desc("compute_agent_waiting", "Compute jobs that wait for a slot at an agent."+rest, "agent"),
		load:     desc("compute_agent_load_ratio", "Load of an agent's processors, 1 for all of them; of \"other\" the highest."+rest, "agent"),
		draining: desc("compute_agent_draining", "1 if an agent takes nothing new, else 0; of \"other\" the number of those that do not."+rest, "agent"),
	}
}

func (a *agents) all() []*prometheus.Desc {
	return []*prometheus.Desc{a.up, a.slots, a.used, a.waiting, a.load, a.draining}
}

// collectAgents tells how the agents stand.
func (s *state) collectAgents(_ context.Context, from *Sources, put putter) error {
	if from.Agents == nil {
		return nil
	}
	all := from.Agents()
	here := map[string]int64{}
	for i := range all {
		all[i].Name = valid(all[i].Name)
		here[all[i].Name] = 1
	}
	apart := s.agents.told.choose(here)
	under := map[string][]Agent{}
	for i := range all {
		name := all[i].Name
		if !apart[name] {
			name = other
		}
		under[name] = append(under[name], all[i])
	}
	for name, some := range under {
		s.agents.put(put, name, some)
	}
	return nil
}

// put tells of agents under one name.
func (a *agents) put(put putter, name string, some []Agent) {
	up, answer, sized := 1.0, false, false
	var sum Agent
	draining := 0.0
	for i := range some {
		one := &some[i]
		if !one.Up {
			up = 0
			continue
		}
		answer = true
		if one.Slots > 0 {
			sized = true
			sum.Slots, sum.Free = sum.Slots+one.Slots, sum.Free+min(max(one.Free, 0), one.Slots)
		}
		sum.Waiting += one.Waiting
		sum.Load = max(sum.Load, one.Load)
		if one.Draining {
			draining++
		}
	}
	put(a.up, up, name)
	if sized {
		put(a.slots, float64(sum.Slots), name)
		put(a.used, float64(sum.Slots-sum.Free), name)
	}
	if answer {
		put(a.waiting, float64(sum.Waiting), name)
		put(a.load, sum.Load/100, name)
		put(a.draining, draining, name)
	}
}
