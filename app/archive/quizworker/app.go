package quizworker

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stagepost/stagepost/app/archive/pdf"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/internal/durable"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// Options configure the application. Dir, Transport and Tokens are required; the other zero fields have the defaults.
type Options struct {
	Dir       string            // of tokens and working files
	Transport http.RoundTripper // to the Moodles, such as that of edge/fetch, which refuses special networks
	Printer   Printer           // nil: orders are refused
	// secrets of the plugins; empty: requests are accepted without, over the loopback only
	Tokens []string
	// base addresses of the Moodles that may order; empty: every Moodle whose plugin has a token
	Moodles []string
	Version string        // of the program
	Jobs    int           // at once; defaults to 4
	Queue   int           // waiting jobs; defaults to 8
	Timeout time.Duration // of a job, without its time in the queue; defaults to 1 h; job.Unlimited
	Keep    time.Duration // of ended jobs; defaults to 30 d; job.Unlimited
}

// statusEvery is the least time between two reports of progress to a Moodle.
const statusEvery = 15 * time.Second

// Printer makes PDF files of the reports of attempts. *pdf.App is one.
type Printer interface {
	// Print writes the PDF/A file of a document of a job to out.
	Print(ctx context.Context, j job.ID, p pdf.Page, document io.Reader, out io.Writer) error
	// Remove abandons what is being printed for a job, and removes what is kept of it.
	Remove(ctx context.Context, j job.ID) error
}

// App is the application.
type App struct {
	options Options
	root    *os.Root
	engine  *engine.Engine
	http    *http.Client
	access  atomic.Pointer[access]

	mu      sync.Mutex // guards updated, and the count of the queue against another order
	updated map[job.ID]time.Time
}

// New makes the application.
func New(o Options) (*App, error) {
	if o.Dir == "" || o.Transport == nil {
		return nil, errors.New("the quiz worker needs a directory and a transport")
	}
	o.Jobs, o.Queue = cmp.Or(o.Jobs, 4), cmp.Or(o.Queue, 8)
	o.Timeout, o.Keep = max(cmp.Or(o.Timeout, time.Hour), 0), max(cmp.Or(o.Keep, 30*24*time.Hour), 0)
	if err := durable.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(o.Dir)
	if err != nil {
		return nil, err
	}
	client := &http.Client{Transport: o.Transport, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}}
	a := &App{options: o, root: root, http: client, updated: map[job.ID]time.Time{}}
	a.Admit(o.Tokens, o.Moodles)
	return a, nil
}

// access is who may order.
type access struct{ tokens, moodles []string }

// Admit replaces Options.Tokens and Options.Moodles. Jobs that were ordered before continue.
func (a *App) Admit(tokens, moodles []string) { a.access.Store(&access{tokens, moodles}) }

// Close closes the directory.
func (a *App) Close() error { return a.root.Close() }

// Bind connects the application to the engine of its jobs.
func (a *App) Bind(e *engine.Engine) { a.engine = e }

// Works gives the kind.
func (a *App) Works() []engine.Work {
	again := engine.Backoff{First: 10 * time.Second, Max: 5 * time.Minute}
	return []engine.Work{{
		Life: Life, Prefix: "quiz", Keep: a.options.Keep, Slots: a.options.Jobs,
		Policy: engine.Policy{Backoff: again, MaxAttempts: 5},
		Steps: map[lifecycle.State]engine.Step{
			Queued: a.begin, Running: a.step((*run).archive), Finalizing: a.step((*run).finalize),
			Cleanup: a.clean,
		},
		Limits: []job.Limit{{
			Name: "archive.quiz.jobs", Kind: Kind, Max: a.options.Jobs,
			Guard: []lifecycle.State{Queued}, Occupy: []lifecycle.State{Running, Finalizing},
		}},
	}}
}

const secretName = "token"

var uuidRule = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

// find gives the job with a UUID.
func (a *App) find(ctx context.Context, uuid string) (job.Job, error) {
	if !uuidRule.MatchString(uuid) {
		return job.Job{}, job.Errorf(job.NotFound, "quiz", "", "there is no job %.80q", uuid)
	}
	page, err := a.engine.Store().List(ctx, job.Query{Kinds: []job.Kind{Kind}, Key: keyOf(uuid), Limit: 1})
	if err != nil {
		return job.Job{}, err
	}
	if len(page.Jobs) == 0 {
		return job.Job{}, job.Errorf(job.NotFound, "quiz", "", "there is no job %s", uuid)
	}
	return page.Jobs[0], nil
}

func keyOf(uuid string) string { return "quiz/" + uuid }

// open lists the UUIDs of the jobs at work and of those in the queue, oldest first.
func (a *App) open(ctx context.Context) (working, queued []string, err error) {
	working, queued = []string{}, []string{}
	states := []lifecycle.State{Queued, Running, Finalizing, Cleanup}
	q := job.Query{Kinds: []job.Kind{Kind}, States: states, Oldest: true, Limit: 1000}
	for {
		page, err := a.engine.Store().List(ctx, q)
		if err != nil {
			return nil, nil, err
		}
		for i := range page.Jobs {
			uuid := strings.TrimPrefix(page.Jobs[i].Key, keyOf(""))
			if page.Jobs[i].State == Queued {
				queued = append(queued, uuid)
			} else {
				working = append(working, uuid)
			}
		}
		if page.Next == "" {
			return working, queued, nil
		}
		q.After = page.Next
	}
}

// Errors of an order besides an invalid one.
var (
	errFull    = errors.New("the queue is full")
	errPrinter = errors.New("this worker cannot make PDF files")
	errProbe   = errors.New("the Moodle could not be reached with the token")
	errForeign = errors.New("this worker does not work for this Moodle")
)

// submit makes a job of an order. The token is durable before the job exists. The same order gives the same job.
func (a *App) submit(ctx context.Context, s *Spec, token string) (job.Job, error) {
	switch {
	case a.engine == nil:
		return job.Job{}, job.Errorf(job.Unavailable, "quiz", "", "the engine does not run yet")
	case a.options.Printer == nil:
		return job.Job{}, errPrinter
	case !a.serves(s.Moodle.Base):
		return job.Job{}, errForeign
	}
	if j, err := a.find(ctx, s.UUID); err == nil || job.KindOf(err) != job.NotFound {
		return j, err
	}
	if err := (&moodle{a.http, s, token}).probe(ctx); err != nil {
		return job.Job{}, errors.Join(errProbe, err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	working, queued, err := a.open(ctx)
	if err != nil {
		return job.Job{}, err
	}
	if len(working)+len(queued) >= a.options.Jobs+a.options.Queue {
		return job.Job{}, errFull
	}
	if err := a.root.MkdirAll(s.UUID, 0o700); err != nil {
		return job.Job{}, err
	}
	if err := durable.SyncIn(a.root, "."); err != nil {
		return job.Job{}, err
	}
	secret := durable.File{Root: a.root, Name: path.Join(s.UUID, secretName), Mode: 0o600}
	if err := secret.Write(durable.Text([]byte(token))); err != nil {
		return job.Job{}, err
	}
	return a.engine.Submit(ctx, engine.Order{
		Kind: Kind, Key: keyOf(s.UUID), Spec: s, By: lifecycle.Engine, Actor: s.Moodle.Base,
		Note: "ordered by " + s.Moodle.Base,
	})
}

// serves reports whether a Moodle may order.
func (a *App) serves(base string) bool {
	moodles := a.access.Load().moodles
	if len(moodles) == 0 {
		return true
	}
	for _, one := range moodles {
		if strings.TrimSuffix(one, "/") == strings.TrimSuffix(base, "/") {
			return true
		}
	}
	return false
}

// Sweep removes the tokens of orders that a crash left without a job. It is called before the server answers.
func (a *App) Sweep(ctx context.Context) error {
	entries, err := fs.ReadDir(a.root.FS(), ".")
	if err != nil {
		return err
	}
	for _, e := range entries {
		j, err := a.find(ctx, e.Name())
		switch {
		case err == nil && !j.Ended:
			continue
		case err != nil && job.KindOf(err) != job.NotFound:
			return err
		}
		if err := a.root.RemoveAll(e.Name()); err != nil {
			return err
		}
	}
	return nil
}

func decode(text json.RawMessage, into any) error {
	if len(text) == 0 {
		return nil
	}
	return json.Unmarshal(text, into)
}
