package metrics_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stagepost/stagepost/server/metrics"
	"github.com/stagepost/stagepost/store/mem"
)

// TestCompute counts what compute jobs did.
func TestCompute(t *testing.T) {
	w := newWorld(t)
	w.ComputeEnded("python", "Completed", "", 90*time.Second)
	w.ComputeEnded("python", "Completed", "", 30*time.Second)
	w.ComputeEnded("python", "Failed", "timeout", time.Hour)
	w.ComputeEnded("python", "Failed", "unreachable", 0) // it never ran
	w.ComputeMoved("to-agent", "python", 1000)
	w.ComputeMoved("to-agent", "python", 24)
	w.ComputeMoved("from-agent", "python", 7)
	got := series(page(t, w))
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

// TestAgents looks at agents that answer and one that does not, of which nothing is known but that.
func TestAgents(t *testing.T) {
	w := newWorld(t)
	w.agents.Store(&[]metrics.Agent{
		{Name: "node1", Up: true, Slots: 4, Free: 1, Waiting: 2, Load: 75},
		{Name: "node2", Slots: 8, Free: 8, Load: 5}, // as it said last
		{Name: "node3", Up: true, Draining: true, Slots: 2, Free: -1},
		{Name: "cluster", Up: true},
	})
	got := series(page(t, w))
	for name, want := range map[string]string{
		`up{agent="node1"}`: "1", `slots{agent="node1"}`: "4", `slots_used{agent="node1"}`: "3", `waiting{agent="node1"}`: "2", `load_ratio{agent="node1"}`: "0.75", `draining{agent="node1"}`: "0",
		`up{agent="node2"}`: "0", `slots{agent="node2"}`: "", `slots_used{agent="node2"}`: "", `load_ratio{agent="node2"}`: "", `draining{agent="node2"}`: "",
		`up{agent="node3"}`: "1", `slots_used{agent="node3"}`: "2", `draining{agent="node3"}`: "1",
		`up{agent="cluster"}`: "1", `slots{agent="cluster"}`: "", `waiting{agent="cluster"}`: "0",
	} {
		if got["stagepost_compute_agent_"+name] != want {
			t.Errorf("%s is %q, want %q", name, got["stagepost_compute_agent_"+name], want)
		}
	}
}

// TestAgentsAreBounded: more agents than are told apart are one, and none is lost from the sum. Names that strangers chose break nothing.
func TestAgentsAreBounded(t *testing.T) {
	w := start(t, metrics.Options{Groups: 3}, mem.New(), sorts)
	var all []metrics.Agent
	for i := range 10 {
		all = append(all, metrics.Agent{Name: fmt.Sprintf("n%d", i), Up: i != 7, Slots: 2, Free: 1, Load: float64(10 * i), Draining: i > 5})
	}
	all = append(all, metrics.Agent{Name: "other", Up: true, Slots: 5, Free: 5}, metrics.Agent{Name: "\xff\"\n", Up: true})
	w.agents.Store(&all)
	got := series(page(t, w))
	const name = "stagepost_compute_agent_"
	agents := 0
	for one := range got {
		if strings.HasPrefix(one, name+"up{") {
			agents++
		}
	}
	if agents != 4 || got[name+`slots{agent="n0"}`] != "2" || got[name+`slots{agent="n9"}`] != "" {
		t.Errorf("%d agents", agents)
	}
	for part, want := range map[string]string{"up": "0", "slots": "17", "slots_used": "6", "draining": "3", "load_ratio": "0.9"} { // n3 to n9 and other; n7 does not answer
		if got := got[name+part+`{agent="other"}`]; got != want {
			t.Errorf("%s is %q, want %q", part, got, want)
		}
	}
	w.agents.Store(&[]metrics.Agent{{Name: "n0", Up: true}, {Name: "a", Up: true}, {Name: "b", Up: true}, {Name: "n2", Up: true}})
	if got := series(page(t, w)); got[name+`up{agent="n0"}`] != "1" || got[name+`up{agent="n2"}`] != "1" || got[name+`up{agent="b"}`] != "" {
		t.Error("agents that were told apart must stay, and those that went make room")
	}
	if got := series(page(t, w)); got[`stagepost_scrape_errors_total{source="agents"}`] != "0" {
		t.Error("the agents did not answer")
	}
}

// TestServicesAreBounded as groups are.
func TestServicesAreBounded(t *testing.T) {
	w := start(t, metrics.Options{Groups: 3, Causes: 2}, mem.New(), sorts)
	for i := range 20 {
		w.ComputeEnded(fmt.Sprintf("s%d", i), "Failed", fmt.Sprintf("c%d", i), time.Second)
		w.ComputeMoved("to-agent", fmt.Sprintf("s%d", i), 1)
	}
	n := map[string]int{}
	for one := range series(page(t, w)) {
		base, _, _ := strings.Cut(one, "{")
		n[base]++
	}
	if n["stagepost_compute_run_seconds_count"] != 4 || n["stagepost_compute_bytes_total"] != 4 || n["stagepost_compute_ends_total"] != 4 {
		t.Errorf("got %v", n)
	}
}
