package access

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/stagepost/stagepost/app/ingest"
	"github.com/stagepost/stagepost/app/ingest/record"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/internal/durable"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// Kind of the jobs of this application.
const Kind job.Kind = "ingest.access"

// The tags of the two queues; a hold on one pauses that queue.
const (
	SmallTag = "queue=access-small"
	LargeTag = "queue=access-large"
)

// dirName is where packages lie in the data directory.
const dirName = "access"

// Holdings has what is stored. *ingest.App implements it.
type Holdings interface {
	Objects(ctx context.Context, q ingest.ObjectQuery) ([]ingest.Object, error)
	// Permit limits a query to the objects that the owner of a user token may use; an empty user has no limit.
	Permit(user string) ingest.Permit
	// Files gives a page of a version's files in order of their paths, those after a path.
	Files(ctx context.Context, ark string, version int, after string, limit int) ([]ingest.StoredFile, error)
	// Content returns the paths of a version's files in one of its storage locations: path in the object to path below
	// the location.
	Content(ctx context.Context, ark string, place ingest.Place) (map[string]string, error)
	OpenContent(place, path string) (*os.File, error)
}

// Options of the application. Dir and Holdings are required.
type Options struct {
	Dir      string // the data directory; packages are planned below access in it
	Holdings Holdings
	Log      *slog.Logger // of what is in no job's log. Defaults to none

	SmallBytes   int64          // content of more bytes goes to the large queue. Defaults to 500,000,000
	SmallWorkers int            // assemblies of the small queue at once. Defaults to 4
	LargeWorkers int            // of the large queue. Defaults to 1
	MaxFiles     int            // of one package. Defaults to 1,000,000
	MaxBytes     int64          // of the content of one package. Defaults to any number
	Keep         time.Duration  // of packages and failures. Defaults to 7 days; job.Unlimited
	Backoff      engine.Backoff // after a storage location that cannot be read. Defaults to the engine's
	// hashes of the API tokens that are valid now, to which package tokens are tied. Defaults to none: they are tied to
	// nothing
	Tokens func() []string
	Random io.Reader // for ids, and for the key of tokens. Defaults to crypto/rand
}

func (o *Options) complete() error {
	if o.Dir == "" || o.Holdings == nil {
		return errors.New("access needs a data directory and holdings")
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.SmallBytes <= 0 {
		o.SmallBytes = 500_000_000
	}
	if o.SmallWorkers <= 0 {
		o.SmallWorkers = 4
	}
	if o.LargeWorkers <= 0 {
		o.LargeWorkers = 1
	}
	if o.MaxFiles <= 0 {
		o.MaxFiles = 1_000_000
	}
	if o.Keep == 0 {
		o.Keep = 7 * 24 * time.Hour
	}
	o.Keep = max(o.Keep, 0)
	if o.Random == nil {
		o.Random = rand.Reader
	}
	return nil
}

// App is the application: what the engine calls for the kind ingest.access, and what the server asks about packages.
type App struct {
	options Options
	log     *slog.Logger
	root    *os.Root // of the packages
	key     []byte   // of tokens
	engine  *engine.Engine
	stop    context.CancelFunc // of background work
	wait    sync.WaitGroup
	gone    chan job.ID // jobs that were just deleted
}

// New opens the application in its data directory, which it makes if there is none.
func New(o Options) (*App, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	dir := filepath.Join(o.Dir, dirName)
	if err := durable.MkdirAll(dir, 0o750); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	key, err := loadKey(root, o.Random)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("the key of tokens: %w", err), root.Close())
	}
	return &App{options: o, log: o.Log, root: root, key: key, stop: func() {}, gone: make(chan job.ID, 256)}, nil
}

// Works are the kinds that the engine is to be made with.
func (a *App) Works() []engine.Work {
	return []engine.Work{{
		Life: record.AccessLife, Prefix: "acc", Keep: a.options.Keep, Policy: engine.Policy{Backoff: a.options.Backoff},
		Owes:  a.owes,
		Steps: map[lifecycle.State]engine.Step{record.Pending: begin, record.Processing: a.assemble},
		Limits: []job.Limit{
			{Name: "access.small.workers", Kind: Kind, Tag: SmallTag, Max: a.options.SmallWorkers},
			{Name: "access.large.workers", Kind: Kind, Tag: LargeTag, Max: a.options.LargeWorkers},
		},
	}}
}

// begin is the step of Pending: that a worker is free is all that it waits for.
func begin(context.Context, *engine.Run) error { return nil }

// Deliver gives the topics of the outbox that the application delivers: none.
func (a *App) Deliver() map[string]engine.Deliver { return nil }

// Bind joins the application to the engine that runs its works. It is called once, before the engine runs.
func (a *App) Bind(e *engine.Engine) {
	a.engine = e
	ctx, stop := context.WithCancel(context.Background())
	a.stop = stop
	e.Store().Watch(ctx, a.hinted)
	a.wait.Go(func() { a.sweeps(ctx) })
}

// Close ends background work. The engine must have stopped.
func (a *App) Close() error {
	a.stop()
	a.wait.Wait()
	return a.root.Close()
}

// queue gives the tag of the queue for so many bytes of content.
func (a *App) queue(bytes int64) string {
	if bytes > a.options.SmallBytes {
		return LargeTag
	}
	return SmallTag
}
