package transfer

import (
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/stagepost/stagepost/internal/byterange"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/server/problem"
)

// IgnoreRange removes from a request a Range that is to be ignored: one of another method than GET, or not in bytes
// (RFC 9110, section 14.2). http.ServeContent does not ignore these. Names of units are not case-sensitive (section
// 14.1).
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

// Serve is http.ServeContent with problems in place of its texts and with deadlines for slow readers. It breaks the
// connection if content cannot be read after the answer has begun.
func Serve(
	w http.ResponseWriter, r *http.Request, log *slog.Logger, name string, modified time.Time, content io.ReadSeeker,
) error {
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Time{}) // the request is read; a recorder in a test has none
	defer func() { _ = control.SetWriteDeadline(time.Now().Add(30 * time.Second)) }()
	asked := r.Header.Get("Range")
	source := &watchedSource{ReadSeeker: content}
	answer := &answering{ResponseWriter: w, pace: newPace(control.SetWriteDeadline)}
	http.ServeContent(answer, byterange.Satisfiable(r), name, modified, source)
	broken := source.failure()
	switch {
	case broken != nil && answer.begun:
		log.Error("content cannot be read", "name", name, "error", broken) // not the path: it may have a token
		// the status is sent: only a broken connection is seen
		panic(http.ErrAbortHandler)
	case answer.refused == 0:
		return nil
	}
	h := w.Header()
	for _, name := range []string{"ETag", "Last-Modified", "Content-Length", "Accept-Ranges", "Content-Disposition"} {
		h.Del(name)
	}
	h.Set("Cache-Control", "no-store")
	switch {
	case broken != nil:
		return job.Errorf(job.Conflict, "access", "",
			"storage has changed since the package was made, ask for the object again: %w", broken)
	case answer.refused == http.StatusPreconditionFailed:
		return problem.Refuse(answer.refused, job.Conflict, "the package is another one than the request is for")
	case answer.refused == http.StatusRequestedRangeNotSatisfiable:
		return problem.Refuse(answer.refused, job.Invalid, "the range does not exist: %.200q", asked)
	}
	return job.Errorf(job.Internal, "access", "", "status %d", answer.refused)
}

// watchedSource keeps the error with which it could not be read. http.ServeContent reads several ranges in a goroutine
// of its own, which may outlive the call when the reader disconnects.
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

// answering passes an answer on, but not a refusal: the caller answers with a problem instead.
type answering struct {
	http.ResponseWriter
	pace    *pace
	refused int // status that was not passed on
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

// Paced sets deadlines of a writer for a reader of unknown speed.
func Paced(w http.ResponseWriter) http.ResponseWriter {
	return &answering{ResponseWriter: w, pace: newPace(http.NewResponseController(w).SetWriteDeadline)}
}
