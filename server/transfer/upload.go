package transfer

import (
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/stagepost/stagepost/job"
)

// Uploads are the payloads that are being read. When the server stops they have its grace period; the rest is refused
// with an answer instead of a broken connection. The zero value is ready.
type Uploads struct {
	mu   sync.Mutex // guards the rest
	open map[*upload]bool
	cut  bool
}

// ErrCut is what a reader of a payload gets when the server no longer waits for the rest.
var ErrCut = job.Errorf(job.Unavailable, "submit", "", "the server stops and cannot wait for the rest; "+
	"submit it again, with the same idempotency key if it has one")

// Begin reads a payload at the speed of its sender; the caller calls end once.
func (u *Uploads) Begin(body io.ReadCloser, control *http.ResponseController) (whole io.ReadCloser, end func()) {
	p := &upload{body: body, control: control, uploads: u}
	p.pace = newPace(p.extend)
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.open == nil {
		u.open = map[*upload]bool{}
	}
	u.open[p] = true
	return p, func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		delete(u.open, p)
	}
}

func (u *Uploads) isCut() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.cut
}

// Cut refuses what is still being uploaded: its readers get [ErrCut].
func (u *Uploads) Cut() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.cut = true
	for p := range u.open {
		_ = p.control.SetReadDeadline(time.Unix(1, 0))
	}
}

// upload is a body with a pace.
type upload struct {
	body    io.ReadCloser
	control *http.ResponseController
	uploads *Uploads
	pace    *pace
}

// extend moves the deadline, unless the upload was cut.
func (p *upload) extend(until time.Time) error {
	p.uploads.mu.Lock()
	defer p.uploads.mu.Unlock()
	if p.uploads.cut {
		return nil
	}
	return p.control.SetReadDeadline(until)
}

func (p *upload) Read(b []byte) (int, error) {
	if p.uploads.isCut() {
		return 0, ErrCut
	}
	p.pace.step(0)
	n, err := p.body.Read(b)
	p.pace.n += int64(n)
	if err != nil && err != io.EOF && p.uploads.isCut() {
		err = ErrCut
	}
	return n, err
}

func (p *upload) Close() error { return p.body.Close() }
