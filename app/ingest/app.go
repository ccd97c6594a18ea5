package ingest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/stagepost/stagepost/app/ingest/fixity"
	"github.com/stagepost/stagepost/app/ingest/fsck"
	"github.com/stagepost/stagepost/app/ingest/inventory"
	"github.com/stagepost/stagepost/app/ingest/location"
	"github.com/stagepost/stagepost/app/ingest/orphans"
	"github.com/stagepost/stagepost/app/ingest/profile"
	"github.com/stagepost/stagepost/app/ingest/record"
	"github.com/stagepost/stagepost/app/ingest/workdir"
	"github.com/stagepost/stagepost/edge/disk"
	"github.com/stagepost/stagepost/edge/fetch"
	"github.com/stagepost/stagepost/edge/mail"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/engine/clock"
	"github.com/stagepost/stagepost/internal/dirlock"
	"github.com/stagepost/stagepost/internal/durable"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// Options of the application. All but Dir may be left out.
type Options struct {
	Dir string // the data directory; work, mail, storage and the inventory lie in it
	// URL of the database with the inventory, which is secret. Defaults to a file of Dir
	Postgres string
	// id of the installation, which inventory and storage locations repeat. Defaults to that of the inventory
	Installation string
	Records      fsck.Records   // of the jobs, which the inventory is compared with at start. Defaults to none
	Profiles     profile.Source // defaults to the built-in profile
	Peers        Peers          // who works on the same objects. Defaults to none
	Mail         mail.Sender    // defaults to .eml files in Dir/mail
	From         string         // sender of reports. Defaults to stagepost@localhost
	Host         string         // right side of Message-IDs. Defaults to localhost
	// where depositors find the server, as a URL, for links in mails. Defaults to none: mails have no links
	Site string
	Log  *slog.Logger // of what is in no job's log. Defaults to none

	// Fetch is the policy for everything that is fetched; networks that a profile allows are added. Defaults to the
	// safe policy.
	Fetch   fetch.Policy
	Backoff engine.Backoff // of phases that talk to others. Defaults to the engine's
	Keep    time.Duration  // of ended batches and jobs. Defaults to job.Unlimited

	TrashKeep time.Duration // of what was put into the trash. Defaults to 7 days; job.Off: it is removed at once
	// of the working files of failed jobs, which then go to the trash. Defaults to 30 days; job.Unlimited
	WorkKeep time.Duration
	Logs     orphans.Logs // of the jobs, to find those of jobs that are no more. Defaults to none

	Reserve  int64         // bytes of the disk that no job gets. Defaults to 512 MiB; job.Off: none
	Patience time.Duration // after which a job that waits for space lets no other pass. Defaults to 1 h
	Look     time.Duration // between checks of a job that waits for space; for another job at most 1 s. Defaults to 5 s
	Disk     DiskSpace     // defaults to asking the file system of Dir

	Moved func(way string, n int64) // is called with bytes that were fetched or stored; must be quick. Defaults to none

	FixityEvery time.Duration // after which a stored file is compared with its digest again. Zero: only on request
	// FixityPace waits for the bytes that these checks read. Defaults to no wait.
	FixityPace func(ctx context.Context, n int) error

	Downloads int          // files of one object that are fetched at once. Defaults to 4
	Outward   *http.Client // for minters. Defaults to one with 30 s of patience and no redirects
}

// DiskSpace returns how many bytes of a directory's file system are free and how many it has in all.
type DiskSpace func(dir string) (free, total int64, err error)

func (o *Options) complete() error {
	if o.Dir == "" {
		return errors.New("ingest needs a data directory")
	}
	if o.Host == "" {
		o.Host = "localhost"
	}
	if o.From == "" {
		o.From = "stagepost@" + o.Host
	}
	site, err := checkSite(o.Site)
	if err != nil {
		return err
	}
	o.Site = site
	if o.Profiles == nil {
		o.Profiles = (*profile.Set)(nil)
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Fetch.Log == nil {
		o.Fetch.Log = o.Log
	}
	if o.Reserve == 0 {
		o.Reserve = 512 << 20
	}
	o.Reserve = max(o.Reserve, 0)
	if o.TrashKeep == 0 {
		o.TrashKeep = 7 * 24 * time.Hour
	}
	o.TrashKeep = max(o.TrashKeep, 0)
	if o.WorkKeep == 0 {
		o.WorkKeep = 30 * 24 * time.Hour
	}
	if o.Patience <= 0 {
		o.Patience = time.Hour
	}
	if o.Look <= 0 {
		o.Look = 5 * time.Second
	}
	if o.Disk == nil {
		o.Disk = disk.Space
	}
	if o.Downloads <= 0 {
		o.Downloads = 4
	}
	if o.Outward == nil {
		o.Outward = &http.Client{
			Timeout:       30 * time.Second,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		}
	}
	return nil
}

// App is the application: what the engine calls for the kinds ingest.batch and ingest.job, and what the server asks
// about them.
type App struct {
	options   Options
	log       *slog.Logger
	engine    *engine.Engine
	inventory *inventory.Inventory
	reserved  *reservations
	tree      *workdir.Tree
	locations *location.Roots
	sources   *sources
	checker   *fixity.Checker
	line      *line
	// the inventory, but in tests of what locks are for
	locks locker
	// the head that storage must still have; tests let it be any
	expect func(head string) *string
	// asked before anything is removed by its age
	guard *clock.Guard
	// writes a file of a report; tests die in it
	putReport func(root *os.Root, name string, write func(io.Writer) error) error
	// profiles were added: jobs that wait for one are checked again
	late chan struct{}
	stop context.CancelFunc // of background work
	wait sync.WaitGroup

	mu      sync.Mutex // guards the rest
	clients map[string]outlet
}

// New opens the application in its data directory, which it makes if there is none.
func New(o Options) (*App, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	for _, dir := range []string{"", workdir.WorkName, workdir.TrashName, workdir.MailName} {
		if err := durable.MkdirAll(filepath.Join(o.Dir, dir), 0o700); err != nil {
			return nil, fmt.Errorf("ingest: %w", err)
		}
	}
	if o.Mail == nil {
		o.Mail = mail.Dir(filepath.Join(o.Dir, workdir.MailName))
	}
	inv, err := (&fsck.Source{Dir: o.Dir, Postgres: o.Postgres, Installation: o.Installation, Records: o.Records,
		Profiles: o.Profiles}).OpenInventory(context.Background())
	if err != nil {
		return nil, err
	}
	a := &App{
		options: o, log: o.Log, inventory: inv, stop: func() {}, putReport: workdir.PutFile,
		clients: map[string]outlet{}, late: make(chan struct{}, 1),
	}
	a.reserved, a.line, a.locks, a.sources = newReservations(a), newLine(), inv, newSources(a)
	a.checker = newChecker(a)
	a.locations = location.NewRoots(o.Dir, inv, o.Profiles, a.now)
	a.tree = &workdir.Tree{Data: o.Dir, TrashKeep: o.TrashKeep}
	a.expect = func(head string) *string { return &head }
	return a, nil
}

// Works are the kinds that the engine is to be made with.
func (a *App) Works() []engine.Work {
	outside := engine.Policy{Backoff: a.options.Backoff}
	return []engine.Work{
		{
			Life: record.BatchLife, Prefix: "bat", Keep: a.options.Keep, Allow: a.allowBatch, Parks: parks,
			Announce: a.announce, Owes: a.batchOwes, Explain: a.explain,
			Policy: engine.Policy{Backoff: a.options.Backoff},
			Steps: map[lifecycle.State]engine.Step{
				record.Pending: a.readPayload, record.Processing: a.makeJobs, record.Reporting: a.report,
				record.UpdateReporting: a.report,
			},
		},
		{
			Life: record.JobLife, Prefix: "ing", Keep: a.options.Keep, Allow: a.allowJob, Parks: parks,
			Announce: a.announce, Owes: a.jobOwes, Explain: a.explain,
			Policy: outside,
			Steps: map[lifecycle.State]engine.Step{
				record.Pending:      a.phase(true, (*task).begin),
				record.Estimating:   a.phase(true, a.fetching((*task).estimate)),
				record.Provisioning: a.phase(false, (*task).provision),
				record.Downloading:  a.phase(true, a.fetching((*task).download)),
				record.Processing:   a.phase(true, (*task).processing),
				record.Storing:      a.phase(true, (*task).store),
				record.Recording:    a.phase(true, (*task).record),
				record.Notify:       a.phase(false, (*task).notify),
			},
			Gates: map[lifecycle.State]engine.Gate{
				record.Provisioning: a.reserved.gate, record.Processing: a.lockGate, record.Storing: a.lockGate,
				record.Recording: a.lockGate,
			},
		},
	}
}

// Deliver gives the topics of the outbox that the application delivers, for the engine's options.
func (a *App) Deliver() map[string]engine.Deliver {
	return map[string]engine.Deliver{mailTopic: a.deliverMail, hookTopic: a.deliverHook,
		callbackTopic: a.deliverCallback}
}

// Receivers is part of module.Receiving.
func (a *App) Receivers() map[string]engine.Receiver {
	return map[string]engine.Receiver{hookTopic: engine.ReceiverIn("host"), callbackTopic: engine.ReceiverIn("host")}
}

// Bind joins the application to the engine that runs its works. It is called once, before the engine runs.
func (a *App) Bind(e *engine.Engine) {
	a.bound(e)
	ctx, stop := context.WithCancel(context.Background())
	a.stop = stop
	// Registered here: the engine may run, and end jobs, before a goroutine begins.
	ended, gone := a.endsOf(ctx, failed), a.endsOf(ctx, deleted)
	a.wait.Go(func() { a.sweeps(ctx, gone) })
	a.wait.Go(func() { a.watchProfiles(ctx) })
	a.wait.Go(func() { a.latecomers(ctx) })
	a.wait.Go(func() { a.keepLocks(ctx, ended) })
	a.wait.Go(func() { a.checker.Run(ctx) })
}

// bound gives the engine to those that work with it.
func (a *App) bound(e *engine.Engine) {
	a.engine, a.guard = e, e.Clock()
	a.tree.Now, a.tree.Before = e.Clock().Now, e.Clock().Before
}

// Close ends background work and closes inventory and storage. The engine must have stopped.
func (a *App) Close() error {
	a.stop()
	a.wait.Wait()
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, c := range a.clients {
		c.fetch.Close()
	}
	return errors.Join(a.inventory.Close(), a.locations.Close())
}

// Dead gives the error that ended the inventory, once: after a failed sync nothing is written to it, and the process
// should end.
func (a *App) Dead() <-chan error { return a.inventory.Dead() }

// profile gives a job's profile. One that was removed keeps its jobs waiting rather than failing them.
func (a *App) profile(id string) (*profile.Profile, error) {
	if p, ok := a.options.Profiles.Get(id); ok {
		return p, nil
	}
	return nil, engine.Wait(job.Blocker{
		Code: causeProfile, Sentence: fmt.Sprintf("there is no profile %q any more",
			id), Until: a.engine.Clock().Now().Add(time.Minute),
	})
}

// client gives the profile's way to the outside.
func (a *App) client(p *profile.Profile) *fetch.Client {
	a.mu.Lock()
	defer a.mu.Unlock()
	c := a.clients[p.ID]
	if c.of != p { // the first, or the profile is another one now: downloads that run go on as they began
		if c.fetch != nil {
			c.fetch.Close()
		}
		policy := outward(a.options.Fetch)
		policy.Allow = append(p.AllowNetworks(), policy.Allow...)
		policy.MaxBytes = max(p.Limits.Bytes, p.Limits.Manifest)
		c = outlet{of: p, fetch: fetch.New(policy)}
		a.clients[p.ID] = c
	}
	return c.fetch
}

// outward completes the policy of downloads by what holds for all profiles.
func outward(policy fetch.Policy) fetch.Policy {
	policy.FTP = true
	return policy
}

// outlet is a profile's way to the outside, and the profile that it was made for.
type outlet struct {
	of    *profile.Profile
	fetch *fetch.Client
}

// task is one attempt at a phase of a job with everything at hand.
type task struct {
	*engine.Run
	app  *App
	spec record.JobSpec
	data record.JobData
	dir  *workdir.Dir // the job's, locked; nil in phases that need none

	few    []wanted     // all files that are to be fetched; nil: they were not read, or are many
	handed *description // of the submission and its files; nil before Processing
	left   *Processed   // by peers that have processed it; nil: Stagepost has, or it is not processed
}

// phase makes a step of a job's phase: it reads what is known of the job and, if wanted, takes its work directory.
func (a *App) phase(directory bool, do func(*task, context.Context) error) engine.Step {
	return func(ctx context.Context, r *engine.Run) (err error) {
		t := &task{Run: r, app: a}
		if err := errors.Join(r.Spec(&t.spec), r.Data(&t.data)); err != nil {
			return err
		}
		if directory {
			j := r.Job()
			t.dir, err = a.tree.Open(j.Parent, j.ID, j.Epoch)
			if errors.Is(err, dirlock.Err) {
				return engine.Wait(job.Blocker{
					Code: "directory", Sentence: "an earlier attempt still has its work directory",
					Until:  r.Now().Add(a.pause()),
					Holder: "the earlier attempt",
				})
			}
			if err != nil {
				return err
			}
			defer t.dir.Close()
			if err := t.refill(ctx); err != nil {
				return named(err)
			}
		}
		err = named(do(t, ctx))
		if err == nil && t.dir != nil {
			err = named(t.dir.Flush())
		}
		t.label()
		return errors.Join(err, r.SetData(t.data))
	}
}

// pause is how long a job waits for another one before it tries again.
func (a *App) pause() time.Duration { return min(a.options.Look, time.Second) }
