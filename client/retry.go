package client

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/stagepost/stagepost/job"
)

// Defaults of Options.
const (
	defaultPatience = 15 * time.Second
	defaultOutage   = 15 * time.Minute
)

// unmet is how long streams try to reach a server that has not answered yet.
const unmet = 10 * time.Second

// laterError is an answer by which a server, or a proxy before it, asks to be called again.
type laterError struct {
	error
	after time.Duration // at least; zero: not given
}

func (e *laterError) Unwrap() error { return e.error }

// passingStatus reports whether a later call may succeed after an answer: of a proxy whose server restarts,
// or of a server that asks for a pause.
func passingStatus(answer *http.Response) bool {
	switch answer.StatusCode {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}

// pauses are the waiting times between attempts: doubled from 100 ms to 5 s, each shortened at random by up to half so
// that clients do not return all at once, and at least what the server asks for.
type pauses struct {
	client *Client
	next   time.Duration
	good   time.Time // of the last success, or of the beginning
}

// Bounds of the pauses.
const (
	firstPause = 100 * time.Millisecond
	mostPause  = 5 * time.Second
)

func (c *Client) newPauses() *pauses {
	return &pauses{client: c, next: firstPause, good: time.Now()}
}

// connected notes a success. Pauses start from the shortest after a success that brought data or lasted.
func (p *pauses) connected(from time.Time, news bool) {
	if p.good = time.Now(); news || p.good.Sub(from) > mostPause {
		p.next = firstPause
	}
}

// sending does an attempt that may send for long. The time until its last byte was sent does not count as waiting.
func (p *pauses) sending(attempt func(sent func(int64)) error) error {
	began := time.Now()
	last := began
	err := attempt(func(int64) { last = time.Now() })
	p.good = p.good.Add(last.Sub(began))
	return err
}

// wait waits before the next attempt. It gives the error back when the time within which attempts are made is over,
// or ctx ends.
func (p *pauses) wait(ctx context.Context, within time.Duration, err error) error {
	pause := p.next/2 + rand.N(p.next/2)
	p.next = min(2*p.next, mostPause)
	var later *laterError
	if errors.As(err, &later) && later.after > 0 {
		pause += later.after
	}
	if time.Since(p.good)+pause > within {
		return err
	}
	if !p.client.lost.Swap(true) {
		p.client.retrying(err)
	}
	if ended := rest(ctx, pause); ended != nil {
		return ended
	}
	return nil
}

// persistent marks the context of calls that are repeated for Options.Outage.
type persistent struct{}

// Persistent returns a context whose calls, if they may be made twice, are repeated for Options.Outage rather than
// Options.Patience once the server has answered: for commands that follow a job and are to survive its restart.
func Persistent(ctx context.Context) context.Context {
	return context.WithValue(ctx, persistent{}, true)
}

// within returns how long a request is repeated.
func (c *Client) within(r *http.Request) time.Duration {
	if r.Context().Value(persistent{}) != nil && c.met.Load() {
		return c.outage
	}
	return c.patience
}

// unsent reports whether a request did not reach a server at all.
func unsent(err error) bool {
	var dial *unsentError
	return errors.As(err, &dial)
}

// unsentError marks the error of a connection that was not made.
type unsentError struct{ error }

func (e *unsentError) Unwrap() error { return e.error }

// repeatable reports whether a request may be sent twice, although the first may have been done.
func repeatable(r *http.Request) bool {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodPut:
		return true
	}
	return r.Header.Get("Idempotency-Key") != "" || r.Context().Value(repeatKey{}) != nil
}

// repeatKey marks the context of a POST that does no harm when it is done twice.
type repeatKey struct{}

// mayPass reports whether an error may pass by itself soon. A full disk needs a person.
func mayPass(err error) bool {
	var later *laterError
	if errors.As(err, &later) {
		return true
	}
	p := ProblemOf(err)
	return job.KindOf(err) == job.Unavailable && (p == nil || p.Status != http.StatusInsufficientStorage)
}

// again reports whether a request that ended with an error may be sent once more.
func (c *Client) again(r *http.Request, err error) bool {
	var later *laterError
	p := ProblemOf(err)
	switch {
	case r.Context().Err() != nil, r.Body != nil && r.Body != http.NoBody && r.GetBody == nil:
		return false
	case errors.As(err, &later): // the server refuses with 429 before it does anything
		return repeatable(r) || p != nil && p.Status == http.StatusTooManyRequests
	case job.KindOf(err) != job.Unavailable:
		return false
	case unsent(err):
		return c.met.Load() // one that has answered restarts; one that never has is not there
	}
	return repeatable(r) && p == nil // the connection broke
}

// insist does a request, and does it again after errors that may pass, if it may be done twice: within
// Options.Patience, or Options.Outage (see [Persistent]). use reads the answer, whose body it closes unless it keeps
// it.
func (c *Client) insist(r *http.Request, use func(*http.Response) error) error {
	p := c.newPauses()
	for {
		answer, err := c.once(r)
		if err == nil {
			err = use(answer)
		}
		if err == nil || !c.again(r, err) {
			return err
		}
		if err := p.wait(r.Context(), c.within(r), err); err != nil {
			return err
		}
		r = r.Clone(r.Context())
		if r.GetBody != nil {
			if r.Body, err = r.GetBody(); err != nil {
				return job.Errorf(job.Internal, "request", "", "%w", err)
			}
		}
	}
}

// passage is how one connection of a stream went.
type passage struct {
	done      bool // there is nothing to connect again for
	connected bool
	news      bool // something came that was not known before
}

// outlast calls a stream until it is done or its error is final, and connects again after breaks: within
// Options.Outage after the last one that went well, and for 10 s if there was none.
func (c *Client) outlast(ctx context.Context, op string, id job.ID, follow func() (passage, error)) error {
	p, connected := c.newPauses(), false
	for {
		began := time.Now()
		what, err := follow()
		switch {
		case what.done:
			return err
		case ctx.Err() != nil:
			return &job.Error{Op: op, Kind: job.Unavailable, ID: id, Err: context.Cause(ctx)}
		case err != nil && !mayPass(err):
			return err
		}
		if what.connected {
			connected = true
			p.connected(began, what.news)
		}
		within := unmet
		if connected || c.met.Load() {
			within = c.outage
		}
		if err == nil {
			err = job.Errorf(job.Unavailable, op, id, "the stream ended")
		}
		if stop := p.wait(ctx, within, err); stop != nil {
			if ctx.Err() != nil {
				return &job.Error{Op: op, Kind: job.Unavailable, ID: id, Err: context.Cause(ctx)}
			}
			return fmt.Errorf("%w (tried for %s)", err, within)
		}
	}
}
