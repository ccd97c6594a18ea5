// Package legacy drives original clients of job-orchestrator, which run payloads as our agents do but know no tickets:
// what was sent twice runs twice, and what was forgotten is not distinguished from what never came.
package legacy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/app/compute/orchestrator/wire"
	"github.com/stagepost/stagepost/edge/collect"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/quantity"
)

// Kind is that of these executors in [compute.Capacity].
const Kind = "legacy"

// Instance stands in their capacity and handles where an agent names its memory, which an original client does not: it
// defines by which protocol a job was to be handed over.
const Instance = compute.Ticketless

// Limitless names these executors where only they serve a service ([compute.Service.Unlimited]).
const Limitless = "original clients of job-orchestrator"

// Options of an executor.
type Options struct {
	Endpoints wire.Endpoints
	Services  []string // that it serves; none: all
	Temp      string   // directory for results that are packed anew. Defaults to the system's
	// bytes of one payload's results: who sends more, without end perhaps, is cut off. Defaults to 64 GiB, as
	// compute.Options.MaxResults
	Most   int64
	Resend bool // a payload whose fate is unknown is sent once more: it may run twice (LEGACY_REDISPATCH)
	Trap   bool // the trap that an original client demands is put into run.sh (LEGACY_INJECT_TRAP)
	Calls  wire.ClientOptions

	// the server's record of a job. nil: what its user asked for is not inspected
	Record  func(ctx context.Context, id job.ID) (job.Job, error)
	Service func(name string) compute.Service // of the server. nil: what services set is not inspected
}

// Client is an original client as an executor.
type Client struct {
	options Options
	wire    *wire.Client

	mu    sync.Mutex // guards the rest
	asked map[uint32]*asked
	// whose payload an id is, by the hash of its ticket, for all that were given since this process began
	owners map[uint32]uint64
	places map[job.ID]string // what is reported of where a job runs
	giving []chan struct{}   // closed when a submission ends that the client may have given an id that is not known yet
	seed   maphash.Seed
}

// asked is a request that is under way, or whose answer is a ZIP that will be fetched.
type asked struct {
	done  chan struct{} // closed when there is an answer
	begun time.Time
	reply wire.Reply
	err   error
	keep  *time.Timer // abandons the ZIP
}

// patience is how long a ZIP is held for a caller that fetches it.
const patience = time.Minute

// New makes an executor of an original client. No connection is made.
func New(o Options) (*Client, error) {
	c, err := wire.NewClient(o.Endpoints, o.Calls)
	if err != nil {
		return nil, err
	}
	o.Most = cmp.Or(o.Most, 64<<30)
	return &Client{options: o, wire: c, asked: map[uint32]*asked{}, owners: map[uint32]uint64{},
		places: map[job.ID]string{}, seed: maphash.MakeSeed()}, nil
}

// Ticketless is part of compute.Ticketed.
func (*Client) Ticketless() bool { return true }

// Capacity is part of compute.Executor. Slots stay unknown: an original client starts everything it gets.
func (c *Client) Capacity(ctx context.Context) (compute.Capacity, error) {
	if _, err := c.wire.Health(ctx); err != nil {
		return compute.Capacity{}, err
	}
	load, err := c.wire.Load(ctx)
	if err != nil {
		return compute.Capacity{}, err
	}
	return compute.Capacity{Instance: Instance, Services: c.options.Services, Load: load, Kind: Kind, Sandbox: "none",
		Detail: "an original client of job-orchestrator: no limits, no variables, no exit codes"}, nil
}

// Submit is part of compute.Executor. It is not repeatable: the caller does so only if it means it.
func (c *Client) Submit(ctx context.Context, p *compute.Parcel) (compute.Notice, error) {
	err := c.unable(ctx, p)
	if err != nil {
		return compute.Notice{}, err
	}
	if c.options.Trap {
		if p, err = trapped(p); err != nil {
			return compute.Notice{}, fmt.Errorf("%w: its files cannot be read: %w", compute.ErrNotSent, err)
		}
	}
	files := make([]wire.File, 0, len(p.Files))
	given := make(chan struct{})
	for i, f := range p.Files {
		files = append(files, wire.File{Name: f.Name, Size: f.Size, Open: func() (io.ReadCloser, error) {
			if i == len(p.Files)-1 {
				c.give(given)
			}
			return p.Open(f.Name)
		}})
	}
	defer c.gave(given)
	got, err := c.wire.Submit(ctx, files, string(p.Job)+"/"+strconv.FormatInt(p.Attempt, 10))
	var status *wire.StatusError
	switch {
	case err == nil:
		c.own(got.ID, p.Ticket)
		return compute.Notice{Standing: compute.Waits, Remote: strconv.FormatUint(uint64(got.ID), 10),
			Instance: Instance}, nil
	case errors.Is(err, wire.ErrNotSent):
		return compute.Notice{}, fmt.Errorf("%w: %w", compute.ErrNotSent, err)
	case errors.As(err, &status) && !errors.Is(err, wire.ErrLost):
		return compute.Notice{}, &compute.Refusal{Reason: err.Error(), Here: status.Code != 400}
	}
	return compute.Notice{}, err
}

// id gives the payload's id there.
func id(h compute.Handle) (uint32, bool) {
	n, err := strconv.ParseUint(h.Remote, 10, 32)
	return uint32(n), err == nil && n != 0
}

// own notes whose payload an id is. An id that is given anew was another job's before: the client has lost its
// database, and begins at 1 again (W6). What is held under it has no owner.
func (c *Client) own(n uint32, t compute.Ticket) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.owners[n] = c.hash(t)
	if a := c.asked[n]; a != nil {
		delete(c.asked, n)
		go a.discard()
	}
}

// give notes that the client gives an id from now on: the last file of a submission is sent, and the client answers
// when it has all of them.
func (c *Client) give(given chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.giving = append(c.giving, given)
}

// gave notes that a submission has ended, and its id is known if there is one.
func (c *Client) gave(given chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.giving = slices.DeleteFunc(c.giving, func(g chan struct{}) bool { return g == given })
	close(given)
}

// settle waits until every id that the client has given so far is known. An answer is checked after it: the client may
// have lost its database, given the id of the payload to a submission, and have run that one before its answer to the
// submission was read.
func (c *Client) settle(ctx context.Context) error {
	c.mu.Lock()
	giving := slices.Clone(c.giving)
	c.mu.Unlock()
	for _, g := range giving {
		select {
		case <-g:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// anothers reports whether an id was given to another payload since.
func (c *Client) anothers(n uint32, h compute.Handle) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	owner, known := c.owners[n]
	return known && owner != c.hash(h.Ticket)
}

// hash keeps the table small: an id stays in it when its payload is forgotten, since its earlier owner may still ask.
func (c *Client) hash(t compute.Ticket) uint64 { return maphash.Comparable(c.seed, t) }

// discard closes an answer that will not be fetched.
func (a *asked) discard() {
	<-a.done
	if a.reply.ZIP != nil {
		a.keep.Stop()
		a.reply.ZIP.Close()
	}
}

// forgotten is what is reported of a payload whose id another one has.
func forgotten(h compute.Handle) compute.Notice {
	return compute.Notice{Standing: compute.Lost, Remote: h.Remote,
		Reason: "the agent has given the payload's id to another one: it has lost its database"}
}

// Query is part of compute.Executor. The only question that an original client answers packs and sends the results, if
// there are any: they are held for [Client.Results].
func (c *Client) Query(ctx context.Context, h compute.Handle) (compute.Notice, error) {
	n, ok := id(h)
	if !ok {
		if c.options.Resend {
			return compute.Notice{Standing: compute.Stranger}, nil
		}
		return compute.Notice{Standing: compute.Lost,
			Reason: "the agent's answer to the submission was lost, and an original client cannot be asked for it"}, nil
	}
	if c.anothers(n, h) {
		return forgotten(h), nil
	}
	a := c.ask(n)
	silent := func() (compute.Notice, error) {
		return compute.Notice{Standing: compute.Works, Remote: h.Remote,
			Place: fmt.Sprintf("an agent that has not answered for %s",
				quantity.FormatDuration(time.Since(a.begun).Round(time.Second)))}, nil
	}
	select {
	case <-a.done:
	case <-ctx.Done():
		return silent()
	}
	if c.settle(ctx) != nil {
		return silent()
	}
	if c.anothers(n, h) { // meanwhile
		return forgotten(h), nil
	}
	if a.reply.ZIP == nil {
		c.drop(n, a)
	}
	said, err := notice(h, a.reply, a.err)
	if err == nil && said.Standing == compute.Works {
		said.Place = c.placement(ctx, h.Job)
	}
	return said, err
}

// notice reads an answer.
func notice(h compute.Handle, r wire.Reply, err error) (compute.Notice, error) {
	said := compute.Notice{Remote: h.Remote, Bytes: -1}
	bad := func(cause, sentence string) (compute.Notice, error) {
		said.Standing, said.Ending = compute.Ended, &compute.Ending{Exit: -1, Cause: cause, Sentence: sentence,
			Sandbox: "none"}
		return said, nil
	}
	switch {
	case errors.Is(err, wire.ErrNotFound):
		said.Standing, said.Reason = compute.Lost, "the agent does not know the payload any more"
		return said, nil
	case err != nil:
		var status *wire.StatusError
		if errors.As(err, &status) && status.Code == 500 { // it cannot pack the results: what there is can still be had
			said.Standing, said.Ending = compute.Ended, &compute.Ending{Sandbox: "none"}
			return said, nil
		}
		return said, err
	case r.ZIP != nil:
		said.Standing, said.HasResult, said.Ending = compute.Ended, true, &compute.Ending{Sandbox: "none"}
		return said, nil
	}
	switch r.Payload.Status {
	case wire.Prepared:
		said.Standing = compute.Waits
		return said, nil
	case wire.Running:
		said.Standing = compute.Works
		return said, nil
	case wire.Failed:
		return bad(compute.CauseExit, "run.sh failed; an original client does not report how")
	case wire.Invalid:
		return bad(compute.CauseRejected, "the agent refused run.sh; an original client does not report why")
	case wire.Killed:
		return bad(compute.CauseKilled, "it was ended at the agent")
	case wire.Cleaned:
		said.Standing, said.Reason = compute.Lost, "the agent has removed the payload's files"
		return said, nil
	}
	return said, fmt.Errorf("the agent reports %q", r.Payload.Status)
}

// ask asks for a payload, unless that is under way.
func (c *Client) ask(n uint32) *asked {
	c.mu.Lock()
	defer c.mu.Unlock()
	if a := c.asked[n]; a != nil {
		return a
	}
	a := &asked{done: make(chan struct{}), begun: time.Now()}
	c.asked[n] = a
	go func() {
		defer close(a.done)
		a.reply, a.err = c.wire.Retrieve(context.Background(), n) // bounded by the timeouts of its options
		if a.reply.ZIP != nil {
			a.keep = time.AfterFunc(patience, func() {
				if c.drop(n, a) {
					a.reply.ZIP.Close()
				}
			})
		}
	}()
	return a
}

// drop forgets an answer. mine reports whether the caller has it now.
func (c *Client) drop(n uint32, a *asked) (mine bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.asked[n] != a {
		return false
	}
	delete(c.asked, n)
	return true
}

// Results is part of compute.Executor. The useless copy of itself that an original client packs is left out (rule 4 of
// section 1.6).
func (c *Client) Results(ctx context.Context, h compute.Handle) (io.ReadCloser, error) {
	n, ok := id(h)
	if !ok || c.anothers(n, h) {
		return nil, compute.ErrNoPayload
	}
	a := c.ask(n)
	select {
	case <-a.done:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if !c.drop(n, a) {
		return nil, errors.New("another client fetches the results")
	}
	switch {
	case a.err != nil:
		return nil, a.err
	case a.reply.ZIP == nil:
		return nil, compute.ErrNoPayload
	}
	a.keep.Stop()
	defer a.reply.ZIP.Close()
	if err := c.settle(ctx); err != nil {
		return nil, err
	}
	if c.anothers(n, h) {
		return nil, compute.ErrNoPayload
	}
	return c.packed(ctx, a.reply.ZIP)
}

// ownCopy is the name under which an original client packs its results into themselves.
const ownCopy = "output.zip"

// packed takes a ZIP to the disk, checks it, and leaves out what does not belong there.
func (c *Client) packed(ctx context.Context, body io.Reader) (_ io.ReadCloser, err error) {
	dir, err := os.MkdirTemp(c.options.Temp, "stagepost-legacy-")
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(dir))
		}
	}()
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	got, err := collect.Receive(ctx, body, root, "in.zip", collect.Expect{Bytes: -1}, c.options.Most)
	if err != nil {
		return nil, err
	}
	in, err := root.Open("in.zip")
	if err != nil {
		return nil, err
	}
	if _, err := collect.Verify(ctx, in, got.Bytes); err != nil {
		return nil, errors.Join(err, in.Close())
	}
	switch own, _, err := collect.Entry(ctx, in, got.Bytes, ownCopy); {
	case errors.Is(err, fs.ErrNotExist):
		return &temporary{in, dir}, nil
	case err != nil:
		return nil, errors.Join(err, in.Close())
	default:
		own.Close()
	}
	defer in.Close()
	out, err := root.Create("out.zip")
	if err != nil {
		return nil, err
	}
	err = collect.Repack(ctx, in, got.Bytes, out, func(name string) bool { return name == ownCopy })
	if err == nil {
		_, err = out.Seek(0, io.SeekStart)
	}
	if err != nil {
		return nil, errors.Join(err, out.Close())
	}
	return &temporary{out, dir}, nil
}

// temporary is a file whose directory goes when it is closed.
type temporary struct {
	*os.File
	dir string
}

// Close is part of io.Closer.
func (t *temporary) Close() error {
	return errors.Join(t.File.Close(), os.RemoveAll(filepath.Clean(t.dir)))
}

// Partial is part of compute.Executor.
func (c *Client) Partial(ctx context.Context, h compute.Handle) (io.ReadCloser, error) {
	n, ok := id(h)
	if !ok || c.anothers(n, h) {
		return nil, compute.ErrNoPayload
	}
	zip, err := c.wire.Partial(ctx, n)
	if errors.Is(err, wire.ErrNotFound) {
		return nil, compute.ErrNoPayload
	}
	if err != nil {
		return nil, err
	}
	if err := c.settle(ctx); err != nil {
		return nil, errors.Join(err, zip.Close())
	}
	if c.anothers(n, h) { // meanwhile
		return nil, errors.Join(compute.ErrNoPayload, zip.Close())
	}
	return zip, nil
}

// Kill is part of compute.Executor.
func (c *Client) Kill(ctx context.Context, h compute.Handle) error {
	n, ok := id(h)
	if !ok || c.anothers(n, h) {
		return nil
	}
	if err := c.wire.Kill(ctx, n); !errors.Is(err, wire.ErrNotFound) {
		return err
	}
	return nil
}

// Log is part of compute.Executor: an original client keeps no output apart.
func (c *Client) Log(context.Context, compute.Handle, string, int64, bool) (io.ReadCloser, error) {
	return nil, compute.ErrNoPayload
}

// Forget is part of compute.Executor: an original client has no receipts, and clears away by itself.
func (c *Client) Forget(_ context.Context, h compute.Handle) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.places, h.Job)
	return nil
}
