package agent

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"sync/atomic"

	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/job"
)

// Submit passes a parcel over, streamed: see [compute.Executor]. [compute.ErrNotSent] stands only for a request whose
// last byte was never given to the connection: the agent takes no parcel that is not whole.
func (r *Remote) Submit(ctx context.Context, p *compute.Parcel) (n compute.Notice, err error) {
	if err := checkParcel(p); err != nil {
		return n, &compute.Refusal{Reason: err.Error()}
	}
	w := newWatch(ctx, r.options.Patience)
	defer w.end()
	sent := &sending{beat: w.beat}
	body, err := newParcelBody(p, sent)
	if err != nil {
		return n, &compute.Refusal{Reason: err.Error()}
	}
	h := compute.Handle{Ticket: p.Ticket, Instance: p.Instance}
	q, err := r.request(w, http.MethodPut, "", &h, nil)
	if err != nil {
		return n, err
	}
	q.Body, q.ContentLength = body.open(), body.length
	q.GetBody = func() (io.ReadCloser, error) { return body.open(), nil }
	q.Header.Set("Content-Type", "multipart/form-data; boundary="+body.boundary)
	q.Header.Set("Expect", "100-continue") // a payload that is known is not sent again
	a, err := r.client.Do(q)
	if err == nil {
		defer a.Body.Close()
		w.beat()
		err = decode(a, &n)
		if err == nil || a.StatusCode < 500 {
			return n, asRefusal(a.StatusCode, err)
		}
	}
	var local *sourceError
	switch err = w.cause(err); {
	case errors.As(err, &local):
		return n, fmt.Errorf("%w: %w", compute.ErrNotSent, local.error)
	case !sent.whole.Load():
		return n, fmt.Errorf("%w: %w", compute.ErrNotSent, r.wrap(err))
	}
	return n, r.wrap(err)
}

// asRefusal makes a refusal of an answer that reports that the parcel is invalid: sent again, it would make none
// either.
func asRefusal(status int, err error) error {
	if status == http.StatusBadRequest || status == http.StatusRequestEntityTooLarge {
		return &compute.Refusal{Reason: err.Error(), Here: true}
	}
	if status == http.StatusUnauthorized {
		return fmt.Errorf("%w: %w", compute.ErrNotSent, err)
	}
	return err
}

// sending measures how much of a request was given to the connection.
type sending struct {
	whole atomic.Bool // the last byte was, at some try
	beat  func()      // something was
}

// sourceError is an error of a file that was to be sent.
type sourceError struct{ error }

// parcelBody is the body of a request, which may be read again from the start.
type parcelBody struct {
	parcel   *compute.Parcel
	boundary string
	heads    [][]byte // before each file, the first with the description; the last one is the end
	length   int64
	sent     *sending
}

func newParcelBody(p *compute.Parcel, sent *sending) (*parcelBody, error) {
	text, err := json.Marshal(p)
	if err != nil {
		return nil, err
	}
	var head bytes.Buffer
	form := multipart.NewWriter(&head)
	b := &parcelBody{parcel: p, boundary: form.Boundary(), sent: sent}
	cut := func() {
		b.length += int64(head.Len())
		b.heads = append(b.heads, bytes.Clone(head.Bytes()))
		head.Reset()
	}
	part := func(h textproto.MIMEHeader) error {
		_, err := form.CreatePart(h)
		return err
	}
	if err := part(textproto.MIMEHeader{"Content-Disposition": {`form-data; name="` + parcelPart + `"`},
		"Content-Type": {"application/json"}}); err != nil {
		return nil, err
	}
	head.Write(text)
	for _, f := range p.Files {
		if err := part(textproto.MIMEHeader{"Content-Disposition": {`form-data; name="file"`},
			nameHeader: {quoteName(f.Name)}}); err != nil {
			return nil, err
		}
		cut()
		b.length += f.Size
	}
	if err := form.Close(); err != nil {
		return nil, err
	}
	cut()
	return b, nil
}

// open starts from the beginning.
func (b *parcelBody) open() io.ReadCloser {
	return &bodyReader{of: b, head: bytes.NewReader(b.heads[0])}
}

// bodyReader is one reading of a body.
type bodyReader struct {
	of   *parcelBody
	at   int // number of the head, and of the file after it
	head *bytes.Reader
	file io.ReadSeekCloser
	left int64 // of the file
}

// Read is part of io.Reader. It gives the end together with the last bytes, so that these are known to be the last.
func (r *bodyReader) Read(p []byte) (int, error) {
	r.of.sent.beat()
	for {
		if r.head.Len() > 0 {
			n, _ := r.head.Read(p)
			if r.head.Len() == 0 && r.at == len(r.of.heads)-1 {
				r.of.sent.whole.Store(true)
			}
			return n, nil
		}
		if r.at == len(r.of.heads)-1 {
			return 0, io.EOF
		}
		f := &r.of.parcel.Files[r.at]
		if r.file == nil {
			if err := r.start(f); err != nil {
				return 0, err
			}
		}
		if r.left > 0 {
			n, err := r.file.Read(p[:min(int64(len(p)), r.left)])
			r.left -= int64(n)
			if err == io.EOF && r.left > 0 {
				err = &sourceError{fmt.Errorf("the file %q is shorter than it was", f.Name)}
			} else if err == io.EOF {
				err = nil
			}
			if n > 0 || err != nil {
				return n, err
			}
			continue
		}
		r.file.Close()
		r.at, r.file = r.at+1, nil
		r.head = bytes.NewReader(r.of.heads[r.at])
	}
}

// start opens the file that comes next.
func (r *bodyReader) start(f *compute.File) error {
	if r.of.parcel.Open == nil {
		return &sourceError{fmt.Errorf("there is no %q to read", f.Name)}
	}
	file, err := r.of.parcel.Open(f.Name)
	if err != nil {
		return &sourceError{err}
	}
	r.file, r.left = file, f.Size
	return nil
}

// Close is part of io.Closer.
func (r *bodyReader) Close() error {
	if r.file != nil {
		return r.file.Close()
	}
	return nil
}

// mostHint bounds a line of the stream of events, in bytes.
const mostHint = 64 << 10

// Notify calls changed for what changes, from now until ctx ends or the connection does; a stream without signs of life
// counts as cut: see [compute.Notifier].
func (r *Remote) Notify(ctx context.Context, connected func(), changed func(id job.ID)) error {
	w := newWatch(ctx, r.options.Silence)
	defer w.end()
	q, err := r.request(w, http.MethodGet, "/v1/events", nil, nil)
	if err != nil {
		return err
	}
	a, err := r.client.Do(q)
	if err != nil {
		return r.wrap(w.cause(err))
	}
	defer a.Body.Close()
	if a.StatusCode != http.StatusOK {
		return r.wrap(w.cause(decode[struct{}](a, nil)))
	}
	lines := bufio.NewScanner(a.Body)
	lines.Buffer(nil, mostHint)
	for {
		if !lines.Scan() {
			return r.wrap(cmp.Or(w.cause(lines.Err()), errors.New("the agent ended the stream of events")))
		}
		var h hint
		if err := json.Unmarshal(lines.Bytes(), &h); err != nil {
			return r.wrap(cmp.Or(w.cause(lines.Err()), err)) // a line that was cut
		}
		w.beat()
		switch {
		case h.Instance != "":
			connected()
		case h.Job != "":
			changed(h.Job)
		case h.Capacity:
			changed("")
		}
	}
}
