package wire

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"strings"
	"time"
)

// Limits bound what an upload may be. They are checked while it comes in.
type Limits struct {
	// Body is the most bytes of the whole request. Defaults to 400 MiB for users, and to no limit for a server's
	// submission.
	Body int64
	// Parts is the most parts of a form, files and fields. Defaults to 1000 for users, 10,000 for a server.
	Parts int
	// Name is the most bytes of a file's name. Defaults to 255.
	Name int
	// Header is the most bytes of one part's header. Defaults to 64 KiB.
	Header int
	// Field is the most bytes of a field's value. Defaults to 64 KiB.
	Field int
	// Idle is how long the other side may send nothing. Defaults to 2 minutes.
	Idle time.Duration
}

// MaxUpload is the original's limit of a user's upload.
const MaxUpload = 400 << 20

func (l Limits) or(body int64, parts int) Limits {
	if l.Body == 0 {
		l.Body = body
	}
	if l.Parts == 0 {
		l.Parts = parts
	}
	if l.Name == 0 {
		l.Name = 255
	}
	if l.Header == 0 {
		l.Header = 64 << 10
	}
	if l.Field == 0 {
		l.Field = 64 << 10
	}
	if l.Idle == 0 {
		l.Idle = 2 * time.Minute
	}
	return l
}

// The faults of an upload, in the order in which they are searched for.
var (
	errBoundary = errors.New("no multipart/form-data with a boundary")
	errTooLarge = errors.New("the body is larger than allowed")
	errForm     = errors.New("the form is broken")
	errParts    = errors.New("the form has too many parts")
	errChunk    = errors.New("the form breaks off inside a file")
	errNameLong = errors.New("file name too long")
	errNameBad  = errors.New("file name with a NUL byte")
)

// storeError is a backend's own error while it took a file.
type storeError struct{ err error }

func (e *storeError) Error() string { return "store: " + e.err.Error() }
func (e *storeError) Unwrap() error { return e.err }

// boundaryOf finds the boundary before any work is done for the request.
func boundaryOf(r *http.Request) (string, error) {
	media, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if b := params["boundary"]; err == nil && media == "multipart/form-data" && b != "" && len(b) <= 256 {
		return b, nil
	}
	return "", errBoundary
}

// receiver takes what a form holds, in its order.
type receiver interface {
	file(name string, r io.Reader) error
	field(name, value string)
}

// receive reads a form to its end and passes on each file as it comes, under its flattened name. Every part with a file
// name is a file. The errors are those above, or a *storeError.
func receive(w http.ResponseWriter, r *http.Request, boundary string, l Limits, to receiver) error {
	if l.Body > 0 && r.ContentLength > l.Body {
		return errTooLarge
	}
	body := io.Reader(r.Body)
	if l.Body > 0 {
		body = http.MaxBytesReader(w, r.Body, l.Body)
	}
	m := &meter{r: body, ctl: http.NewResponseController(w), idle: l.Idle}
	parts := multipart.NewReader(m, boundary)
	for n := 1; ; n++ {
		m.allow(int64(l.Header) + 8<<10) // the reader is that much ahead at most
		part, err := parts.NextRawPart()
		switch {
		case err == io.EOF: // not wrapped: the end of the form, not of the body
			m.finish()
			return nil
		case err != nil:
			return because(errForm, err)
		case n > l.Parts:
			return errParts
		}
		m.allow(-1)
		if err := take(part, l, to); err != nil {
			return err
		}
	}
}

func take(part *multipart.Part, l Limits, to receiver) error {
	d := parseDisposition(part.Header.Get("Content-Disposition"))
	if d.garbled {
		return because(errForm, errors.New("a name is not UTF-8"))
	}
	in := &watched{r: part}
	if !d.isFile {
		value, err := io.ReadAll(io.LimitReader(in, int64(l.Field)+1))
		if err != nil || len(value) > l.Field {
			return because(errForm, err)
		}
		to.field(d.name, strings.ToValidUTF8(string(value), "\uFFFD"))
		return nil
	}
	name := basename(d.file)
	switch {
	case len(name) > l.Name:
		return errNameLong
	case strings.ContainsRune(name, 0):
		return errNameBad
	}
	err := to.file(name, in)
	if in.err == nil && err == nil {
		_, _ = io.Copy(io.Discard, in) // what the backend has left
	}
	switch {
	case in.err != nil:
		return because(errChunk, in.err)
	case err != nil:
		return &storeError{err}
	}
	return nil
}

// because keeps the kind of an error, unless its cause was that the body is too large.
func because(kind, cause error) error {
	if _, large := errors.AsType[*http.MaxBytesError](cause); large {
		return fmt.Errorf("%w (%w)", errTooLarge, kind)
	}
	if cause == nil {
		return kind
	}
	return fmt.Errorf("%w: %w", kind, cause)
}

// watched remembers how its reader failed, so that a failure of the network is distinguished from one of the disk.
type watched struct {
	r   io.Reader
	err error
}

func (w *watched) Read(p []byte) (int, error) {
	if w.err != nil {
		return 0, w.err
	}
	n, err := w.r.Read(p)
	if err != nil && err != io.EOF {
		w.err = err
	}
	return n, err
}

// meter bounds the headers of parts, which multipart.Reader holds in memory, and the silence of the other side.
//
// The end of the body is io.ErrUnexpectedEOF: multipart.Reader gives io.EOF both for the end of a form and for a body
// that breaks off inside a part's header. A line end comes before it, since the last line of a form need not have one.
type meter struct {
	r     io.Reader
	left  int64 // -1: no bound
	ctl   *http.ResponseController
	idle  time.Duration
	set   time.Time
	tail  string
	ended bool
}

// finish reads what may follow the form and lifts the deadline at the end of the body. After a failure, or if there is
// more than any request needs, the limit remains: net/http reads on before it answers.
func (m *meter) finish() {
	m.allow(-1)
	if _, _ = io.CopyN(io.Discard, m, 64<<10); m.ended {
		m.ctl.SetReadDeadline(time.Time{})
	}
}

func (m *meter) allow(n int64) { m.left = n }

func (m *meter) Read(p []byte) (int, error) {
	switch {
	case m.tail != "":
		n := copy(p, m.tail)
		m.tail = m.tail[n:]
		return n, nil
	case m.ended:
		return 0, io.ErrUnexpectedEOF
	case m.left == 0:
		return 0, errors.New("a part's header is too long")
	}
	if m.left > 0 {
		p = p[:min(int64(len(p)), m.left)]
	}
	if now := time.Now(); now.Sub(m.set) > m.idle/8 {
		m.set = now
		m.ctl.SetReadDeadline(now.Add(m.idle)) // not every writer can
	}
	n, err := m.r.Read(p)
	if m.left > 0 {
		m.left -= int64(n)
	}
	if err == io.EOF {
		m.ended, m.tail = true, "\r\n"
		return n, nil
	}
	return n, err
}
