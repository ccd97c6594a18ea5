package fetch

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"time"
)

// Client downloads under one Policy. It is safe for concurrent use and keeps connections until Close.
type Client struct {
	policy    Policy
	transport *http.Transport
	hosts     hosts
	sync      func(*os.File) error // (*os.File).Sync; tests that interrupt hundreds of downloads replace it
}

// idleConnections is how many connections to one host are kept when nothing uses them, for at most 30 s. As many
// downloads may run at once before a connection is made for a file and closed after it.
const idleConnections = 64

// New returns a client. Limits that are zero (or negative, if negative has no meaning of its own) get their defaults.
func New(policy Policy) *Client {
	c := &Client{policy: policy.withDefaults(), sync: (*os.File).Sync, hosts: hosts{log: policy.Log}}
	c.transport = &http.Transport{
		Proxy:                  nil, // a proxy from the environment would make the connection that must be checked
		DialContext:            c.dial,
		TLSClientConfig:        &tls.Config{RootCAs: c.policy.RootCAs, MinVersion: tls.VersionTLS12},
		DisableCompression:     true,
		TLSHandshakeTimeout:    c.policy.ConnectTimeout,
		ResponseHeaderTimeout:  c.policy.HeaderTimeout,
		MaxResponseHeaderBytes: headerBytes,
		MaxIdleConnsPerHost:    idleConnections,
		IdleConnTimeout:        30 * time.Second,
	}
	return c
}

// Close closes idle connections. Running downloads continue.
func (c *Client) Close() { c.transport.CloseIdleConnections() }

// request sends one request and follows redirects itself, so that every hop is checked like the first URL. The caller
// closes the body of the response. The string is the redacted URL of the last hop.
func (c *Client) request(ctx context.Context, method, rawURL string, header http.Header) (*http.Response, string,
	error) {
	first, err := c.policy.parse(rawURL)
	if err != nil {
		return nil, "", err
	}
	u := first
	for hops := 0; ; hops++ {
		resp, err := c.roundTrip(ctx, method, u, first, header)
		if err != nil {
			return nil, redact(u), networkError(ctx, redact(u), err)
		}
		if !redirects(resp.StatusCode) {
			return resp, redact(u), nil
		}
		resp.Body.Close()
		next, err := c.follow(u, resp)
		if err == nil && hops >= c.policy.MaxRedirects {
			err = &Error{Kind: Refused, URL: redact(u), Status: resp.StatusCode,
				Err: refusal(fmt.Sprintf("more than %d redirects", max(c.policy.MaxRedirects, 0)))}
		}
		if err != nil {
			return nil, redact(u), err
		}
		u = next
	}
}

func (c *Client) roundTrip(ctx context.Context, method string, u, first *url.URL, header http.Header) (*http.Response,
	error) {
	if u.Scheme == "ftp" {
		return c.ftp(ctx, method, u, first.User, header)
	}
	target := *u
	target.User = nil
	target.Fragment = ""
	req, err := http.NewRequestWithContext(ctx, method, target.String(), nil)
	if err != nil {
		return nil, refusal("URL cannot be parsed")
	}
	for key, values := range header {
		req.Header[key] = values
	}
	req.Header.Set("User-Agent", c.policy.UserAgent)
	req.Header.Set("Accept-Encoding", "identity")
	if first.User != nil && sameOrigin(u, first) {
		password, _ := first.User.Password()
		req.SetBasicAuth(first.User.Username(), password)
	}
	return c.transport.RoundTrip(req)
}

// follow checks the target of a redirect. It drops user information in it: a server must not cause a login elsewhere.
func (c *Client) follow(from *url.URL, resp *http.Response) (*url.URL, error) {
	location := resp.Header.Get("Location")
	if location == "" {
		return nil, &Error{Kind: Status, URL: redact(from), Status: resp.StatusCode,
			Err: errors.New("redirect without a target")}
	}
	target, err := from.Parse(location)
	if err != nil {
		return nil, &Error{Kind: Refused, URL: redact(from), Status: resp.StatusCode,
			Err: refusal("target of the redirect cannot be parsed")}
	}
	target.User = nil
	next, err := c.policy.parse(target.String())
	if err == nil && next.Scheme == "ftp" {
		err = &Error{Kind: Refused, URL: redact(next), Err: refusal("redirect to ftp")}
	}
	if err != nil {
		var e *Error
		errors.As(err, &e)
		e.Status = resp.StatusCode
		e.Err = fmt.Errorf("redirected by %s: %w", redact(from), e.Err)
		return nil, e
	}
	return next, nil
}

func redirects(status int) bool {
	switch status {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther,
		http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		return true
	}
	return false
}

// retry calls try until it succeeds, fails permanently, or the attempts are exhausted.
func (c *Client) retry(ctx context.Context, try func() error) error {
	for n := 0; ; n++ {
		err := try()
		var e *Error
		if err == nil || !errors.As(err, &e) || !e.Temporary() || e.Kind == Storage ||
			n >= c.policy.Retries || e.RetryAfter > c.policy.MaxWait || ctx.Err() != nil {
			return err
		}
		if !sleep(ctx, max(c.backoff(n), e.RetryAfter)) {
			return err
		}
	}
}

// backoff is between half and one and a half of the mean, so that many clients of a restarted server spread out.
func (c *Client) backoff(n int) time.Duration {
	mean := c.policy.Backoff << min(n, 10)
	return mean/2 + rand.N(mean)
}

// sleep reports whether the whole time passed.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
