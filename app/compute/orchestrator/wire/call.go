package wire

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync/atomic"
	"time"
)

// call is one request to an agent.
type call struct {
	op, method, url string

	body *formBody // nil: none
	head http.Header
	wait time.Duration // from the end of the request to the answer
}

// watchdog cancels a call when no byte moves for some time.
type watchdog struct {
	timer *time.Timer
	stop  context.CancelCauseFunc
	idle  time.Duration
}

func (d *watchdog) extend(t time.Duration) { d.timer.Reset(t) }

func (d *watchdog) end() {
	d.timer.Stop()
	d.stop(context.Canceled)
}

// sending is how much of a request can have reached the agent.
type sending struct {
	wrote, broke atomic.Bool // all was written; writing failed
}

// kind checks a call without an answer. Between the last byte of the body and the report that it was written the agent
// may already have acted, so that doubt counts as sent.
func (s *sending) kind(connected bool, body *formBody) error {
	switch {
	case s.wrote.Load():
		return ErrLost
	case s.broke.Load(), !connected:
		return ErrNotSent
	case body != nil && !body.handed.Load():
		return ErrNotSent
	}
	return ErrLost
}

// call sends a request and gives the answer, whose status is 2xx. Its body is the caller's to close.
func (c *Client) call(ctx context.Context, cl call) (*incomingAnswer, error) {
	ctx, stop := context.WithCancelCause(ctx)
	d := &watchdog{timer: time.AfterFunc(c.o.Dial+c.o.Idle, func() { stop(errSilent) }), stop: stop, idle: c.o.Idle}
	var sent sending
	var connected atomic.Bool
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { connected.Store(true) },
		WroteRequest: func(i httptrace.WroteRequestInfo) {
			if i.Err != nil {
				sent.broke.Store(true)
				return
			}
			sent.wrote.Store(true)
			d.extend(cl.wait)
		},
	})
	req, err := c.request(traced, cl, d)
	if err != nil {
		d.end()
		return nil, &CallError{cl.op, ErrNotSent, err}
	}
	transport := c.kept
	if cl.body != nil {
		transport = c.once
	}
	res, err := transport.RoundTrip(req)
	if err != nil {
		kind := sent.kind(connected.Load(), cl.body)
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		d.end()
		return nil, &CallError{cl.op, kind, err}
	}
	d.extend(d.idle)
	a := &incomingAnswer{op: cl.op, code: res.StatusCode, media: res.Header.Get("Content-Type"), res: res, ctx: ctx,
		d: d}
	if a.code < 200 || a.code > 299 {
		defer a.Close()
		said, _ := io.ReadAll(io.LimitReader(a, 4<<10))
		return nil, &StatusError{cl.op, a.code, string(said)}
	}
	return a, nil
}

func (c *Client) request(ctx context.Context, cl call, d *watchdog) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, cl.method, cl.url, nil)
	if err != nil {
		return nil, err
	}
	if cl.body != nil {
		cl.body.moved = func() { d.extend(d.idle) }
		req.Body, req.ContentLength = cl.body, cl.body.length
		req.Header.Set("Content-Type", "multipart/form-data; boundary="+cl.body.boundary)
	}
	for name, values := range cl.head {
		req.Header[name] = values
	}
	req.Header.Set("Accept", "*/*")
	req.Header.Set("User-Agent", "") // none is sent
	if c.o.Authorize != nil {
		c.o.Authorize(req)
	}
	return req, nil
}

// incomingAnswer is the body of an answer. The watchdog ends it when no byte moves.
type incomingAnswer struct {
	op    string
	code  int
	media string
	res   *http.Response
	ctx   context.Context
	d     *watchdog
}

func (a *incomingAnswer) Read(p []byte) (int, error) {
	n, err := a.res.Body.Read(p)
	if n > 0 {
		a.d.extend(a.d.idle)
	}
	if err != nil && err != io.EOF {
		if cause := context.Cause(a.ctx); cause != nil {
			err = errors.Join(cause, err)
		}
	}
	return n, err
}

func (a *incomingAnswer) Close() error {
	err := a.res.Body.Close()
	a.d.end()
	return err
}

// zip takes the answer as an archive if it is one: status exactly 200, and a content type with application/zip in it.
func (a *incomingAnswer) zip() *Archive {
	if a.code != http.StatusOK || !strings.Contains(strings.ToLower(a.media), zipMedia) {
		return nil
	}
	return &Archive{ReadCloser: a, Size: a.res.ContentLength, ETag: a.res.Header.Get("ETag")}
}

func (a *incomingAnswer) misread(err error) error { return &AnswerError{a.op, a.code, err} }
