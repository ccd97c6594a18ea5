package server

import (
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/stagepost/stagepost/job"
)

// uploads are the payloads that are being read. When the server stops they get its grace; what has not come by then is refused with an answer
// instead of a connection that breaks.
type uploads struct {
	mu   sync.Mutex // guards the rest
	open map[*paced]bool
	cut  bool
}

// errCut is what a reader of a payload gets when the server no longer waits for the rest.
var errCut = job.Errorf(job.Unavailable, "submit", "", "the server stops and cannot wait for the rest; hand it in again, with the same idempotency key if it has one")

// begin reads a payload at its sender's pace; the caller calls end once.
func (u *uploads) begin(body io.ReadCloser, control *http.ResponseController) (whole io.ReadCloser, end func()) {
	p := &paced{body: body, control: control, start: time.Now(), uploads: u}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.open == nil {
		u.open = map[*paced]bool{}
	}
	u.open[p] = true
	return p, func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		delete(u.open, p)
	}
}

// Upload prepares a request for a large body, which is read at its sender's pace, up to MaxUpload bytes and while the disk has space. The caller
// calls end once when the body is read.
func (s *Server) Upload(w http.ResponseWriter, r *http.Request) (end func(), err error) {
	body, end := s.uploads.begin(r.Body, http.NewResponseController(w))
	admitted, err := s.admitUpload(body, r.ContentLength)
	if err != nil {
		end()
		return nil, err
	}
	r.Body = http.MaxBytesReader(w, admitted, s.MaxUpload)
	_ = http.NewResponseController(w).SetWriteDeadline(time.Time{}) // bounded by the pace of the reader
	return end, nil
}

// deadline gives a payload time until then for its next piece, unless there is none left.
func (u *uploads) deadline(p *paced, until time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if !u.cut {
		_ = p.control.SetReadDeadline(until) // a recorder in a test has none
	}
}

func (u *uploads) isCut() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.cut
}

// CutUploads refuses what is still being uploaded, with status 503. It is called when the server stops and its grace is over.
func (s *Server) CutUploads() {
	u := &s.uploads
	u.mu.Lock()
	defer u.mu.Unlock()
	u.cut = true
	for p := range u.open {
		_ = p.control.SetReadDeadline(time.Unix(1, 0))
	}
}

// paced gives a sender as much time as an honest one needs: 30 s for each piece, and 1 KiB/s on average after the first minute.
type paced struct {
	body    io.ReadCloser
	control *http.ResponseController
	uploads *uploads
	start   time.Time
	set     time.Time
	n       int64
}

func (p *paced) Read(b []byte) (int, error) {
	if p.uploads.isCut() {
		return 0, errCut
	}
	if now := time.Now(); now.Sub(p.set) > time.Second {
		p.set = now
		until := now.Add(30 * time.Second)
		if slowest := p.start.Add(time.Minute + time.Duration(p.n/1024)*time.Second); slowest.Before(until) {
			until = slowest
		}
		p.uploads.deadline(p, until)
	}
	n, err := p.body.Read(b)
	p.n += int64(n)
	if err != nil && err != io.EOF && p.uploads.isCut() {
		err = errCut
	}
	return n, err
}

func (p *paced) Close() error { return p.body.Close() }
