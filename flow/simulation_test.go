package flow

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

var (
	simulations = flag.Int("simulations", 300, "number of flows of TestSimulations")
	seed        = flag.Uint64("seed", 1, "seed of the first flow of TestSimulations; the others follow")
	most        = flag.Int("crashes", 14, "simulations with crashes for each flow of TestSimulations: a sample of that "+
		"size; 0: one at every commit, alternately stored and not. Each 20th flow has both at every commit")
)

// simulate runs a simulated flow with some crashes and checks it against a chart.
func simulate(t *testing.T, s *spec, by *chart, crashes []crash, tm tamper) (*simulation, *checker, *violationFound) {
	p := &simulation{spec: s, chart: chartOf(s), tamper: tm, crashes: crashes, store: NewMemory(),
		hits: map[string]int{}}
	var stuck error
	over := false
	defer func() {
		if !over {
			fmt.Printf("goroutines are left, or all wait for each other\ncrashes %+v\n%s%s", crashes, s, logText(p.log, len(p.log), 40))
		}
	}()
	synctest.Test(t, func(*testing.T) {
		stuck = p.runFlow(context.Background())
		// tasks that are left behind after a crash end; one that does not is a deadlock of the bubble
		time.Sleep(time.Hour)
	})
	over = true
	if tm.warp != nil {
		p.log = tm.warp(p.log)
	}
	j := newChecker(s, by)
	bad := j.check(p.log)
	if bad == nil && stuck != nil {
		bad = &violationFound{property: "end", text: stuck.Error(), at: len(p.log)}
	}
	if bad != nil {
		bad.before = logText(p.log, bad.at, 40)
	}
	return p, j, bad
}

// crashPoints returns the crashes of a simulation: at every commit, stored or not, or a sample of them if they are more
// than most; at every commit if most is 0. Sequences of crashes are among them.
func crashPoints(s *spec, commits, most int) [][]crash {
	rnd := rand.New(rand.NewPCG(s.seed, 23))
	var all [][]crash
	for at := 1; at <= commits; at++ {
		stored := (s.seed+uint64(at))%2 == 0
		all = append(all, []crash{{at: at, stored: stored}})
		if most > 0 || s.seed%20 == 0 {
			all = append(all, []crash{{at: at, stored: !stored}})
		}
	}
	if most == 0 || s.seed%20 == 0 {
		most = len(all)
	}
	rnd.Shuffle(len(all), func(i, k int) { all[i], all[k] = all[k], all[i] })
	all = all[:min(len(all), most)]
	for k := range all {
		all[k][0].same = rnd.IntN(4) == 0
		for k%4 == 0 && len(all[k]) < 3 && rnd.IntN(3) > 0 {
			all[k] = append(all[k], crash{at: 1 + rnd.IntN(commits), stored: rnd.IntN(2) == 0, same: rnd.IntN(4) == 0})
		}
	}
	return all
}

// TestSimulations simulates random flows with crashes at their commits, and checks each.
func TestSimulations(t *testing.T) {
	var mu sync.Mutex
	figures := map[string]int{}
	began := time.Now()
	t.Run("shards", func(t *testing.T) {
		for shard := range 2 {
			t.Run(fmt.Sprint(shard), func(t *testing.T) {
				t.Parallel()
				own := map[string]int{}
				for k := shard; k < *simulations && !t.Failed(); k += 2 {
					if s, crashes, bad := simulateAll(t, newSpec(*seed+uint64(k)), own); bad != nil {
						s, crashes, bad = shrink(t, s, crashes, bad)
						t.Errorf("%s: %s\ncrashes %+v\n%s%s", bad.property, bad.text, crashes, s, bad.before)
					}
				}
				mu.Lock()
				defer mu.Unlock()
				for name, n := range own {
					figures[name] += n
				}
			})
		}
	})
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(figures)) {
		lines = append(lines, fmt.Sprintf("%s %d", name, figures[name]))
	}
	t.Logf("%d flows in %.1f s: %s", *simulations, time.Since(began).Seconds(), strings.Join(lines, ", "))
	for _, name := range []string{"with retries", "with reverts", "with revert failures", "with ignored",
		"with cancelled", "with engine faults", "crashes", "same ends"} {
		if *simulations >= 300 && figures[name] == 0 {
			t.Errorf("no flow had %s", name)
		}
	}
}

// simulateAll checks and compares all simulations of a flow.
func simulateAll(t *testing.T, s *spec, figures map[string]int) (*spec, []crash, *violationFound) {
	c := chartOf(s)
	p, j, bad := simulate(t, s, c, nil, tamper{})
	if bad != nil {
		return s, nil, bad
	}
	countFigures(figures, p, j)
	figures["flows "+map[bool]string{true: "serial", false: "parallel"}[s.workers == 0]]++
	if s.workers == 0 && s.seed%3 == 0 {
		q, _, _ := simulate(t, s, c, nil, tamper{})
		if bad := firstDifference(p.log, q.log); bad != nil {
			return s, nil, bad
		}
		figures["twice the same"]++
	}
	for _, crashes := range crashPoints(s, p.all, *most) {
		q, k, bad := simulate(t, s, c, slices.Clone(crashes), tamper{})
		if bad == nil && isDeterministic(s, j) {
			if bad = compareStorage(s, p.store, q.store); bad != nil {
				bad.before = logText(q.log, len(q.log), 40)
			}
			figures["same ends"]++
		}
		if bad != nil {
			return s, crashes, bad
		}
		countFigures(figures, q, k)
	}
	return s, nil, nil
}

// firstDifference reports where two logs differ.
func firstDifference(a, b []entry) *violationFound {
	for k := range min(len(a), len(b)) {
		if a[k].String() != b[k].String() {
			return &violationFound{property: "deterministic",
				text: fmt.Sprintf("entry %d is %s, and the second time %s", k, a[k], b[k]), at: k,
				before: logText(a, k, 20)}
		}
	}
	if len(a) != len(b) {
		return &violationFound{property: "deterministic",
			text: fmt.Sprintf("%d entries, and the second time %d", len(a), len(b))}
	}
	return nil
}

// isDeterministic reports whether the end of a simulated flow depends only on the flow, not on what happens
// concurrently. That is so if nothing runs concurrently, or if at most one task fails and the flow makes no error.
func isDeterministic(s *spec, j *checker) bool {
	if len(s.stages) > 1 && j.seen["revert failures"] > 0 {
		return false // the request to repeat a failed revert is not stored: a crash needs one more run
	}
	if s.shy {
		return j.seen["ended FAILURE"] == 0
	}
	linear := true
	s.root.each(func(p *part) { linear = linear && (p.kind == "linear" || p.kind == "task") })
	return linear
}

// compareStorage compares the ends of two simulations of a deterministic flow. Whether an atom was not begun or was
// reverted may depend on the progress of its neighbors.
func compareStorage(s *spec, a, b *Memory) *violationFound {
	end := func(m *Memory) string {
		snap, _ := m.Load(context.Background())
		lines := []string{string(snap.State)}
		slices.SortFunc(snap.Atoms, func(a, b Record) int { return cmp.Compare(a.Name, b.Name) })
		for _, rec := range snap.Atoms {
			state := string(rec.State)
			if rec.Intention == "REVERT" && (state == "PENDING" || state == "IGNORE") {
				state = "REVERTED"
			}
			lines = append(lines, fmt.Sprintf("%s %s/%s", rec.Name, state, rec.Intention))
		}
		return strings.Join(lines, ", ")
	}
	if x, y := end(a), end(b); x != y {
		return &violationFound{property: "same end", text: fmt.Sprintf("with crashes it ends as\n%s\nand without as\n%s", y, x)}
	}
	return nil
}

func countFigures(figures map[string]int, p *simulation, j *checker) {
	figures["courses"]++
	figures["commits"] += p.all
	for name, n := range p.hits {
		figures[name] += n
	}
	for name := range j.seen {
		figures["with "+name]++
	}
}
