package client

import (
	"context"
	"io"
	"net/http"
	"net/url"

	"github.com/stagepost/stagepost/job"
)

func ingestPath(folder string, id job.ID, more string) string {
	return "/api/v1/ingest/" + folder + "/" + url.PathEscape(string(id)) + more
}

// JobFiles returns a page of the files of an ingest job; after is the Next of the page before.
func (c *Client) JobFiles(ctx context.Context, id job.ID, after string, limit int) (JobFiles, error) {
	v := url.Values{}
	if after != "" {
		v.Set("after", after)
	}
	return get[JobFiles](ctx, c, ingestPath("jobs", id, "/files"), number(v, "limit", int64(limit)))
}

// Manifest streams the manifest of an ingest job or batch as it was received. The caller closes it.
func (c *Client) Manifest(ctx context.Context, id job.ID) (io.ReadCloser, error) {
	r, err := c.request(ctx, http.MethodGet, ingestPath("jobs", id, "/manifest"), nil, nil)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Accept", "text/plain")
	answer, err := c.do(r)
	if err != nil {
		return nil, err
	}
	return answer.Body, nil
}

// Metadata returns the description of an ingest job's object.
func (c *Client) Metadata(ctx context.Context, id job.ID) (Metadata, error) {
	return get[Metadata](ctx, c, ingestPath("jobs", id, "/metadata"), nil)
}

// Submission returns what was submitted with a batch.
func (c *Client) Submission(ctx context.Context, batch job.ID) (Handed, error) {
	return get[Handed](ctx, c, ingestPath("batches", batch, "/submission"), nil)
}
