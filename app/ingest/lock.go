package ingest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/app/ingest/inventory"
	"github.com/stagepost/stagepost/app/ingest/record"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/engine/operator"
	"github.com/stagepost/stagepost/format/noid"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// locker is the part of the inventory that keeps jobs apart: who may write what, and what is written under which token.
// Tests replace it by others that admit every job, to show what would happen to objects.
type locker interface {
	Take(ctx context.Context, by inventory.Taker, wants ...inventory.Want) ([]inventory.Lock, error)
	Check(ctx context.Context, locks ...inventory.Lock) error
	Name(ctx context.Context, c inventory.Claim) (inventory.Name, error)
	Settle(ctx context.Context, c inventory.Claim, locks []inventory.Lock, ark string) (inventory.Name, error)
	Record(ctx context.Context, e inventory.Entry, files iter.Seq2[inventory.File, error]) error
}

// take gets all wanted locks for this attempt. If a job that has not ended has one of them, the error is a wait.
func (t *task) take(ctx context.Context, wants ...inventory.Want) (got []inventory.Lock, err error) {
	err = t.locked(ctx, func(by inventory.Taker) (err error) {
		got, err = t.app.locks.Take(ctx, by, wants...)
		return err
	})
	if err == nil {
		err = t.lockPeers(ctx, got)
	}
	return got, err
}

// maxOver bounds how many locks of ended jobs one attempt takes over.
const maxOver = 1000

// locked calls do, which asks for locks, until they were given or a live process has one. Locks of jobs that
// ended are taken over at once. The wait ends when the lock is released; the attempt after a pause is for releases
// without a message.
func (t *task) locked(ctx context.Context, do func(by inventory.Taker) error) error {
	j := t.Job()
	by := inventory.Taker{Job: string(j.ID), Epoch: j.Epoch, At: t.Now()}
	for {
		err := do(by)
		var held *inventory.HeldError
		if !errors.As(err, &held) {
			t.app.line.leave(j.ID)
			return err
		}
		l := held.Lock
		holder, err := t.app.holder(ctx, l)
		switch {
		case err != nil:
			return err
		case holder == nil && len(by.Over) < maxOver:
			by.Over = append(by.Over, l.Token)
			continue
		case holder == nil:
			return job.Errorf(job.Unavailable, "lock", j.ID, "more than %d locks that ended jobs left", maxOver)
		}
		place := t.app.line.join(spotOf(l), waiter{job: j.ID, priority: j.Priority, number: j.Number})
		if now, found, err := t.app.inventory.LockOf(ctx, l.Kind, l.Name); err != nil || found && now.Token == l.Token {
			if err != nil {
				return err
			}
			b := t.app.blocked(l)
			b.Until = t.Now().Add(t.app.pauseAt(place))
			return engine.Wait(b)
		} // else it was released before the wait was noticed
	}
}

// holder gives the job that has a lock, or nil if it has ended or does not exist: then the lock is free to be taken
// over.
func (a *App) holder(ctx context.Context, l inventory.Lock) (*job.Job, error) {
	j, err := a.engine.Store().Get(ctx, job.ID(l.Job))
	switch kind := job.KindOf(err); {
	case kind == job.NotFound || kind == job.Gone:
		return nil, nil
	case err != nil:
		return nil, err
	case j.Ended:
		return nil, nil
	}
	return &j, nil
}

// pauseAt is how long a job waits before it tries a lock by itself: longer the farther back it is in the line, for it
// will be woken, and thousands that try every second would leave no time for the one that works.
func (a *App) pauseAt(place int) time.Duration {
	return min(a.pause()*time.Duration(1+place/10), max(a.pause(), time.Minute))
}

var lockSentences = map[inventory.LockKind]string{
	inventory.ObjectLock:    "%s is adding a version to %s",
	inventory.InventoryLock: "%s is entering a version of %s",
	inventory.LocalIDLock:   "%s is getting an identifier for local id %s",
}

// blocked describes what a job waits for whose lock another one has.
func (a *App) blocked(l inventory.Lock) job.Blocker {
	return job.Blocker{
		Code: string(l.Kind), Sentence: fmt.Sprintf(lockSentences[l.Kind], l.Job, l.Name), Since: l.Since,
		Until: a.engine.Clock().Now().Add(a.pause()), Holder: l.Job,
		Remedy: "nothing: it goes on when that job releases the lock or ends",
		Remedies: []job.Remedy{
			job.Running("why "+l.Job, "explains the job that has the lock"),
			job.Running("ingest locks break "+string(l.Kind)+" "+job.Quoted(l.Name)+" --note WHY",
				"breaks the lock, if that job never releases it"),
		},
	}
}

// again makes a wait of the loss of a lock: what was done under it was refused, and the step begins anew with taking
// it.
func (t *task) again(err error) error {
	if !errors.Is(err, inventory.ErrStale) {
		return err
	}
	t.Log().Warn("lock lost", "error", err)
	return engine.Wait(job.Blocker{
		Code: "lock-lost", Sentence: err.Error(), Until: t.Now().Add(t.app.pause()),
	})
}

// lockGate names for package explain the holder of the lock that a job waits for. It keeps no job from its step: that
// takes locks over.
func (a *App) lockGate(ctx context.Context, j *job.Job) *job.Blocker {
	if j.Claimed() {
		return nil
	}
	for _, s := range a.line.spots(j.ID) {
		l, found, err := a.inventory.LockOf(ctx, s.kind, s.name)
		if err != nil || !found || l.Job == string(j.ID) {
			continue
		}
		if holder, err := a.holder(ctx, l); err == nil && holder != nil {
			b := a.blocked(l)
			return &b
		}
	}
	return nil
}

// endsOf registers for the ends of jobs that match, until ctx ends. When 1,024 of them wait, further ones are dropped:
// the next sweep finds what they left.
func (a *App) endsOf(ctx context.Context, match func(*job.Hint) bool) <-chan job.ID {
	ended := make(chan job.ID, 1024)
	a.engine.Store().Watch(ctx, func(hints []job.Hint) {
		for i := range hints {
			if h := &hints[i]; h.Ended && match(h) {
				select {
				case ended <- h.Job:
				default:
				}
			}
		}
	})
	return ended
}

// failed reports whether a hint is about a job that ended without success.
func failed(h *job.Hint) bool { return h.Kind == record.JobKind && h.State != record.Completed }

// deleted reports whether a hint is about a batch or a job that is no longer in the store.
func deleted(h *job.Hint) bool {
	return (h.Kind == record.BatchKind || h.Kind == record.JobKind) && (h.Record == nil || h.Record.Gone)
}

// keepLocks releases the locks of jobs that ended, and wakes the jobs that wait for a lock, until ctx ends. It is quick
// rather than safe: locks of ended jobs are taken over in any case, and jobs that wait check again.
func (a *App) keepLocks(ctx context.Context, ended <-chan job.ID) {
	for {
		select {
		case <-ctx.Done():
			return
		case id := <-ended:
			if err := a.dropLocks(ctx, id); err != nil && ctx.Err() == nil {
				a.log.Warn("locks of a job that ended", "job", id, "error", err)
			}
		case s := <-a.line.free:
			if err := a.callNext(ctx, s); err != nil && ctx.Err() == nil {
				a.log.Warn("who waits for a lock", "lock", s.name, "error", err)
			}
		}
	}
}

// dropLocks releases what a job has, if it has ended.
func (a *App) dropLocks(ctx context.Context, id job.ID) error {
	a.line.leave(id)
	left, err := a.inventory.LocksOf(ctx, string(id))
	if err != nil || len(left) == 0 {
		return err
	}
	if holder, err := a.holder(ctx, left[0]); err != nil || holder != nil {
		return err // sent back meanwhile
	}
	return a.ReleaseLocks(ctx, left)
}

// ReleaseLocks ends locks and wakes the jobs that wait for them.
func (a *App) ReleaseLocks(ctx context.Context, locks []inventory.Lock) error {
	gone, err := a.inventory.Release(ctx, locks...)
	a.freed(gone...)
	return err
}

// callNext makes the next job in a line due. A local id that was settled is for all that wait: none of them needs the
// lock any more.
func (a *App) callNext(ctx context.Context, s spot) error {
	all := s.kind == inventory.LocalIDLock
	var g errgroup.Group
	g.SetLimit(calls)
	for _, w := range a.line.order(s) {
		j, err := a.engine.Store().Get(ctx, w.job)
		switch {
		case err != nil && job.KindOf(err) != job.NotFound:
			return errors.Join(err, g.Wait())
		case err != nil || j.Ended || !j.Claimed() && j.Cause != string(s.kind):
			a.line.leave(w.job) // it waits for something else by now
			continue
		default:
			g.Go(func() error { return a.engine.Nudge(ctx, w.job, string(s.kind)) })
		}
		if !all {
			break
		}
	}
	return g.Wait()
}

// calls is how many of those that wait for one local id are called at once, so that the store commits them together.
const calls = 64

// Lock is a lock as operators see it.
type Lock = api.Lock

// States of a lock.
const (
	LockHeld = "held"
	LockLeft = "left" // its holder has ended: the next job that asks takes it over, or the sweep removes it
)

// Locks gives all locks, by kind and name.
func (a *App) Locks(ctx context.Context) ([]Lock, error) {
	all, err := a.inventory.Locks(ctx)
	if err != nil {
		return nil, err
	}
	seen := make([]Lock, 0, len(all))
	for _, l := range all {
		one, err := a.seen(ctx, l)
		if err != nil {
			return nil, err
		}
		seen = append(seen, one)
	}
	return seen, nil
}

func (a *App) seen(ctx context.Context, l inventory.Lock) (Lock, error) {
	one := Lock{
		Kind: string(l.Kind), Name: l.Name, Holder: job.ID(l.Job), Epoch: l.Epoch, State: LockLeft, Since: l.Since,
		Token: l.Token, Note: l.Note,
		Waiting: []job.ID{},
	}
	j, err := a.engine.Store().Get(ctx, one.Holder)
	if err == nil {
		one.JobState = string(j.State)
		if !j.Ended {
			one.State = LockHeld
		}
	} else if kind := job.KindOf(err); kind != job.NotFound && kind != job.Gone {
		return one, err
	}
	for _, w := range a.line.order(spotOf(l)) {
		one.Waiting = append(one.Waiting, w.job)
	}
	return one, nil
}

// line is which job waits for which lock, so that a release wakes the next one. It is in memory: after a restart, a
// waiting job joins again at its next attempt.
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

// join puts a job into the line of a lock, or keeps it there, and returns how many are before it.
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

// freed reports that locks were released. It does not wait: a job that is not woken asks again by itself.
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

// BreakLock is the event under which a broken lock stands in the audit list.
const BreakLock lifecycle.Event = "break-lock"

// BreakLock takes a lock from its holder, for a reason, and gives it as it was. What the holder writes under it
// afterwards is refused; it has to ask for the lock again. The audit list has the entry before the lock is gone. Kinds
// of error: Invalid, NotFound, and Conflict if another job acquired it meanwhile.
func (a *App) BreakLock(ctx context.Context, kind, name, actor, note string) (Lock, error) {
	if !slices.Contains(inventory.LockKinds(), inventory.LockKind(kind)) {
		return Lock{}, job.Errorf(job.Invalid, "break", "", "%.40q is no kind of lock (known: %s, %s, %s)", kind,
			inventory.ObjectLock, inventory.InventoryLock, inventory.LocalIDLock)
	}
	if strings.TrimSpace(note) == "" {
		return Lock{}, job.Errorf(job.Invalid, "break", "",
			"breaking a lock needs a reason: it is entered in the audit log")
	}
	if err := cmp.Or(record.CheckText(note), record.CheckText(actor)); err != nil {
		return Lock{}, job.Errorf(job.Invalid, "break", "", "note or actor: %w", err)
	}
	if ark, err := noid.ParseARK(name); err == nil && inventory.LockKind(kind) != inventory.LocalIDLock {
		name = ark.String()
	}
	l, found, err := a.inventory.LockOf(ctx, inventory.LockKind(kind), name)
	if err != nil {
		return Lock{}, err
	}
	if !found {
		return Lock{}, job.Errorf(job.NotFound, "break", "", "no job has the lock %s %.200q", kind, name)
	}
	was, err := a.seen(ctx, l)
	if err != nil {
		return Lock{}, err
	}
	entry := operator.Entry{By: lifecycle.Operator, Actor: cmp.Or(actor, "unknown"),
		Event: BreakLock, Object: l.String(),
		Note: note}
	if err := a.engine.Operator().Audit(ctx, entry); err != nil {
		return Lock{}, err
	}
	gone, err := a.inventory.Release(ctx, l)
	if err != nil {
		return Lock{}, err
	}
	if len(gone) == 0 {
		return Lock{}, job.Errorf(job.Conflict, "break", "", "another job acquired %s meanwhile: list the locks again",
			l)
	}
	a.freed(gone...)
	a.log.Warn("lock broken", "lock", l.String(), "holder", l.Job, "token", l.Token, "actor", actor, "note", note)
	return was, nil
}
