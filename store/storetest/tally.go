package storetest

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// countRandom makes random calls of many changes each, some of which are refused, and compares the tallies with the
// list after each: creations, claims, moves, sizes, groups, purges, and stores that are opened again.
func countRandom(w *harness) {
	random := rand.New(rand.NewPCG(5, 16))
	purged := 0
	for range 120 {
		all := w.list(job.Query{Limit: 1000})
		switch n := random.IntN(20); {
		case n < 5 || len(all) < 20:
			var list []job.Created
			for range 1 + random.IntN(9) {
				of := group(fmt.Sprint("g", random.IntN(3)))
				list = append(list, w.made(Step, of, sized(random.Int64N(1<<40))))
			}
			w.create(list...)
		case n < 8:
			w.claim("w1", 1+random.IntN(5), waiting, running, checking)
		case n == 8:
			w.restart()
		default:
			var changes []job.Change
			for range 1 + random.IntN(20) {
				changes = append(changes, w.anyChange(random, all[random.IntN(len(all))]))
			}
			for i, r := range w.commitAll(changes...) {
				if changes[i].Purge && r.Err == nil {
					purged++
				}
			}
		}
		c := checker{ctx: w.Context(), st: w.st}
		c.tallies(w.list(job.Query{Limit: 1000}))
		for _, fault := range c.faults {
			w.Fatal(fault)
		}
	}
	if purged == 0 {
		w.Error("no job was purged")
	}
	w.sound()
}

// anyChange makes a change of a job: a legal event of some actor, a purge, or a size and a group. Some are of an older
// version.
func (w *harness) anyChange(random *rand.Rand, j job.Job) job.Change {
	c := job.Change{Job: j.ID, Version: j.Version, At: w.now()}
	by := lifecycle.Actors()[random.IntN(len(lifecycle.Actors()))]
	if can := Step.Can(j.Position, by); j.Gone {
		return w.purge(j)
	} else if len(can) > 0 {
		c = w.move(j, can[random.IntN(len(can))], by, func(c *job.Change) { c.Epoch, c.Version = 0, j.Version })
	}
	if random.IntN(3) == 0 {
		c.Set.Bytes, c.Set.Group = ptr(random.Int64N(1<<40)), ptr(fmt.Sprint("g", random.IntN(3)))
	}
	if random.IntN(8) == 0 {
		c.Version--
	}
	return c
}

// countHuge has more jobs of the largest size than the sum of a tally can count, some that have ended and others. The
// sums are exact again when their sizes are counted without the rest, also in a store that was opened again.
func countHuge(w *harness) {
	const fit, more = math.MaxInt64 / job.MostBytes, 10
	ended := func(j *job.Job) { j.State, j.Outcome, j.Ended = stopped, lifecycle.Cancelled, true }
	var last []job.Job
	for made := 0; made < fit+more; made += 500 {
		var list []job.Created
		for range min(500, fit+more-made) {
			list = append(list, w.made(Step, sized(job.MostBytes)), w.made(Step, sized(job.MostBytes), ended))
		}
		last = w.create(list...)
	}
	bytes := func(what string, want int64) {
		w.Helper()
		got := map[lifecycle.State]int64{}
		for _, t := range w.count() {
			got[t.State] = t.Bytes
		}
		same(w, what, got, map[lifecycle.State]int64{waiting: want, stopped: want})
	}
	bytes("more than a number can have", math.MaxInt64)
	w.restart()
	bytes("opened again", math.MaxInt64)
	var changes []job.Change
	for _, j := range last[:2*more] {
		changes = append(changes, job.Change{Job: j.ID, Version: j.Version, At: w.now(),
			Set: job.Fields{Bytes: ptr[int64](0)}})
	}
	for _, r := range w.commitAll(changes...) {
		if r.Err != nil {
			w.Error(r.Err)
		}
	}
	bytes("without some", fit*job.MostBytes)
	w.restart()
	bytes("without some, opened again", fit*job.MostBytes)
}
