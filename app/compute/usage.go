package compute

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/stagepost/stagepost/job"
)

// usage counts how many bytes each owner has here: what the records report, which it takes from the store's commits,
// and what is coming in. Without a bound it counts nothing.
type usage struct {
	most   int64
	ready  chan struct{} // closed when the records that were there before are counted
	doubts chan struct{} // buffers one: some records are to be read

	mu     sync.Mutex // guards the rest
	of     map[job.ID]counted
	total  map[string]int64 // by owner, with what is coming in
	clean  []job.ID         // that were cleaned, the last ones: an older record of them may still arrive
	coming map[job.ID]*loan // of jobs whose record is on its way
	unread map[job.ID]bool  // whose records did not come with the hint
}

// counted is what was counted of a job.
type counted struct {
	owner   string
	bytes   int64
	version int64
}

// mostClean is how many cleaned jobs are remembered.
const mostClean = 4096

func newUsage(most int64) *usage {
	u := &usage{most: most, ready: make(chan struct{}), doubts: make(chan struct{}, 1), of: map[job.ID]counted{},
		total: map[string]int64{}, unread: map[job.ID]bool{}, coming: map[job.ID]*loan{}}
	if most <= 0 {
		close(u.ready)
	}
	return u
}

// observe follows the store's commits. It does not block.
func (u *usage) observe(hints []job.Hint) {
	if u.most <= 0 {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	for i := range hints {
		switch h := &hints[i]; {
		case h.Kind != JobKind:
		case h.Record != nil:
			u.take(h.Record)
		default:
			u.unread[h.Job] = true
			select {
			case u.doubts <- struct{}{}:
			default:
			}
		}
	}
}

// take counts a record, unless a newer one of the job was counted: hints may come out of order. The caller holds mu.
func (u *usage) take(j *job.Job) {
	if l := u.coming[j.ID]; l != nil { // counted once, not twice
		delete(u.coming, j.ID)
		u.add(l.owner, -l.bytes)
		l.bytes = 0
	}
	before, known := u.of[j.ID]
	if known && before.version >= j.Version {
		return
	}
	now := counted{j.Owner, j.Bytes, j.Version}
	if j.State == Cleaned {
		now.bytes = 0
		if !known || before.bytes != 0 {
			u.clean = append(u.clean, j.ID)
		}
	}
	u.add(before.owner, -before.bytes)
	u.add(now.owner, now.bytes)
	u.of[j.ID] = now
	if len(u.clean) > mostClean {
		delete(u.of, u.clean[0])
		u.clean = u.clean[1:]
	}
}

// add changes what an owner has. The caller has the lock.
func (u *usage) add(owner string, bytes int64) {
	if bytes == 0 {
		return
	}
	if u.total[owner] += bytes; u.total[owner] == 0 {
		delete(u.total, owner)
	}
}

// record counts a record that was just committed: later calls see it.
func (u *usage) record(j *job.Job) {
	if u.most <= 0 {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.take(j)
}

// loan is space that an owner was given for what is coming in.
type loan struct {
	usage *usage
	owner string
	bytes int64
	whole bool // nothing more comes: what it is to hold is all of the upload
}

// grow takes more space for the owner, all of it or none: two who want the last space do not both get it (hole S7).
// Refused: there is not so much. The first call waits until the records are counted.
func (l *loan) grow(ctx context.Context, more int64) error {
	u := l.usage
	if u.most <= 0 || more <= 0 {
		return nil
	}
	select {
	case <-u.ready:
	case <-ctx.Done():
		return job.Errorf(job.Unavailable, "upload", "", "the files that are here are being counted: %w", ctx.Err())
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if has := u.total[l.owner]; has+more > u.most {
		return l.full(has-l.bytes, l.bytes+more)
	}
	u.add(l.owner, more)
	l.bytes += more
	return nil
}

// full refuses an upload of some size to an owner who has so many bytes here besides, and reports what can be done
// about it.
func (l *loan) full(has, size int64) error {
	alone, least := "this upload has", ""
	if !l.whole {
		alone, least = "this upload has at least", "at least "
	}
	if size > l.usage.most {
		return job.Errorf(job.Refused, "upload", "",
			"%s may have %d bytes of files here, and %s %d bytes alone: make it smaller, or ask an operator for more "+
				"space (compute.user.bytes)",
			l.owner, l.usage.most, alone, size)
	}
	return job.Errorf(job.Refused, "upload", "",
		"%s has %d bytes of files here and may have %d, and this upload brings %s%d bytes more: remove ended jobs' "+
			"files that are not needed any more (stagepost compute clean ID, or POST /api/v1/compute/jobs/ID/clean), "+
			"or wait until they are cleaned",
		l.owner, has, l.usage.most, least, size)
}

// becomes has the job's record replace the loan, whenever it arrives. The caller releases the loan when it has the
// answer.
func (l *loan) becomes(id job.ID) {
	l.usage.mu.Lock()
	defer l.usage.mu.Unlock()
	l.usage.coming[id] = l
}

// stays takes [loan.becomes] back: there is no such record.
func (l *loan) stays(id job.ID) {
	l.usage.mu.Lock()
	defer l.usage.mu.Unlock()
	delete(l.usage.coming, id)
}

// release gives all of it back; id is what it should have become, if anything.
func (l *loan) release(id job.ID) {
	l.usage.mu.Lock()
	defer l.usage.mu.Unlock()
	delete(l.usage.coming, id)
	l.usage.add(l.owner, -l.bytes)
	l.bytes = 0
}

// count counts the existing records, and reads those whose hints came without them, until ctx ends.
func (a *App) count(ctx context.Context) {
	u := a.usage
	if u.most <= 0 {
		return
	}
	pause := 100 * time.Millisecond
	for {
		err := u.load(ctx, a.engine.Store(), nil)
		if err == nil {
			break
		}
		a.log.Warn("compute: the files that are here could not be counted; uploads wait", "error", err)
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		pause = min(2*pause, 10*time.Second)
	}
	close(u.ready)
	var again <-chan time.Time
	if !a.engine.Store().Properties().Exclusive {
		tick := time.NewTicker(recountEvery)
		defer tick.Stop()
		again = tick.C
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-u.doubts:
			u.read(ctx, a.engine.Store())
		case <-again:
			if err := u.recount(ctx, a.engine.Store()); err != nil && ctx.Err() == nil {
				a.log.Warn("compute: the files that are here could not be counted again", "error", err)
			}
		}
	}
}

// recountEvery is how often the records are counted again where other servers change them: hints of their commits may
// be lost.
const recountEvery = 10 * time.Minute

// recount reads all records. Those that it has counted and that are in no list were cleaned or purged.
func (u *usage) recount(ctx context.Context, store job.Store) error {
	u.mu.Lock()
	left := map[job.ID]bool{}
	for id, c := range u.of {
		if c.bytes != 0 {
			left[id] = true
		}
	}
	u.mu.Unlock()
	if err := u.load(ctx, store, left); err != nil {
		return err
	}
	u.mu.Lock()
	for id := range left {
		u.unread[id] = true
	}
	u.mu.Unlock()
	u.read(ctx, store)
	return nil
}

// load takes in the records that are there, and removes those from left. What is reported meanwhile is newer, and
// stands.
func (u *usage) load(ctx context.Context, store job.Store, left map[job.ID]bool) error {
	for q := (job.Query{Kinds: []job.Kind{JobKind}, Oldest: true, Limit: 1000}); ; {
		page, err := store.List(ctx, q)
		if err != nil {
			return fmt.Errorf("list: %w", err)
		}
		u.mu.Lock()
		for i := range page.Jobs {
			if j := &page.Jobs[i]; j.State != Cleaned {
				u.take(j)
				delete(left, j.ID)
			}
		}
		u.mu.Unlock()
		if q.After = page.Next; q.After == "" {
			return nil
		}
	}
}

// read reads the records whose hints came without them.
func (u *usage) read(ctx context.Context, store job.Store) {
	u.mu.Lock()
	ids := u.unread
	u.unread = map[job.ID]bool{}
	u.mu.Unlock()
	for id := range ids {
		j, err := store.Get(ctx, id)
		if err == nil {
			u.record(&j)
		} else if job.KindOf(err) == job.NotFound {
			u.purged(id)
		}
	}
}

// purged forgets a record that is not there any more.
func (u *usage) purged(id job.ID) {
	u.mu.Lock()
	defer u.mu.Unlock()
	c := u.of[id]
	u.add(c.owner, -c.bytes)
	delete(u.of, id)
}
