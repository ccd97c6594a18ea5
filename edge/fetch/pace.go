package fetch

import (
	"context"
	"io"
	"time"
)

// paced reads a body. It fails if a server sends nothing for too long (by ending the request through cancel) or too
// little over a window. Only time inside Read counts, so a slow local disk causes no failure.
type paced struct {
	body   io.Reader
	idle   *time.Timer
	limit  time.Duration // idle timeout
	rate   int64         // bytes per second; negative is none
	window time.Duration

	spent time.Duration // in this window
	bytes int64         // in this window
}

func newPaced(body io.Reader, p *Policy, cancel context.CancelCauseFunc) *paced {
	idle := time.AfterFunc(p.IdleTimeout, func() { cancel(ErrIdle) })
	idle.Stop()
	return &paced{body: body, idle: idle, limit: p.IdleTimeout, rate: p.MinRate, window: p.RateWindow}
}

func (r *paced) Read(b []byte) (int, error) {
	begin := time.Now()
	r.idle.Reset(r.limit)
	n, err := r.body.Read(b)
	r.idle.Stop()
	r.spent += time.Since(begin)
	r.bytes += int64(n)
	if err == nil && r.rate > 0 && r.spent >= r.window {
		if float64(r.bytes) < float64(r.rate)*r.spent.Seconds() {
			return n, ErrSlow
		}
		r.spent, r.bytes = 0, 0
	}
	return n, err
}
