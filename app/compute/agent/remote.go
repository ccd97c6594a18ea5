package agent

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/quantity"
)

// DialOptions are the address of an agent and how it is called.
type DialOptions struct {
	Name      string            // for people. Defaults to the host of URL
	URL       string            // of the agent, "http://node7:7434"
	Token     string            // that it requires; empty: none
	Transport http.RoundTripper // defaults to one of its own; a tunnel brings another
	Patience  time.Duration     // with an agent that does not answer, or stops in the middle. Defaults to 30 s
	// of the stream of events, after which it counts as cut. Defaults to 15 s, three signs of life
	Silence time.Duration
}

// Remote is an agent on another machine.
type Remote struct {
	options DialOptions
	client  *http.Client
}

var (
	_ compute.Executor = (*Remote)(nil)
	_ compute.Notifier = (*Remote)(nil)
)

// ErrNoAgent reports that what answers at an address is not an agent of Stagepost: it does not answer requests of
// agents.
var ErrNoAgent = errors.New("what answers there is no agent of Stagepost")

// Dial makes the executor. Nothing is sent yet.
func Dial(o DialOptions) (*Remote, error) {
	u, err := url.Parse(o.URL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" ||
		u.Fragment != "" || u.User != nil {
		return nil, job.Errorf(job.Invalid, "agent", "", "%.200q is not the URL of an agent, such as http://node7:7434",
			o.URL)
	}
	o.URL = strings.TrimRight(o.URL, "/")
	o.Name, o.Patience, o.Silence = cmp.Or(o.Name, u.Host), cmp.Or(o.Patience, 30*time.Second), cmp.Or(o.Silence,
		3*beatEvery)
	if o.Transport == nil {
		o.Transport = &http.Transport{
			DialContext:         (&net.Dialer{Timeout: 5 * time.Second, KeepAlive: 15 * time.Second}).DialContext,
			TLSHandshakeTimeout: 5 * time.Second, ExpectContinueTimeout: time.Second, MaxIdleConnsPerHost: 16,
			IdleConnTimeout:    time.Minute,
			DisableCompression: true,
		}
	}
	client := &http.Client{Transport: o.Transport, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}}
	return &Remote{options: o, client: client}, nil
}

// Name is what people call the agent.
func (r *Remote) Name() string { return r.options.Name }

// Close closes idle connections.
func (r *Remote) Close() { r.client.CloseIdleConnections() }

// request makes a request about a payload, or about the agent if h is nil.
func (r *Remote) request(ctx context.Context, method, path string, h *compute.Handle, body io.Reader) (*http.Request,
	error) {
	if h != nil {
		path = fmt.Sprintf("/v1/payloads/%s/%d%s", url.PathEscape(string(h.Job)), h.Attempt, path)
	}
	q, err := http.NewRequestWithContext(ctx, method, r.options.URL+path, body)
	if err != nil {
		return nil, err
	}
	if r.options.Token != "" {
		q.Header.Set("Authorization", "Bearer "+r.options.Token)
	}
	if h != nil {
		q.Header.Set(secretHeader, h.Secret)
		if h.Instance != "" {
			q.Header.Set(instanceHeader, h.Instance)
		}
	}
	return q, nil
}

// watch ends a call whose peer is silent for longer than the patience; beat resets the time.
type watch struct {
	context.Context
	cancel context.CancelCauseFunc
	timer  *time.Timer
	after  time.Duration
}

// silentError reports that an agent does not answer.
type silentError struct{ after time.Duration }

func (e *silentError) Error() string {
	return fmt.Sprintf("the agent was silent for %s", quantity.FormatDuration(e.after))
}

// Timeout is part of net.Error.
func (*silentError) Timeout() bool { return true }

// Temporary is part of net.Error.
func (*silentError) Temporary() bool { return true }

func newWatch(ctx context.Context, after time.Duration) *watch {
	w := &watch{after: after}
	w.Context, w.cancel = context.WithCancelCause(ctx)
	w.timer = time.AfterFunc(after, func() { w.cancel(&silentError{after}) })
	return w
}

func (w *watch) beat() { w.timer.Reset(w.after) }

func (w *watch) end() {
	w.timer.Stop()
	w.cancel(nil)
}

// cause puts the reason for which a call was ended in place of "context canceled".
func (w *watch) cause(err error) error {
	if cause := context.Cause(w); err != nil && cause != nil && errors.Is(err, context.Canceled) {
		return cause
	}
	return err
}

// call sends a request whose answer is small and reads it into v, which may be nil.
func call[T any](ctx context.Context, r *Remote, method, path string, h *compute.Handle, v *T) error {
	w := newWatch(ctx, r.options.Patience)
	defer w.end()
	q, err := r.request(w, method, path, h, nil)
	if err != nil {
		return err
	}
	a, err := r.client.Do(q)
	if err != nil {
		return r.wrap(w.cause(err))
	}
	defer a.Body.Close()
	return r.wrap(w.cause(decode(a, v)))
}

// decode reads an answer of at most a few MiB, or the error that it is.
func decode[T any](a *http.Response, v *T) error {
	text, err := io.ReadAll(io.LimitReader(a.Body, 8<<20))
	if err != nil {
		return err
	}
	if a.StatusCode >= 300 {
		return failure(a.StatusCode, text)
	}
	if v == nil || a.StatusCode == http.StatusNoContent {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(text))
	if err := d.Decode(v); err != nil {
		return fmt.Errorf("invalid answer of the agent: %w", err)
	}
	return nil
}

// failure makes an error of an answer that is none.
func failure(status int, text []byte) error {
	var p problem
	if json.Unmarshal(text, &p) != nil || p.Error == "" {
		p = problem{Error: http.StatusText(status)}
	}
	kind := job.Unavailable
	switch {
	case p.Refused:
		return &compute.Refusal{Reason: p.Error, Here: p.Here, Full: p.Full}
	case status == http.StatusNotFound && p.Error == compute.ErrNoPayload.Error():
		return compute.ErrNoPayload
	case status == http.StatusNotFound && p.Error == http.StatusText(status): // an agent gives a sentence of its own
		return job.Errorf(job.Unavailable, "agent", "", "%w (%d)", ErrNoAgent, status)
	case status == http.StatusBadRequest:
		kind = job.Invalid
	case status == http.StatusConflict, status == http.StatusUnauthorized:
		kind = job.Refused
	}
	return job.Errorf(kind, "agent", "", "%s (%d)", p.Error, status)
}

// wrap names the agent in an error of its own.
func (r *Remote) wrap(err error) error {
	var refusal *compute.Refusal
	var known *job.Error
	switch {
	case err == nil, errors.As(err, &refusal), errors.As(err, &known), errors.Is(err, compute.ErrNoPayload):
		return err
	}
	var sent *url.Error
	if errors.As(err, &sent) { // its text has the address, which a ticket is part of
		err = sent.Err
	}
	return &job.Error{Op: "agent", Kind: job.Unavailable, Err: fmt.Errorf("agent %s: %w", r.options.Name, err)}
}

// Capacity asks how the agent stands.
func (r *Remote) Capacity(ctx context.Context) (room compute.Capacity, err error) {
	err = call(ctx, r, http.MethodGet, "/v1/room", nil, &room)
	room.Events = true
	return room, err
}

// Query asks how a payload stands.
func (r *Remote) Query(ctx context.Context, h compute.Handle) (n compute.Notice, err error) {
	err = call(ctx, r, http.MethodGet, "", &h, &n)
	return n, err
}

// Kill has a payload ended.
func (r *Remote) Kill(ctx context.Context, h compute.Handle) error {
	return call[struct{}](ctx, r, http.MethodPost, "/kill", &h, nil)
}

// Forget reports that the server has everything.
func (r *Remote) Forget(ctx context.Context, h compute.Handle) error {
	return call[struct{}](ctx, r, http.MethodDelete, "", &h, nil)
}

// Drain has the agent take no payloads any more, or take them again.
func (r *Remote) Drain(ctx context.Context, on bool) (room compute.Capacity, err error) {
	path := "/v1/resume"
	if on {
		path = "/v1/drain"
	}
	err = call(ctx, r, http.MethodPost, path, nil, &room)
	return room, err
}

// Results gives the results of a payload that ended.
func (r *Remote) Results(ctx context.Context, h compute.Handle) (io.ReadCloser, error) {
	return r.open(ctx, "/results", &h, false)
}

// Partial gives what there is now.
func (r *Remote) Partial(ctx context.Context, h compute.Handle) (io.ReadCloser, error) {
	return r.open(ctx, "/partial", &h, false)
}

// Log gives standard output or error from a byte on. One that is followed may be silent for as long as its payload is.
func (r *Remote) Log(ctx context.Context, h compute.Handle, stream string, offset int64, follow bool) (io.ReadCloser,
	error) {
	q := url.Values{"stream": {stream}, "offset": {strconv.FormatInt(offset, 10)}}
	if follow {
		q.Set("follow", "1")
	}
	return r.open(ctx, "/log?"+q.Encode(), &h, follow)
}

// open sends a request whose answer is read by the caller. An agent that stops in the middle ends the reading with an
// error, unless it may be silent.
func (r *Remote) open(ctx context.Context, path string, h *compute.Handle, silent bool) (io.ReadCloser, error) {
	w := newWatch(ctx, r.options.Patience)
	q, err := r.request(w, http.MethodGet, path, h, nil)
	if err != nil {
		w.end()
		return nil, err
	}
	if silent {
		w.timer.Stop()
	}
	a, err := r.client.Do(q)
	if err != nil {
		defer w.end()
		return nil, r.wrap(w.cause(err))
	}
	if a.StatusCode >= 300 {
		defer w.end()
		defer a.Body.Close()
		return nil, r.wrap(w.cause(decode[struct{}](a, nil)))
	}
	w.timer.Stop()
	return &answerBody{body: a.Body, watch: w, silent: silent, remote: r}, nil
}

// answerBody reads an answer, and gives each read the patience.
type answerBody struct {
	body   io.ReadCloser
	watch  *watch
	silent bool
	remote *Remote
}

// Read is part of io.Reader.
func (b *answerBody) Read(p []byte) (int, error) {
	if !b.silent {
		b.watch.beat()
		defer b.watch.timer.Stop() // a caller that is slow is not the agent's silence
	}
	n, err := b.body.Read(p)
	if err != nil && err != io.EOF {
		err = b.remote.wrap(b.watch.cause(err))
	}
	return n, err
}

// Close is part of io.Closer.
func (b *answerBody) Close() error {
	err := b.body.Close()
	b.watch.end()
	return err
}
