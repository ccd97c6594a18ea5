package client

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"time"

	"github.com/stagepost/stagepost/job"
)

// ComputeSource is a file of a compute job.
type ComputeSource struct {
	Name    string
	Size    int64
	Content io.ReaderAt // may be read again after a broken connection
}

// resumable is the size from which on a file is uploaded resumably.
const resumable = 16 << 20

// SubmitCompute submits a compute job with its files, large ones by resumable uploads, and reports how many bytes of
// all have arrived. It tries again after broken connections: the order has a key, its own or a random one, so that it
// makes one job however often it arrives. With the answer the server has everything on its disk.
func (c *Client) SubmitCompute(ctx context.Context, o ComputeOrder, files []ComputeSource,
	sent func(done, total int64)) (ComputeJob, error) {
	if o.Key == "" {
		o.Key = rand.Text()
	}
	m := &meter{sent: sent}
	for i := range files {
		m.total += files[i].Size
	}
	var small []ComputeSource
	for i := range files {
		if files[i].Size < resumable {
			small = append(small, files[i])
			continue
		}
		id, err := c.UploadCompute(ctx, &files[i], m.add)
		switch {
		case errors.Is(err, errNoUploads):
			small = append(small, files[i])
		case err != nil:
			return ComputeJob{}, err
		default:
			o.Uploads = append(o.Uploads, id)
		}
	}
	before := m.done
	for p := c.newPauses(); ; {
		var j ComputeJob
		err := p.sending(func(sent func(int64)) (err error) {
			m.done = before
			j, err = c.sendCompute(ctx, o, small, func(n int64) { sent(n); m.add(n) })
			return err
		})
		if err == nil || !mayPass(err) || ctx.Err() != nil {
			return j, err
		}
		within := unmet
		if passing(err) && c.met.Load() {
			within = c.outage
		}
		if err := p.wait(ctx, within, err); err != nil {
			return j, err
		}
	}
}

// meter adds up what was sent.
type meter struct {
	done, total int64
	sent        func(done, total int64)
}

func (m *meter) add(n int64) {
	m.done += n
	if m.sent != nil {
		m.sent(m.done, m.total)
	}
}

// rest waits unless the context ends.
func rest(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return &job.Error{Op: "request", Kind: job.Unavailable, Err: context.Cause(ctx)}
	case <-t.C:
		return nil
	}
}

// sendCompute sends an order once, as a form.
func (c *Client) sendCompute(ctx context.Context, o ComputeOrder, files []ComputeSource,
	add func(int64)) (ComputeJob, error) {
	if len(files) == 0 {
		return send[ComputeJob](ctx, c, http.MethodPost, "/api/v1/compute/jobs", nil, o)
	}
	return sendForm[ComputeJob](ctx, c, "/api/v1/compute/jobs", "", func(form *multipart.Writer) error {
		return writeCompute(form, o, files, add)
	})
}

// writeCompute writes the parts in the order that the server needs for streaming: what it is, then the files.
func writeCompute(form *multipart.Writer, o ComputeOrder, files []ComputeSource, add func(int64)) error {
	text, err := json.Marshal(o)
	if err != nil {
		return err
	}
	h := textproto.MIMEHeader{"Content-Disposition": {`form-data; name="order"`}, "Content-Type": {"application/json"}}
	part, err := form.CreatePart(h)
	if err != nil {
		return err
	}
	if _, err := part.Write(text); err != nil {
		return err
	}
	for i := range files {
		f := &files[i]
		part, err := form.CreateFormFile("file", f.Name)
		if err != nil {
			return err
		}
		n, err := io.Copy(part, &counted{io.NewSectionReader(f.Content, 0, f.Size), add})
		if err == nil && n != f.Size {
			err = job.Errorf(job.Invalid, "submit", "", "%s became shorter while it was read", f.Name)
		}
		if err != nil {
			return err
		}
	}
	return form.Close()
}

// counted counts the bytes that were read.
type counted struct {
	io.Reader
	add func(int64)
}

func (c *counted) Read(b []byte) (int, error) {
	n, err := c.Reader.Read(b)
	if n > 0 {
		c.add(int64(n))
	}
	return n, err
}
