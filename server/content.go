package server

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/stagepost/stagepost/job"
)

// ranged leaves in a request only a Range that counts: one of a GET, in bytes. Others are to be ignored (RFC 9110, section 14.2), which http.ServeContent
// does not. Names of units are compared without regard to case (section 14.1).
func IgnoreRange(r *http.Request) {
	unit, ranges, ok := strings.Cut(r.Header.Get("Range"), "=")
	if r.Method != http.MethodGet || !ok || !strings.EqualFold(unit, "bytes") {
		r.Header.Del("Range")
		return
	}
	r.Header.Set("Range", "bytes="+ranges)
}

// Attachment names a file to be saved (RFC 6266, RFC 8187): in ASCII for old clients, and as it is.
func Attachment(name string) string {
	var plain, exact strings.Builder
	for _, r := range name {
		if r < ' ' || r > '~' || r == '"' || r == '\\' || r == '%' {
			r = '_'
		}
		plain.WriteRune(r)
	}
	for i := range len(name) {
		c := name[i]
		if 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-' || c == '.' || c == '_' {
			exact.WriteByte(c)
			continue
		}
		const hex = "0123456789ABCDEF"
		exact.Write([]byte{'%', hex[c>>4], hex[c&15]})
	}
	return `attachment; filename="` + plain.String() + `"; filename*=UTF-8''` + exact.String()
}

// ServeContent is http.ServeContent with problems in place of its texts, an end to readers who hang, and a broken connection where content turns
// out not to be what was promised.
func (s *Server) ServeContent(w http.ResponseWriter, r *http.Request, name string, modified time.Time, content io.ReadSeeker) error {
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Time{}) // the request is read; a recorder in a test has none
	defer func() { _ = control.SetWriteDeadline(time.Now().Add(30 * time.Second)) }()
	source := &watchedSource{ReadSeeker: content}
	answer := &answering{ResponseWriter: w, source: source, pace: pace{control: control, start: time.Now()}}
	http.ServeContent(answer, r, name, modified, source)
	broken := source.failure()
	switch {
	case broken != nil && answer.begun:
		s.Log.Error("a package cannot be read on", "package", name, "error", broken) // the path has the token
		panic(http.ErrAbortHandler)                                                  // the status is sent: only a broken connection says that this is not all
	case answer.refused == 0:
		return nil
	}
	h := w.Header()
	for _, name := range []string{"ETag", "Last-Modified", "Content-Length", "Accept-Ranges", "Content-Disposition"} {
		h.Del(name)
	}
	h["Cache-Control"] = headers["Cache-Control"]
	switch {
	case broken != nil:
		return job.Errorf(job.Conflict, "access", "", "storage has changed since the package was made, ask for the object again: %w", broken)
	case answer.refused == http.StatusPreconditionFailed:
		return Refuse(http.StatusPreconditionFailed, job.Conflict, "the package is another one than the request is for")
	case answer.refused == http.StatusRequestedRangeNotSatisfiable:
		return Refuse(answer.refused, job.Invalid, "there is no such range: %.200q", r.Header.Get("Range"))
	}
	return job.Errorf(job.Internal, "access", "", "status %d", answer.refused)
}

// watchedSource remembers that it could not be read. Of several ranges http.ServeContent reads in a goroutine of its own, which may outlive it when the reader
// goes away.
type watchedSource struct {
	io.ReadSeeker
	mu  sync.Mutex
	err error // the last one
}

func (c *watchedSource) failure() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

func (c *watchedSource) note(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err = err
}

func (c *watchedSource) Read(b []byte) (int, error) {
	n, err := c.ReadSeeker.Read(b)
	if err != nil && !errors.Is(err, io.EOF) {
		c.note(err)
	}
	return n, err
}

func (c *watchedSource) Seek(offset int64, whence int) (int64, error) {
	n, err := c.ReadSeeker.Seek(offset, whence)
	if err != nil {
		c.note(err)
	}
	return n, err
}

// answering passes an answer on, but keeps back refusals: whoever made it answers with a problem instead.
type answering struct {
	http.ResponseWriter
	source  *watchedSource
	pace    pace
	refused int // status that was kept back
	begun   bool
}

func (a *answering) WriteHeader(status int) {
	if status >= 400 {
		a.refused = status
		return
	}
	a.begun = true
	a.pace.step(0)
	a.ResponseWriter.WriteHeader(status)
}

func (a *answering) Write(b []byte) (int, error) {
	if a.refused != 0 {
		return len(b), nil
	}
	a.begun = true
	a.pace.step(len(b))
	return a.ResponseWriter.Write(b)
}

// Paced gives a writer to a reader of unknown speed: 30 s for each piece, and 1 KiB/s on average after the first minute.
func Paced(w http.ResponseWriter) http.ResponseWriter {
	return &answering{ResponseWriter: w, pace: pace{control: http.NewResponseController(w), start: time.Now()}}
}

// pace gives a reader as much time as an honest one needs: 30 s for each piece, and 1 KiB/s on average after the first minute.
type pace struct {
	control *http.ResponseController
	start   time.Time
	set     time.Time
	n       int64
}

func (p *pace) step(n int) {
	p.n += int64(n)
	now := time.Now()
	if now.Sub(p.set) < time.Second {
		return
	}
	p.set = now
	_ = p.control.SetWriteDeadline(Patience(p.start, now, p.n))
}

// Patience is when a piece must be through.
func Patience(start, now time.Time, n int64) time.Time {
	until := now.Add(30 * time.Second)
	if slowest := start.Add(time.Minute + time.Duration(n/1024)*time.Second); slowest.Before(until) {
		return slowest
	}
	return until
}
