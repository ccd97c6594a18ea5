package ingestserve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/app/ingest"
	"github.com/stagepost/stagepost/app/ingest/access"
	"github.com/stagepost/stagepost/app/ingest/fsck"
	ingesthttp "github.com/stagepost/stagepost/app/ingest/http"
	"github.com/stagepost/stagepost/app/ingest/merritt"
	"github.com/stagepost/stagepost/app/ingest/profile"
	"github.com/stagepost/stagepost/app/ingest/share"
	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/internal/secretfile"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/module"
	"github.com/stagepost/stagepost/server"
	"github.com/stagepost/stagepost/server/metrics"
)

// App is ingest in a server, with the application that gives back what it stored.
type App struct {
	*ingest.App
	access *access.App
	shares *share.Links
	beside *merritt.Follower // nil: no Merritt system shares the queue
	stop   context.CancelFunc
	wait   sync.WaitGroup
	every  time.Duration // fixity.every

	secrets func() []string // the files with secrets
}

// Open opens ingest.
func Open(h *module.Host, s *Settings) (*App, error) {
	profiles, err := s.OpenProfiles(h.Dir)
	if err != nil {
		return nil, fmt.Errorf("ingest.profiles: %w", err)
	}
	if err := profiles.Set().CheckSecrets(); err != nil {
		return nil, err
	}
	a := &App{stop: func() {}, every: s.FixityEvery, secrets: func() []string { return profiles.Set().SecretFiles() }}
	for _, warning := range secretfile.Exposed(a.secrets()...) {
		h.Log.Warn(warning)
	}
	if a.beside, err = openMerritt(h, s, profiles); err != nil {
		return nil, err
	}
	var peers ingest.Peers
	if a.beside != nil {
		peers = a.beside
	}
	a.App, err = ingest.New(ingest.Options{
		Dir: h.Dir, Postgres: h.Postgres, Installation: h.Installation, Records: h.Store, Profiles: profiles,
		Peers: peers, Mail: h.Mail.Sender, From: h.Mail.From, Host: h.Mail.Host, Site: h.Mail.Link, Log: h.Log,
		Logs: h.Logs, Moved: MeterBytes(h.Metrics), Keep: s.Keep, Reserve: cmp.Or(s.Reserve, job.Off),
		FixityEvery: s.FixityEvery, FixityPace: h.FixityPace, TrashKeep: cmp.Or(s.Trash, job.Off),
		WorkKeep: cmp.Or(s.Work, job.Unlimited),
	})
	if err != nil {
		return nil, err
	}
	a.access, err = access.New(access.Options{
		Dir: h.Dir, Holdings: a.App, Log: h.Log, SmallBytes: s.AccessSmall, SmallWorkers: s.AccessWorkers,
		LargeWorkers: s.AccessLarge,
		Tokens:       h.Valid, MaxFiles: s.AccessFiles, MaxBytes: s.AccessBytes, Keep: cmp.Or(s.AccessKeep,
			job.Unlimited),
	})
	if err != nil {
		return nil, errors.Join(err, a.App.Close())
	}
	a.shares = share.Open(h.Dir, time.Now)
	return a, nil
}

// Works are the kinds of both.
func (a *App) Works() []engine.Work { return append(a.App.Works(), a.access.Works()...) }

// Deliver gives the topics of the outbox of both.
func (a *App) Deliver() map[string]engine.Deliver {
	all := map[string]engine.Deliver{}
	maps.Copy(all, a.App.Deliver())
	maps.Copy(all, a.access.Deliver())
	return all
}

// Bind joins both to the engine.
func (a *App) Bind(e *engine.Engine) {
	a.App.Bind(e)
	a.access.Bind(e)
	if a.beside != nil {
		ctx, stop := context.WithCancel(context.Background())
		a.stop = stop
		a.wait.Go(func() { a.beside.Run(ctx, a.App, e) })
	}
}

// openMerritt shares the queue of a Merritt system, if ingest.merritt is on.
func openMerritt(h *module.Host, s *Settings, profiles profile.Source) (*merritt.Follower, error) {
	switch {
	case s.Merritt != "on":
		return nil, nil
	case h.Nodes == nil:
		return nil, cli.Usagef("ingest.merritt is on, and the jobs are not in ZooKeeper: --store zookeeper://HOST:2181")
	}
	if all := s.MerrittFiles != "" && s.MerrittStore != "" && s.MerrittNode > 0; !all &&
		(s.MerrittFiles != "" || s.MerrittStore != "" || s.MerrittNode != 0) {
		return nil, cli.Usagef("ingest.merritt.files, ingest.merritt.storage and ingest.merritt.node need each " +
			"other: set all three, or none")
	}
	return merritt.New(context.Background(), h.Nodes, merritt.Options{Every: s.MerrittEvery, Queue: s.MerrittQueue,
		Files: s.MerrittFiles, Storage: s.MerrittStore, Node: s.MerrittNode, Profiles: profiles, Log: h.Log})
}

// Close ends both.
func (a *App) Close() error {
	a.stop()
	a.wait.Wait()
	return errors.Join(a.access.Close(), a.App.Close())
}

// Part gives the routes. A nil app refuses every request.
func Part(s *server.Server, app module.App) server.Part {
	a, ok := app.(*App)
	if !ok {
		return ingesthttp.Part(s, ingesthttp.Options{})
	}
	part := ingesthttp.Part(s, ingesthttp.Options{
		Ingest: submissions{a.App}, Details: a.App, Profiles: a.App, Hooks: a.App, Access: a.access,
		Shares: a.shares,
	})
	if a.beside != nil {
		health := part.Health
		part.Health = func(ctx context.Context, h *api.Health) {
			health(ctx, h)
			h.Findings = append(h.Findings, a.beside.Sentences()...)
		}
	}
	return part
}

// Locker is part of module.Locker.
func (a *App) Locker() server.Locks { return lockList{a.App} }

// Measure is part of module.Measurer.
func (a *App) Measure(from *metrics.Sources) {
	from.More = append(from.More, FixityGauges(a.FixitySummary, a.every))
}

// Warn is part of module.Warner: it names faults of stored files, and files with secrets that every user can read.
func (a *App) Warn() []string {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	all := secretfile.Exposed(a.secrets()...)
	if a.beside != nil {
		all = append(all, a.beside.Warnings()...)
	}
	s, err := a.FixitySummary(ctx)
	if err != nil {
		return append(all, fmt.Sprintf("fixity: %v", err))
	}
	if s.Faults > 0 {
		all = append(all, fmt.Sprintf("stored files of ingest have %d faults: stagepost fixity status --app ingest",
			s.Faults))
	}
	return all
}

// Check is part of module.Checker.
func (a *App) Check(ctx context.Context) (module.Findings, error) {
	c, err := a.Compare(ctx)
	return findings(c), err
}

// CheckDir compares the records, the inventory and the storage locations of a data directory.
func (s *Settings) CheckDir(ctx context.Context, d module.Directory) (module.Findings, error) {
	profiles, err := s.OpenProfiles(d.Dir)
	if err != nil {
		return module.Findings{}, err
	}
	c, err := fsck.CompareDir(ctx, fsck.Source{Dir: d.Dir, Postgres: d.Postgres,
		Installation: d.Installation, Records: d.Store,
		Profiles: profiles})
	return findings(c), err
}

func findings(c fsck.Comparison) module.Findings {
	return module.Findings{Objects: c.Objects, Versions: c.Versions, Faults: c.Faults, More: c.More,
		About: "what is stored"}
}

// lockList joins the server to the application's locks.
type lockList struct{ app *ingest.App }

func (l lockList) Locks(ctx context.Context) ([]client.Lock, error) {
	all, err := l.app.Locks(ctx)
	if err != nil {
		return nil, err
	}
	locks := make([]client.Lock, len(all))
	for i := range all {
		locks[i] = client.Lock(all[i])
	}
	return locks, nil
}

func (l lockList) BreakLock(ctx context.Context, kind, name, actor, note string) (client.Lock, error) {
	was, err := l.app.BreakLock(ctx, kind, name, actor, note)
	return client.Lock(was), err
}
