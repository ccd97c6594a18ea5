package wire

import (
	"context"
	"crypto/tls"
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
)

// ClientOptions of the calls to one agent.
type ClientOptions struct {
	// Dial is the time to connect. Defaults to 5 s.
	Dial time.Duration
	// Header is the time from the last byte of a request to the first of the answer. Defaults to 1 minute.
	Header time.Duration
	// Pack is the same for results: an original agent makes the whole ZIP before it answers. Defaults to 10 minutes.
	Pack time.Duration
	// Idle is how long nothing may move while a body goes up or down. Defaults to 1 minute.
	Idle time.Duration
	// DialContext connects in another way, for agents behind a tunnel. Defaults to TCP.
	DialContext func(ctx context.Context, network, address string) (net.Conn, error)
	// TLS for https addresses. Defaults to the system's roots.
	TLS *tls.Config
	// Authorize may add headers to every request. nil: none, as the original.
	Authorize func(*http.Request)
}

// Client calls one agent, an original one or ours. It follows no redirects, uses no proxy, and never sends a request
// twice by itself. It is safe for use by many callers.
type Client struct {
	upload, download, terminate *url.URL

	o    ClientOptions
	once *http.Transport // submits: a connection each, so that none is sent over one that the agent is about to close
	kept *http.Transport
}

// NewClient checks the addresses. No connection is made.
func NewClient(e Endpoints, o ClientOptions) (*Client, error) {
	orDefault(&o.Dial, 5*time.Second)
	orDefault(&o.Header, time.Minute)
	orDefault(&o.Pack, 10*time.Minute)
	orDefault(&o.Idle, time.Minute)
	if o.DialContext == nil {
		o.DialContext = (&net.Dialer{Timeout: o.Dial}).DialContext
	}
	c := &Client{o: o}
	var errs []error
	for _, one := range []struct {
		name, text string
		into       **url.URL
	}{{"upload", e.Upload, &c.upload}, {"download", e.Download, &c.download}, {"terminate", e.Terminate,
		&c.terminate}} {
		u, err := parseURL(one.text)
		if err != nil {
			errs = append(errs, fmt.Errorf("the agent's %s address %w", one.name, err))
		}
		*one.into = u
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	c.kept = &http.Transport{
		DialContext: o.DialContext, TLSClientConfig: o.TLS, TLSHandshakeTimeout: o.Dial,
		DisableCompression: true, MaxIdleConnsPerHost: 4, IdleConnTimeout: 30 * time.Second,
	}
	c.once = c.kept.Clone()
	c.once.DisableKeepAlives = true
	return c, nil
}

func orDefault(d *time.Duration, v time.Duration) {
	if *d == 0 {
		*d = v
	}
}

// Close lets idle connections go. The client may still be used.
func (c *Client) Close() { c.kept.CloseIdleConnections() }

// Archive is a ZIP that is on its way. Reading it ends with io.ErrUnexpectedEOF if the connection breaks and with an
// error if nothing comes for too long; an original agent may still send a ZIP that is cut short inside, so it must be
// verified.
type Archive struct {
	io.ReadCloser
	Size int64  // -1: not reported
	ETag string // our agents
}

// Reply is an agent's answer about a payload: its ZIP, which the caller closes, or its state.
type Reply struct {
	ZIP     *Archive
	Payload Payload
}

// Retrieve asks for a payload. A ZIP means Completed; any other state comes as a payload whose status is one of the
// words.
func (c *Client) Retrieve(ctx context.Context, id uint32) (Reply, error) {
	a, err := c.call(ctx, call{op: "retrieve", method: http.MethodGet, url: item(c.download, id), wait: c.o.Pack})
	if err != nil {
		return Reply{}, err
	}
	if zip := a.zip(); zip != nil {
		return Reply{ZIP: zip}, nil
	}
	defer a.Close()
	p, err := decodePayload(a, 1<<20)
	if err != nil {
		return Reply{}, a.misread(err)
	}
	return Reply{Payload: p}, nil
}

// Partial asks for what a payload has made so far, in any state. 404 is an ErrNotFound.
func (c *Client) Partial(ctx context.Context, id uint32) (*Archive, error) {
	from := item(sibling(c.download, "retrieve_partial"), id)
	a, err := c.call(ctx, call{op: "retrieve_partial", method: http.MethodGet, url: from, wait: c.o.Pack})
	if err != nil {
		return nil, err
	}
	if zip := a.zip(); zip != nil {
		return zip, nil
	}
	defer a.Close()
	return nil, a.misread(fmt.Errorf("%.80q where a ZIP was expected", a.media))
}

// Kill has a payload ended. The agent does so after it has answered; 404 is an ErrNotFound.
func (c *Client) Kill(ctx context.Context, id uint32) error {
	a, err := c.call(ctx, call{op: "kill", method: http.MethodPost, url: item(c.terminate, id), wait: c.o.Header})
	if err != nil {
		return err
	}
	return a.Close()
}

// Load asks for the use of the agent's processors, 0 to 100. It takes an original agent 200 ms to find out.
func (c *Client) Load(ctx context.Context) (float64, error) {
	text, a, err := c.small(ctx, "load")
	if err != nil {
		return 0, err
	}
	use, err := strconv.ParseFloat(strings.TrimSpace(string(text)), 64)
	if err != nil || !(use >= 0 && use <= 1e6) {
		return 0, a.misread(fmt.Errorf("%.40q is no load", text))
	}
	return use, nil
}

// Health is an agent's report about itself.
type Health struct {
	// Legacy: it has exactly the original's keys.
	Legacy   bool
	Impl     string
	Features []string
}

// Health asks whether the agent works, and which program it is.
func (c *Client) Health(ctx context.Context) (Health, error) {
	text, a, err := c.small(ctx, "health")
	if err != nil {
		return Health{}, err
	}
	var keys map[string]json.RawMessage
	if err := json.Unmarshal(text, &keys); err != nil {
		return Health{}, a.misread(err)
	}
	var h Health
	json.Unmarshal(keys["impl"], &h.Impl)
	json.Unmarshal(keys["features"], &h.Features)
	_, status := keys["status"]
	_, database := keys["database"]
	h.Legacy = len(keys) == 2 && status && database
	return h, nil
}

func (c *Client) small(ctx context.Context, name string) ([]byte, *incomingAnswer, error) {
	a, err := c.call(ctx, call{op: name, method: http.MethodGet, url: sibling(c.upload, name).String(),
		wait: c.o.Header})
	if err != nil {
		return nil, nil, err
	}
	defer a.Close()
	text, err := io.ReadAll(io.LimitReader(a, 64<<10))
	if err != nil {
		return nil, nil, a.misread(err)
	}
	return text, a, nil
}
