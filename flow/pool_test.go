package flow

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestFlowsShareAPool: all get on, never more tasks at once than it has space for, and as many when there is work.
func TestFlowsShareAPool(t *testing.T) {
	for _, size := range []int{1, 3} {
		synctest.Test(t, func(t *testing.T) {
			pool := NewPool(size)
			var now, most, done atomic.Int32
			task := func(name string) *Task {
				return does(name, func(context.Context) error {
					n := now.Add(1)
					for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
					}
					time.Sleep(time.Second)
					now.Add(-1)
					done.Add(1)
					return nil
				})
			}
			var wg sync.WaitGroup
			for i := range 10 {
				r := rigged(t, Linear("f", task("a"), Unordered("u", task("b"), task("c")), Sleep("s", time.Minute),
					task("d")), Options{ID: fmt.Sprint(i), Workers: pool})
				wg.Go(func() {
					if err := r.Run(t.Context()); err != nil || r.State() != Success {
						t.Errorf("flow %d: %s, %v", i, r.State(), err)
					}
				})
			}
			wg.Wait()
			if most.Load() != int32(size) || done.Load() != 40 {
				t.Errorf("%d tasks at once in a pool of %d, %d in all", most.Load(), size, done.Load())
			}
			synctest.Wait()
			if pool.free != size || len(pool.queue) != 0 {
				t.Errorf("left of the pool: %d free, %d queued", pool.free, len(pool.queue))
			}
		})
	}
}

// TestPoolCancelsQueued: only queued tasks can be cancelled.
func TestPoolCancelsQueued(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, hold, ran := NewPool(0), make(chan struct{}), 0
		first := p.submit(func() { <-hold })
		second := p.submit(func() { ran++ })
		third := p.submit(func() { ran += 10 })
		if first() || !second() {
			t.Error("a started task was cancelled, or a queued one was not")
		}
		close(hold)
		synctest.Wait()
		if ran != 10 || third() {
			t.Errorf("ran %d, want the third alone", ran)
		}
	})
}
