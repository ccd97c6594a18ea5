package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/stagepost/stagepost/job"
)

// ComputeDownload is an open download.
type ComputeDownload struct {
	Body  io.ReadCloser
	Start int64  // where it begins: not where it was asked to if there is another content by now
	Size  int64  // of the whole; -1: not known
	ETag  string // of the content
}

// ComputeResults opens the results of a job, a ZIP, from a byte on, provided that they are still those of an entity
// tag. The caller closes the body.
func (c *Client) ComputeResults(ctx context.Context, id job.ID, etag string, from int64) (*ComputeDownload, error) {
	return c.download(ctx, computePath(id, "/results"), nil, etag, from)
}

// ComputePartial opens what a job has made so far, as a ZIP. The caller closes it.
func (c *Client) ComputePartial(ctx context.Context, id job.ID) (io.ReadCloser, error) {
	d, err := c.download(ctx, computePath(id, "/partial"), nil, "", 0)
	if err != nil {
		return nil, err
	}
	return d.Body, nil
}

// ComputeFile opens one file of a job: of from "results" or "inputs", or, when that is empty, of the results if they
// have it and else of the inputs.
func (c *Client) ComputeFile(ctx context.Context, id job.ID, from, name, etag string,
	offset int64) (*ComputeDownload, error) {
	q := url.Values{}
	if from != "" {
		q.Set("from", from)
	}
	parts := strings.Split(name, "/")
	for i := range parts {
		parts[i] = url.PathEscape(parts[i])
	}
	return c.download(ctx, computePath(id, "/files/"+strings.Join(parts, "/")), q, etag, offset)
}

// ComputeFiles lists the files of a job after a name that an earlier page gave.
func (c *Client) ComputeFiles(ctx context.Context, id job.ID, after string) (ComputeFiles, error) {
	q := url.Values{}
	if after != "" {
		q.Set("after", after)
	}
	return get[ComputeFiles](ctx, c, computePath(id, "/files"), q)
}

func (c *Client) download(ctx context.Context, path string, q url.Values, etag string,
	from int64) (*ComputeDownload, error) {
	r, err := c.request(ctx, http.MethodGet, path, q, nil)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Accept", "*/*")
	r.Header.Set("Accept-Encoding", "identity")
	if from > 0 {
		r.Header.Set("Range", fmt.Sprintf("bytes=%d-", from))
		r.Header.Set("If-Range", etag)
	}
	answer, err := c.do(r)
	if err != nil {
		return nil, err
	}
	d := &ComputeDownload{Body: answer.Body, Size: answer.ContentLength, ETag: answer.Header.Get("ETag")}
	if answer.StatusCode == http.StatusPartialContent {
		begins, _, _ := strings.Cut(strings.TrimPrefix(answer.Header.Get("Content-Range"), "bytes "), "-")
		if d.Start, err = strconv.ParseInt(begins, 10, 64); err != nil || d.Start != from {
			err = job.Errorf(job.Internal, "download", "", "asked for bytes from %d on, got %.100q", from,
				answer.Header.Get("Content-Range"))
			return nil, errors.Join(err, answer.Body.Close())
		}
		d.Size += d.Start
	}
	return d, nil
}
