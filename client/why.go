package client

import (
	"context"
	"net/url"
	"strconv"
	"time"

	"github.com/stagepost/stagepost/job"
)

// Why returns what a job waits for; a zero time asks about now.
func (c *Client) Why(ctx context.Context, id job.ID, at time.Time) (Explanation, error) {
	v := url.Values{}
	if !at.IsZero() {
		v.Set("at", at.UTC().Format(time.RFC3339Nano))
	}
	return get[Explanation](ctx, c, jobPath(id, "/why"), v)
}

// Expected returns when a job should end, as far as that is known.
func (c *Client) Expected(ctx context.Context, id job.ID) (Expected, error) {
	return get[Expected](ctx, c, jobPath(id, "/expected"), nil)
}

// StuckQuery asks for stuck jobs; empty fields do not restrict.
type StuckQuery struct {
	Kinds  []job.Kind
	Factor float64 // how many times the usual is too long; 0 means 1
	Limit  int     // 0 means 100
}

// Stuck finds the jobs that are stuck, and the abandoned messages.
func (c *Client) Stuck(ctx context.Context, q StuckQuery) (Stuck, error) {
	v := url.Values{}
	for _, k := range q.Kinds {
		v.Add("kind", string(k))
	}
	if q.Factor != 0 {
		v.Set("factor", strconv.FormatFloat(q.Factor, 'g', -1, 64))
	}
	return get[Stuck](ctx, c, "/api/v1/stuck", number(v, "limit", int64(q.Limit)))
}
