package client

import (
	"context"
	"net/url"
	"strconv"

	"github.com/stagepost/stagepost/job"
)

// StuckQuery asks for stuck jobs; empty fields do not restrict.
type StuckQuery struct {
	Kinds  []job.Kind
	Factor float64 // how many times the usual is too long; 0 means 1
	Limit  int     // 0 means 100
}

// Stuck finds the jobs that are stuck, and the messages that were given up.
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
