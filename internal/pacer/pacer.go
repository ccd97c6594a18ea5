// Package pacer keeps reading to a number of bytes per second.
package pacer

import (
	"context"
	"sync"
	"time"
)

// Pacer bounds the rate of all its callers together. Rate is set before the first use.
type Pacer struct {
	Rate int64 // bytes per second; 0: unlimited

	mu   sync.Mutex // guards next
	next time.Time
}

// Wait returns when n bytes that were read fit the rate, or with the error of ctx.
func (p *Pacer) Wait(ctx context.Context, n int) error {
	if p.Rate <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(p.pause(n))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

func (p *Pacer) pause(n int) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if p.next.Before(now) {
		p.next = now
	}
	p.next = p.next.Add(time.Duration(float64(n) / float64(p.Rate) * float64(time.Second)))
	return p.next.Sub(now)
}
