package metrics_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	archiveserve "github.com/stagepost/stagepost/app/archive/serve"
	computeserve "github.com/stagepost/stagepost/app/compute/serve"
	flowserve "github.com/stagepost/stagepost/app/flowfile/serve"
	ingestserve "github.com/stagepost/stagepost/app/ingest/serve"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/engine/meter"
	"github.com/stagepost/stagepost/flow"
	"github.com/stagepost/stagepost/internal/polltest"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/server/metrics"
	"github.com/stagepost/stagepost/store/mem"
)

// TestCounts checks the counts of three jobs: one that passes, one that fails and one that is tried twice.
func TestCounts(t *testing.T) {
	w := newHarness(t)
	w.lives(t)
	w.Committed(3, 2*time.Millisecond)
	ingestserve.MeterBytes(w.Metrics)("fetched", 1000)
	w.Answered("GET", "/api/v1/jobs", 200, time.Millisecond)
	w.Answered("BREW", "", 405, time.Millisecond)
	want := map[string]string{
		`stagepost_attempts_total{ending="passed",kind="test.letter",state="Posted"}`:               "3",
		`stagepost_attempts_total{ending="passed",kind="test.letter",state="Sorting"}`:              "1",
		`stagepost_attempts_total{ending="failed",kind="test.letter",state="Sorting"}`:              "2",
		`stagepost_attempts_total{ending="backed-up",kind="test.letter",state="Sorting"}`:           "1",
		`stagepost_backoffs_total{cause="error",kind="test.letter",state="Sorting"}`:                "1",
		`stagepost_failures_total{cause="no-address",kind="test.letter",state="Sorting"}`:           "1",
		`stagepost_failures_total{cause="error",kind="test.letter",state="Sorting"}`:                "1",
		`stagepost_stage_duration_seconds_count{ending="passed",kind="test.letter",state="Posted"}`: "3",
		`stagepost_claims_total{kind="test.letter",state="Posted",way="queue"}`:                     "3",
		`stagepost_claims_total{kind="test.letter",state="Sorting",way="chain"}`:                    "3",
		`stagepost_claims_total{kind="test.letter",state="Sorting",way="queue"}`:                    "1",
		`stagepost_queue_wait_seconds_count{kind="test.letter",state="Posted"}`:                     "3",
		// it had been tried before
		`stagepost_queue_wait_seconds_count{kind="test.letter",state="Sorting"}`:         "0",
		`stagepost_jobs{group="maps",kind="test.letter",stage="end",state="Done"}`:       "1",
		`stagepost_jobs{group="maps",kind="test.letter",stage="end",state="Lost"}`:       "1",
		`stagepost_work_bytes{group="maps",kind="test.letter",stage="end",state="Done"}`: "100",
		`stagepost_slots`:                                      "3",
		`stagepost_holds`:                                      "0",
		`stagepost_retention_frozen`:                           "0",
		`stagepost_commit_queue`:                               "4",
		`stagepost_event_streams`:                              "5",
		`stagepost_commit_operations_sum`:                      "3",
		`stagepost_commit_duration_seconds_bucket{le="0.002"}`: "1",
		`stagepost_ingest_bytes_total{way="fetched"}`:          "1000",
		`stagepost_scrape_errors_total{source="jobs"}`:         "0",
		`stagepost_http_request_duration_seconds_count{method="GET",route="/api/v1/jobs",status="200"}`: "1",
		`stagepost_http_request_duration_seconds_count{method="other",route="none",status="405"}`:       "1",
	}
	got := w.settled(t, want)
	for name, want := range want {
		if got[name] != want {
			t.Errorf("%s is %q, want %q", name, got[name], want)
		}
	}
	for _, part := range []string{`stagepost_disk_free_bytes{place="data"}`,
		`stagepost_disk_size_bytes{place="data"}`, "go_goroutines", "process_open_fds"} {
		if got[part] == "" {
			t.Errorf("%s is missing", part)
		}
	}
	if got[`stagepost_disk_free_bytes{place="new"}`] != "" {
		t.Error("a directory that does not exist yet has space")
	}
}

// TestExposition holds the page against the linter, which reads it as Prometheus would. The control is a page with a
// mistake.
func TestExposition(t *testing.T) {
	w := everything(t)
	text := page(t, w)
	problems, err := promlint.New(strings.NewReader(text)).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
	wrong := strings.ReplaceAll(text, "stagepost_claims_total", "stagepost_claims")
	if problems, err := promlint.New(strings.NewReader(wrong)).Lint(); err != nil || len(problems) == 0 {
		t.Errorf("a counter without _total: %v, %v", problems, err)
	}
}

// everything has a value for every metric.
func everything(t *testing.T) *harness {
	w := newHarness(t)
	w.lives(t)
	for _, ending := range meter.Endings() {
		w.Attempted(meter.Attempt{Kind: "k", State: "s", Ending: ending, Cause: "c", Took: time.Second})
	}
	w.Claimed(meter.Claimed{Kind: "k", State: "s", First: true, Waited: time.Second})
	w.Lost(meter.Lost{Kind: "k", State: "s", Silent: true})
	w.Lost(meter.Lost{Kind: "k", State: "s"})
	for _, s := range []job.Settled{job.Pending, job.Delivered, job.Abandoned} {
		w.Delivered(meter.Delivery{Topic: "mail", Settled: s, Took: time.Second, Lag: time.Minute})
	}
	w.Committed(3, time.Millisecond)
	ingestserve.MeterBytes(w.Metrics)("stored", 1)
	archiveserve.CountFailures(w.Metrics)
	compute := computeserve.NewMeters(w.Metrics)
	compute.Ended("python", "Failed", "timeout", time.Minute)
	compute.Moved("to-agent", "python", 1)
	flows(t, flowserve.NewMeter(w.Metrics))
	w.Answered("GET", "/api/v1/jobs", 200, time.Millisecond)
	hold(t, w, "")
	if _, err := w.engine.Submit(t.Context(), engine.Order{Kind: "test.letter"}); err != nil {
		t.Fatal(err)
	}
	return w
}

// flows runs one in which everything happens that is counted: a task that tries again, one that fails, a revert.
func flows(t *testing.T, m flow.Meter) {
	t.Helper()
	calls := 0
	r, err := flow.New(flow.Linear("f",
		&flow.Task{Name: "a", Attempts: flow.Attempts{Max: 2, First: time.Nanosecond},
			Execute: func(context.Context, *flow.Call) (any, error) {
				if calls++; calls == 1 {
					return nil, errors.New("not yet")
				}
				return nil, nil
			}},
		&flow.Task{Name: "b", Execute: func(context.Context, *flow.Call) (any, error) {
			return nil,
				errors.New("never")
		}},
	), flow.Options{Listeners: []flow.Listener{flow.Metering(m)}})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Run(t.Context()); err == nil {
		t.Fatal("the flow did not fail")
	}
}

// TestFlows counts what one flow did.
func TestFlows(t *testing.T) {
	w := newHarness(t)
	flows(t, flowserve.NewMeter(w.Metrics))
	families, err := w.Gatherer().Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range families {
		for _, one := range f.GetMetric() {
			if c := one.GetCounter(); c != nil && strings.HasPrefix(f.GetName(), "stagepost_flow_") {
				name := f.GetName()
				for _, l := range one.GetLabel() {
					name += " " + l.GetValue()
				}
				got[name] = c.GetValue()
			}
		}
	}
	want := map[string]float64{
		"stagepost_flow_atoms_total task RUNNING": 2, "stagepost_flow_atoms_total task SUCCESS": 1,
		"stagepost_flow_atoms_total task FAILURE":   1,
		"stagepost_flow_atoms_total task REVERTING": 2, "stagepost_flow_atoms_total task REVERTED": 2,
		"stagepost_flow_task_retries_total errors.errorString": 1,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func hold(t *testing.T, w *harness, group string) {
	t.Helper()
	if _, err := w.engine.Operator().Hold(t.Context(), job.Scope{Group: group}, "ann", "test",
		time.Time{}); err != nil {
		t.Fatal(err)
	}
}

// TestGroupsAreBounded makes more groups than are distinguished: those with the most open jobs are, the rest are one,
// and none is lost from the sum.
func TestGroupsAreBounded(t *testing.T) {
	w := start(t, metrics.Options{Groups: 5}, mem.New(), sorts)
	hold(t, w, "")
	var orders []engine.Order
	for i := range 40 {
		for range i/10 + 1 {
			orders = append(orders, engine.Order{Kind: "test.letter", Group: fmt.Sprintf("g%02d", i)})
		}
	}
	orders = append(orders, engine.Order{Kind: "test.letter", Group: "\xff\"\n"})
	if _, err := w.engine.SubmitAll(t.Context(), orders...); err != nil {
		t.Fatal(err)
	}
	count := func() (groups map[string]int) {
		groups = map[string]int{}
		for name, value := range series(page(t, w)) {
			if rest, ok := strings.CutPrefix(name, `stagepost_jobs{group="`); ok {
				group, _, _ := strings.Cut(rest, `"`)
				n := 0
				if _, err := fmt.Sscan(value, &n); err != nil {
					t.Fatal(err)
				}
				groups[group] += n
			}
		}
		return groups
	}
	groups := count()
	sum := 0
	for _, n := range groups {
		sum += n
	}
	if len(groups) != 6 || sum != len(orders) || groups["g30"] != 4 || groups["g34"] != 4 || groups["other"] == 0 {
		t.Errorf("got %v, sum %d of %d", groups, sum, len(orders))
	}
	more := make([]engine.Order, 10) // another one grows beyond those that are distinguished: they stay
	for i := range more {
		more[i] = engine.Order{Kind: "test.letter", Group: "g00"}
	}
	if _, err := w.engine.SubmitAll(t.Context(), more...); err != nil {
		t.Fatal(err)
	}
	if again := count(); again["g30"] != 4 || again["g00"] != 0 {
		t.Errorf("got %v: groups that were distinguished must stay", again)
	}
}

// TestCausesAreBounded: a worker may report any text as a cause.
func TestCausesAreBounded(t *testing.T) {
	w := start(t, metrics.Options{Causes: 3}, mem.New(), sorts)
	for i := range 100 {
		w.Attempted(meter.Attempt{Kind: "k", State: "s", Ending: meter.FailedBy,
			Cause: fmt.Sprintf("\xfe%d%s", i, strings.Repeat("x", 200))})
	}
	n := 0
	for name := range series(page(t, w)) {
		if strings.HasPrefix(name, "stagepost_failures_total{") {
			n++
			if len(name) > 300 {
				t.Errorf("%d bytes: %.80s", len(name), name)
			}
		}
	}
	if n != 4 {
		t.Errorf("%d causes, want 3 and other", n)
	}
}

// broken is a store that may refuse to count.
type broken struct {
	job.Store
	down atomic.Bool
}

func (b *broken) Count(ctx context.Context) ([]job.Tally, error) {
	if b.down.Load() {
		return nil, errors.New("the store is gone")
	}
	return b.Store.Count(ctx)
}

// TestSourceThatFails leaves out what a source does not return, counts that, and gives the rest.
func TestSourceThatFails(t *testing.T) {
	store := &broken{Store: mem.New()}
	w := start(t, metrics.Options{}, store, sorts)
	w.lives(t)
	if got := page(t, w); !strings.Contains(got, "\nstagepost_jobs{") {
		t.Error("the control: jobs are not there")
	}
	store.down.Store(true)
	got := page(t, w)
	if strings.Contains(got, "\nstagepost_jobs{") || series(got)["stagepost_slots"] != "3" ||
		series(got)[`stagepost_scrape_errors_total{source="jobs"}`] != "1" {
		t.Errorf("got %s", got)
	}
}

// TestOutbox checks messages that wait and abandoned ones.
func TestOutbox(t *testing.T) {
	w := newHarness(t)
	later := job.Message{Key: "later", Topic: "mail", Created: time.Now().Add(-time.Hour),
		Due: time.Now().Add(time.Hour)}
	if _, err := w.engine.Submit(t.Context(),
		engine.Order{Kind: "test.letter", Outbox: []job.Message{later}}); err != nil {
		t.Fatal(err)
	}
	got := series(page(t, w))
	if age := got["stagepost_outbox_oldest_seconds"]; got["stagepost_outbox_pending"] != "1" ||
		got["stagepost_outbox_due"] != "0" || !strings.HasPrefix(age, "360") {
		t.Errorf("got %s pending, %s due, %s s old", got["stagepost_outbox_pending"], got["stagepost_outbox_due"], age)
	}
	w.lives(t)
	// the engine does not report when a message is settled
	polltest.Until(t, "one message is delivered and one abandoned", func() bool {
		got := series(page(t, w))
		return got[`stagepost_outbox_deliveries_total{result="delivered",topic="mail"}`] == "1" &&
			got[`stagepost_outbox_deliveries_total{result="abandoned",topic="fax"}`] == "1"
	})
}

// TestCountersBeginAtZero: the counters that alarms use exist before anything happened, in every state in
// which an attempt can end.
func TestCountersBeginAtZero(t *testing.T) {
	w := newHarness(t)
	got := series(page(t, w))
	var want []string
	for _, state := range []string{"Posted", "Sorting"} {
		for _, ending := range meter.Endings() {
			want = append(want, fmt.Sprintf(`stagepost_attempts_total{ending="%s",kind="test.letter",state="%s"}`,
				ending, state))
		}
		for _, how := range []string{"silent", "taken"} {
			want = append(want, fmt.Sprintf(`stagepost_claims_lost_total{how="%s",kind="test.letter",state="%s"}`,
				how, state))
		}
	}
	for _, topic := range []string{"mail", "fax"} {
		for _, result := range []string{"delivered", "again", "abandoned"} {
			want = append(want, fmt.Sprintf(`stagepost_outbox_deliveries_total{result="%s",topic="%s"}`, result, topic))
		}
	}
	for _, name := range want {
		if got[name] != "0" {
			t.Errorf("%s is %q", name, got[name])
		}
	}
	if name := `stagepost_attempts_total{ending="passed",kind="test.letter",state="Done"}`; got[name] != "" {
		t.Errorf("%s: no attempt is made at an end", name)
	}
}
