package ingest

import (
	"cmp"
	"slices"
	"sync"

	"github.com/stagepost/stagepost/app/ingest/inventory"
	"github.com/stagepost/stagepost/job"
)

// line knows who waits for which lock, so that a release calls the next one. It lives in memory: after a restart, who waits joins again at its
// next look.
type line struct {
	free chan spot // locks that were released

	mu      sync.Mutex // guards the rest
	waiting map[spot][]waiter
	of      map[job.ID][]spot
}

// spot is where one waits: a lock.
type spot struct {
	kind inventory.LockKind
	name string
}

func spotOf(l inventory.Lock) spot { return spot{l.Kind, l.Name} }

// waiter is a job in line. The lowest priority number goes first, then the oldest.
type waiter struct {
	job      job.ID
	priority int
	number   int64
}

func newLine() *line {
	return &line{free: make(chan spot, 1024), waiting: map[spot][]waiter{}, of: map[job.ID][]spot{}}
}

// join puts a job into the line of a lock, or keeps it there, and tells how many are before it.
func (l *line) join(s spot, w waiter) (place int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	others := slices.DeleteFunc(l.waiting[s], func(o waiter) bool { return o.job == w.job })
	at, _ := slices.BinarySearchFunc(others, w, func(a, b waiter) int {
		return cmp.Or(cmp.Compare(a.priority, b.priority), cmp.Compare(a.number, b.number))
	})
	l.waiting[s] = slices.Insert(others, at, w)
	if !slices.Contains(l.of[w.job], s) {
		l.of[w.job] = append(l.of[w.job], s)
	}
	return at
}

// leave takes a job out of all lines.
func (l *line) leave(id job.ID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.of[id] {
		l.waiting[s] = slices.DeleteFunc(l.waiting[s], func(o waiter) bool { return o.job == id })
		if len(l.waiting[s]) == 0 {
			delete(l.waiting, s)
		}
	}
	delete(l.of, id)
}

// order gives who waits for a lock, the next one first.
func (l *line) order(s spot) []waiter {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.waiting[s])
}

// spots gives what a job waits for.
func (l *line) spots(id job.ID) []spot {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.of[id])
}

// freed tells that locks were released. It does not wait: what it cannot tell now, a look will find.
func (l *line) freed(locks ...inventory.Lock) {
	for _, one := range locks {
		s := spotOf(one)
		if len(l.order(s)) == 0 {
			continue
		}
		select {
		case l.free <- s:
		default:
		}
	}
}
