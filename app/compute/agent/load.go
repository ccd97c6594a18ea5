package agent

import (
	"context"
	"sync/atomic"
	"time"
)

// loadMeter measures how busy the processors of the machine were of late.
type loadMeter struct {
	last atomic.Int64 // percent times 100
}

// sample is the time that the processors of the machine have worked and have been there for, since its start, in any
// unit.
type sample struct{ busy, total int64 }

// sampleEvery is the time between two samples of the processors.
const loadEvery = 2 * time.Second

func newLoadMeter() *loadMeter { return &loadMeter{} }

// run checks again and again until ctx ends.
func (m *loadMeter) run(ctx context.Context) {
	tick := time.NewTicker(loadEvery)
	defer tick.Stop()
	before, _ := processorTimes()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now, err := processorTimes()
		if err != nil {
			continue
		}
		m.between(before, now)
		before = now
	}
}

// between takes two samples.
func (m *loadMeter) between(before, now sample) {
	if total := now.total - before.total; total > 0 {
		m.last.Store(min(max((now.busy-before.busy)*10_000/total, 0), 10_000))
	}
}

func (m *loadMeter) percent() float64 { return float64(m.last.Load()) / 100 }
