package pacer

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, begin := &Pacer{Rate: 1 << 20}, time.Now()
		var group sync.WaitGroup
		for range 2 { // together
			group.Go(func() {
				for range 50 {
					if err := p.Wait(t.Context(), 100<<10); err != nil {
						t.Error(err)
					}
				}
			})
		}
		group.Wait()
		if took := time.Since(begin).Round(time.Millisecond); took != 9766*time.Millisecond {
			t.Errorf("10,000 KiB took %s", took)
		}
		time.Sleep(time.Hour) // a pause is no credit
		begin = time.Now()
		if err := p.Wait(t.Context(), 1<<20); err != nil || time.Since(begin) != time.Second {
			t.Errorf("after a pause: %s, %v", time.Since(begin), err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		if err := p.Wait(ctx, 1<<30); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		free := &Pacer{}
		begin = time.Now()
		if err := free.Wait(t.Context(), 1<<30); err != nil || time.Since(begin) != 0 {
			t.Errorf("unlimited: %s, %v", time.Since(begin), err)
		}
	})
}
