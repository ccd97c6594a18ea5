package computeserve

import (
	"fmt"
	"maps"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/server/metrics"
)

// counted gives the series of compute with their values.
func counted(m *metrics.Metrics) map[string]string {
	answer := httptest.NewRecorder()
	m.ServeHTTP(answer, httptest.NewRequest("GET", "/metrics", nil))
	all := map[string]string{}
	for line := range strings.Lines(answer.Body.String()) {
		if i := strings.LastIndexByte(line, ' '); strings.HasPrefix(line, "stagepost_compute_") {
			all[line[:i]] = strings.TrimSpace(line[i:])
		}
	}
	return all
}

// TestMeters counts what compute jobs did.
func TestMeters(t *testing.T) {
	m := metrics.New(metrics.Options{})
	c := NewMeters(m)
	c.Ended("python", "Completed", "", 90*time.Second)
	c.Ended("python", "Completed", "", 30*time.Second)
	c.Ended("python", "Failed", "timeout", time.Hour)
	c.Ended("python", "Failed", "unreachable", 0) // it never ran
	c.Moved("to-agent", "python", 1000)
	c.Moved("to-agent", "python", 24)
	c.Moved("from-agent", "python", 7)
	got := counted(m)
	for name, want := range map[string]string{
		`stagepost_compute_ends_total{cause="none",service="python",state="Completed"}`:     "2",
		`stagepost_compute_ends_total{cause="timeout",service="python",state="Failed"}`:     "1",
		`stagepost_compute_ends_total{cause="unreachable",service="python",state="Failed"}`: "1",
		`stagepost_compute_run_seconds_count{service="python",state="Completed"}`:           "2",
		`stagepost_compute_run_seconds_sum{service="python",state="Completed"}`:             "120",
		`stagepost_compute_run_seconds_bucket{service="python",state="Completed",le="60"}`:  "1",
		`stagepost_compute_run_seconds_count{service="python",state="Failed"}`:              "1",
		`stagepost_compute_bytes_total{service="python",way="to-agent"}`:                    "1024",
		`stagepost_compute_bytes_total{service="python",way="from-agent"}`:                  "7",
	} {
		if got[name] != want {
			t.Errorf("%s is %q, want %q", name, got[name], want)
		}
	}
}

// agentOf is an agent that answers.
func agentOf(name string, slots, free, waiting int, load float64, draining bool) compute.Agent {
	a := compute.Agent{Name: name, Up: true}
	a.Slots, a.Free, a.Waiting, a.Load, a.Draining = slots, free, waiting, load, draining
	return a
}

// gauges reads the gauges of agents, by name and agent.
func gauges(t *testing.T, s metrics.Source) map[string]float64 {
	t.Helper()
	names := map[*prometheus.Desc]string{}
	for i, name := range []string{"up", "slots", "used", "waiting", "load", "draining"} {
		names[s.Gauges[i]] = name
	}
	all := map[string]float64{}
	put := func(d *prometheus.Desc, v float64, labels ...string) { all[names[d]+" "+labels[0]] = v }
	if err := s.Collect(t.Context(), put); err != nil {
		t.Fatal(err)
	}
	return all
}

// TestAgentGauges reads agents that answer and one that does not, of which only that is shown.
func TestAgentGauges(t *testing.T) {
	silent := agentOf("node2", 8, 8, 0, 5, false) // its last report
	silent.Up = false
	got := gauges(t, AgentGauges(metrics.New(metrics.Options{}), func() []compute.Agent {
		return []compute.Agent{
			agentOf("node1", 4, 1, 2, 75, false), silent, agentOf("node3", 2, -1, 0, 0, true), agentOf("cluster", 0, 0,
				0, 0, false),
		}
	}))
	want := map[string]float64{
		"up node1": 1, "slots node1": 4, "used node1": 3, "waiting node1": 2, "load node1": 0.75, "draining node1": 0,
		"up node2": 0,
		"up node3": 1, "slots node3": 2, "used node3": 2, "waiting node3": 0, "load node3": 0, "draining node3": 1,
		"up cluster": 1, "waiting cluster": 0, "load cluster": 0, "draining cluster": 0,
	}
	if !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestAgentGaugesAreBounded: agents beyond the limit are one, and none is lost from the sum. Any name is accepted.
func TestAgentGaugesAreBounded(t *testing.T) {
	var all []compute.Agent
	source := AgentGauges(metrics.New(metrics.Options{Groups: 3}), func() []compute.Agent { return slices.Clone(all) })
	for i := range 10 {
		a := agentOf(fmt.Sprintf("n%d", i), 2, 1, 0, float64(10*i), i > 5)
		a.Up = i != 7
		all = append(all, a)
	}
	all = append(all, agentOf("other", 5, 5, 0, 0, false), agentOf("\xff\"\n", 0, 0, 0, 0, false))
	got := gauges(t, source)
	agents := 0
	for name := range got {
		if strings.HasPrefix(name, "up ") {
			agents++
		}
	}
	if agents != 4 || got["slots n0"] != 2 || got["slots n9"] != 0 {
		t.Errorf("%d agents, %v", agents, got)
	}
	// other has n3 to n9 and "other"; n7 does not answer.
	for name, want := range map[string]float64{"up": 0, "slots": 17, "used": 6, "draining": 3, "load": 0.9} {
		if got := got[name+" other"]; got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	all = nil
	for _, name := range []string{"n0", "a", "b", "n2"} {
		all = append(all, agentOf(name, 0, 0, 0, 0, false))
	}
	if got := gauges(t, source); got["up n0"] != 1 || got["up n2"] != 1 || got["up b"] != 0 {
		t.Errorf("agents that have series keep them, and those that left make them free: %v", got)
	}
}

// TestServicesAreBounded: services beyond the limit are one.
func TestServicesAreBounded(t *testing.T) {
	m := metrics.New(metrics.Options{Groups: 3, Causes: 2})
	c := NewMeters(m)
	for i := range 20 {
		c.Ended(fmt.Sprintf("s%d", i), "Failed", fmt.Sprintf("c%d", i), time.Second)
		c.Moved("to-agent", fmt.Sprintf("s%d", i), 1)
	}
	n := map[string]int{}
	for one := range counted(m) {
		base, _, _ := strings.Cut(one, "{")
		n[base]++
	}
	for _, name := range []string{"run_seconds_count", "bytes_total", "ends_total"} {
		if n["stagepost_compute_"+name] != 4 {
			t.Errorf("%s: got %d series, want 4", name, n["stagepost_compute_"+name])
		}
	}
}
