// Package detect drives whichever agent is at an address that job-orchestrator's variables name: an original client by
// the original's protocol, an agent of ours by our own, at the same host. It asks for /health each time that it asks
// for capacity, and before each parcel: the machine behind an address can be replaced.
//
// A job stays with the protocol by which it was handed over. The server's record states before anything is sent by
// which one that is to be: the job's handle names the memory of an agent, or [legacy.Instance]. If another server is
// found at the address by then, nothing is sent, and the job goes back to the queue. So a lost answer never makes a job
// run twice: the agent that may have it is known, and no other is asked or sent it.
//
//	found \ to be asked by   the original's protocol                          our own
//	an original client       it is asked                                      no answer: Unknown until the agent is
//	                         back
//	an agent of ours         it does not know the id: the job is lost         it is asked, and has its memory's name
package detect

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/app/compute/agent"
	"github.com/stagepost/stagepost/app/compute/orchestrator/legacy"
	"github.com/stagepost/stagepost/app/compute/orchestrator/wire"
	"github.com/stagepost/stagepost/job"
)

// feature is what our agents report in /health if they have the API that [agent.Dial] speaks.
const feature = "stagepost-agent-v1"

// kindOurs is the kind of our agents, as they report it themselves.
const kindOurs = "agent"

// patience is how long an address may take to identify itself.
const patience = 10 * time.Second

// Options of an executor. Original.Endpoints and Original.Record are required.
type Options struct {
	Name string // for people
	// for an original client. Its Services are those that the address is for, of an agent of ours, too
	Original legacy.Options
}

// Executor is the agent at an address, of either kind.
type Executor struct {
	options  Options
	original *legacy.Client
	ours     *agent.Remote // nil: the address is none that an agent of ours could have
	wire     *wire.Client

	mu      sync.Mutex    // guards the rest
	kind    string        // of the agent that was found last; empty: none yet
	changed chan struct{} // closed when that changes
}

var (
	_ compute.Executor = (*Executor)(nil)
	_ compute.Notifier = (*Executor)(nil)
)

// New makes an executor. No connection is made.
func New(o Options) (*Executor, error) {
	if o.Original.Record == nil {
		return nil, errors.New("an address whose kind is found out needs the server's records")
	}
	x := &Executor{options: o, changed: make(chan struct{})}
	var err error
	if x.original, err = legacy.New(o.Original); err != nil {
		return nil, err
	}
	if x.wire, err = wire.NewClient(o.Original.Endpoints, o.Original.Calls); err != nil {
		return nil, err
	}
	if base, ok := base(o.Original.Endpoints.Upload); ok {
		if x.ours, err = agent.Dial(agent.DialOptions{Name: o.Name, URL: base}); err != nil {
			return nil, err
		}
	}
	return x, nil
}

// base gives the address below which an agent of ours has its own API, beside the upload address. One with a password
// or a query has none.
func base(upload string) (string, bool) {
	u, err := url.Parse(upload)
	if err != nil || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return "", false
	}
	u.Path, u.RawPath = strings.TrimSuffix(path.Dir(strings.TrimRight(u.Path, "/")), "/"), ""
	return u.String(), true
}

// Close lets idle connections go.
func (x *Executor) Close() {
	x.wire.Close()
	if x.ours != nil {
		x.ours.Close()
	}
}

// find asks who is there.
func (x *Executor) find(ctx context.Context) (kind string, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	h, err := x.wire.Health(ctx)
	if err != nil {
		return "", err
	}
	switch {
	case h.Impl != wire.Implementation || x.ours == nil:
		kind = legacy.Kind
	case slices.Contains(h.Features, feature):
		kind = kindOurs
	default:
		return "", errors.New("there is a Stagepost at the address, and it is no agent")
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if kind != x.kind {
		x.kind = kind
		close(x.changed)
		x.changed = make(chan struct{})
	}
	return kind, nil
}

// Kind is that of the agent that was found last: "legacy", "agent", or nothing before that.
func (x *Executor) Kind() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.kind
}

// Ticketless is part of compute.Ticketed: of the agent that was found last.
func (x *Executor) Ticketless() bool { return x.Kind() == legacy.Kind }

// Capacity is part of compute.Executor.
func (x *Executor) Capacity(ctx context.Context) (compute.Capacity, error) {
	kind, err := x.find(ctx)
	if err != nil {
		return compute.Capacity{}, err
	}
	if kind == legacy.Kind {
		return x.original.Capacity(ctx)
	}
	room, err := x.ours.Capacity(ctx)
	if job.KindOf(err) == job.Refused {
		return room, fmt.Errorf("it requires a token, which no variable gives: name it by url and token_file in the "+
			"services file (%w)", err)
	}
	if err != nil {
		return room, err
	}
	served, all := room.Services, x.options.Original.Services
	if len(all) == 0 {
		return room, nil
	}
	room.Services = slices.DeleteFunc(slices.Clone(all), func(s string) bool {
		return len(served) > 0 && !slices.Contains(served, s)
	})
	if len(room.Services) == 0 {
		return room, fmt.Errorf("it is an agent that serves %s, and not %s", strings.Join(served, ", "),
			strings.Join(all, ", "))
	}
	return room, nil
}

// Submit is part of compute.Executor. The agent there must be of the kind that the job's record names.
func (x *Executor) Submit(ctx context.Context, p *compute.Parcel) (compute.Notice, error) {
	h, err := x.record(ctx, p)
	if err != nil {
		return compute.Notice{}, fmt.Errorf("%w: %w", compute.ErrNotSent, err)
	}
	now, err := x.find(ctx)
	if err != nil {
		return compute.Notice{}, fmt.Errorf("%w: %w", compute.ErrNotSent, err)
	}
	promised := kindOurs
	if x.originals(h) {
		promised = legacy.Kind
	}
	// records from before executors reported the two apart name none, and were handed over then
	first := p.Instance == "" && h.Instance != ""
	switch {
	case promised == now && now == kindOurs:
		return x.ours.Submit(ctx, p)
	case promised == now && first:
		return x.original.Submit(ctx, p)
	case first:
		return compute.Notice{}, fmt.Errorf("%w: the machine at the address was replaced since it was chosen",
			compute.ErrNotSent)
	case promised == kindOurs:
		return compute.Notice{},
			errors.New("the agent that may have it was replaced by an original client of job-orchestrator")
	case !x.options.Original.Resend:
		return compute.Notice{Standing: compute.Lost,
			Reason: "an original client of job-orchestrator may have it, and cannot be asked whether it does"}, nil
	case now == kindOurs: // it may run twice, as was wanted; here it will not
		q := *p
		q.Instance = ""
		return x.ours.Submit(ctx, &q)
	}
	return x.original.Submit(ctx, p)
}

// record returns the attempt in the server's record that a parcel is.
func (x *Executor) record(ctx context.Context, p *compute.Parcel) (h compute.Handle, err error) {
	j, err := x.options.Original.Record(ctx, p.Job)
	if err != nil {
		return h, fmt.Errorf("the record of the job cannot be read: %w", err)
	}
	d, err := compute.DataOf(&j)
	if err != nil {
		return h, err
	}
	if d.Ticket != p.Ticket {
		return h, errors.New("the job has gone on without this attempt")
	}
	return d.Handle, nil
}

// originals reports whether a handle is of the original's protocol, whose ids are numbers.
func (x *Executor) originals(h compute.Handle) bool {
	if x.ours == nil {
		return true
	}
	if h.Remote != "" {
		_, err := strconv.ParseUint(h.Remote, 10, 32)
		return err == nil
	}
	return h.Instance == "" || h.Instance == legacy.Instance
}

// of gives who is to be asked about a payload.
func (x *Executor) of(h compute.Handle) compute.Executor {
	if x.originals(h) {
		return x.original
	}
	return x.ours
}

// Query is part of compute.Executor.
func (x *Executor) Query(ctx context.Context, h compute.Handle) (compute.Notice, error) {
	return x.of(h).Query(ctx, h)
}

// Kill is part of compute.Executor.
func (x *Executor) Kill(ctx context.Context, h compute.Handle) error { return x.of(h).Kill(ctx, h) }

// Results is part of compute.Executor.
func (x *Executor) Results(ctx context.Context, h compute.Handle) (io.ReadCloser, error) {
	return x.of(h).Results(ctx, h)
}

// Partial is part of compute.Executor.
func (x *Executor) Partial(ctx context.Context, h compute.Handle) (io.ReadCloser, error) {
	return x.of(h).Partial(ctx, h)
}

// Log is part of compute.Executor.
func (x *Executor) Log(ctx context.Context, h compute.Handle, stream string, offset int64, follow bool) (io.ReadCloser,
	error) {
	return x.of(h).Log(ctx, h, stream, offset, follow)
}

// Forget is part of compute.Executor.
func (x *Executor) Forget(ctx context.Context, h compute.Handle) error { return x.of(h).Forget(ctx, h) }

// Notify is part of compute.Notifier. An original client reports nothing: it waits until an agent of ours is found at
// the address, and ends when that one goes.
func (x *Executor) Notify(ctx context.Context, connected func(), changed func(id job.ID)) error {
	for {
		x.mu.Lock()
		kind, other := x.kind, x.changed
		x.mu.Unlock()
		if kind == kindOurs {
			return x.forward(ctx, other, connected, changed)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-other:
		}
	}
}

// forward receives what an agent of ours reports, until another agent is found.
func (x *Executor) forward(ctx context.Context, other <-chan struct{}, connected func(),
	changed func(id job.ID)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-ctx.Done():
		case <-other:
			cancel()
		}
	}()
	return x.ours.Notify(ctx, connected, changed)
}
