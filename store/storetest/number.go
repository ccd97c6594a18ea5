package storetest

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

var numberTests = []test{
	{"a job is found by its number", numberFinds},
	{"no job has a number that is none", numberInvalid},
	{"what was purged is not found, the others are", numberPurged},
	{"jobs bring numbers, the next one goes on from there", numberBrought},
	{"a number that is not higher than all before is refused", numberTaken},
	{"a number that is none is refused", numberBounds},
	{"none of a call whose number is refused", numberNone},
	{"who exists is given whatever the number", numberExisting},
	{"children bring numbers", numberChildren},
	{"parallel creations and purges", numberParallel},
}

func numbered(n int64) func(*job.Job) { return func(j *job.Job) { j.Number = n } }

// byNumber finds a job; "" if there is none.
func (w *harness) byNumber(kind job.Kind, n int64) job.ID {
	w.Helper()
	j, err := w.st.Numbered(w.Context(), kind, n)
	if job.KindOf(err) == job.NotFound {
		return ""
	}
	if err != nil {
		w.Fatalf("number %d of %s: %v", n, kind, err)
	}
	same(w, "found by its number", j, w.get(j.ID))
	return j.ID
}

// found looks up every number of both kinds, from 1 to beyond the last.
func (w *harness) found(jobs ...job.Job) {
	w.Helper()
	want, last := map[job.Kind]map[int64]job.ID{stepKind: {}, batchKind: {}}, int64(0)
	for _, j := range jobs {
		want[j.Kind][j.Number] = j.ID
		last = max(last, j.Number)
	}
	for kind, all := range want {
		for n := int64(1); n <= last+2; n++ {
			if got := w.byNumber(kind, n); got != all[n] {
				w.Errorf("number %d of %s: %q, want %q", n, kind, got, all[n])
			}
		}
	}
}

// mixture creates jobs of two kinds, each in turn and in long rows, so that their numbers drift apart, with gaps.
func mixture(w *harness) (jobs []job.Job) {
	w.Helper()
	for range 3 {
		jobs = append(jobs, w.create(w.made(Step), w.made(Batch), w.made(Step))...)
	}
	for range 20 {
		jobs = append(jobs, w.step())
	}
	jobs = append(jobs, w.create(w.made(Batch, numbered(30)), w.made(Step, numbered(40)), w.made(Step))...)
	for range 10 {
		jobs = append(jobs, w.create(w.made(Batch))...)
	}
	return append(jobs, w.step())
}

func numberFinds(w *harness) {
	w.found() // of an empty store
	jobs := mixture(w)
	w.found(jobs...)
	// a job keeps its number as long as there is a record
	w.moved(w.get(jobs[0].ID), lifecycle.Operator, "cancel", "delete")
	w.found(jobs...)
	w.restart()
	w.found(jobs...)
	w.found(append(jobs, w.step(), w.create(w.made(Batch))[0])...)
	same(w, "of a kind that is none", w.byNumber("nothing", 1), "")
	same(w, "the highest number there can be", w.byNumber(stepKind, 1<<63-1), "")
	w.sound()
}

func numberInvalid(w *harness) {
	j := w.step()
	for _, n := range []int64{0, -1, -1 << 63, 2} {
		same(w, fmt.Sprintf("number %d", n), w.byNumber(stepKind, n), "")
	}
	same(w, "of no kind", w.byNumber("", j.Number), "")
	same(w, "the control", w.byNumber(stepKind, j.Number), j.ID)
}

// numberPurged purges the first, the last and rows in between, then all of a kind, and creates more.
func numberPurged(w *harness) {
	all := mixture(w)
	var steps, stay []job.Job
	for _, j := range all {
		if j.Kind == stepKind {
			steps = append(steps, j)
		} else {
			stay = append(stay, j)
		}
	}
	purge := func(jobs []job.Job) {
		for _, j := range jobs {
			w.must(w.purge(w.moved(w.get(j.ID), lifecycle.Operator, "cancel", "delete")))
		}
	}
	n := len(steps)
	purge(slices.Concat(steps[:2], steps[5:12], steps[n-2:]))
	left := slices.Concat(stay, steps[2:5], steps[12:n-2])
	w.found(left...)
	w.restart()
	w.found(left...)
	next := w.step()
	same(w, "the next number after a purged one", next.Number, steps[n-1].Number+1)
	w.found(append(left, next)...)
	purge(slices.Concat(steps[2:5], steps[12:n-2], []job.Job{next}))
	w.found(stay...)
	w.restart()
	again := w.step()
	same(w, "the next number when all are purged", again.Number, next.Number+1)
	w.found(append(stay, again)...)
	w.sound()
}

func numberBrought(w *harness) {
	numbers := func(list ...job.Created) (got []int64) {
		for _, j := range w.create(list...) {
			same(w, "read back", w.get(j.ID), j)
			got = append(got, j.Number)
		}
		return got
	}
	same(w, "the first job brings one", numbers(w.made(Step, numbered(7))), []int64{7})
	same(w, "the next", numbers(w.made(Step)), []int64{8})
	same(w, "another kind has its own", numbers(w.made(Batch), w.made(Batch, numbered(3)), w.made(Batch)),
		[]int64{1, 3, 4})
	same(w, "in one call", numbers(w.made(Step), w.made(Step, numbered(20)), w.made(Batch), w.made(Step),
		w.made(Step, numbered(22))), []int64{9, 20, 5, 21, 22})
	w.restart()
	same(w, "opened again", numbers(w.made(Step, numbered(100))), []int64{100})
	w.restart()
	same(w, "opened again", numbers(w.made(Step), w.made(Batch)), []int64{101, 6})
	w.found(w.list(job.Query{})...)
	w.sound()
}

// numberTaken asks for numbers that were given: to jobs that are there, that ended, that were purged, before and
// after the store was opened again.
func numberTaken(w *harness) {
	w.step(numbered(5))
	w.moved(w.step(), lifecycle.Operator, "cancel") // 6
	w.must(w.purge(w.tombstone(numbered(10))))
	for range 2 {
		before := ids(w.list(job.Query{}))
		for _, n := range []int64{1, 4, 5, 6, 7, 9, 10} {
			_, err := w.st.Create(w.Context(), w.made(Step, numbered(n)))
			w.refused(err, job.Conflict)
		}
		same(w, "jobs", ids(w.list(job.Query{})), before)
		w.restart()
	}
	same(w, "another kind's", w.create(w.made(Batch, numbered(1)))[0].Number, 1)
	same(w, "the control", w.step(numbered(11)).Number, 11)
	w.sound()
}

func numberBounds(w *harness) {
	for _, n := range []int64{-1, -1 << 63, job.LastNumber + 1, 1<<63 - 1} {
		_, err := w.st.Create(w.Context(), w.made(Step, numbered(n)))
		w.refused(err, job.Invalid)
	}
	last := w.step(numbered(job.LastNumber))
	same(w, "the last number", w.byNumber(stepKind, job.LastNumber), last.ID)
	for range 2 {
		_, err := w.st.Create(w.Context(), w.made(Step))
		w.refused(err, job.Refused)
		w.restart()
	}
	same(w, "another kind's first", w.create(w.made(Batch))[0].Number, 1)
	w.sound()
}

func numberNone(w *harness) {
	w.step(numbered(5))
	batch := w.create(w.made(Batch, expecting(9)))[0]
	before := w.snapshot(batch.ID)
	good := w.made(Step, numbered(30), parent(batch.ID))
	good.Outbox = []job.Message{{Key: "good", Job: good.Job.ID, Topic: "mail", Due: w.now()}}
	for name, call := range map[string][]job.Created{
		"taken":                    {good, w.made(Step, numbered(5))},
		"taken, first":             {w.made(Step, numbered(5)), good},
		"twice":                    {good, w.made(Step, numbered(30))},
		"lower than a neighbour's": {good, w.made(Step, numbered(29))},
		"a neighbour's next":       {good, w.made(Step), w.made(Step, numbered(31))},
		"none":                     {good, w.made(Step, numbered(-1))},
	} {
		if jobs, err := w.st.Create(w.Context(), call...); err == nil {
			w.Errorf("%s: created %v", name, ids(jobs))
		} else if k := job.KindOf(err); k != job.Conflict && k != job.Invalid {
			w.Errorf("%s: %v", name, err)
		}
		if m := w.messages(good.Job.ID); len(m) > 0 {
			w.Errorf("%s: the call failed and left %v", name, m)
		}
		w.unchanged(before)
	}
	same(w, "a refused number was not given", w.step().Number, 6)
	same(w, "the control", w.create(good)[0].Number, 30)
	w.sound()
}

// numberExisting repeats an import: by ID and by key, with the number it had, another, and one that is none.
func numberExisting(w *harness) {
	first := w.step(numbered(5), owner("bob"), key("k"))
	w.step(numbered(9))
	before := w.snapshot(first.ID)
	for _, n := range []int64{0, 5, 6, 9, 77, -1} {
		got := w.create(w.made(Step, owner("bob"), key("k"), numbered(n)),
			w.made(Step, numbered(n), func(j *job.Job) { j.ID = first.ID }))
		same(w, fmt.Sprintf("number %d", n), got, []job.Job{before.Job, before.Job})
	}
	w.unchanged(before)
	twice := w.create(w.made(Step, key("l"), numbered(20)), w.made(Step, key("l"), numbered(20)),
		w.made(Step, key("l")))
	same(w, "twice in one call", ids(twice), []job.ID{twice[0].ID, twice[0].ID, twice[0].ID})
	same(w, "with its number", []int64{twice[0].Number, twice[1].Number}, []int64{20, 20})
	same(w, "the next number", w.step().Number, 21)
	w.sound()
}

func numberChildren(w *harness) {
	w.step(numbered(4))
	batch := w.create(w.made(Batch, expecting(3)))[0]
	spawn := func(j job.Job, children ...job.Created) job.Change {
		return job.Change{Job: j.ID, Version: j.Version, At: w.now(), Spawn: children}
	}
	a, b, c := w.made(Step, parent(batch.ID), numbered(10)), w.made(Step, parent(batch.ID)),
		w.made(Step, parent(batch.ID), numbered(11))
	before := w.snapshot(batch.ID)
	for _, list := range [][]job.Created{{a, b, c}, {a, w.made(Step, parent(batch.ID), numbered(4))}} {
		_, err := w.commit(spawn(batch, list...))
		w.refused(err, job.Conflict)
		w.unchanged(before)
	}
	batch = w.must(spawn(batch, a, b))
	c.Job.Number = 12
	w.must(spawn(batch, a, b, c))
	for n, child := range map[int64]job.Created{10: a, 11: b, 12: c} {
		same(w, fmt.Sprintf("number %d", n), w.byNumber(stepKind, n), child.Job.ID)
	}
	w.sound()
}

// numberParallel has jobs created, some with numbers, and purged while others list them.
func numberParallel(w *harness) {
	const creators = 4
	each := w.scale(200, 25)
	var made [creators][]job.Created
	for i := range made {
		for n := range each {
			one := w.made(Step)
			if n%3 == 0 {
				one.Job.Number = int64(n*creators + i + 1)
			}
			made[i] = append(made[i], one)
		}
	}
	var all sync.WaitGroup
	var left atomic.Int64
	for i := range made {
		all.Go(func() {
			for n := range made[i] {
				stays, err := w.comes(made[i][n], n%5 == 0)
				switch {
				case job.KindOf(err) == job.Conflict && made[i][n].Job.Number != 0: // others have passed that number
				case err != nil:
					w.Errorf("job %d of %d: %v", n, i, err)
					return
				case stays:
					left.Add(1)
				}
			}
		})
	}
	all.Wait()
	if left.Load() == 0 {
		w.Error("no job was created")
	}
	for range 2 {
		jobs, last := []job.Job{}, int64(0)
		for q := (job.Query{Oldest: true, Limit: 1000}); ; {
			page, err := w.st.List(w.Context(), q)
			if err != nil {
				w.Fatal(err)
			}
			jobs = append(jobs, page.Jobs...)
			if q.After = page.Next; q.After == "" {
				break
			}
		}
		same(w, "jobs", int64(len(jobs)), left.Load())
		for _, j := range jobs {
			if j.Number <= last {
				w.Errorf("number %d comes after %d", j.Number, last)
			}
			last = j.Number
		}
		w.found(jobs...)
		w.restart()
	}
	w.sound()
}

// comes creates a job and lists it by the number that it got; one that goes is purged then, and must not be found any
// more. It asks no clock, so many may run at once.
func (w *harness) comes(c job.Created, goes bool) (stays bool, err error) {
	made, err := w.st.Create(w.Context(), c)
	if err != nil {
		return false, err
	}
	j := made[0]
	found, err := w.st.Numbered(w.Context(), j.Kind, j.Number)
	if err != nil || found.ID != j.ID || c.Job.Number != 0 && c.Job.Number != j.Number {
		return false, fmt.Errorf("%s with number %d got %d and is found as %s, %v", j.ID, c.Job.Number, j.Number,
			found.ID, err)
	}
	if !goes {
		return true, nil
	}
	for _, e := range []lifecycle.Event{"cancel", "delete", ""} {
		change := job.Change{Job: j.ID, Version: j.Version, Purge: true, By: lifecycle.Timer, At: j.Created}
		if e != "" {
			if change, err = Transition(Step, j, e, lifecycle.Operator, j.Created); err != nil {
				return false, err
			}
		}
		results, err := w.st.Commit(w.Context(), change)
		if err == nil {
			err = results[0].Err
		}
		if err != nil {
			return false, err
		}
		j = results[0].Job
	}
	if found, err = w.st.Numbered(w.Context(), j.Kind, j.Number); job.KindOf(err) != job.NotFound {
		return false, fmt.Errorf("%s is found after it was purged (%v)", found.ID, err)
	}
	return false, nil
}
