// Package watchers has the callers of Watch of a store.
package watchers

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/stagepost/stagepost/job"
)

// List are the callers of Watch. The zero List has none. It is safe for concurrent use.
type List struct {
	mu  sync.Mutex                 // held by changes
	all atomic.Pointer[[]*watcher] // replaced by each change
}

type watcher struct{ wake func([]job.Hint) }

// Watch is part of job.Store.
func (l *List) Watch(ctx context.Context, wake func([]job.Hint)) {
	w := &watcher{wake}
	l.change(func(all []*watcher) []*watcher { return append(all, w) })
	context.AfterFunc(ctx, func() {
		l.change(func(all []*watcher) []*watcher {
			return slices.DeleteFunc(all, func(one *watcher) bool { return one == w })
		})
	})
}

// change replaces the list by what do makes of a copy.
func (l *List) change(do func([]*watcher) []*watcher) {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := do(slices.Clone(l.watchers()))
	l.all.Store(&all)
}

func (l *List) watchers() []*watcher {
	if all := l.all.Load(); all != nil {
		return *all
	}
	return nil
}

// None reports whether there are no watchers.
func (l *List) None() bool { return len(l.watchers()) == 0 }

// Notify calls all watchers with hints, if there are any, one after the other. They do not keep the hints.
func (l *List) Notify(hints []job.Hint) {
	if len(hints) == 0 {
		return
	}
	for _, w := range l.watchers() {
		w.wake(hints)
	}
}
