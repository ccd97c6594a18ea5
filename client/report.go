package client

import (
	"context"
	"net/http"
	"net/url"

	"github.com/stagepost/stagepost/job"
)

// BatchReportAs gives the report about a batch in one of [ReportFormats].
func (c *Client) BatchReportAs(ctx context.Context, id job.ID, format string) ([]byte, error) {
	q := url.Values{"format": {format}}
	r, err := c.request(ctx, http.MethodGet, "/api/v1/ingest/batches/"+url.PathEscape(string(id))+"/report", q, nil)
	if err != nil {
		return nil, err
	}
	return c.text(r)
}
