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
	"net/url"

	"github.com/stagepost/stagepost/job"
)

// Submit streams a payload to the server and returns the batch. The server has it when Submit returns: it survives a
// crash. A payload that is an io.Seeker is sent again after broken connections, within Options.Outage; the
// submission has a key, its own or a random one, so that it makes one batch however often it arrives.
func (c *Client) Submit(ctx context.Context, s Submission, payload io.Reader) (Job, error) {
	from, ok := payload.(io.Seeker)
	if !ok {
		return c.submit(ctx, s, payload)
	}
	start, err := from.Seek(0, io.SeekCurrent)
	if err != nil { // a pipe or a terminal
		return c.submit(ctx, s, payload)
	}
	if s.Key == "" {
		s.Key = rand.Text()
	}
	for p := c.newPauses(); ; {
		var j Job
		err := p.sending(func(sent func(int64)) (err error) {
			j, err = c.submit(ctx, s, &counted{payload, sent})
			return err
		})
		if err == nil || !passing(err) || unsent(err) && !c.met.Load() || ctx.Err() != nil {
			return j, err
		}
		if stop := p.wait(ctx, c.outage, err); stop != nil {
			return j, err
		}
		if _, err := from.Seek(start, io.SeekStart); err != nil {
			return j, job.Errorf(job.Internal, "submit", "", "the payload: %w", err)
		}
	}
}

// passing reports whether a call may succeed later: the connection broke, or a proxy or the server asks to come again.
func passing(err error) bool {
	var later *laterError
	return job.KindOf(err) == job.Unavailable && (ProblemOf(err) == nil || errors.As(err, &later))
}

// submit sends a payload once.
func (c *Client) submit(ctx context.Context, s Submission, payload io.Reader) (Job, error) {
	return sendForm[Job](ctx, c, "/api/v1/ingest/submissions", s.Key, func(form *multipart.Writer) error {
		return writeForm(form, s, payload)
	})
}

// writeForm writes the two parts in the order that the server needs for streaming: what it is, then the bytes.
func writeForm(form *multipart.Writer, s Submission, payload io.Reader) error {
	about, err := form.CreatePart(textproto.MIMEHeader{
		"Content-Disposition": {`form-data; name="submission"`}, "Content-Type": {"application/json"},
	})
	if err != nil {
		return err
	}
	if err := json.NewEncoder(about).Encode(s); err != nil {
		return err
	}
	file, err := form.CreatePart(textproto.MIMEHeader{
		"Content-Disposition": {`form-data; name="payload"; filename="payload"`},
		"Content-Type":        {"application/octet-stream"},
	})
	if err != nil {
		return err
	}
	if _, err := io.Copy(file, payload); err != nil {
		return err
	}
	return form.Close()
}

// BatchReport returns the report about a batch as JSON, or as text.
func (c *Client) BatchReport(ctx context.Context, id job.ID, text bool) ([]byte, error) {
	r, err := c.request(ctx, http.MethodGet, "/api/v1/ingest/batches/"+url.PathEscape(string(id))+"/report", nil, nil)
	if err != nil {
		return nil, err
	}
	if text {
		r.Header.Set("Accept", "text/plain")
	}
	return c.text(r)
}

// Objects lists stored objects by ARK, local id, owner or digest, one page for each call.
func (c *Client) Objects(ctx context.Context, q ObjectQuery) (Objects, error) {
	v := url.Values{}
	for name, value := range map[string]string{"ark": q.ARK, "local_id": q.LocalID, "owner": q.Owner,
		"digest": q.Digest, "after": q.After} {
		if value != "" {
			v.Set(name, value)
		}
	}
	return get[Objects](ctx, c, "/api/v1/ingest/objects", number(v, "limit", int64(q.Limit)))
}

// BatchReportAs returns the report about a batch in one of [api.ReportFormats].
func (c *Client) BatchReportAs(ctx context.Context, id job.ID, format string) ([]byte, error) {
	q := url.Values{"format": {format}}
	r, err := c.request(ctx, http.MethodGet, "/api/v1/ingest/batches/"+url.PathEscape(string(id))+"/report", q, nil)
	if err != nil {
		return nil, err
	}
	return c.text(r)
}

func sharesPath(batch job.ID) string {
	return "/api/v1/ingest/batches/" + url.PathEscape(string(batch)) + "/shares"
}

// ShareBatch makes a link by which anyone who has it reads one batch. Its path is in this answer alone.
func (c *Client) ShareBatch(ctx context.Context, batch job.ID, o ShareOrder) (Share, error) {
	return send[Share](ctx, c, http.MethodPost, sharesPath(batch), nil, o)
}

// BatchShares lists the links of a batch that are valid.
func (c *Client) BatchShares(ctx context.Context, batch job.ID) ([]Share, error) {
	a, err := get[Shares](ctx, c, sharesPath(batch), nil)
	return a.Shares, err
}

// RevokeShare revokes a link of a batch, and returns those that are left. The note is kept in the audit log.
func (c *Client) RevokeShare(ctx context.Context, batch job.ID, id, note string) ([]Share, error) {
	v := url.Values{}
	if note != "" {
		v.Set("note", note)
	}
	a, err := call[Shares](ctx, c, http.MethodDelete, sharesPath(batch)+"/"+url.PathEscape(id), v, nil)
	return a.Shares, err
}
