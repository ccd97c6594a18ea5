package trigger

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/stagepost/stagepost/app/archive"
	"github.com/stagepost/stagepost/app/archive/catalog"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// keepRuns is how long records of runs are kept: longer than the pause between two runs of a yearly schedule.
const keepRuns = 400 * 24 * time.Hour

// runTimeout bounds a run, waits for the source included.
const runTimeout = 24 * time.Hour

// Submitter creates archive jobs. It is [archive.App].
type Submitter interface {
	Submit(ctx context.Context, r archive.Request, o archive.Ordered) (job.Job, error)
}

// Options of the triggers. All but Log are required.
type Options struct {
	Schedules func() map[string]Schedule  // by name, as the configuration has them now; all have passed Check
	Receivers func() map[string]*Receiver // by name, as the configuration has them now
	Sources   archive.Sources
	Catalog   *catalog.Catalog
	Jobs      Submitter
	Log       *slog.Logger // defaults to none
}

// App starts archive jobs. Its runs are jobs of the engine.
type App struct {
	options Options
	engine  *engine.Engine

	mu       sync.Mutex           // guards received
	received map[string]*received // by receiver
}

// New makes the triggers.
func New(o Options) (*App, error) {
	if o.Schedules == nil || o.Receivers == nil || o.Sources == nil || o.Catalog == nil || o.Jobs == nil {
		return nil, errors.New("triggers need schedules, receivers, sources, a catalog and jobs")
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &App{options: o, received: map[string]*received{}}, nil
}

// Bind connects the triggers to the engine that runs their jobs. It is called once, before the engine runs.
func (a *App) Bind(e *engine.Engine) { a.engine = e }

// Works gives the work of runs. Runs of one source are active one at a time, so that no two of them decide about the
// same activity at once.
func (a *App) Works() []engine.Work {
	return []engine.Work{{
		Life: RunLife, Prefix: "run", Keep: keepRuns, Slots: 2, Explain: explainRun,
		Steps: map[lifecycle.State]engine.Step{Pending: a.begin, Running: a.run},
		Policies: map[lifecycle.State]engine.Policy{
			Pending: {}, Running: {Timeout: runTimeout, Backoff: engine.Backoff{First: 30 * time.Second,
				Max: 30 * time.Minute}},
		},
		Limits: []job.Limit{{
			Name: "archive.runs_of_a_source", Kind: Kind, Max: 1, PerGroup: true,
			Guard: []lifecycle.State{Pending}, Occupy: []lifecycle.State{Running},
		}},
	}}
}
