package compute_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/mem"
	"github.com/stagepost/stagepost/store/storetest"
)

// drained reports whether a server lists an agent as drained.
func drained(a *compute.App, name string) bool {
	for _, one := range a.Agents() {
		if one.Name == name {
			return one.Draining
		}
	}
	return false
}

// TestDrainedByAnotherServer: what one server drains, the other servers of the store drain too, and no server undoes
// what another one has drained.
func TestDrainedByAnotherServer(t *testing.T) {
	runInBubble(t, "two servers", func(t *testing.T) {
		o, store, f := quick(t), storetest.Several{Store: mem.New()}, newFake()
		agents := map[string]compute.Executor{"a1": notifier{f}, "a2": notifier{newFake()}}
		first, second := newHarnessOn(t, store, o, agents), newHarnessOn(t, store, o, agents)
		if _, err := first.app.Drain(t.Context(), "a1", true, "op", ""); err != nil {
			t.Fatal(err)
		}
		if _, err := second.app.Drain(t.Context(), "a2", true, "op", ""); err != nil {
			t.Fatal(err)
		}
		eventually(t, "both servers drain both agents", func() bool {
			return drained(first.app, "a1") && drained(first.app, "a2") && drained(second.app, "a1") &&
				drained(second.app, "a2")
		})
		if _, err := second.app.Drain(t.Context(), "a1", false, "op", ""); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the first server resumes", func() bool { return !drained(first.app, "a1") })
	})
}

// TestStageOfAnotherServer: a server that starts keeps what another server of the store has begun to receive, although
// no process has the lock any more. Control: on a store that one process owns, it belongs to an earlier process.
func TestStageOfAnotherServer(t *testing.T) {
	for _, shared := range []bool{true, false} {
		runInBubble(t, fmt.Sprint("shared ", shared), func(t *testing.T) {
			var store job.Store = mem.New()
			if shared {
				store = storetest.Several{Store: store}
			}
			o := quick(t)
			begun := filepath.Join(o.Dir, "compute", "stage", "upload-of-another")
			if err := os.MkdirAll(begun, 0o700); err != nil {
				t.Fatal(err)
			}
			minute := time.Now().Add(-time.Minute)
			if err := os.Chtimes(begun, minute, minute); err != nil {
				t.Fatal(err)
			}
			newHarnessOn(t, store, o, nil)
			time.Sleep(time.Second)
			if _, err := os.Stat(begun); (err == nil) != shared {
				t.Errorf("it is there: %v", err)
			}
		})
	}
}

// deaf is a store whose hints are lost.
type deaf struct{ job.Store }

func (deaf) Watch(context.Context, func([]job.Hint)) {}

// TestUsageAtAnotherServer: a server to which no hint came of what another server removed counts again after a time.
// Control: on a store that one process owns, there are no other commits, and nothing is counted again.
func TestUsageAtAnotherServer(t *testing.T) {
	for _, shared := range []bool{true, false} {
		runInBubble(t, fmt.Sprint("shared ", shared), func(t *testing.T) {
			var store job.Store = mem.New()
			if shared {
				store = storetest.Several{Store: store}
			}
			o := quick(t)
			o.UserBytes = 1 << 20
			agents := map[string]compute.Executor{"a1": newFake()}
			first := newHarnessOn(t, store, o, agents)
			j := first.until(first.upload("ada", "true").ID, compute.Completed)
			second := newHarnessOn(t, deaf{store}, o, agents)
			eventually(t, "the other server counts", func() bool { return second.app.Usage("ada") == j.Bytes })
			request := compute.Request{By: lifecycle.Owner, Actor: "ada"}
			if _, err := first.app.Clean(t.Context(), j.ID, request); err != nil {
				t.Fatal(err)
			}
			time.Sleep(11 * time.Minute)
			synctest.Wait()
			if n := second.app.Usage("ada"); (n == 0) != shared {
				t.Errorf("the other server counts %d bytes", n)
			}
		})
	}
}
