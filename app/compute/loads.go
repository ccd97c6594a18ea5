package compute

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/quantity"
)

// Bounds of jobs that fetch inputs at once.
const (
	mostLoads  = 32
	mostShared = 8 // of one owner, and from one host
)

// loads are the jobs whose inputs are being fetched, beside the steps: a job that waits for its inputs holds no slot.
type loads struct {
	app *App
	ctx context.Context // until the application is closed

	mu   sync.Mutex       // guards the rest, and what is in a load
	of   map[job.ID]*load // under way, over and not yet taken by the step, or failed and followed by a pause
	busy map[string]int   // under way, by owner and by host
	all  int              // under way
	line []queuer         // jobs that wait for a slot, in order of arrival
}

// queuer is a job that waits for a slot.
type queuer struct {
	id   job.ID
	keys []string
}

// load is the inputs of one job on their way. Its goroutine has the loan until it is over, then the step has it.
type load struct {
	keys   []string
	cancel context.CancelCauseFunc
	done   chan struct{} // closed when it is over
	want   int           // files
	loan   loan

	// guarded by the lock of loads
	files []File // that are here
	bytes int64  // of these and of what came of the next one
	err   error
	over  bool
	ended bool         // the job has ended: no one takes them
	rest  *job.Blocker // it failed, and this is committed; the next one begins when the time of the blocker has come
}

// errEnded reports that no one requires the inputs any more.
var errEnded = errors.New("the job has ended")

func newLoads(a *App) *loads {
	return &loads{app: a, ctx: context.Background(), of: map[job.ID]*load{}, busy: map[string]int{}}
}

// keysOf names the owner of a job and the hosts of its inputs.
func (s *loads) keysOf(j *job.Job, files []RemoteFile) []string {
	keys := []string{"owner " + j.Owner}
	for _, f := range files {
		if host := s.app.options.Source.Host(f.URL); host != "" && !slices.Contains(keys, "host "+host) {
			keys = append(keys, "host "+strings.ToLower(host))
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// enter gives the load of a job, which it begins if there is a slot; else what the job waits for.
func (s *loads) enter(j *job.Job, files []RemoteFile) (*load, *job.Blocker) {
	keys := s.keysOf(j, files)
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.of[j.ID]; l != nil {
		if l.rest == nil {
			return l, nil
		}
		if l.rest.Until.After(s.app.engine.Clock().Now()) {
			return nil, l.rest
		}
	}
	delete(s.of, j.ID)
	s.drop(j.ID)
	if holder := s.full(keys); holder != "" {
		s.line = append(s.line, queuer{j.ID, keys})
		return nil, &job.Blocker{
			Code: blockInputs, Sentence: "its inputs wait to be fetched: the slots for that are taken by " + holder,
			Holder: holder,
			Until:  s.app.engine.Clock().Now().Add(time.Minute),
		}
	}
	s.all++
	for _, key := range keys {
		s.busy[key]++
	}
	ctx, cancel := context.WithCancelCause(s.ctx)
	l := &load{keys: keys, cancel: cancel, done: make(chan struct{}), want: len(files),
		loan: loan{usage: s.app.usage, owner: j.Owner}}
	s.of[j.ID] = l
	id := j.ID
	s.app.wait.Go(func() { s.run(ctx, id, l, files) })
	return l, nil
}

// full reports who has the slots that a job needs; "" if one is free.
func (s *loads) full(keys []string) string {
	for _, key := range keys {
		if s.busy[key] >= mostShared {
			return fmt.Sprintf("%d jobs of the %s", s.busy[key], key)
		}
	}
	if s.all >= mostLoads {
		return fmt.Sprintf("%d other jobs", s.all)
	}
	return ""
}

// run fetches the inputs of one job, frees its slot and wakes the job.
func (s *loads) run(ctx context.Context, id job.ID, l *load, files []RemoteFile) {
	defer close(l.done)
	err := s.app.fetchInputs(ctx, id, files, &arriving{loads: s, load: l})
	s.mu.Lock()
	l.err, l.over = err, true
	s.all--
	for _, key := range l.keys {
		if s.busy[key]--; s.busy[key] <= 0 {
			delete(s.busy, key)
		}
	}
	ended, next := l.ended, s.next()
	s.mu.Unlock()
	l.cancel(nil)
	if ended {
		s.discard(id, l)
	} else {
		s.wake(id)
	}
	s.wake(next)
}

// discard forgets a load that is over and that no one takes, with what it brought.
func (s *loads) discard(id job.ID, l *load) {
	s.forget(id)
	l.loan.release("")
	if err := s.app.dropInputs(id); err != nil && job.KindOf(err) != job.NotFound {
		s.app.log.Warn("compute: inputs of an ended job are still there", "job", id, "error", err)
	}
}

// wake has the step of a job check again.
func (s *loads) wake(id job.ID) {
	if id == "" || s.ctx.Err() != nil {
		return
	}
	switch err := s.app.engine.Notify(s.ctx, id, blockInputs); job.KindOf(err) {
	case "", job.Refused, job.NotFound, job.Gone: // it ended meanwhile
	default:
		s.app.log.Info("compute: a job that waits for its inputs could not be woken, and checks by itself", "job", id,
			"error", err)
	}
}

// next takes the first job that has capacity now out of the line. The caller has the lock.
func (s *loads) next() job.ID {
	for i, q := range s.line {
		if s.full(q.keys) == "" {
			s.line = slices.Delete(s.line, i, i+1)
			return q.id
		}
	}
	return ""
}

// drop takes a job out of the line. The caller has the lock.
func (s *loads) drop(id job.ID) {
	s.line = slices.DeleteFunc(s.line, func(q queuer) bool { return q.id == id })
}

// state reports how far a load is. err is that of one that is over.
func (s *loads) state(l *load) (files []File, sentence string, over bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(l.files), l.sentence(), l.over, l.err
}

// pause keeps a load that failed until the time of the blocker: a step that is repeated before does not fetch again.
func (s *loads) pause(l *load, b job.Blocker) job.Blocker {
	s.mu.Lock()
	defer s.mu.Unlock()
	l.rest = &b
	return b
}

// forget removes a load that is over and was taken.
func (s *loads) forget(id job.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.of, id)
}

// observe follows the store's commits: a job that ended requires no inputs. It does not block.
func (s *loads) observe(hints []job.Hint) {
	for i := range hints {
		if h := &hints[i]; h.Kind == JobKind && h.Record != nil && h.Record.Ended {
			s.stop(h.Job)
		}
	}
}

// resume wakes the jobs whose inputs an earlier process fetched. Without it they would check by themselves, later.
func (s *loads) resume() {
	q := job.Query{Kinds: []job.Kind{JobKind}, States: []lifecycle.State{Queued}, Causes: []string{blockInputs},
		Oldest: true, Limit: 1000}
	for {
		page, err := s.app.engine.Store().List(s.ctx, q)
		if err != nil {
			return
		}
		for i := range page.Jobs {
			s.wake(page.Jobs[i].ID)
		}
		if q.After = page.Next; q.After == "" {
			return
		}
	}
}

// stop ends the load of a job that has ended, and gives it if there is one.
func (s *loads) stop(id job.ID) *load {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop(id)
	l := s.of[id]
	if l == nil || l.ended {
		return l
	}
	l.ended = true
	l.cancel(errEnded)
	if l.over { // its goroutine has ended without knowing
		s.app.wait.Go(func() { s.discard(id, l) })
	}
	return l
}

// end is stop for anyone who removes the files of the job: it waits until the load touches none of them any more.
func (s *loads) end(id job.ID) {
	if l := s.stop(id); l != nil {
		<-l.done
	}
}

// progress returns how far the inputs of a job are, in words; "" if none are under way.
func (s *loads) progress(id job.ID) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.of[id]
	if l == nil || l.rest != nil {
		return ""
	}
	return l.sentence()
}

// sentence reports how far a load is. The caller has the lock.
func (l *load) sentence() string {
	size := fmt.Sprint(l.bytes, " bytes")
	if l.bytes >= 1<<20 {
		size = quantity.FormatBytes(l.bytes >> 20 << 20)
	}
	return fmt.Sprintf("fetches inputs: %d of %d, %s", len(l.files), l.want, size)
}
