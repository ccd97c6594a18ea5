package storetest

import (
	"context"
	"fmt"
	"time"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// Transition makes the change of one move of job j as the engine would: a worker's move under j's claim if it has one,
// every other move with j's version. The error is the table's.
func Transition(life *lifecycle.Table, j job.Job, e lifecycle.Event, by lifecycle.Actor, at time.Time) (job.Change,
	error) {
	to, err := life.Next(j.Position, e, by)
	if err != nil {
		return job.Change{}, err
	}
	c := job.Change{
		Job: j.ID, From: j.State, Event: e, To: to, By: by, Actor: by.String(), At: at,
		Ended: life.Ended(to.State), Gone: life.Tombstone(to.State),
	}
	if by == lifecycle.Worker && j.Claimed() {
		c.Epoch = j.Epoch
	} else {
		c.Version = j.Version
	}
	return c, nil
}

// Path gives a shortest legal way from position p to one that satisfies goal, loops left out; ok is false when there
// is none.
func Path(life *lifecycle.Table, p lifecycle.Position, goal func(lifecycle.Position) bool) (moves []lifecycle.Taken,
	ok bool) {
	type step struct {
		at    lifecycle.Position
		moves []lifecycle.Taken
	}
	seen := map[lifecycle.Position]bool{p: true}
	for todo := []step{{at: p}}; len(todo) > 0; todo = todo[1:] {
		now := todo[0]
		if goal(now.at) {
			return now.moves, true
		}
		for _, by := range lifecycle.Actors() {
			for _, e := range life.Can(now.at, by) {
				to, err := life.Next(now.at, e, by)
				if err != nil || seen[to] {
					continue
				}
				seen[to] = true
				moves := append(now.moves[:len(now.moves):len(now.moves)], lifecycle.Taken{Event: e, By: by})
				todo = append(todo, step{to, moves})
			}
		}
	}
	return nil, false
}

// In is a goal of [Path]: any position in the state.
func In(s lifecycle.State) func(lifecycle.Position) bool {
	return func(p lifecycle.Position) bool { return p.State == s }
}

// Drive makes moves on jobs of one lifecycle, all jobs in step: the first move of each in one commit, then the
// second, and so on. Worker's moves are made under a claim. Other jobs that wait in the same states may be claimed
// and given back meanwhile. It gives the records it leaves, none of them claimed, or the first thing that went wrong.
func Drive(ctx context.Context, st job.Store, life *lifecycle.Table, at time.Time,
	moves map[job.ID][]lifecycle.Taken) (map[job.ID]job.Job, error) {
	d := driver{ctx: ctx, st: st, life: life, at: at, jobs: map[job.ID]job.Job{}}
	for id := range moves {
		j, err := st.Get(ctx, id)
		if err != nil {
			return nil, err
		}
		d.jobs[id] = j
	}
	for round := 0; ; round++ {
		next := map[job.ID]lifecycle.Taken{}
		for id, list := range moves {
			if round < len(list) {
				next[id] = list[round]
			}
		}
		if len(next) == 0 {
			return d.jobs, nil
		}
		for tries := 0; len(next) > 0; tries++ {
			if err := d.round(next, tries < 10); err != nil {
				return nil, err
			}
		}
	}
}

type driver struct {
	ctx  context.Context
	st   job.Store
	life *lifecycle.Table
	at   time.Time
	jobs map[job.ID]job.Job
}

// round makes one move of each job and takes it from next. A job whose record changed meanwhile, as a parent's does
// when a child moves, is read again and stays in next, if it may.
func (d *driver) round(next map[job.ID]lifecycle.Taken, again bool) error {
	d.at = d.at.Add(time.Millisecond)
	changes, err := d.claims(next)
	if err != nil {
		return err
	}
	for id, move := range next {
		c, err := Transition(d.life, d.jobs[id], move.Event, move.By, d.at)
		if err != nil {
			return err
		}
		if move.By == lifecycle.Worker && c.Epoch == 0 {
			return fmt.Errorf("%s waits in %s and no claim gives it", id, d.jobs[id].State)
		}
		changes = append(changes, c)
	}
	results, err := d.st.Commit(d.ctx, changes...)
	if err != nil {
		return err
	}
	for i, r := range results {
		id := changes[i].Job
		_, ours := d.jobs[id]
		switch {
		case r.Err == nil && ours:
			d.jobs[id] = r.Job
			delete(next, id)
		case job.KindOf(r.Err) == job.Conflict && again && ours:
			if d.jobs[id], err = d.st.Get(d.ctx, id); err != nil {
				return err
			}
		case r.Err != nil:
			return r.Err
		}
	}
	return nil
}

// claims claims the jobs that a worker moves next, and gives the changes that give back what else it got.
func (d *driver) claims(next map[job.ID]lifecycle.Taken) ([]job.Change, error) {
	places, missing := map[job.KindState]bool{}, 0
	ask := job.Claim{Worker: "driver", N: 1000, Now: d.at, Lease: time.Hour}
	for id, move := range next {
		j := d.jobs[id]
		if place := (job.KindState{Kind: j.Kind, State: j.State}); move.By == lifecycle.Worker && !j.Claimed() {
			missing++
			if !places[place] {
				places[place] = true
				ask.From = append(ask.From, place)
			}
		}
	}
	var back []job.Change
	for missing > 0 {
		got, err := d.st.Claim(d.ctx, ask)
		if err != nil {
			return nil, err
		}
		if len(got) == 0 {
			return back, nil // the message of round names the job
		}
		for _, j := range got {
			if _, ours := d.jobs[j.ID]; ours {
				d.jobs[j.ID] = j
			}
			move, moves := next[j.ID]
			if move.By == lifecycle.Worker {
				missing--
			}
			if !moves {
				back = append(back, job.Change{Job: j.ID, Epoch: j.Epoch, At: d.at})
			}
		}
	}
	return back, nil
}
