package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"strconv"
	"time"

	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/job"
)

// parcelPart is the form name of the part that describes a parcel; the files follow in the order of its list, each
// under its name.
const parcelPart = "parcel"

// put takes a parcel. A payload that is known is answered before anything of the body is read, so that a client that
// waits for "100 Continue" sends nothing.
func (h *api) put(w http.ResponseWriter, r *http.Request) error {
	handle, err := handleOf(r)
	if err != nil {
		return err
	}
	n, known, err := h.app.known(r.Context(), idOf(handle.Ticket), handle.Secret)
	if err != nil {
		return err
	}
	if known {
		answer(w, http.StatusOK, &n)
		return nil
	}
	body := &patient{body: r.Body, control: http.NewResponseController(w)}
	r.Body = body
	parts, err := r.MultipartReader()
	if err != nil {
		return job.Errorf(job.Invalid, "agent", handle.Job, "the parcel: %w", err)
	}
	p, err := readParcel(parts)
	if err != nil {
		return err
	}
	if p.Ticket != handle.Ticket {
		return job.Errorf(job.Invalid, "agent", handle.Job, "the parcel has another ticket than the request")
	}
	n, fresh, err := h.app.submit(r.Context(), p, nextPart(parts))
	if err != nil {
		return err
	}
	if !fresh {
		answer(w, http.StatusOK, &n)
		return nil
	}
	answer(w, http.StatusCreated, &n)
	return nil
}

// readParcel reads the first part.
func readParcel(parts *multipart.Reader) (*compute.Parcel, error) {
	part, err := parts.NextRawPart()
	if err != nil {
		return nil, cutOr(err)
	}
	if part.FormName() != parcelPart {
		return nil, job.Errorf(job.Invalid, "agent", "", "the first part is not %q", parcelPart)
	}
	text, err := io.ReadAll(io.LimitReader(part, maxParcel+1))
	if err != nil {
		return nil, cutOr(err)
	}
	if len(text) > maxParcel {
		return nil, job.Errorf(job.Invalid, "agent", "", "the description of the parcel is longer than %d bytes",
			maxParcel)
	}
	p := &compute.Parcel{}
	if err := json.Unmarshal(text, p); err != nil {
		return nil, job.Errorf(job.Invalid, "agent", "", "the description of the parcel: %w", err)
	}
	return p, nil
}

// nextPart gives the files as they come.
func nextPart(parts *multipart.Reader) source {
	return func(name string) (io.ReadCloser, error) {
		part, err := parts.NextRawPart()
		if err != nil {
			return nil, cutOr(err)
		}
		if got := part.Header.Get(nameHeader); part.FormName() != "file" || got != quoteName(name) {
			return nil, job.Errorf(job.Invalid, "agent", "", "the file %.300q comes where %q was announced", got, name)
		}
		return part, nil
	}
}

// nameHeader carries the name of a file, quoted: header lines cannot hold every byte that a name may have, and readers
// of forms cut names at what they take for a separator.
const nameHeader = "Stagepost-Name"

func quoteName(name string) string { return strconv.QuoteToASCII(name) }

// cutOr distinguishes a body that ended too early from an invalid one.
func cutOr(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return unavailable("", fmt.Errorf("the parcel ended too early: %w", io.ErrUnexpectedEOF))
	}
	return unavailable("", fmt.Errorf("the parcel: %w", err))
}

// patient reads a body however long it takes, as long as something comes.
type patient struct {
	body    io.ReadCloser
	control *http.ResponseController
	last    time.Time
}

// Read is part of io.Reader.
func (p *patient) Read(b []byte) (int, error) {
	if now := time.Now(); now.Sub(p.last) > time.Second {
		_ = p.control.SetReadDeadline(now.Add(patience))
		_ = p.control.SetWriteDeadline(now.Add(2 * patience))
		p.last = now
	}
	return p.body.Read(b)
}

// Close is part of io.Closer.
func (p *patient) Close() error { return p.body.Close() }
