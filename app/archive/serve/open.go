package archiveserve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/app/archive"
	"github.com/stagepost/stagepost/app/archive/audit"
	"github.com/stagepost/stagepost/app/archive/catalog"
	archiveconfig "github.com/stagepost/stagepost/app/archive/config"
	"github.com/stagepost/stagepost/app/archive/copies"
	archivehttp "github.com/stagepost/stagepost/app/archive/http"
	"github.com/stagepost/stagepost/app/archive/notify"
	"github.com/stagepost/stagepost/app/archive/printing"
	"github.com/stagepost/stagepost/app/archive/trigger"
	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/edge/timestamp"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/engine/operator"
	"github.com/stagepost/stagepost/internal/build"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/module"
	"github.com/stagepost/stagepost/server"
)

// Below the directory of the application.
const (
	downloadsName = "downloads" // unfinished ones of web sources
	renewalsName  = "renewals"  // time stamps that are being renewed
)

// App is the archive application in a server, with its background work.
type App struct {
	*archive.App
	Catalog *catalog.Catalog
	Copies  *copies.Store
	Checker *audit.Checker
	Trigger *trigger.App

	h        *module.Host
	file     string // of the configuration
	dir      string // of the application
	pool     *archiveconfig.Pool
	live     *live
	engine   *engine.Engine
	failures *prometheus.CounterVec
	printers *printers
	quiz     *quiz  // nil: this server is no quiz archive worker
	listen   string // archive.quizworker.listen

	running context.Context // ends when the server stops; nil before Bind
	stop    context.CancelFunc
	wait    sync.WaitGroup
	reload  sync.Mutex // held by Reload
	state   state
	holds   chan struct{} // signals that legal holds changed
}

// Open opens the application, or gives nil if there is no configuration.
func Open(h *module.Host, s *Settings) (*App, error) {
	file := s.File(h.Dir)
	c, err := archiveconfig.Load(file)
	switch {
	case errors.Is(err, archiveconfig.ErrNone) && s.Config == "":
		if _, err := os.Stat(filepath.Join(h.Dir, catalog.Name)); err == nil {
			h.Log.Warn("there are archives, but no configuration: none are made, checked or renewed", "missing", file)
		}
		return nil, nil
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, archiveconfig.ErrNone):
		return nil, cli.Usagef("archive.config: %w", err)
	case err != nil:
		return nil, cli.Usage(err)
	}
	a := &App{
		h: h, file: file, dir: filepath.Join(h.Dir, DirName), live: &live{},
		holds: make(chan struct{}, 1),
		stop:  func() {}, failures: CountFailures(h.Metrics),
	}
	a.pool = archiveconfig.NewPool(filepath.Join(a.dir, downloadsName), a.h.Log)
	if err := a.open(c, s); err != nil {
		return nil, errors.Join(err, a.Close())
	}
	return a, nil
}

func (a *App) open(c *archiveconfig.Config, s *Settings) (err error) {
	a.Catalog, err = Catalog.Open(context.Background(), module.Databases{Dir: a.h.Dir, Postgres: a.h.Postgres},
		a.h.Installation)
	if err != nil {
		return err
	}
	g, err := newGeneration(c, a.pool, a.Catalog, a.h.Log)
	if err != nil {
		return cli.Usage(err)
	}
	a.live.now.Store(g)
	a.Copies, err = copies.New(copies.Options{Catalog: a.Catalog, Targets: g.Targets, Now: a.now, Log: a.h.Log})
	if err != nil {
		return err
	}
	a.Checker = audit.New(audit.Options{
		Catalog: a.Catalog, Copies: a.Copies, Objects: a.live.objects, Report: a.report, Pace: a.h.FixityPace,
		Now: a.now, Log: a.h.Log, Leads: func() bool { return a.engine.Leads() },
	})
	working := filepath.Join(a.h.Own, DirName, printingName)
	if a.printers, err = openPrinters(a.dir, working, s.PDFWorkers, a.h.Log); err != nil {
		return err
	}
	var printer printing.Printer
	if err := a.printers.add(c.Printers, working, a.h.Log); err != nil {
		return err
	}
	if a.printers.prints(s) {
		printer = a.printers
	}
	a.listen = s.QuizListen
	if a.quiz, err = openQuiz(a.dir, c, s, a.printers, a.h.Log); err != nil {
		return err
	}
	a.App, err = archive.New(archive.Options{
		Dir: a.dir, Sources: a.live, Presets: a.live.preset, Catalog: a.Catalog, Copies: a.Copies,
		Describe: a.live.describe, Signer: a.live, Authorities: a.live.authorities, Objects: a.live.objects,
		Webhooks:     a.live.webhooks,
		Mail:         (*notify.Mail)(&a.h.Mail),
		Organization: a.live.organization, PDF: printer,
		Version: build.Version(), MaxJobs: cmp.Or(s.MaxJobs, job.Unlimited), Tasks: s.Tasks,
		Phase: cmp.Or(s.Phase, job.Unlimited), Keep: cmp.Or(s.Keep, job.Unlimited),
	})
	if err != nil {
		return err
	}
	a.Trigger, err = trigger.New(trigger.Options{
		Schedules: a.live.schedules, Receivers: a.live.receivers, Sources: a.live, Catalog: a.Catalog, Jobs: a.App,
		Log: a.h.Log,
	})
	return err
}

// report enters a fault in the audit log.
func (a *App) report(ctx context.Context, event, object, note string) error {
	return a.engine.Operator().Audit(ctx, operator.Entry{
		By: lifecycle.Engine, Actor: "fixity", Event: lifecycle.Event(event), Object: object, Note: note,
	})
}

// Reload is part of [module.Reloader]: it reads the configuration again. If there is a mistake in it, the earlier one
// stays. Jobs that run use the new one from their next request on, with the organization that they began with. Only the
// first configuration needs a start: without one the application is left out.
func (a *App) Reload() error {
	a.reload.Lock()
	defer a.reload.Unlock()
	c, err := archiveconfig.Load(a.file)
	if err != nil {
		return fmt.Errorf("archive.config: %w", err)
	}
	g, err := newGeneration(c, a.pool, a.Catalog, a.h.Log)
	if err != nil {
		return fmt.Errorf("archive.config: %w", err)
	}
	if err := a.Copies.SetTargets(g.Targets); err != nil {
		return err
	}
	if a.quiz != nil {
		if err := a.quiz.admit(c); err != nil {
			return err
		}
	}
	a.live.now.Store(g)
	a.h.Log.Info("archive configuration read", "sources", g.Names(), "locations", a.Copies.Names())
	return nil
}

// Fixity is part of [module.FixityChecker].
func (a *App) Fixity(ctx context.Context) (api.Fixity, error) { return a.Checker.Status(ctx) }

// FixityObjects is part of [module.FixityChecker].
func (a *App) FixityObjects(ctx context.Context, q api.FixityQuery) ([]api.FixityObject, error) {
	return a.Checker.Objects(ctx, q)
}

// StartFixity is part of [module.FixityChecker].
func (a *App) StartFixity(ctx context.Context, locations []string) error {
	return a.Checker.Start(ctx, locations)
}

// Receive starts an archive job for an event (see [trigger.App.Receive]).
func (a *App) Receive(ctx context.Context, name string, h http.Header, body io.Reader) (job.Job, error) {
	return a.Trigger.Receive(ctx, name, h, body)
}

// Schedules lists the schedules (see [trigger.App.Statuses]).
func (a *App) Schedules(ctx context.Context) ([]trigger.Status, error) {
	return a.Trigger.Statuses(ctx)
}

// StartSchedule starts a run of a schedule (see [trigger.App.Start]).
func (a *App) StartSchedule(ctx context.Context, name string, r api.StartSchedule) (job.Job, error) {
	return a.Trigger.Start(ctx, name, r)
}

// Printing is part of [archivehttp.Archive].
func (a *App) Printing() archivehttp.Printing { return a.printers }

// Works is part of [module.App].
func (a *App) Works() []engine.Work {
	all := slices.Concat(a.App.Works(), a.Trigger.Works(), a.printers.Works())
	if a.quiz != nil {
		all = append(all, a.quiz.Works()...)
	}
	return all
}

// Bind is part of [module.App]: it starts the background work.
func (a *App) Bind(e *engine.Engine) {
	a.engine = e
	a.App.Bind(e)
	a.Trigger.Bind(e)
	a.printers.Bind(e)
	if a.quiz != nil {
		a.quiz.Bind(e)
	}
	ctx, stop := context.WithCancel(context.Background())
	a.stop = stop
	a.background(ctx)
}

// Dead is part of [module.Failing].
func (a *App) Dead() <-chan error { return a.Catalog.Dead() }

// StorageLocations is part of [module.StorageLister].
func (a *App) StorageLocations() []string { return a.live.now.Load().Config.Directories() }

// Hold puts a legal hold on an archive (see [custody.Custody.Hold]), and passes it to the locations.
func (a *App) Hold(ctx context.Context, id job.ID, h api.HoldArchive) ([]api.ArchiveHold, error) {
	defer a.passHolds()
	return a.App.Hold(ctx, id, h)
}

// Release releases a legal hold (see [custody.Custody.Release]), also in the locations.
func (a *App) Release(ctx context.Context, id job.ID, name, actor, note string) ([]api.ArchiveHold, error) {
	defer a.passHolds()
	return a.App.Release(ctx, id, name, actor, note)
}

// passHolds starts the task that passes legal holds.
func (a *App) passHolds() {
	select {
	case a.holds <- struct{}{}:
	default: // it is signalled
	}
}

// Authorities is part of [module.TimeStamper].
func (a *App) Authorities() []*timestamp.Authority { return a.live.now.Load().Parts.Authorities }

// Close is part of [module.App].
func (a *App) Close() error {
	a.state.mu.Lock() // a query of the health begins no probe from then on
	a.stop()
	a.state.mu.Unlock()
	a.wait.Wait()
	err := a.pool.Close()
	if a.quiz != nil {
		err = errors.Join(err, a.quiz.Close())
	}
	if a.printers != nil {
		err = errors.Join(err, a.printers.Close())
	}
	if a.Catalog != nil {
		err = errors.Join(err, a.Catalog.Close())
	}
	return err
}

// Part gives the routes. A nil app refuses every request.
func Part(s *server.Server, app module.App) server.Part {
	if a, ok := app.(*App); ok {
		return archivehttp.Part(s, a)
	}
	return archivehttp.Part(s, nil)
}

// now is the time of records.
func (a *App) now() time.Time {
	if a.engine == nil {
		return time.Now()
	}
	return a.engine.Clock().Now()
}
