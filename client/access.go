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

func accessPath(token, more string) string { return "/api/v1/access/" + url.PathEscape(token) + more }

// RequestAccess asks for a package, and gives the token for it.
func (c *Client) RequestAccess(ctx context.Context, r AccessRequest) (Access, error) {
	if r.Key != "" {
		ctx = context.WithValue(ctx, repeatKey{}, true)
	}
	return send[Access](ctx, c, http.MethodPost, "/api/v1/access", nil, r)
}

// Access returns the state of the request of a token.
func (c *Client) Access(ctx context.Context, token string) (Access, error) {
	return get[Access](ctx, c, accessPath(token, ""), nil)
}

// FetchAccess opens the package of a token from a byte on, provided that it is still the one of the entity tag. start
// is where the answer begins: at 0 if it is another. The caller closes body; an error of kind Unavailable while
// reading may pass.
func (c *Client) FetchAccess(ctx context.Context, token, etag string,
	from int64) (body io.ReadCloser, start int64, err error) {
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
			err = job.Errorf(job.Internal, "fetch", "", "asked for bytes from %d on, got %.100q", from,
				answer.Header.Get("Content-Range"))
			return nil, 0, errors.Join(err, answer.Body.Close())
		}
	}
	return answer.Body, start, nil
}
