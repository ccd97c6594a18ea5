// Package client serves an agent of ours to servers of job-orchestrator, which take it for an original client.
package client

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/app/compute/agent"
	"github.com/stagepost/stagepost/app/compute/orchestrator/wire"
	"github.com/stagepost/stagepost/job"
)

// wireTag begins the tag by which a payload that came over the wire of job-orchestrator has its small id.
const wireTag = "wire="

// Handler serves an agent of ours to servers of job-orchestrator, for [agent.HandlerOptions]. The agent is bound.
// If token is not empty, requests must bring it; servers of the original have none. Handler sets Who and Features of
// the options.
func Handler(ctx context.Context, a *agent.App, token string, o wire.AgentOptions) (http.Handler, error) {
	c, err := newClient(ctx, a)
	if err != nil {
		return nil, err
	}
	o.Who, o.Features = agent.Bearer(token), []string{"exit-code", "range", "etag", "stagepost-agent-v1"}
	if confined := c.direct.Sandbox(); confined != "" {
		o.Features = append(o.Features, "sandbox-"+confined)
	}
	return wire.Guard(wire.Agent(c, o), wire.GuardOptions{Token: token != "", Compat: o.Compat}), nil
}

// client is the agent for servers of job-orchestrator. They have no tickets, so every submission is a new payload; ids
// are random; files are kept for the agent's time, because such a server never confirms that it has the results.
type client struct {
	direct   agent.Direct
	instance string

	mu  sync.Mutex        // guards ids
	ids map[uint32]job.ID // of all payloads, so that none is given twice
}

// newClient learns the small ids of all payloads.
func newClient(ctx context.Context, a *agent.App) (*client, error) {
	c := &client{direct: a.Direct(), instance: a.Instance(), ids: map[uint32]job.ID{}}
	return c, c.direct.Each(ctx, func(j *job.Job) {
		for _, tag := range j.Tags {
			if text, ok := strings.CutPrefix(tag, wireTag); ok {
				if n, err := strconv.ParseUint(text, 10, 32); err == nil {
					c.ids[uint32(n)] = j.ID
				}
			}
		}
	})
}

// reserve finds a small id: random, 1 to 2^31-1, never one that another payload has or had.
func (c *client) reserve() (uint32, error) {
	for {
		var random [4]byte
		if _, err := rand.Read(random[:]); err != nil {
			return 0, err
		}
		n := binary.BigEndian.Uint32(random[:]) >> 1
		c.mu.Lock()
		_, taken := c.ids[n]
		if n != 0 && !taken {
			c.ids[n] = "" // until there is a payload
		}
		c.mu.Unlock()
		if n != 0 && !taken {
			return n, nil
		}
	}
}

// set gives a small id to a payload; to none: the id is free again.
func (c *client) set(n uint32, id job.ID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ids[n] = id; id == "" {
		delete(c.ids, n)
	}
}

// get gives the payload with a small id, or [wire.ErrNotFound].
func (c *client) get(ctx context.Context, n uint32) (j job.Job, err error) {
	c.mu.Lock()
	id := c.ids[n]
	c.mu.Unlock()
	if id == "" {
		return j, wire.ErrNotFound
	}
	j, err = c.direct.Get(ctx, id)
	if job.KindOf(err) == job.NotFound {
		return j, wire.ErrNotFound
	}
	return j, err
}

// Begin is part of [wire.AgentBackend].
func (c *client) Begin(context.Context) (wire.Submission, error) {
	d, err := c.direct.Begin()
	if err != nil {
		return nil, refused(err)
	}
	return &submission{d, c}, nil
}

// refused gives an error that the server should read as one of the wire.
func refused(err error) error {
	no, is := errors.AsType[*compute.Refusal](err)
	switch {
	case !is:
		return err
	case no.Here:
		return wire.Busy(no.Reason)
	}
	return wire.Unsafe(no.Reason)
}

// submission is a payload that comes over the wire of job-orchestrator.
type submission struct {
	*agent.Delivery
	client *client
}

// File is part of [wire.Submission].
func (s *submission) File(name string, r io.Reader) error { return refused(s.Delivery.File(name, r)) }

// Commit is part of [wire.Submission].
func (s *submission) Commit(ctx context.Context) (wire.Payload, error) {
	n, err := s.client.reserve()
	if err != nil {
		return wire.Payload{}, err
	}
	j, err := s.Delivery.Commit(ctx, wireTag+strconv.FormatUint(uint64(n), 10), "original server")
	if err != nil {
		s.client.set(n, "")
		return wire.Payload{}, refused(err)
	}
	s.client.set(n, j.ID)
	return s.client.payload(&j, n), nil
}

// words are the states on the wire of job-orchestrator.
var words = map[string]wire.Status{
	string(compute.Prepared): wire.Prepared, string(compute.Running): wire.Running,
	string(compute.Completed): wire.Completed, string(compute.Failed): wire.Failed,
	string(compute.Invalid): wire.Invalid, string(compute.Killed): wire.Killed, string(compute.Cleaned): wire.Cleaned,
}

// payload gives a payload to a server of job-orchestrator. One that was killed is Running until its processes are gone.
func (c *client) payload(j *job.Job, n uint32) wire.Payload {
	p := wire.Payload{
		ID: n, Status: words[string(j.State)], Loc: c.direct.Directory(j.ID), Instance: c.instance,
		Killed: j.State == compute.Killed,
	}
	notice := c.direct.Notice(j)
	if p.Message = notice.Reason; notice.Standing == compute.Works {
		p.Status = wire.Running
	}
	if e := notice.Ending; e != nil {
		p.Reason, p.Message, p.Signal = e.Cause, e.Sentence, e.Signal
		if e.Exit >= 0 {
			p.ExitCode = &e.Exit
		}
	}
	return p
}

// Payload is part of [wire.AgentBackend].
func (c *client) Payload(ctx context.Context, n uint32) (wire.Payload, error) {
	j, err := c.get(ctx, n)
	if err != nil {
		return wire.Payload{}, err
	}
	return c.payload(&j, n), nil
}

// Result is part of [wire.AgentBackend].
func (c *client) Result(ctx context.Context, n uint32) (r wire.Result, err error) {
	j, err := c.get(ctx, n)
	if err != nil {
		return r, err
	}
	f, made, err := c.direct.Results(ctx, &j)
	if err != nil {
		return r, err
	}
	return wire.Result{File: f, Size: made.Bytes, ETag: made.SHA256}, nil
}

// Partial is part of [wire.AgentBackend].
func (c *client) Partial(ctx context.Context, n uint32, w func() io.Writer) error {
	j, err := c.get(ctx, n)
	if err != nil {
		return err
	}
	if err := c.direct.Partial(ctx, &j, w); !errors.Is(err, compute.ErrNoPayload) {
		return err
	}
	return fmt.Errorf("its files are gone: %w", fs.ErrNotExist)
}

// Kill is part of [wire.AgentBackend].
func (c *client) Kill(ctx context.Context, n uint32) error {
	j, err := c.get(ctx, n)
	if err != nil {
		return err
	}
	return c.direct.Kill(ctx, &j)
}

// Load is part of [wire.AgentBackend].
func (c *client) Load(context.Context) (float64, error) { return c.direct.Load(), nil }

// Health is part of [wire.AgentBackend].
func (c *client) Health(ctx context.Context) error { return c.direct.Health(ctx) }
