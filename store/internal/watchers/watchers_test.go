package watchers

import (
	"context"
	"runtime"
	"sync"
	"testing"

	"github.com/stagepost/stagepost/job"
)

// TestNotify: each watcher is called with all hints until its context ends, the others go on, and a commit without
// hints calls none.
func TestNotify(t *testing.T) {
	var l List
	if l.Notify([]job.Hint{{Job: "a"}}); !l.None() {
		t.Error("the empty list has watchers")
	}
	var called [2]int
	first, end := context.WithCancel(t.Context())
	for i, ctx := range []context.Context{first, t.Context()} {
		l.Watch(ctx, func(hints []job.Hint) { called[i] += len(hints) })
	}
	l.Notify(nil)
	l.Notify([]job.Hint{{Job: "a"}, {Job: "b"}})
	if called != [2]int{2, 2} || l.None() {
		t.Errorf("called %v, want each once with two hints", called)
	}
	end()
	for len(l.watchers()) == 2 {
		runtime.Gosched()
	}
	if l.Notify([]job.Hint{{Job: "c"}}); called != [2]int{2, 3} {
		t.Errorf("after the end of the first: called %v", called)
	}
}

// TestConcurrentWatch: no watcher is lost while others come and go.
func TestConcurrentWatch(t *testing.T) {
	var l List
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 100 {
				ctx, end := context.WithCancel(t.Context())
				l.Watch(ctx, func([]job.Hint) {})
				l.Watch(t.Context(), func([]job.Hint) {})
				end()
				l.Notify([]job.Hint{{}})
			}
		})
	}
	wg.Wait()
	for len(l.watchers()) > 800 {
		runtime.Gosched()
	}
	if n := len(l.watchers()); n != 800 {
		t.Errorf("%d watchers, want 800", n)
	}
}
