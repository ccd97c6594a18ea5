package server

import (
	"cmp"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/job"
)

// throughputHours is how many hours are kept.
const throughputHours = 24

// ended counts the jobs that end, by hour and kind. The store's hints are its source: a hint that a busy store leaves
// out is not counted.
type ended struct {
	now   func() time.Time
	since time.Time

	mu    sync.Mutex // guards hours
	hours []hourOf   // the newest last
}

type hourOf struct {
	start time.Time
	kinds map[job.Kind]int64
}

func newEnded(now func() time.Time) *ended { return &ended{now: now, since: now()} }

// count adds the jobs of hints that have ended. An ended job that changes again, as a deletion changes it, has a hint
// too: it is left out where the record shows that it ended before.
func (e *ended) count(hints []job.Hint) {
	if !slices.ContainsFunc(hints, func(h job.Hint) bool { return h.Ended }) {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	kinds := e.current()
	for i := range hints {
		h := &hints[i]
		if h.Ended && (h.Record == nil || h.Record.Entered.Equal(h.Record.Changed) && !h.Record.Gone) {
			kinds[h.Kind]++
		}
	}
}

// current returns the counts of this hour. The caller has the lock.
func (e *ended) current() map[job.Kind]int64 {
	start := e.now().UTC().Truncate(time.Hour)
	if n := len(e.hours); n > 0 && !e.hours[n-1].start.Before(start) {
		return e.hours[n-1].kinds
	}
	e.hours = append(e.hours, hourOf{start, map[job.Kind]int64{}})
	e.hours = e.hours[max(0, len(e.hours)-throughputHours):]
	return e.hours[len(e.hours)-1].kinds
}

// report lists the last hours, without gaps.
func (e *ended) report() api.Throughput {
	e.mu.Lock()
	defer e.mu.Unlock()
	last := e.now().UTC().Truncate(time.Hour)
	t := api.Throughput{Since: e.since, Hours: []api.ThroughputHour{}}
	for n := throughputHours - 1; n >= 0; n-- {
		hour := api.ThroughputHour{Start: last.Add(-time.Duration(n) * time.Hour), Kinds: []api.ThroughputKind{}}
		for _, h := range e.hours {
			if h.start.Equal(hour.Start) {
				for kind, jobs := range h.kinds {
					hour.Kinds = append(hour.Kinds, api.ThroughputKind{Kind: kind, Jobs: jobs})
				}
			}
		}
		slices.SortFunc(hour.Kinds, func(a, b api.ThroughputKind) int { return cmp.Compare(a.Kind, b.Kind) })
		t.Hours = append(t.Hours, hour)
	}
	return t
}

func (s *Server) throughput(w http.ResponseWriter, r *http.Request) error {
	if err := Params(r).Err(); err != nil {
		return err
	}
	return Reply(w, s.endings.report())
}
