package client

import (
	"context"
	"net/url"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// AuditQuery selects entries; empty fields do not restrict.
type AuditQuery struct {
	After   string // Audits.Next of the page before, going forward; empty: the newest
	Limit   int    // how many, at most 1000. 0 means the 50 newest, or going forward 1000
	Actor   string
	Address string // of the sender, in any notation, or a prefix such as 192.0.2.0/24
	Job     job.ID
	Event   lifecycle.Event
}

// Audit returns entries of the audit list.
func (c *Client) Audit(ctx context.Context, q AuditQuery) (Audits, error) {
	v := url.Values{}
	if q.After != "" {
		v.Set("after", q.After)
	}
	return c.audit(ctx, &q, v)
}

// AuditAfter returns the page of entries after q.After, going forward; if that is empty the first page.
func (c *Client) AuditAfter(ctx context.Context, q AuditQuery) (Audits, error) {
	return c.audit(ctx, &q, url.Values{"after": {q.After}})
}

func (c *Client) audit(ctx context.Context, q *AuditQuery, v url.Values) (Audits, error) {
	for name, value := range map[string]string{"actor": q.Actor, "address": q.Address, "job": string(q.Job),
		"event": string(q.Event)} {
		if value != "" {
			v.Set(name, value)
		}
	}
	return get[Audits](ctx, c, "/api/v1/audit", number(v, "limit", int64(q.Limit)))
}
