package main

import (
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/host"
)

// metricsUntil reads the metrics of a server until all that is wanted stands there with its value, "+" for any above
// zero, and gives them.
func metricsUntil(t *testing.T, url string, want map[string]string) map[string]string {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for limit := time.Now().Add(2 * time.Minute); ; <-tick.C {
		got := map[string]string{}
		for line := range strings.Lines(metricsOf(t, url+"/metrics")) {
			if name, value, ok := strings.Cut(strings.TrimSpace(line), "} "); ok && line[0] != '#' {
				got[name+"}"] = value
			}
		}
		missing := maps.Clone(want)
		for name, value := range want {
			n, err := strconv.ParseFloat(got[name], 64)
			if got[name] == value || value == "+" && err == nil && n > 0 {
				delete(missing, name)
			}
		}
		if len(missing) == 0 {
			return got
		}
		if time.Now().After(limit) {
			for name, value := range missing {
				t.Errorf("%s is %q, want %q", name, got[name], value)
			}
			t.FailNow()
		}
	}
}

// TestMetricsOfCompute runs a server with an agent of its own and one that does not answer, and reads the metrics of
// agents and jobs: states of agents, waiting jobs of each service, run times, bytes moved.
func TestMetricsOfCompute(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	// jobs of root run as another user, who reads a file here
	if err := os.Chmod(filepath.Dir(dir), 0o711); err != nil {
		t.Fatal(err)
	}
	services := filepath.Join(dir, "services.yaml")
	if err := os.WriteFile(services, []byte("services:\n  example: {max_runs: 1, agents: [local]}\nagents:\n"+
		"  gone: {url: http://127.0.0.1:1}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := newSettings()
	s.Data, s.Listen, s.Store = filepath.Join(dir, "data"), "127.0.0.1:0", "mem"
	computeOf(s).Local, computeOf(s).Sandbox, computeOf(s).Services = 2, "none", services
	r, err := host.Start(t.Context(), s, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := r.Stop(); err != nil {
			t.Error(err)
		}
	}()
	api, err := client.New(r.URL, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer api.Close()
	lift := filepath.Join(dir, "lift")
	order := func(script string) {
		t.Helper()
		o := client.ComputeOrder{Service: "example", Owner: "ada",
			Files: []client.ComputeInline{{Name: "run.sh", Text: "#!/bin/bash\n" + script + "\n"}}}
		if _, err := api.SubmitCompute(t.Context(), o, nil, nil); err != nil {
			t.Fatal(err)
		}
	}
	order("until [ -e " + lift + " ]; do sleep 0.05; done")
	order("exit 3")
	const agent, jobs = "stagepost_compute_agent_", `stagepost_jobs{group="example",kind="compute.job",stage=`
	got := metricsUntil(t, r.URL, map[string]string{
		agent + `up{agent="local"}`: "1", agent + `slots{agent="local"}`: "2", agent + `slots_used{agent="local"}`: "1",
		agent + `waiting{agent="local"}`: "0", agent + `draining{agent="local"}`: "0",
		agent + `up{agent="gone"}`:       "0",
		jobs + `"queue",state="Queued"}`: "1", jobs + `"wait",state="Running"}`: "1",
		`stagepost_compute_bytes_total{service="example",way="to-agent"}`: "+",
		`stagepost_scrape_errors_total{source="agents"}`:                  "0",
	})
	for name := range got {
		if strings.HasPrefix(name, "stagepost_compute_ends_total") || strings.HasPrefix(name, agent+"slots") &&
			strings.Contains(name, "gone") {
			t.Errorf("%s %s: nothing has ended, and the slots of a silent agent are not known", name, got[name])
		}
	}
	if got[agent+`load_ratio{agent="local"}`] == "" {
		t.Error("the load is missing")
	}
	if err := os.WriteFile(lift, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	metricsUntil(t, r.URL, map[string]string{
		`stagepost_compute_ends_total{cause="none",service="example",state="Completed"}`:   "1",
		`stagepost_compute_ends_total{cause="exit-code",service="example",state="Failed"}`: "1",
		`stagepost_compute_run_seconds_count{service="example",state="Completed"}`:         "1",
		`stagepost_compute_run_seconds_sum{service="example",state="Completed"}`:           "+",
		`stagepost_compute_run_seconds_count{service="example",state="Failed"}`:            "1",
		`stagepost_compute_bytes_total{service="example",way="from-agent"}`:                "+",
		agent + `slots_used{agent="local"}`:                                                "0",
	})
	if problems, err := promlint.New(strings.NewReader(metricsOf(t, r.URL+"/metrics"))).Lint(); err != nil ||
		len(problems) > 0 {
		t.Errorf("got %v, %v", problems, err)
	}
}
