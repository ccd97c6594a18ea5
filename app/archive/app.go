package archive

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"path/filepath"
	"time"

	"github.com/stagepost/stagepost/app/archive/catalog"
	"github.com/stagepost/stagepost/app/archive/copies"
	"github.com/stagepost/stagepost/app/archive/custody"
	"github.com/stagepost/stagepost/app/archive/notify"
	"github.com/stagepost/stagepost/app/archive/packaging"
	"github.com/stagepost/stagepost/app/archive/printing"
	"github.com/stagepost/stagepost/app/archive/settings"
	"github.com/stagepost/stagepost/app/archive/sign"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/format/ocfl"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// WorkName is the name of the working directories below the directory of the application.
const WorkName = "work"

// Options configure the application. Signer, Organization and Version may be left out.
type Options struct {
	Dir      string // of the application, below the data directory
	Sources  Sources
	Presets  func(name string) (settings.Preset, bool)
	Catalog  *catalog.Catalog
	Copies   *copies.Store
	Describe func(location string) packaging.Location
	Signer   Signer           // nil: archives cannot be signed
	PDF      printing.Printer // nil: attempts get no PDF files
	// Authorities lists the time-stamp authorities, which settings name; nil: it is not known which there are.
	Authorities func() []string
	// Objects gives the storage roots for versions of objects, by name; nil: there are none.
	Objects func() map[string]*ocfl.Root

	// Webhooks lists by name the receivers of notifications; nil: there are none.
	Webhooks  func() map[string]*notify.Webhook
	Transport http.RoundTripper // of webhooks; defaults to one that checks no addresses
	Mail      *notify.Mail      // nil: no mail is sent

	Organization func() string // whose archives these are, for the metadata; nil: unknown
	Version      string        // of the program

	MaxJobs int           // active at once; defaults to 5; job.Unlimited
	Tasks   int           // tasks of one job at once; defaults to 4
	Phase   time.Duration // the longest attempt at a phase; defaults to 1 h; job.Unlimited
	// Keep is for the records of ended jobs; their archives stay. Defaults to job.Unlimited.
	Keep time.Duration
}

func (o *Options) complete() error {
	if o.Dir == "" || o.Sources == nil || o.Presets == nil || o.Catalog == nil || o.Copies == nil ||
		o.Describe == nil {
		return errors.New("archive needs a directory, sources, presets, a catalog and locations")
	}
	if o.Objects == nil {
		o.Objects = func() map[string]*ocfl.Root { return nil }
	}
	if o.Organization == nil {
		o.Organization = func() string { return "" }
	}
	o.MaxJobs, o.Tasks = cmp.Or(o.MaxJobs, 5), cmp.Or(o.Tasks, 4)
	o.Phase = max(cmp.Or(o.Phase, time.Hour), 0)
	return nil
}

// Signer gives time stamps.
type Signer interface {
	Sign(ctx context.Context, d sign.Document) (sign.Result, error)
}

// App is the application. Its custody has the archives that it made.
type App struct {
	*custody.Custody
	options  Options
	engine   *engine.Engine
	notifier *notify.Notifier
}

// New makes the application.
func New(o Options) (*App, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	o.Copies.SetObjects(o.Objects)
	c, err := custody.New(custody.Options{Catalog: o.Catalog, Copies: o.Copies})
	a := &App{Custody: c, options: o}
	a.notifier = notify.New(notify.Options{Webhooks: o.Webhooks, Transport: o.Transport, Now: a.wall,
		Installation: o.Catalog.Installation()})
	return a, err
}

// Bind connects the application to the engine that runs its jobs.
func (a *App) Bind(e *engine.Engine) {
	a.engine = e
	a.Custody.Bind(e)
}

// workDir is the directory of the working directories.
func (a *App) workDir() string { return filepath.Join(a.options.Dir, WorkName) }

// preAttempts and preBackoff bound how long a source may be away when a job begins: the pauses of PreProcessing are
// those of the phases ([pause]), about 8 minutes in all, so that a source may be started again.
const preAttempts = 5

var preBackoff = engine.Backoff{First: 30 * time.Second, Max: 30 * time.Minute}

// Works is the work of the states.
func (a *App) Works() []engine.Work {
	work := engine.Work{
		Life: JobLife, Prefix: "arc", Keep: max(a.options.Keep, 0), Patience: a.patience,
		Allow: a.Allow, Accompany: a.accompany, Announce: a.announce, Again: again,
		Steps: map[lifecycle.State]engine.Step{
			Uninitialized:     a.step((*task).initialize),
			Queued:            a.step((*task).started),
			PreProcessing:     a.phase((*task).prepare),
			ActivityArchiving: a.phase((*task).extract),
			BackupCollection:  a.phase((*task).collect),
			PostProcessing:    a.phase((*task).process),
			Store:             a.phase((*task).store),
			Signing:           a.phase((*task).sign),
			Error:             a.step((*task).decide),
			ErrorHandling:     a.phase((*task).revert),
			Cleanup:           a.phase((*task).clean),
		},
		Policies: map[lifecycle.State]engine.Policy{
			Queued: {}, PreProcessing: {Timeout: a.options.Phase, MaxAttempts: preAttempts, Backoff: preBackoff},
		},
		Elapsed: map[lifecycle.State]lifecycle.Event{RecoverableError: Retry, PreProcessing: Fail},
	}
	for _, s := range phases {
		work.Policies[s] = engine.Policy{Timeout: a.options.Phase}
		work.Elapsed[s] = ErrorEvent
	}
	if a.options.MaxJobs > 0 {
		work.Limits = []job.Limit{{
			Name: "archive.max_concurrent_jobs", Kind: Kind, Max: a.options.MaxJobs,
			Guard: []lifecycle.State{Queued}, Occupy: active(),
		}}
	}
	return []engine.Work{work}
}

// active lists the states in which a job counts towards max_concurrent_jobs.
func active() (states []lifecycle.State) {
	for _, stage := range JobLife.Stages() {
		switch {
		case stage.Kind == lifecycle.End, stage.State == Uninitialized, stage.State == Queued:
		default:
			states = append(states, stage.State)
		}
	}
	return states
}
