package client

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/stagepost/stagepost/internal/retryafter"
	"github.com/stagepost/stagepost/job"
)

// Options of a client. The zero Options work.
type Options struct {
	HTTP  *http.Client // defaults to one of its own that keeps up to 256 connections
	Agent string       // User-Agent; defaults to "stagepost-client"
	Token Secret       // sent with every request; defaults to none

	// Patience is how long a call that may be made twice is repeated after a broken connection, or while a proxy
	// cannot reach the server. Defaults to 15 s; negative: it is made once.
	Patience time.Duration
	// Outage is how long streams, uploads and calls of [Persistent] wait for a server that has answered before.
	// Defaults to 15 min.
	Outage time.Duration
	// Retrying is called with the error when a call is to be repeated, once until the server has answered again.
	// Defaults to nothing.
	Retrying func(error)
}

// Client talks to one server. It is safe for concurrent use.
type Client struct {
	base  string
	http  *http.Client
	agent string
	token Secret

	patience, outage time.Duration
	retrying         func(error)
	met              *atomic.Bool // the server has answered
	lost             *atomic.Bool // retrying was called since then
}

// New makes a client for the server at a base URL such as "http://127.0.0.1:7433". It does not connect.
// The client of the zero Options uses the proxies of HTTP_PROXY, HTTPS_PROXY and NO_PROXY
// (http.ProxyFromEnvironment), never for localhost and addresses of the loopback.
func New(base string, o Options) (*Client, error) {
	u, err := url.Parse(strings.TrimRight(base, "/"))
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || u.RawQuery != "" || u.User != nil {
		return nil, job.Errorf(job.Invalid, "connect", "", "%q is not the address of a server (http://HOST:PORT)", base)
	}
	if o.HTTP == nil {
		t := http.DefaultTransport.(*http.Transport).Clone()
		t.MaxIdleConnsPerHost = 256
		o.HTTP = &http.Client{Transport: t,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	}
	if o.Agent == "" {
		o.Agent = "stagepost-client"
	}
	if o.Patience == 0 {
		o.Patience = defaultPatience
	}
	if o.Outage <= 0 {
		o.Outage = defaultOutage
	}
	if o.Retrying == nil {
		o.Retrying = func(error) {}
	}
	return &Client{
		base: u.String(), http: o.HTTP, agent: o.Agent, token: o.Token,
		patience: o.Patience, outage: o.Outage, retrying: o.Retrying, met: new(atomic.Bool), lost: new(atomic.Bool),
	}, nil
}

// Base returns the server's address.
func (c *Client) Base() string { return c.base }

// Close closes idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// maxAnswer is the most that an answer read into memory may have.
const maxAnswer = 64 << 20

// get fetches a JSON answer.
func get[T any](ctx context.Context, c *Client, path string, q url.Values) (T, error) {
	return call[T](ctx, c, http.MethodGet, path, q, nil)
}

// Send calls an operation that has no method here, such as one of a module: it sends body as JSON and reads the
// answer as a T. The path begins with /api/v1. Errors are those of the other methods.
func Send[T, B any](ctx context.Context, c *Client, method, path string, q url.Values, body B) (T, error) {
	return send[T](ctx, c, method, path, q, body)
}

// send sends a JSON body and reads a JSON answer.
func send[T, B any](ctx context.Context, c *Client, method, path string, q url.Values, body B) (T, error) {
	text, err := json.Marshal(body)
	if err != nil {
		var none T
		return none, job.Errorf(job.Invalid, "encode", "", "%w", err)
	}
	return call[T](ctx, c, method, path, q, text)
}

func call[T any](ctx context.Context, c *Client, method, path string, q url.Values, body []byte) (T, error) {
	var answer T
	var reader io.Reader
	if body != nil {
		reader = bytes.NewReader(body)
	}
	r, err := c.request(ctx, method, path, q, reader)
	if err != nil {
		return answer, err
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	return read[T](c, r)
}

// sendForm streams a form that write writes, and reads a JSON answer. write has returned when sendForm returns.
func sendForm[T any](ctx context.Context, c *Client, path, key string, write func(*multipart.Writer) error) (T, error) {
	pipe, into := io.Pipe()
	form := multipart.NewWriter(into)
	wrote := make(chan struct{})
	go func() {
		defer close(wrote)
		_ = into.CloseWithError(write(form))
	}()
	defer func() {
		_ = pipe.Close()
		<-wrote
	}()
	r, err := c.request(ctx, http.MethodPost, path, nil, pipe)
	if err != nil {
		var none T
		return none, err
	}
	r.Header.Set("Content-Type", form.FormDataContentType())
	if key != "" {
		r.Header.Set("Idempotency-Key", key)
	}
	return read[T](c, r)
}

// read sends a request and reads its JSON answer.
func read[T any](c *Client, r *http.Request) (answer T, err error) {
	text, err := c.text(r)
	if err != nil {
		return answer, err
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		return answer, job.Errorf(job.Internal, "decode", "", "the answer of %s: %w", r.URL.Path, err)
	}
	return answer, nil
}

func (c *Client) request(ctx context.Context, method, path string, q url.Values,
	body io.Reader) (*http.Request, error) {
	target := c.base + path
	if len(q) > 0 {
		target += "?" + q.Encode()
	}
	r, err := http.NewRequestWithContext(ctx, method, target, body)
	if err != nil {
		return nil, job.Errorf(job.Invalid, "request", "", "%w", err)
	}
	r.Header.Set("Accept", "application/json")
	r.Header.Set("User-Agent", c.agent)
	if c.token.text != nil {
		r.Header.Set("Authorization", "Bearer "+*c.token.text)
	}
	return r, nil
}

// text does a request and reads its answer; an answer that is a problem becomes the error.
func (c *Client) text(r *http.Request) ([]byte, error) {
	var text []byte
	err := c.insist(r, func(answer *http.Response) (err error) {
		defer answer.Body.Close()
		if text, err = io.ReadAll(io.LimitReader(answer.Body, maxAnswer+1)); err != nil {
			return unreachable(r, err)
		}
		if len(text) > maxAnswer {
			return job.Errorf(job.Internal, "read", "", "the answer of %s is larger than %d bytes", r.URL.Path,
				maxAnswer)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return text, nil
}

// do returns an answer of status 2xx, whose body the caller closes.
func (c *Client) do(r *http.Request) (*http.Response, error) {
	var kept *http.Response
	err := c.insist(r, func(answer *http.Response) error {
		kept = answer
		return nil
	})
	return kept, err
}

// once sends a request once and gives an answer of status 2xx; its body is the caller's to close.
func (c *Client) once(r *http.Request) (*http.Response, error) {
	answer, err := c.http.Do(r)
	if err != nil {
		return nil, unreachable(r, err)
	}
	if answer.StatusCode < 300 || isProblem(answer) {
		c.met.Store(true)
		if !passingStatus(answer) {
			c.lost.Store(false)
		}
	}
	if answer.StatusCode >= 200 && answer.StatusCode < 300 {
		return answer, nil
	}
	defer answer.Body.Close()
	if passingStatus(answer) {
		return nil, &laterError{problem(answer), retryafter.Parse(answer.Header.Get("Retry-After"), time.Now())}
	}
	return nil, problem(answer)
}

// isProblem reports whether an answer is an error of a Stagepost server, rather than of a proxy before it.
func isProblem(answer *http.Response) bool {
	media, _, _ := mime.ParseMediaType(answer.Header.Get("Content-Type"))
	return media == "application/problem+json"
}

func unreachable(r *http.Request, err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err // the text below has the method and the address
	}
	if refused, ok := errors.AsType[*job.Error](err); ok && refused.Kind == job.Refused {
		return refused // by the client's own certificate
	}
	if certificate, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return job.Errorf(job.Invalid, "request", "", "the certificate of %s is refused: %w (--cacert FILE names the "+
			"certificate of its authority)", r.URL.Host, certificate.Err)
	}
	if err.Error() == "http: server gave HTTP response to HTTPS client" {
		return job.Errorf(job.Invalid, "request", "", "%s does not use TLS: its address begins with http://",
			r.URL.Host)
	}
	if dial, ok := errors.AsType[*net.OpError](err); ok && dial.Op == "dial" {
		err = dial.Err
		if call, ok := errors.AsType[*os.SyscallError](err); ok {
			err = call.Err
		}
		return &job.Error{Op: "request", Kind: job.Unavailable,
			Err: fmt.Errorf("no server answers at %s://%s: %w", r.URL.Scheme, r.URL.Host, &unsentError{err})}
	}
	return &job.Error{Op: "request", Kind: job.Unavailable,
		Err: fmt.Errorf("%s %s: %w", r.Method, r.URL.Redacted(), err)}
}

// problem reads an answer that is no success.
func problem(answer *http.Response) error {
	p := &Problem{Status: answer.StatusCode, Title: http.StatusText(answer.StatusCode)}
	text, err := io.ReadAll(io.LimitReader(answer.Body, 1<<20))
	if err != nil || !isProblem(answer) || json.Unmarshal(text, p) != nil || p.Kind == "" {
		if passingStatus(answer) {
			return job.Errorf(job.Unavailable, "request", "", "%s answered %s: the proxy there cannot reach the server",
				answer.Request.URL.Host, answer.Status)
		}
		return job.Errorf(job.Internal, "request", "", "%s answered %s without a reason; is it a Stagepost server?",
			answer.Request.URL.Host, answer.Status)
	}
	return &job.Error{Op: p.Op, Kind: p.Kind, ID: p.Job, Err: p}
}

// ProblemOf returns the problem of an error, or nil if the error is not an answer of the server.
func ProblemOf(err error) *Problem {
	var p *Problem
	if errors.As(err, &p) {
		return p
	}
	return nil
}
