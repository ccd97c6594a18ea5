package storetest

import (
	"errors"
	"fmt"
	"slices"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// everyMove drives jobs to every state of a table and tries every event by every actor there. Legal moves go through
// the store and read back as in the table. Illegal ones are refused by the table; forged as changes made for another
// state, version or epoch they are refused by the store, and nothing changes.
func everyMove(w *harness, life *lifecycle.Table) {
	legal, illegal := Moves(life)
	forged := 0
	for _, s := range life.Stages() {
		here := slices.DeleteFunc(slices.Clone(illegal), func(m Move) bool { return m.State != s.State })
		if !forge(w, life, s.State, here) {
			w.Errorf("no legal way leads to %s", s.State)
		}
		forged += len(here)
	}
	take(w, life, legal)
	w.Logf("%s: %d states, %d legal moves taken, %d illegal ones refused", life.Name(), len(life.Stages()), len(legal),
		forged)
	w.sound(life)
}

// Move is one event by one actor in one state, and a shortest way from the start to a position where it is legal.
type Move struct {
	State lifecycle.State
	Event lifecycle.Event
	By    lifecycle.Actor
	Way   []lifecycle.Taken // nil for an illegal move
}

func (m Move) String() string { return fmt.Sprintf("%s -%s-> by %s", m.State, m.Event, m.By) }

// Moves gives every event by every actor in every state of a table: the moves that are legal somewhere in the state,
// and those that are legal nowhere in it.
func Moves(life *lifecycle.Table) (legal, illegal []Move) {
	for _, s := range life.Stages() {
		for _, e := range life.Events() {
			for _, by := range lifecycle.Actors() {
				way, ok := Path(life, life.Start(), func(p lifecycle.Position) bool {
					_, err := life.Next(p, e, by)
					return p.State == s.State && err == nil
				})
				if m := (Move{s.State, e, by, way}); ok {
					legal = append(legal, m)
				} else {
					illegal = append(illegal, m)
				}
			}
		}
	}
	return legal, illegal
}

// driven creates a job for each way and drives it there.
func driven(w *harness, life *lifecycle.Table, ways [][]lifecycle.Taken) []job.Job {
	w.Helper()
	moves := map[job.ID][]lifecycle.Taken{}
	var list []job.Created
	for _, way := range ways {
		c := w.made(life)
		list = append(list, c)
		moves[c.Job.ID] = way
	}
	w.create(list...)
	jobs, err := Drive(w.Context(), w.st, life, w.now(), moves)
	if err != nil {
		w.Fatalf("drive: %v", err)
	}
	w.pass(1e9)
	at := make([]job.Job, len(list))
	for i, c := range list {
		at[i] = jobs[c.Job.ID]
	}
	return at
}

// take makes all the legal moves, the worker's under claims, in one commit.
func take(w *harness, life *lifecycle.Table, legal []Move) {
	var ways [][]lifecycle.Taken
	for _, a := range legal {
		ways = append(ways, a.Way)
	}
	jobs := driven(w, life, ways)
	claimEach(w, jobs, func(i int) bool { return legal[i].By == lifecycle.Worker })
	changes := make([]job.Change, len(jobs))
	want := make([]job.Job, len(jobs))
	events := make([]job.Event, len(jobs))
	for i, a := range legal {
		c, err := Transition(life, jobs[i], a.Event, a.By, w.now())
		if err != nil {
			w.Fatalf("%v: %v", a, err)
		}
		next, e, err := job.Apply(jobs[i], &c)
		if err != nil {
			w.Fatalf("%v: %v", a, err)
		}
		changes[i], want[i], events[i] = c, next, *e
	}
	for i, r := range w.commitAll(changes...) {
		if r.Err != nil {
			w.Errorf("%v: %v", legal[i], r.Err)
			continue
		}
		what := legal[i].String()
		same(w, what, r.Job, want[i])
		same(w, what+", read back", w.get(r.Job.ID), want[i])
		history := w.history(r.Job.ID)
		same(w, what+", last entry", history[len(history)-1], events[i])
		if to, err := life.Next(jobs[i].Position, legal[i].Event, legal[i].By); err != nil || r.Job.Position != to {
			w.Errorf("%s: position %+v, the table has %+v (%v)", what, r.Job.Position, to, err)
		}
	}
}

// claimEach claims the jobs that match, and replaces the records by the claimed ones.
func claimEach(w *harness, jobs []job.Job, match func(int) bool) {
	w.Helper()
	where := map[job.ID]int{}
	ask := job.Claim{Worker: "w1", N: 1000, Now: w.now(), Lease: 1e12}
	seen := map[job.KindState]bool{}
	for i, j := range jobs {
		if p := (job.KindState{Kind: j.Kind, State: j.State}); match(i) && !seen[p] {
			seen[p] = true
			ask.From = append(ask.From, p)
		}
		where[j.ID] = i
	}
	for len(ask.From) > 0 {
		got, err := w.st.Claim(w.Context(), ask)
		if err != nil {
			w.Fatal(err)
		}
		if len(got) == 0 {
			break
		}
		for _, j := range got {
			if i, ok := where[j.ID]; ok {
				jobs[i] = j
			}
		}
	}
	for i, j := range jobs {
		if match(i) && !j.Claimed() {
			w.Fatalf("%s waits in %s and no claim gives it", j.ID, j.State)
		}
	}
}

// forge tries the illegal moves on a job in the state; false when no way leads there.
func forge(w *harness, life *lifecycle.Table, s lifecycle.State, illegal []Move) bool {
	w.Helper()
	way, ok := Path(life, life.Start(), In(s))
	if !ok {
		return false
	}
	j := driven(w, life, [][]lifecycle.Taken{way})[0]
	before := w.snapshot(j.ID)
	var changes []job.Change
	var want []job.ErrorKind
	for _, a := range illegal {
		_, err := life.Next(j.Position, a.Event, a.By)
		var refused *lifecycle.Illegal
		if !errors.As(err, &refused) || refused.Event != a.Event || refused.By != a.By ||
			refused.Position != j.Position {
			w.Errorf("%v: %v, want a refusal that names the event", a, err)
		}
		for _, f := range forgeries(life, j, a) {
			f.change.At = w.now()
			changes, want = append(changes, f.change), append(want, f.want)
		}
	}
	for i, r := range w.commitAll(changes...) {
		if job.KindOf(r.Err) != want[i] {
			w.Errorf("%s of a job in %s, forged (from %s, version %d, epoch %d): %v, want kind %s", changes[i].Event, s,
				changes[i].From, changes[i].Version, changes[i].Epoch, r.Err, want[i])
		}
	}
	w.unchanged(before)
	return true
}

type forgery struct {
	change job.Change
	want   job.ErrorKind
}

// forgeries makes the changes of a caller who saw the job in another state, at another version or under a claim that is
// over, and so believes the move to be legal.
func forgeries(life *lifecycle.Table, j job.Job, a Move) []forgery {
	from, to := other(life, j.State, a.Event)
	c := job.Change{Job: j.ID, Event: a.Event, To: lifecycle.Position{State: to}, By: a.By, Actor: "mallory",
		Ended: life.Ended(to), Gone: life.Tombstone(to)}
	state, version, epoch := c, c, c
	state.From, state.Version = from, j.Version
	version.Version = j.Version - 1
	if version.Version == 0 {
		version.Version = j.Version + 1
	}
	epoch.Epoch = j.Epoch + 1
	return []forgery{{state, job.Conflict}, {version, job.Conflict}, {epoch, job.Stale}}
}

// other gives a state other than s from which the event leads somewhere, and where; any other state if there is none.
func other(life *lifecycle.Table, s lifecycle.State, e lifecycle.Event) (from, to lifecycle.State) {
	for _, stage := range life.Stages() {
		if stage.State == s {
			continue
		}
		from, to = stage.State, s
		if a, ok := life.Transition(stage.State, e); ok {
			return from, a.Targets()[0]
		}
	}
	return from, to
}
