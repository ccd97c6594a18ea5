package server

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// Entries are the entries of all histories of a store, by number. Stores in SQLite and PostgreSQL have them: with them
// the throughput counts across restarts, and the work of all servers of the store.
type Entries interface {
	// Entries returns the number of the newest entry, and the series that it belongs to. Entries with this number or a
	// lower one are committed, or never will be. In another series a number can occur again.
	Entries(ctx context.Context) (last int64, series string, err error)

	// Moved counts the entries after number after and up to number through. It reads them.
	Moved(ctx context.Context, after, through int64) ([]job.Moved, error)
}

// Bounds of the throughput.
const (
	throughputHours = 24     // that are kept
	entriesPage     = 10_000 // entries that one query covers
	// how many queries one request makes for entries before those that are counted: later requests continue
	pagesBack = 20
	// from how many pages of new entries on the counts begin anew
	pagesAhead = 100
)

// ended counts the jobs that end, by hour, kind and outcome: from the entries of the histories, or, of a store that
// does not number them, from its hints. A hint that a busy store leaves out is not counted.
type ended struct {
	now     func() time.Time
	lives   func(job.Kind) *lifecycle.Table
	entries Entries // nil: hints are counted

	turn        chan struct{} // of one element: the request that put it reads entries, and has the next four
	series      string
	first, last int64     // the entries after first and up to last are counted
	oldest      time.Time // hour of the oldest one that is counted
	full        bool      // no earlier entry is of the last hours

	mu    sync.Mutex // guards all below
	since time.Time
	hours map[time.Time]map[job.Kind]*api.ThroughputKind // by their start
}

func newEnded(now func() time.Time, entries Entries) *ended {
	return &ended{now: now, since: now(), entries: entries, turn: make(chan struct{}, 1),
		hours: map[time.Time]map[job.Kind]*api.ThroughputKind{}}
}

// hour returns the start of the hour of a time.
func hour(at time.Time) time.Time { return at.UTC().Truncate(time.Hour) }

// earliest returns the start of the first hour that is kept.
func (e *ended) earliest() time.Time { return hour(e.now()).Add(-(throughputHours - 1) * time.Hour) }

// count adds the jobs of hints that have ended. An ended job that changes again, as a deletion changes it, has a hint
// too: it is left out where the record shows that it ended before.
func (e *ended) count(hints []job.Hint) {
	if !slices.ContainsFunc(hints, func(h job.Hint) bool { return h.Ended }) {
		return
	}
	at := hour(e.now())
	e.mu.Lock()
	defer e.mu.Unlock()
	for i := range hints {
		h := &hints[i]
		switch {
		case !h.Ended:
		case h.Record == nil:
			e.add(at, h.Kind, lifecycle.None, 1)
		case h.Record.Entered.Equal(h.Record.Changed) && !h.Record.Gone:
			e.add(at, h.Kind, h.Record.Outcome, 1)
		}
	}
}

// add adds jobs that ended in an hour. The caller holds mu.
func (e *ended) add(at time.Time, kind job.Kind, o lifecycle.Outcome, n int64) {
	kinds := e.hours[at]
	if kinds == nil {
		kinds = map[job.Kind]*api.ThroughputKind{}
		e.hours[at] = kinds
		earliest := e.earliest()
		for old := range e.hours {
			if old.Before(earliest) {
				delete(e.hours, old)
			}
		}
	}
	k := kinds[kind]
	if k == nil {
		k = &api.ThroughputKind{Kind: kind}
		kinds[kind] = k
	}
	k.Jobs += n
	switch o {
	case lifecycle.OK:
		k.OK += n
	case lifecycle.Failed:
		k.Failed += n
	case lifecycle.TimedOut:
		k.TimedOut += n
	case lifecycle.Cancelled:
		k.Cancelled += n
	}
}

// read counts the entries that were made since the last call, and some of those before the first one.
func (e *ended) read(ctx context.Context) error {
	select {
	case e.turn <- struct{}{}:
		defer func() { <-e.turn }()
	case <-ctx.Done():
		return &job.Error{Op: "throughput", Kind: job.Unavailable, Err: ctx.Err()}
	}
	last, series, err := e.entries.Entries(ctx)
	if err != nil {
		return err
	}
	if series != e.series || last < e.last || last > e.last+pagesAhead*entriesPage {
		e.restart(last, series)
	}
	for e.last < last {
		end := min(e.last+entriesPage, last)
		if _, err := e.page(ctx, e.last, end); err != nil {
			return err
		}
		e.last = end
	}
	for range pagesBack {
		if e.full = e.full || e.first == 0; e.full {
			break
		}
		begin := max(0, e.first-entriesPage)
		newest, err := e.page(ctx, begin, e.first)
		if err != nil {
			return err
		}
		e.first = begin
		e.full = !newest.IsZero() && newest.Before(e.earliest())
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.since = e.earliest(); !e.full { // the oldest hour may have more
		e.since = e.oldest.Add(time.Hour)
		if now := e.now(); now.Before(e.since) {
			e.since = now
		}
	}
	return nil
}

// restart forgets all counts. The caller has the turn.
func (e *ended) restart(last int64, series string) {
	e.series, e.first, e.last, e.full, e.oldest = series, last, last, false, hour(e.now())
	e.mu.Lock()
	defer e.mu.Unlock()
	clear(e.hours)
}

// page counts the jobs that ended by the entries after one number and up to another. It returns the newest hour of the
// entries, zero if there are none. The caller has the turn.
func (e *ended) page(ctx context.Context, after, through int64) (newest time.Time, err error) {
	all, err := e.entries.Moved(ctx, after, through)
	if err != nil {
		return newest, err
	}
	earliest := e.earliest()
	e.mu.Lock()
	defer e.mu.Unlock()
	for i := range all {
		m := &all[i]
		if m.Hour.After(newest) {
			newest = m.Hour
		}
		if m.Hour.Before(earliest) {
			continue
		}
		if m.Hour.Before(e.oldest) {
			e.oldest = m.Hour
		}
		if e.ends(m) {
			e.add(m.Hour, m.Kind, m.Outcome, m.Entries)
		}
	}
	return newest, nil
}

// ends reports whether jobs ended by entries. The outcome decides where the lifecycle is not known, or does not have
// the state any more.
func (e *ended) ends(m *job.Moved) bool {
	if life := e.lives(m.Kind); life != nil && life.Kind(m.To) != "" {
		return life.Kind(m.To) == lifecycle.End && life.Kind(m.From) != lifecycle.End
	}
	return m.Outcome != lifecycle.None
}

// report lists the last hours, without gaps.
func (e *ended) report() api.Throughput {
	e.mu.Lock()
	defer e.mu.Unlock()
	t := api.Throughput{Since: e.since, Hours: []api.ThroughputHour{}}
	earliest := e.earliest()
	for n := range throughputHours {
		h := api.ThroughputHour{Start: earliest.Add(time.Duration(n) * time.Hour), Kinds: []api.ThroughputKind{}}
		for _, k := range e.hours[h.Start] {
			h.Kinds = append(h.Kinds, *k)
		}
		slices.SortFunc(h.Kinds, func(a, b api.ThroughputKind) int { return cmp.Compare(a.Kind, b.Kind) })
		t.Hours = append(t.Hours, h)
	}
	return t
}

func (s *Server) throughput(w http.ResponseWriter, r *http.Request) error {
	if err := Params(r).Err(); err != nil {
		return err
	}
	if s.Entries != nil {
		if err := s.endings.read(r.Context()); err != nil {
			return err
		}
	}
	return Reply(w, s.endings.report())
}
