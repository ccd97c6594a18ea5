package client

import (
	"context"
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/stagepost/stagepost/internal/retryafter"
	"github.com/stagepost/stagepost/job"
)

// errNoUploads reports that the server takes no resumable uploads.
var errNoUploads = errors.New("the server takes no resumable uploads")

const uploadsPath = "/api/v1/compute/uploads"

// UploadCompute uploads a file resumably (tus 1.0.0) and returns its id for [ComputeOrder].Uploads. After a broken
// connection it continues where the server has the file; it fails when nothing arrived for Options.Outage. sent is
// called with the bytes that arrived since its last call, which is negative when the server has less than was sent.
func (c *Client) UploadCompute(ctx context.Context, f *ComputeSource, sent func(more int64)) (id string, err error) {
	place, err := c.createUpload(Persistent(ctx), f)
	if err != nil {
		return "", err
	}
	up := &upload{client: c, path: place, file: f, sent: sent}
	for p := c.newPauses(); ; {
		before := up.offset
		err := p.sending(func(sent func(int64)) error { return up.send(ctx, sent) })
		if err == nil && up.offset == f.Size {
			return place[strings.LastIndexByte(place, '/')+1:], nil
		}
		if !resumes(err) || ctx.Err() != nil {
			return "", err
		}
		if up.offset > before {
			p.connected(time.Now(), true)
		}
		if stop := p.wait(ctx, c.outage, err); stop != nil {
			return "", err
		}
	}
}

// resumes reports whether an upload may continue after an error: the connection broke, the server restarts, or it still
// holds the connection of before.
func resumes(err error) bool {
	if p := ProblemOf(err); p != nil && (p.Status == http.StatusLocked || p.Status == http.StatusConflict) {
		return true
	}
	return err == nil || mayPass(err)
}

// upload is a file on its way.
type upload struct {
	client *Client
	path   string
	file   *ComputeSource
	offset int64 // that the server has
	doubt  bool  // the server may have more or less by now
	sent   func(int64)
	shown  int64
}

// createUpload makes an upload and gives its path.
func (c *Client) createUpload(ctx context.Context, f *ComputeSource) (string, error) {
	// an unused one is removed
	r, err := c.request(context.WithValue(ctx, repeatKey{}, true), http.MethodPost, uploadsPath, nil, nil)
	if err != nil {
		return "", err
	}
	r.Header.Set("Tus-Resumable", "1.0.0")
	r.Header.Set("Upload-Length", strconv.FormatInt(f.Size, 10))
	r.Header.Set("Upload-Metadata", "filename "+base64.StdEncoding.EncodeToString([]byte(f.Name)))
	answer, err := c.do(r)
	if err != nil {
		if p := ProblemOf(err); p != nil && p.Op == "uploads" && p.Kind == job.NotFound {
			return "", errNoUploads
		}
		return "", err
	}
	defer answer.Body.Close()
	at, err := url.Parse(answer.Header.Get("Location"))
	if err != nil || !strings.HasPrefix(at.Path, uploadsPath+"/") {
		return "", job.Errorf(job.Internal, "upload", "", "the server made an upload at %.100q",
			answer.Header.Get("Location"))
	}
	return at.Path, nil
}

// ask finds out how much the server has.
func (u *upload) ask(ctx context.Context) error {
	r, err := u.client.request(ctx, http.MethodHead, u.path, nil, nil)
	if err != nil {
		return err
	}
	r.Header.Set("Tus-Resumable", "1.0.0")
	answer, err := u.client.http.Do(r)
	if err != nil {
		return unreachable(r, err)
	}
	defer answer.Body.Close()
	switch { // such an answer has no body
	case passingStatus(answer):
		return &laterError{problem(answer), retryafter.Parse(answer.Header.Get("Retry-After"), time.Now())}
	case answer.StatusCode >= 500:
		return job.Errorf(job.Unavailable, "upload", "", "the server answered %s", answer.Status)
	case answer.StatusCode >= 300:
		return job.Errorf(job.NotFound, "upload", "",
			"the server does not have the upload of %s any more: it answered %s", u.file.Name, answer.Status)
	}
	return u.setOffset(answer)
}

// setOffset takes the offset of an answer.
func (u *upload) setOffset(answer *http.Response) error {
	n, err := strconv.ParseInt(answer.Header.Get("Upload-Offset"), 10, 64)
	if err != nil || n < 0 || n > u.file.Size {
		return job.Errorf(job.Internal, "upload", "", "the server reports %.40q bytes of %d",
			answer.Header.Get("Upload-Offset"), u.file.Size)
	}
	u.offset = n
	u.show(n)
	return nil
}

// show reports how far the upload is.
func (u *upload) show(now int64) {
	if u.sent != nil && now != u.shown {
		u.sent(now - u.shown)
	}
	u.shown = now
}

// send sends what the server lacks. After an attempt that failed it asks first what that is.
func (u *upload) send(ctx context.Context, sent func(int64)) error {
	if u.doubt {
		if err := u.ask(ctx); err != nil {
			return err
		}
	}
	if u.doubt = u.offset < u.file.Size; !u.doubt {
		return nil
	}
	at := u.offset
	body := &counted{io.NewSectionReader(u.file.Content, at, u.file.Size-at), func(n int64) {
		at += n
		sent(n)
		u.show(at)
	}}
	gone := make(chan struct{})
	r, err := u.client.request(ctx, http.MethodPatch, u.path, nil, &closing{Reader: body, gone: gone})
	if err != nil {
		return err
	}
	r.ContentLength = u.file.Size - u.offset
	r.Header.Set("Tus-Resumable", "1.0.0")
	r.Header.Set("Content-Type", "application/offset+octet-stream")
	r.Header.Set("Upload-Offset", strconv.FormatInt(u.offset, 10))
	answer, err := u.client.do(r)
	<-gone // the file is no longer read
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	return u.setOffset(answer)
}

// closing reports when a body is no longer read: the transport closes it, also after an error, but perhaps later than
// it answers.
type closing struct {
	io.Reader
	once sync.Once
	gone chan struct{}
}

// Close is part of io.Closer.
func (c *closing) Close() error {
	c.once.Do(func() { close(c.gone) })
	return nil
}
