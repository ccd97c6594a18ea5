package client

import (
	"context"
	"net/url"
	"strconv"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// AuditQuery selects entries; empty fields do not restrict.
type AuditQuery struct {
	After int64 // number after which to begin, going forward
	Last  int   // instead: the newest so many. 0 means 50, at most 1000
	Actor string
	Job   job.ID
	Event lifecycle.Event
}

// Audit gives entries of the audit list.
func (c *Client) Audit(ctx context.Context, q AuditQuery) (Audits, error) {
	return c.audit(ctx, &q, number(number(url.Values{}, "after", q.After), "last", int64(q.Last)))
}

// AuditAfter gives the page of entries behind q.After, going forward; with 0 it is the first page. q.Last is not used.
func (c *Client) AuditAfter(ctx context.Context, q AuditQuery) (Audits, error) {
	return c.audit(ctx, &q, url.Values{"after": {strconv.FormatInt(q.After, 10)}})
}

func (c *Client) audit(ctx context.Context, q *AuditQuery, v url.Values) (Audits, error) {
	for name, value := range map[string]string{"actor": q.Actor, "job": string(q.Job), "event": string(q.Event)} {
		if value != "" {
			v.Set(name, value)
		}
	}
	return get[Audits](ctx, c, "/api/v1/audit", v)
}
