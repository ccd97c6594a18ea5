package metrics_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stagepost/stagepost/api"
	archivecatalog "github.com/stagepost/stagepost/app/archive/catalog"
	"github.com/stagepost/stagepost/app/archive/pdf"
	archiveserve "github.com/stagepost/stagepost/app/archive/serve"
	"github.com/stagepost/stagepost/app/compute"
	computeserve "github.com/stagepost/stagepost/app/compute/serve"
	"github.com/stagepost/stagepost/app/ingest/fixity"
	ingestserve "github.com/stagepost/stagepost/app/ingest/serve"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/engine/enginetest"
	"github.com/stagepost/stagepost/job"
	lc "github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/server/metrics"
	"github.com/stagepost/stagepost/store/mem"
)

// life is a short life with a queue, a stage of work and two ends.
var life = lc.Must("test.letter",
	lc.OnQueue("Posted", "Somebody posts it; a worker takes it.",
		lc.OnPass("begin", "Sorting", lc.Worker, "It is sorted."),
		lc.OnFail("fail", "Lost", lc.Worker|lc.Timer, "It cannot be read.")),
	lc.OnWork("Sorting", "A worker sorts it.", lc.OnPass("finish", "Done", lc.Worker, "It is delivered."),
		lc.OnFail("fail", "Lost", lc.Worker|lc.Timer, "It has no address.")),
	lc.OnEnd("Done", lc.OK, "Delivered."), lc.OnEnd("Lost", lc.Failed, "Lost."),
)

// harness is an engine that is counted.
type harness struct {
	*metrics.Metrics
	engine *engine.Engine
	store  job.Store
}

// start runs an engine whose step for Sorting is given, until the test ends.
func start(t *testing.T, o metrics.Options, store job.Store, sort engine.Step) *harness {
	t.Helper()
	w := &harness{Metrics: metrics.New(o), store: store}
	pass := func(context.Context, *engine.Run) error { return nil }
	e, err := engine.New(store, []engine.Work{{
		Life: life, Prefix: "let", Steps: map[lc.State]engine.Step{"Posted": pass, "Sorting": sort},
		Policy: engine.Policy{MaxAttempts: 2, Backoff: engine.Backoff{First: 1, Max: 1}},
	}}, engine.Options{Meter: w.Metrics, Slots: 3, Deliver: map[string]engine.Deliver{
		"mail": func(context.Context, job.Message) error { return nil },
		"fax": func(context.Context, job.Message) error {
			return job.Errorf(job.Invalid, "fax", "", "there is no such number")
		},
	}})
	if err != nil {
		t.Fatal(err)
	}
	w.engine = e
	w.Bind(metrics.Sources{
		Engine: e, Topics: []string{"mail", "fax"}, Waiting: func() int { return 4 },
		Watching: func() int { return 5 },
		Backups:  func() (time.Time, time.Duration) { return time.Unix(7, 0), time.Hour },
		Anchors:  func() (time.Time, time.Duration) { return time.Unix(8, 0), time.Hour },
		Checkpoints: func() metrics.Checkpoints {
			return metrics.Checkpoints{Leads: true, Covered: time.Unix(10, 0), Every: time.Hour, Failures: 3}
		},
		Workers: func(context.Context) ([]api.WorkerInfo, error) {
			return []api.WorkerInfo{{Name: "lab-1", Where: "api", State: api.WorkerSilent,
				Running: []job.ID{"let_1"}}}, nil
		},
		More: []metrics.Source{
			ingestserve.FixityGauges(func(context.Context) (fixity.Summary, error) {
				return fixity.Summary{Faults: 2, Oldest: time.Unix(9, 0)}, nil
			}, 0),
			archiveserve.Gauges(func(context.Context) (archiveserve.Standing, error) {
				near := archivecatalog.LocationState{Location: "near"}
				return archiveserve.Standing{
					Known: []string{"near"}, Locations: []archivecatalog.LocationState{near},
					PDF: pdf.Standing{Failed: map[string]int{pdf.CauseRender: 1}},
				}, nil
			}),
			computeserve.AgentGauges(w.Metrics, func() []compute.Agent {
				return []compute.Agent{{Name: "node1", Up: true,
					Capacity: compute.Capacity{Slots: 4, Free: 1, Waiting: 2, Load: 75}}, {Name: "node2"}}
			}),
		},
		Disks: func() map[string]string {
			return map[string]string{"data": t.TempDir(), "new": "/there/is/no/such/place"}
		},
	})
	enginetest.Run(t, e)
	return w
}

// page is what a reader of the metrics gets.
func page(t *testing.T, h http.Handler) string {
	t.Helper()
	answer := httptest.NewRecorder()
	h.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if answer.Code != http.StatusOK ||
		!strings.HasPrefix(answer.Header().Get("Content-Type"), "text/plain; version=0.0.4") {
		t.Fatalf("got %d, %s: %s", answer.Code, answer.Header(), answer.Body)
	}
	return answer.Body.String()
}

// series maps each line of a page to its value, as it stands there.
func series(text string) map[string]string {
	all := map[string]string{}
	for line := range strings.Lines(text) {
		if i := strings.LastIndexByte(line, ' '); i > 0 && line[0] != '#' {
			all[line[:i]] = strings.TrimSpace(line[i:])
		}
	}
	return all
}

// settled reads the metrics until they are what is wanted, or for long enough: an attempt is counted after the commit
// that ends it, for which others wait.
func (w *harness) settled(t *testing.T, want map[string]string) (got map[string]string) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for limit := time.Now().Add(20 * time.Second); ; <-tick.C {
		got = series(page(t, w))
		missing := false
		for name, want := range want {
			missing = missing || got[name] != want
		}
		if !missing || time.Now().After(limit) {
			return got
		}
	}
}

// lives lets jobs end in every way that a test can reach quickly.
func (w *harness) lives(t *testing.T) {
	t.Helper()
	for _, o := range []engine.Order{
		{Group: "maps", Bytes: 100, Outbox: []job.Message{{Key: "a", Topic: "mail"}}},
		{Group: "maps", Bytes: 20, Actor: "fails", Outbox: []job.Message{{Key: "b", Topic: "fax"}}},
		{Group: "coins", Actor: "breaks"},
	} {
		o.Kind = "test.letter"
		o.Spec = o.Actor
		if _, err := w.engine.Complete(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
}

// sorts is a step that does what the job's spec states.
func sorts(_ context.Context, r *engine.Run) error {
	var what string
	if err := r.Spec(&what); err != nil {
		return err
	}
	switch what {
	case "fails":
		return engine.Fail("no-address", errors.New("it has no address"))
	case "breaks":
		return engine.Retry(errors.New("the machine jams"))
	}
	return nil
}

func newHarness(t *testing.T) *harness {
	t.Helper()
	return start(t, metrics.Options{Version: "1.2.3"}, mem.New(), sorts)
}
