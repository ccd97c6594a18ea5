package fetch

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// UnknownSize is the size of a file that is unknown before its download.
const UnknownSize int64 = -1

// Info is the server's statement about a file before its download. It may be wrong; Download does not rely on it.
type Info struct {
	Size         int64 // bytes, or UnknownSize
	ETag         string
	LastModified string
	ContentType  string
	Ranges       bool // the server states that it serves ranges
}

// Head requests the size of a file without its bytes. From servers that refuse HEAD (405, 501, and 403 as object
// stores do for URLs signed for GET) it requests the first byte instead. Temporary errors are retried; the error is
// an *Error.
func (c *Client) Head(ctx context.Context, rawURL string) (Info, error) {
	var info Info
	err := c.retry(ctx, func() (err error) {
		info, err = c.head(ctx, rawURL)
		return err
	})
	return info, err
}

func (c *Client) head(ctx context.Context, rawURL string) (Info, error) {
	resp, where, err := c.request(ctx, http.MethodHead, rawURL, nil)
	if err != nil {
		return Info{}, err
	}
	resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusOK, http.StatusNoContent:
		return describe(resp, resp.ContentLength), nil
	case http.StatusMethodNotAllowed, http.StatusNotImplemented, http.StatusForbidden:
		return c.firstByte(ctx, rawURL)
	}
	return Info{}, statusError(where, resp, time.Now())
}

func (c *Client) firstByte(ctx context.Context, rawURL string) (Info, error) {
	resp, where, err := c.request(ctx, http.MethodGet, rawURL, http.Header{"Range": {"bytes=0-0"}})
	if err != nil {
		return Info{}, err
	}
	resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusOK:
		return describe(resp, resp.ContentLength), nil
	case http.StatusPartialContent, http.StatusRequestedRangeNotSatisfiable:
		r, ok := parseContentRange(resp.Header.Get("Content-Range"))
		if !ok {
			r.total = UnknownSize
		}
		info := describe(resp, r.total)
		info.Ranges = true
		return info, nil
	}
	return Info{}, statusError(where, resp, time.Now())
}

func describe(resp *http.Response, size int64) Info {
	return Info{
		Size:         max(size, UnknownSize),
		ETag:         resp.Header.Get("ETag"),
		LastModified: resp.Header.Get("Last-Modified"),
		ContentType:  resp.Header.Get("Content-Type"),
		Ranges:       resp.Header.Get("Accept-Ranges") == "bytes",
	}
}

// contentRange is the header of RFC 9110 section 14.4. first is -1 for "bytes */N", total is UnknownSize for "/*".
type contentRange struct{ first, last, total int64 }

func parseContentRange(value string) (contentRange, bool) {
	bad := contentRange{-1, -1, UnknownSize}
	rest, ok := strings.CutPrefix(value, "bytes ")
	span, total, ok2 := strings.Cut(rest, "/")
	if !ok || !ok2 {
		return bad, false
	}
	r := bad
	if total != "*" {
		n, err := strconv.ParseUint(total, 10, 63)
		if err != nil {
			return bad, false
		}
		r.total = int64(n)
	}
	if span == "*" {
		return r, r.total >= 0
	}
	from, to, _ := strings.Cut(span, "-")
	first, err1 := strconv.ParseUint(from, 10, 63)
	last, err2 := strconv.ParseUint(to, 10, 63)
	r.first, r.last = int64(first), int64(last)
	if err1 != nil || err2 != nil || first > last || r.total >= 0 && r.last >= r.total {
		return bad, false
	}
	return r, true
}
