package engine_test

import (
	"context"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/job"
	lc "github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/mem"
)

// TestBackoffGrowsToItsCapWithinItsJitter for any policy, attempt and chance.
func TestBackoffGrowsToItsCapWithinItsJitter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := engine.Backoff{
			First: anyPause(t, "first", time.Hour),
			Max:   anyPause(t, "max", 24*time.Hour),
		}
		n := rapid.IntRange(1, 1_000_000).Draw(t, "n")
		chance := rapid.Float64Range(0, 0.999999).Draw(t, "chance")
		first, most := b.First, b.Max
		if first == 0 {
			first = time.Second
		}
		if most == 0 {
			most = 5 * time.Minute
		}
		want := min(float64(most), float64(100*365*24*time.Hour), math.Ldexp(float64(first), n-1))
		got := float64(b.Pause(n, chance))
		if got < want*0.8-1 || got > want*1.2+1 {
			t.Errorf("%+v: pause %d is %s, want %s and a fifth", b, n, time.Duration(got), time.Duration(want))
		}
		if low, high := b.Pause(n, 0), b.Pause(n, 0.999999); most > 100 && low >= high {
			t.Errorf("%+v: there is no jitter: %s to %s", b, low, high)
		}
	})
}

// anyPause draws a duration, half of them within a usual one, the others up to the longest that a duration can have.
func anyPause(t *rapid.T, name string, usual time.Duration) time.Duration {
	most := int64(usual)
	if rapid.Bool().Draw(t, name+" unusual") {
		most = math.MaxInt64
	}
	return time.Duration(rapid.Int64Range(0, most).Draw(t, name))
}

func TestRetryAfterIsTheLeastPause(t *testing.T) {
	for _, c := range []struct {
		name  string
		after time.Duration
		low   time.Duration
		high  time.Duration
	}{
		{"asked for more", time.Hour, time.Hour, time.Hour + time.Second},
		{"control: asked for less", time.Millisecond, 800 * time.Millisecond, 2200 * time.Millisecond},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var tries []time.Time
				w := start(t, mem.New(), engine.Options{}, letters(map[lc.State]engine.Step{
					"Riding": func(context.Context, *engine.Run) error {
						if tries = append(tries, time.Now()); len(tries) == 1 {
							return engine.RetryAfter(c.after, errBroken)
						}
						return nil
					},
				}))
				defer w.stop()
				w.end(w.post(engine.Order{}).ID)
				if pause := tries[1].Sub(tries[0]); pause < c.low || pause > c.high {
					t.Errorf("paused %s, want %s to %s", pause, c.low, c.high)
				}
			})
		})
	}
}

// TestAttemptsCountPerState checks that failed attempts in one state do not count in the next.
func TestAttemptsCountPerState(t *testing.T) {
	for _, c := range []struct {
		name  string
		fails int
		want  lc.State
	}{{"four times each", 4, "Delivered"}, {"control: five times", 5, "Lost"}} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tries := map[lc.State]int{}
				step := func(_ context.Context, r *engine.Run) error {
					s := r.Job().State
					if r.Job().Attempts != tries[s] {
						t.Errorf("%s: the record counts %d attempts, want %d", s, r.Job().Attempts, tries[s])
					}
					if r.Last() != (tries[s] == 4) {
						t.Errorf("%s: Last is %v after %d attempts", s, r.Last(), tries[s])
					}
					if tries[s]++; tries[s] <= c.fails {
						return errBroken
					}
					return nil
				}
				w := start(t, mem.New(), engine.Options{}, letters(map[lc.State]engine.Step{"Sorting": step,
					"Riding": step}))
				defer w.stop()
				j := w.end(w.post(engine.Order{}).ID)
				if j.State != c.want || j.Attempts != 0 {
					t.Errorf("got %s with %d attempts", j.State, j.Attempts)
				}
				w.verify(j.ID)
			})
		})
	}
}

// still is a random source that always returns the same value.
type still struct{}

func (still) Uint64() uint64 { return 1 << 62 }

// TestRetryStormIsSpread lets 10,000 jobs fail at the same moment. Jitter spreads their second attempts over two fifths
// of the pause. In the control, without jitter, they all run at once.
func TestRetryStormIsSpread(t *testing.T) {
	for _, c := range []struct {
		name   string
		jobs   int
		source rand.Source
		storm  bool
	}{{"jitter", 10_000, rand.NewPCG(3, 4), false}, {"control: no jitter", 1000, still{}, true}} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var mu sync.Mutex
				second := map[int64]int{}
				ended := 0
				work := letters(map[lc.State]engine.Step{"Posted": func(_ context.Context, r *engine.Run) error {
					if r.Job().Attempts == 0 {
						return engine.Retry(errBroken)
					}
					mu.Lock()
					defer mu.Unlock()
					second[time.Now().Unix()]++
					ended++
					return engine.Go("hold")
				}})
				work.Policy.Backoff.First = 100 * time.Second
				w := start(t, mem.New(), engine.Options{Rand: rand.New(c.source), Slots: 64}, work)
				defer w.stop()
				orders := make([]engine.Order, c.jobs)
				for i := range orders {
					orders[i].Kind = "test.letter"
				}
				if _, err := w.SubmitAll(t.Context(), orders...); err != nil {
					t.Fatal(err)
				}
				time.Sleep(3 * time.Minute)
				synctest.Wait()
				peak := 0
				for _, n := range second {
					peak = max(peak, n)
				}
				fair := c.jobs / 40
				if storm := peak > fair*3/2; storm != c.storm || ended != c.jobs {
					t.Errorf("%d of %d came back, up to %d in a second; evenly spread it would be %d", ended, c.jobs,
						peak, fair)
				}
			})
		})
	}
}

// TestWaitIsNoAttempt checks that a step may wait any number of times.
func TestWaitIsNoAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tries := 0
		w := start(t, mem.New(), engine.Options{}, letters(map[lc.State]engine.Step{"Riding": func(_ context.Context,
			r *engine.Run) error {
			if tries++; tries <= 40 {
				return engine.Wait(job.Blocker{Code: "snow", Sentence: "the pass is shut",
					Until: r.Now().Add(time.Minute)})
			}
			return nil
		}}))
		defer w.stop()
		j := w.end(w.post(engine.Order{}).ID)
		if j.Outcome != lc.OK || tries != 41 {
			t.Errorf("got %s after %d tries", j.Outcome, tries)
		}
		if n := w.times(j.ID, lc.Waiting); n != 1 {
			t.Errorf("the history repeats the same reason %d times", n)
		}
		w.verify(j.ID)
	})
}

// TestWaitWithoutAnEndIsLookedAtNowAndThen checks that a step that waits without a time does not run in a busy loop.
func TestWaitWithoutAnEndIsLookedAtNowAndThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tries := 0
		store := mem.New()
		w := start(t, store, engine.Options{}, letters(map[lc.State]engine.Step{"Posted": func(context.Context,
			*engine.Run) error {
			if tries++; tries == 1000 {
				return engine.Fail("spins", errBroken)
			}
			return engine.Wait(job.Blocker{Code: "snow", Sentence: "the pass is shut"})
		}}))
		defer w.stop()
		j := w.post(engine.Order{})
		time.Sleep(time.Minute)
		synctest.Wait()
		if j = w.get(j.ID); tries < 2 || tries > 60 {
			t.Errorf("%d tries in a minute; it is %s", tries, j.State)
		}
	})
}
