package ingest

import (
	"cmp"
	"slices"

	"github.com/stagepost/stagepost/job"
)

// sourceLine has the jobs that wait for a share, in order of arrival. Each is in the line of one of its keys whose
// share is used up, so that a share that becomes free finds the next job without a search.
type sourceLine struct {
	lines    map[string][]queuer // by key, in order of arrival
	at       map[job.ID]waiting
	arrivals int64
}

// queuer is a job that waits for a share.
type queuer struct {
	id      job.ID
	keys    []string
	arrival int64
}

// waiting is the position of a job.
type waiting struct {
	key     string
	arrival int64
}

func newSourceLine() sourceLine {
	return sourceLine{lines: map[string][]queuer{}, at: map[job.ID]waiting{}}
}

// wait puts a job into the line of a key, and returns how many are before it. A job that waits already, also for
// another key, keeps the order of its arrival.
func (l *sourceLine) wait(id job.ID, keys []string, key string) int {
	q := queuer{id: id, keys: keys}
	if w, ok := l.at[id]; ok {
		q.arrival = w.arrival
		l.leave(id)
	} else {
		l.arrivals++
		q.arrival = l.arrivals
	}
	l.at[id] = waiting{key, q.arrival}
	before, _ := l.find(key, q.arrival)
	l.lines[key] = slices.Insert(l.lines[key], before, q)
	return before
}

// leave takes a job out of the line, if it is there.
func (l *sourceLine) leave(id job.ID) {
	w, ok := l.at[id]
	if !ok {
		return
	}
	delete(l.at, id)
	line := l.lines[w.key]
	switch i, _ := l.find(w.key, w.arrival); {
	case len(line) == 1:
		delete(l.lines, w.key)
	case i == 0:
		line[0] = queuer{}
		l.lines[w.key] = line[1:]
	default:
		l.lines[w.key] = slices.Delete(line, i, i+1)
	}
}

// first returns the job that has waited longest for a key.
func (l *sourceLine) first(key string) (queuer, bool) {
	if line := l.lines[key]; len(line) > 0 {
		return line[0], true
	}
	return queuer{}, false
}

func (l *sourceLine) find(key string, arrival int64) (int, bool) {
	return slices.BinarySearchFunc(l.lines[key], arrival, func(q queuer, at int64) int {
		return cmp.Compare(q.arrival, at)
	})
}
