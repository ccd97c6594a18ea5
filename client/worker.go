package client

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/url"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/client/internal/direct"
	"github.com/stagepost/stagepost/job"
)

// Claim takes up to N jobs. An empty answer is no error: there was none within Wait.
func (c *Client) Claim(ctx context.Context, r Claim) ([]Leased, error) {
	a, err := send[Claimed](ctx, c, http.MethodPost, "/api/v1/worker/claim", nil, r)
	return a.Jobs, err
}

// Renew prolongs leases and gives those that are over.
func (c *Client) Renew(ctx context.Context, r Renewal) ([]job.Lease, error) {
	a, err := send[Renewed](ctx, c, http.MethodPost, "/api/v1/worker/renew", nil, r)
	return a.Lost, err
}

// Report reports the results of jobs. Each report succeeds or fails alone; the error is about all of them. One report
// alone that fails is an error as well: of kind Stale when the claim is over.
func (c *Client) Report(ctx context.Context, r Reports) ([]Reported, error) {
	a, err := send[Results](ctx, c, http.MethodPost, "/api/v1/worker/report", nil, r)
	return a.Results, err
}

// Update reports in the middle of the work; the claims of the worker stay as they are.
func (c *Client) Update(ctx context.Context, r api.Reports) ([]api.Reported, error) {
	a, err := send[api.Results](ctx, c, http.MethodPost, "/api/v1/worker/update", nil, r)
	return a.Results, err
}

// Create creates a job of a kind that has no operation of its own for that.
func (c *Client) Create(ctx context.Context, o api.Order) (api.Job, error) {
	return send[api.Job](ctx, c, http.MethodPost, "/api/v1/jobs", nil, o)
}

// direct returns connections for the calls of workers, which limit the throughput of the API: of a client that was
// given no http.Client, to a server without TLS and without a proxy before it. Otherwise it returns nil.
func (c *Client) direct(base *url.URL) *direct.Conns {
	t, ok := c.http.Transport.(*http.Transport)
	if !ok || base.Scheme != "http" || base.RawPath != "" || base.Fragment != "" {
		return nil
	}
	if t.Proxy != nil {
		if proxy, err := t.Proxy(&http.Request{Method: http.MethodPost, URL: base}); proxy != nil || err != nil {
			return nil
		}
	}
	dial := t.DialContext
	if dial == nil {
		dial = new(net.Dialer).DialContext
	}
	fields := [][2]string{{"User-Agent", c.agent}, {"Accept", "application/json"}}
	if c.token.text != nil {
		fields = append(fields, [2]string{"Authorization", "Bearer " + *c.token.text})
	}
	return direct.New(base.Host, fields, maxAnswer, dial)
}

// work is [send] for the calls of workers.
func work[T, B any](ctx context.Context, c *Client, path string, body B) (T, error) {
	var answer T
	text, err := json.Marshal(body)
	if err != nil {
		return answer, job.Errorf(job.Invalid, "encode", "", "%w", err)
	}
	if c.quick == nil || len(text) > direct.MostBody {
		return call[T](ctx, c, http.MethodPost, path, nil, text)
	}
	target := *c.root
	target.Path += path
	r := (&http.Request{Method: http.MethodPost, URL: &target, Host: target.Host}).WithContext(ctx)
	err = c.persist(r, func(r *http.Request) error {
		done := false
		refusal, err := c.quick.Post(r, text, func(text []byte) error {
			done = true
			c.answered(false)
			return decode(r, text, &answer)
		})
		switch {
		case refusal != nil:
			_, err = c.verdict(refusal)
		case err != nil && !done:
			err = unreachable(r, err)
		}
		return err
	})
	return answer, err
}
