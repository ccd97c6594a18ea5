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
	"time"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// AccessRequest asks for something that is stored, as a package.
type AccessRequest struct {
	Object    string   `json:"object,omitempty"`   // its ARK; or
	LocalID   string   `json:"local_id,omitempty"` // the depositor's own name for it
	Owner     string   `json:"owner,omitempty"`    // of the local id
	Version   int      `json:"version,omitempty"`  // 0: the newest
	Files     []string `json:"files,omitempty"`    // none: all
	Format    string   `json:"format,omitempty"`   // zip, tar, bag-zip or bag-tar; empty: zip
	Name      string   `json:"name,omitempty"`     // of the package, without ending
	Requester string   `json:"requester,omitempty"`
	Key       string   `json:"key,omitempty"` // idempotency key
}

// Access tells what became of such a request.
type Access struct {
	Token     string            `json:"token"` // who has it can fetch the package
	Job       job.ID            `json:"job"`
	State     lifecycle.State   `json:"state"`
	Status    int               `json:"status"`  // 200 ready, 201 queued, 202 not ready, 500 failed
	Message   string            `json:"message"` // the same in words
	Cause     string            `json:"cause,omitempty"`
	Object    string            `json:"object"`
	Version   int               `json:"version"`
	Format    string            `json:"format"`
	File      string            `json:"file"`           // name of the package as a file
	Files     int               `json:"files"`          // in it
	Bytes     int64             `json:"bytes"`          // of their content
	Size      int64             `json:"size,omitempty"` // of the package, once it is ready
	ETag      string            `json:"etag,omitempty"` // of the package, once it is ready
	Queue     string            `json:"queue"`          // small or large
	Place     int               `json:"place,omitempty"`
	Done      int64             `json:"done"` // bytes of content that were read
	Requested time.Time         `json:"requested"`
	Ready     time.Time         `json:"ready,omitzero"`
	Expires   time.Time         `json:"expires,omitzero"`
	Damaged   []string          `json:"damaged,omitempty"` // files that were taken from another storage place
	Links     map[string]string `json:"links"`
}

func accessPath(token, more string) string { return "/api/v1/access/" + url.PathEscape(token) + more }

// RequestAccess asks for a package, and gives the token for it.
func (c *Client) RequestAccess(ctx context.Context, r AccessRequest) (Access, error) {
	if r.Key != "" {
		ctx = context.WithValue(ctx, repeatKey{}, true)
	}
	return send[Access](ctx, c, http.MethodPost, "/api/v1/access", nil, r)
}

// Access tells what became of the request of a token.
func (c *Client) Access(ctx context.Context, token string) (Access, error) {
	return get[Access](ctx, c, accessPath(token, ""), nil)
}

// FetchAccess opens the package of a token from a byte on, provided that it is still the one of the entity tag. start is where the answer
// begins: at 0 if it is another. The caller closes body; an error of kind Unavailable while reading may pass.
func (c *Client) FetchAccess(ctx context.Context, token, etag string, from int64) (body io.ReadCloser, start int64, err error) {
	r, err := c.request(ctx, http.MethodGet, accessPath(token, "/content"), nil, nil)
	if err != nil {
		return nil, 0, err
	}
	r.Header.Set("Accept", "*/*")
	if from > 0 {
		r.Header.Set("Range", fmt.Sprintf("bytes=%d-", from))
		r.Header.Set("If-Range", etag)
	}
	answer, err := c.once(r) // the caller counts the breaks
	if err != nil {
		return nil, 0, err
	}
	if answer.StatusCode == http.StatusPartialContent {
		begins, _, _ := strings.Cut(strings.TrimPrefix(answer.Header.Get("Content-Range"), "bytes "), "-")
		if start, err = strconv.ParseInt(begins, 10, 64); err != nil || start != from {
			err = job.Errorf(job.Internal, "fetch", "", "asked for bytes from %d on, got %.100q", from, answer.Header.Get("Content-Range"))
			return nil, 0, errors.Join(err, answer.Body.Close())
		}
	}
	return answer.Body, start, nil
}
