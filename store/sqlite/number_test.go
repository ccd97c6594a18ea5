package sqlite

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// numberFixture is a table of jobs with lines: numbers by row, 0 where there is no job.
type numberFixture struct {
	lines   lines
	kinds   []uint32
	numbers []int64
	reads   int
}

// newNumberFixture fills n rows with jobs of the kinds 1 to 3 in stretches of all lengths, whose numbers have gaps;
// some rows are gone. Of some of those the lines do not know it yet.
func newNumberFixture(random *rand.Rand, n int) *numberFixture {
	w := &numberFixture{kinds: make([]uint32, n+1), numbers: make([]int64, n+1)}
	last, kind := [4]int64{}, uint32(1)
	for row := 1; row <= n; row++ {
		if random.IntN(1+random.IntN(2000)) == 0 {
			kind = 1 + random.Uint32N(3)
		}
		last[kind]++
		if random.IntN(10) == 0 {
			last[kind] += random.Int64N(5)
		}
		w.kinds[row], w.numbers[row] = kind, last[kind]
		w.lines.set(int64(row), line{kind: kind, state: 4, group: random.Uint32N(9)})
		if random.IntN(8) == 0 {
			w.numbers[row] = 0
			if random.IntN(50) > 0 {
				w.lines.apply([]lineChange{{n: int64(row), gone: true}})
			}
		}
	}
	return w
}

func (w *numberFixture) read(row int64) (int64, error) {
	w.reads++
	return w.numbers[row], nil
}

// TestNumbered: over many leaves, in mixtures of kinds, every number is found in its row, and no number that no job
// has.
func TestNumbered(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	for _, n := range []int{0, 1, 2, 50, blockLines, 3*blockLines + 100} {
		w := newNumberFixture(random, n)
		rows := [4]map[int64]int64{{}, {}, {}, {}}
		highest := int64(0)
		for row := 1; row <= n; row++ {
			if number := w.numbers[row]; number != 0 {
				rows[w.kinds[row]][number] = int64(row)
				highest = max(highest, number)
			}
		}
		for kind := uint32(1); kind <= 3; kind++ {
			for number := int64(1); number <= highest+1; number += 1 + random.Int64N(4) {
				got, err := w.lines.numbered(kind, number, int64(n), w.read)
				if err != nil || got != rows[kind][number] {
					t.Fatalf("%d rows: number %d of kind %d is in row %d, %v; want %d", n, number, kind, got, err,
						rows[kind][number])
				}
			}
		}
		for row := int64(1); row <= int64(n); row += 97 { // rows after the last are as if they were not there
			if number := w.numbers[row]; number != 0 {
				if got, err := w.lines.numbered(w.kinds[row], number, row-1, w.read); got != 0 || err != nil {
					t.Fatalf("row %d is found among those before it: %d, %v", row, got, err)
				}
			}
		}
	}
}

// TestNumberedReadsLittle: among a million jobs a lookup reads as many numbers as halving them takes.
func TestNumberedReadsLittle(t *testing.T) {
	const n, most = 1_000_000, 21
	w := &numberFixture{numbers: make([]int64, n+1)}
	for row := 1; row <= n; row++ {
		w.numbers[row] = int64(row)
		w.lines.set(int64(row), line{kind: 1, state: 1})
	}
	for number := int64(1); number <= n; number += 7919 {
		w.reads = 0
		if row, err := w.lines.numbered(1, number, n, w.read); row != number || err != nil || w.reads > most {
			t.Fatalf("number %d: row %d after %d reads (at most %d), %v", number, row, w.reads, most, err)
		}
	}
}

func TestNumberedFails(t *testing.T) {
	broken := errors.New("broken")
	w := newNumberFixture(rand.New(rand.NewPCG(7, 8)), 100)
	if _, err := w.lines.numbered(1, 5, 100, func(int64) (int64, error) { return 0, broken }); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
}

// TestNumberWhileJobsGo: a job that stays is found all the time while its neighbours are created and purged, which
// lists see a moment later than the tables do.
func TestNumberWhileJobsGo(t *testing.T) {
	s := openStore(t, t.TempDir(), Options{})
	at := time.Now()
	create := func(from, n int) []job.Job {
		var list []job.Created
		for i := range n {
			list = append(list, benchJob(int64(from+i), at))
		}
		jobs, err := s.Create(t.Context(), list...)
		if err != nil {
			t.Error(err)
		}
		return jobs
	}
	jobs := create(1, 301)
	stays := jobs[150]
	var done atomic.Bool
	var lookers sync.WaitGroup
	for range 2 {
		lookers.Go(func() {
			for n := 0; !done.Load() || n == 0; n++ {
				found, err := s.Numbered(t.Context(), stays.Kind, stays.Number)
				if err != nil || found.ID != stays.ID {
					t.Errorf("number %d: %s, %v", n, found.ID, err)
					return
				}
			}
		})
	}
	for round := range 10 {
		var purges []job.Change
		for i := range jobs {
			if j := &jobs[i]; j.ID != stays.ID {
				purges = append(purges, job.Change{
					Job: j.ID, Version: j.Version,
					Event: "delete", To: lifecycle.Position{State: "Deleted"}, Ended: true, Gone: true,
					By: lifecycle.Timer, At: at,
				})
				purges = append(purges, job.Change{Job: j.ID, Version: j.Version + 1, Purge: true, By: lifecycle.Timer,
					At: at})
			}
		}
		results, err := s.Commit(t.Context(), purges...)
		for i := range results {
			err = errors.Join(err, results[i].Err)
		}
		if err != nil {
			t.Fatal(err)
		}
		jobs = create(1000*(round+1), 200)
	}
	done.Store(true)
	lookers.Wait()
}

// TestNumberOfDamagedRow: an invalid number is reported and not used for the search.
func TestNumberOfDamagedRow(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, dir, Options{})
	fill(t, s, 3)
	closeStore(t, s)
	for number, damaged := range map[int64]bool{-5: true, 0: true, 2: false} {
		sql(t, dir, fmt.Sprintf("UPDATE job_made SET number = %d WHERE n = 2", number))
		s := openStore(t, dir, Options{})
		found, err := s.Numbered(t.Context(), "bench.job", 2)
		if damaged != (job.KindOf(err) == job.Internal) || damaged == (found.Number == 2) {
			t.Errorf("number %d: %+v, %v", number, found, err)
		}
		closeStore(t, s)
	}
}
