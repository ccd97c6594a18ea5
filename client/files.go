package client

import (
	"context"
	"io"
	"net/http"
	"net/url"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// JobFile is one file of an ingest job's object.
type JobFile struct {
	Path    string            `json:"path"`
	Size    int64             `json:"size"` // -1: not known
	Digests map[string]string `json:"digests,omitempty"`
	Type    string            `json:"type,omitempty"`
	From    string            `json:"from,omitempty"` // a URL, the payload, the container, an earlier version, stagepost
	State   string            `json:"state"`          // wanted, fetched, stored
}

// JobFiles is a page of them.
type JobFiles struct {
	Job    job.ID          `json:"job"`
	State  lifecycle.State `json:"state"`
	Source string          `json:"source"` // manifest, work, inventory: where the page was read; empty if there is nothing to read
	Files  []JobFile       `json:"files"`
	Next   string          `json:"next,omitempty"`
	Note   string          `json:"note,omitempty"` // what is not here any more, or not yet
}

// Metadata describes the object of an ingest job.
type Metadata struct {
	Job        job.ID `json:"job"`
	ARK        string `json:"ark,omitempty"`
	Version    int    `json:"version,omitempty"`
	Source     string `json:"source"` // submission, work or storage: where it was read
	ERC        string `json:"erc"`
	DublinCore string `json:"dublin_core"`       // XML
	Embargo    string `json:"embargo,omitempty"` // when it ends, in RFC 3339, or none; empty if nothing was said of one
	Note       string `json:"note,omitempty"`
}

// Handed is what was handed in with a batch.
type Handed struct {
	Batch      job.ID     `json:"batch"`
	Submission Submission `json:"submission"`
	Type       string     `json:"type,omitempty"` // as given or found out
	Size       int64      `json:"size"`           // of the payload
	SHA256     string     `json:"sha256"`         // of the payload
	Staged     bool       `json:"staged"`         // the payload is still there
	Jobs       int        `json:"jobs,omitempty"`
	Note       string     `json:"note,omitempty"`
}

func ingestPath(folder string, id job.ID, more string) string {
	return "/api/v1/ingest/" + folder + "/" + url.PathEscape(string(id)) + more
}

// JobFiles gives a page of the files of an ingest job; after is the Next of the page before.
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

// Metadata gives the description of an ingest job's object.
func (c *Client) Metadata(ctx context.Context, id job.ID) (Metadata, error) {
	return get[Metadata](ctx, c, ingestPath("jobs", id, "/metadata"), nil)
}

// Submission gives what was handed in with a batch.
func (c *Client) Submission(ctx context.Context, batch job.ID) (Handed, error) {
	return get[Handed](ctx, c, ingestPath("batches", batch, "/submission"), nil)
}
