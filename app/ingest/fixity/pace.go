package fixity

import (
	"context"
	"time"
)

// pacer keeps reading to a number of bytes per second.
type pacer struct {
	rate int64 // 0: unlimited
	next time.Time
}

// wait returns when n bytes that were read fit the rate, or with the error of ctx.
func (p *pacer) wait(ctx context.Context, n int) error {
	if p.rate <= 0 {
		return ctx.Err()
	}
	now := time.Now()
	if p.next.Before(now) {
		p.next = now
	}
	p.next = p.next.Add(time.Duration(float64(n) / float64(p.rate) * float64(time.Second)))
	timer := time.NewTimer(p.next.Sub(now))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
