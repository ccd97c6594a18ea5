package client

import (
	"context"
	"net/http"
	"net/url"

	"github.com/stagepost/stagepost/job"
)

func sharesPath(batch job.ID) string {
	return "/api/v1/ingest/batches/" + url.PathEscape(string(batch)) + "/shares"
}

// ShareBatch makes a link by which anyone who has it reads one batch. Its path is in this answer alone.
func (c *Client) ShareBatch(ctx context.Context, batch job.ID, o ShareOrder) (Share, error) {
	return send[Share](ctx, c, http.MethodPost, sharesPath(batch), nil, o)
}

// BatchShares lists the links of a batch that are valid.
func (c *Client) BatchShares(ctx context.Context, batch job.ID) ([]Share, error) {
	a, err := get[Shares](ctx, c, sharesPath(batch), nil)
	return a.Shares, err
}

// RevokeShare revokes a link of a batch, and returns those that are left. The note is kept in the audit log.
func (c *Client) RevokeShare(ctx context.Context, batch job.ID, id, note string) ([]Share, error) {
	v := url.Values{}
	if note != "" {
		v.Set("note", note)
	}
	a, err := call[Shares](ctx, c, http.MethodDelete, sharesPath(batch)+"/"+url.PathEscape(id), v, nil)
	return a.Shares, err
}
