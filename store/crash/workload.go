package crash

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/storetest"
)

// Jobs of the workloads.
const (
	theBatch job.ID = "tst_batch"
	theJob   job.ID = "tst_job"
	theChild job.ID = "tst_child"
)

// theMove is the note of the move that a script is about.
const theMove = "the move"

// start is when workloads run.
var start = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

// Transitions gives a workload for every legal move of a table, by every actor that may make it: claim (if a worker
// makes it), renew, and one commit of the move with a task, a message and, unless the job ends, a child. The job is a
// child itself. Each is checked for having happened whole or not at all.
func Transitions(life *lifecycle.Table) []Workload {
	legal, _ := storetest.Moves(life)
	list := make([]Workload, len(legal))
	for i, m := range legal {
		s := &script{life: life, move: m}
		list[i] = Workload{
			Name: life.Name() + " " + m.String(), Lives: lives(life), Prepare: s.prepare, Run: s.run, Check: s.check,
		}
	}
	return list
}

func lives(life *lifecycle.Table) []*lifecycle.Table {
	return []*lifecycle.Table{life, parentOf(life)}
}

// parentOf gives the lifecycle of the job's parent: another than its own, so that claims do not mix them up.
func parentOf(life *lifecycle.Table) *lifecycle.Table {
	if life.Name() == storetest.Batch.Name() {
		return storetest.Step
	}
	return storetest.Batch
}

// made gives a new job of the lifecycle.
func made(life *lifecycle.Table, id, parent job.ID, children int) job.Created {
	j, e := job.New(job.Job{
		ID: id, Kind: job.Kind(life.Name()), Position: life.Start(), Definition: life.Hash(), Parent: parent,
		Priority: job.DefaultPriority, Key: "key of " + string(id), Children: job.Children{Expected: children},
		Words: "created test",
	}, lifecycle.Owner, "alice", start)
	return job.Created{Job: j, Event: e}
}

// script is one move of one job.
type script struct {
	life   *lifecycle.Table
	move   storetest.Move
	before job.Job
}

func (s *script) prepare(ctx context.Context, st job.Store) error {
	_, err := st.Create(ctx, made(parentOf(s.life), theBatch, "", 1))
	if err == nil {
		_, err = st.Create(ctx, made(s.life, theJob, theBatch, 1))
	}
	if err != nil {
		return err
	}
	jobs, err := storetest.Drive(ctx, st, s.life, start.Add(time.Second),
		map[job.ID][]lifecycle.Taken{theJob: s.move.Way})
	s.before = jobs[theJob]
	return err
}

func (s *script) run(ctx context.Context, st job.Store) error {
	j, at := s.before, start.Add(time.Hour)
	if s.move.By == lifecycle.Worker || s.move.Event == lifecycle.Lost {
		var err error
		if j, err = claim(ctx, st, j, at); err != nil {
			return err
		}
	}
	c, err := storetest.Transition(s.life, j, s.move.Event, s.move.By, at.Add(time.Second))
	if err != nil {
		return err
	}
	c.Tasks = []job.Task{{Name: "task", Kind: "test", State: "Running", Epoch: j.Epoch, Changed: at}}
	c.Note = theMove
	moved := "moved test"
	c.Set.Words = &moved
	c.Outbox = []job.Message{{Key: string(theJob) + "/told", Job: theJob, Topic: "mail", Created: at, Due: at}}
	if !c.Ended && !j.Ended {
		c.Spawn = []job.Created{made(s.life, theChild, theJob, 0)}
	}
	if err := commit(ctx, st, c); err != nil {
		return err
	}
	_, err = st.Get(ctx, theJob)
	return err
}

// check sees whether the move came whole or not at all.
func (s *script) check(ctx context.Context, st job.Store) []string {
	now, err := st.Get(ctx, theJob)
	tasks, err2 := st.Tasks(ctx, theJob)
	messages, err3 := job.MessagesOf(ctx, st, theJob)
	children, err4 := st.List(ctx, job.Query{Parent: theJob})
	if err := errors.Join(err, err2, err3, err4); err != nil {
		return []string{err.Error()}
	}
	to, err := s.life.Next(s.before.Position, s.move.Event, s.move.By)
	if err != nil {
		return []string{err.Error()}
	}
	moved := now.Seq - s.before.Seq
	spawned := moved
	if s.life.Ended(to.State) || s.before.Ended {
		spawned = 0
	}
	position := s.before.Position
	if moved > 0 {
		position = to
	}
	if moved > 1 || len(tasks) != int(moved) || len(messages) != int(moved) || len(children.Jobs) != int(spawned) ||
		now.Position != position {
		return []string{fmt.Sprintf("after %d moves at %+v with %d tasks, %d messages, %d children",
			moved, now.Position, len(tasks), len(messages), len(children.Jobs))}
	}
	return append(s.checkWords(ctx, st, moved), s.checkAudit(ctx, st, moved)...)
}

// checkWords sees whether the job is found by its new words exactly when the move was made.
func (s *script) checkWords(ctx context.Context, st job.Store, moved int64) []string {
	if !st.Properties().Words {
		return nil
	}
	q := job.Query{Words: []string{"moved"}}
	found, err := st.List(ctx, q)
	if err != nil || len(found.Jobs) != int(moved) {
		return []string{fmt.Sprintf("after %d moves %d jobs have the words, %v", moved, len(found.Jobs), err)}
	}
	q.Words = []string{"test", "cre"}
	if found, err = st.List(ctx, q); err != nil || slices.ContainsFunc(found.Jobs, func(j job.Job) bool {
		return j.ID == theJob
	}) != (moved == 0) {
		return []string{fmt.Sprintf("after %d moves %d jobs have the words of their creation, %v", moved,
			len(found.Jobs), err)}
	}
	return nil
}

// checkAudit sees whether the move is in the audit log exactly when it was made, by a person.
func (s *script) checkAudit(ctx context.Context, st job.Store, moved int64) []string {
	list, err := audited(ctx, st)
	if err != nil {
		return []string{err.Error()}
	}
	entries := int64(0)
	for _, a := range list {
		if a.Note == theMove {
			entries++
		}
	}
	if s.move.By&(lifecycle.Operator|lifecycle.Owner) == 0 {
		moved = 0
	}
	if entries != moved {
		return []string{fmt.Sprintf("the audit log has the move %d times, want %d", entries, moved)}
	}
	return nil
}

func audited(ctx context.Context, st job.Store) ([]job.Audit, error) { return st.Audit(ctx, 0, 10_000) }

// claim claims the job, the only one in its state, and renews the claim.
func claim(ctx context.Context, st job.Store, j job.Job, at time.Time) (job.Job, error) {
	got, err := st.Claim(ctx, job.Claim{Worker: "w1", N: 1, Now: at, Lease: time.Minute,
		From: []job.KindState{{Kind: j.Kind, State: j.State}}})
	if err != nil {
		return j, err
	}
	if len(got) != 1 {
		return j, fmt.Errorf("no claim gives %s in %s", j.ID, j.State)
	}
	lost, err := st.Renew(ctx,
		job.Renewal{Worker: "w1", Lease: time.Hour, Now: at,
			Leases: []job.Lease{{Job: got[0].ID, Epoch: got[0].Epoch}}})
	if err != nil {
		return j, err
	}
	if len(lost) > 0 {
		return j, fmt.Errorf("%s is lost at once", j.ID)
	}
	return st.Get(ctx, got[0].ID) // a renewal may raise the version
}

func commit(ctx context.Context, st job.Store, c job.Change) error {
	results, err := st.Commit(ctx, c)
	if err != nil {
		return err
	}
	return results[0].Err
}

// Walk gives a workload that takes one job of the table from its creation to a success, or to any end if none means
// success, with a hold put and released on the way and its message delivered at the end.
func Walk(life *lifecycle.Table) Workload {
	way, ok := storetest.Path(life, life.Start(), func(p lifecycle.Position) bool {
		return life.Ended(p.State) && p.Outcome == lifecycle.OK
	})
	if !ok {
		way, _ = storetest.Path(life, life.Start(), func(p lifecycle.Position) bool { return life.Ended(p.State) })
	}
	return Workload{Name: life.Name() + " from creation to its end", Lives: lives(life),
		Run: func(ctx context.Context, st job.Store) error {
			return walk(ctx, st, life, way)
		}}
}

func walk(ctx context.Context, st job.Store, life *lifecycle.Table, way []lifecycle.Taken) error {
	if _, err := st.Create(ctx, made(parentOf(life), theBatch, "", 1)); err != nil {
		return err
	}
	jobs, err := st.Create(ctx, made(life, theJob, theBatch, 0))
	if err != nil {
		return err
	}
	hold := job.Hold{Scope: job.Scope{Job: theBatch}, Who: "olga", Why: "a test", Since: start}
	if _, err := st.Hold(ctx, hold); err != nil {
		return err
	}
	if _, err := st.Release(ctx, hold); err != nil {
		return err
	}
	j, at := jobs[0], start
	for i, move := range way {
		at = at.Add(time.Minute)
		if move.By == lifecycle.Worker {
			if j, err = claim(ctx, st, j, at); err != nil {
				return err
			}
		}
		c, err := storetest.Transition(life, j, move.Event, move.By, at)
		if err != nil {
			return err
		}
		c.Outbox = []job.Message{{Key: fmt.Sprint(theJob, "/", i), Job: theJob, Topic: "mail", Created: at, Due: at}}
		if err := commit(ctx, st, c); err != nil {
			return err
		}
		if j, err = st.Get(ctx, theJob); err != nil {
			return err
		}
	}
	taken, err := st.Take(ctx, job.Taking{N: 100, Lease: time.Minute, Now: at})
	if err != nil {
		return err
	}
	for i := range taken {
		taken[i].Settled = job.Delivered
	}
	return st.Settle(ctx, taken...)
}
