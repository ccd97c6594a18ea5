package compute_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/store/mem"
)

// off is an executor whose machine is switched off.
type off struct{ *fake }

func (off) Capacity(context.Context) (compute.Capacity, error) {
	return compute.Capacity{}, errors.New("no route to host")
}

// TestDrainedAndOff: a drained agent that is switched off keeps the jobs of services that name it, for it is to come
// back. It keeps no others: what it served it does not report.
func TestDrainedAndOff(t *testing.T) {
	for _, c := range []struct {
		drained, named bool
		waits          bool
	}{{false, false, false}, {true, false, false}, {true, true, true}} {
		runInBubble(t, fmt.Sprintf("drained %t, named %t", c.drained, c.named), func(t *testing.T) {
			o, store := quick(t), mem.New()
			o.Retries = 1
			if c.named {
				o.Services[0].Agents = []string{"old"}
			}
			w := newHarnessOn(t, store, o, map[string]compute.Executor{"old": otherService{newFake()}})
			if c.drained {
				if _, err := w.app.Drain(t.Context(), "old", true, "op", ""); err != nil {
					t.Fatal(err)
				}
			}
			w.stop()
			w = newHarnessOn(t, store, o, map[string]compute.Executor{"old": off{newFake()}, "a1": off{newFake()}})
			j := w.upload("ada", hello)
			time.Sleep(2 * time.Hour)
			now, err := store.Get(t.Context(), j.ID)
			if err != nil || (now.State == compute.Queued) != c.waits {
				codes, text := w.whyOf(j.ID)
				t.Errorf("after 2 h it is %s: %s %s, %v", now.State, codes, text, err)
			}
		})
	}
}
