package sqlite

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stagepost/stagepost/job"
)

// TestNewIDs: no id that a job has is reported as new, whatever the order in which jobs are created, and most ids of
// new jobs are.
func TestNewIDs(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	var ids newIDs
	has := map[job.ID]bool{"a_00000005": true, "a_": true, "b_9": true, "plain": true}
	searches := 0
	highest := func(prefix, below string) (found job.ID, err error) {
		searches++
		for id := range has {
			if string(id) >= prefix && string(id) < below {
				found = max(found, id)
			}
		}
		return found, nil
	}
	isNew := func(id job.ID) bool {
		is, err := ids.isNew(id, highest)
		if err != nil {
			t.Fatal(err)
		}
		if is && has[id] {
			t.Fatalf("%s is reported as new", id)
		}
		return is
	}
	for id := range has {
		isNew(id)
	}
	const jobs = 5 * youngIDs
	found := 0
	for i := range jobs {
		id := job.ID(fmt.Sprintf("a_%08d%d", 10+max(0, i-random.IntN(3000)), i)) // those of many callers
		if isNew(id) {
			found++
		}
		has[id] = true
		ids.add(id)
		isNew(id)
		isNew(job.ID(fmt.Sprintf("a_%08d%d", random.IntN(i+20), random.IntN(i+1))))
	}
	if found < jobs*9/10 || searches != 2 {
		t.Errorf("%d of %d ids are found to be new, with %d searches", found, jobs, searches)
	}
	for i := range 3 * mostSeries {
		id := job.ID(fmt.Sprintf("p%d_1", i))
		isNew(id)
		has[id] = true
		ids.add(id)
	}
	for id := range has {
		isNew(id)
	}
	if len(ids.series) > mostSeries {
		t.Errorf("%d prefixes are kept", len(ids.series))
	}
}

// TestNewJobsAreNotSearched: a new job whose id is above the others costs no step of SQLite before its row is written.
// One that exists is found: in the overlay, in the database, after a restart, and without the log.
func TestNewJobsAreNotSearched(t *testing.T) {
	const jobs = 100
	dir := t.TempDir()
	s := openStore(t, dir, Options{applyAfter: time.Hour})
	id := func(i int) string { return fmt.Sprintf("tst_%026d", i) }
	create(t, s, id(0)) // searches for the highest
	before := s.records.front.c.Steps()
	for i := range jobs {
		create(t, s, id(i+1))
	}
	if steps := s.records.front.c.Steps() - before; steps > 0 {
		t.Errorf("%d steps of searches for new jobs", steps)
	}
	again := func() {
		t.Helper()
		for i := range jobs + 1 {
			j := made(id(i))
			j.Job.Owner = "another"
			got, err := s.Create(t.Context(), j)
			if err != nil || got[0].Owner == "another" {
				t.Fatalf("%s was created again: %v", id(i), err)
			}
		}
	}
	forget := func() {
		t.Helper()
		if err := s.do(t.Context(), true, nothing(s.records.cache.clear)); err != nil {
			t.Fatal(err)
		}
	}
	forget()
	again()
	if err := s.applier.flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	forget()
	again()
	for _, noLog := range []bool{false, true, false} {
		closeStore(t, s)
		s = openStore(t, dir, Options{NoLog: noLog})
		again()
	}
}
