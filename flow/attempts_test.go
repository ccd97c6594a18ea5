package flow

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestAttemptsBlockNothing: while one task waits for its next attempt, a longer one starts, ends and is followed by a
// third, in a pool of one.
func TestAttemptsBlockNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var ended []string
		note := func(name string, takes time.Duration, bad int) *Task {
			task := does(name, func(context.Context) error {
				time.Sleep(takes)
				if bad--; bad >= 0 {
					return errWoot
				}
				ended = append(ended, name+" "+time.Since(began).String())
				return nil
			})
			return task
		}
		flaky := note("flaky", 0, 2)
		flaky.Attempts = Attempts{Max: 3, First: 10 * time.Second, Jitter: -1}
		r := rigged(t, Unordered("f", flaky, Linear("line", note("a", time.Second, 0), note("b", 4*time.Second, 0))),
			Options{Workers: NewPool(1)})
		if err := r.run(t, Success); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"a 1s", "b 5s", "flaky 30s"}, ended); diff != "" {
			t.Errorf("ended (-want +got):\n%s", diff)
		}
		rec, _ := r.Atom("flaky")
		if rec.Attempts != 3 || rec.Failure != nil || rec.Waits || rec.Awaits != "" {
			t.Errorf("record %+v", rec)
		}
	})
}

// TestAttemptsAreReportedAndNotSeen: listeners get each attempt with its failure and the time of the next; the flow's
// controller is not asked.
func TestAttemptsAreReportedAndNotSeen(t *testing.T) {
	for _, c := range []struct {
		name  string
		bad   int
		asked int
	}{{"the third attempt succeeds", 2, 0}, {"control: none is left", 3, 1}} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				asked := 0
				retry := AlwaysRevert()
				decide := retry.Decide
				retry.Decide = func(ctx context.Context, c *Call) (Decision, error) { asked++; return decide(ctx, c) }
				flaky := failsTimes("flaky", c.bad)
				flaky.Attempts = Attempts{Max: 3, First: 2 * time.Second, Jitter: -1}
				r := rigged(t, Linear("f", flaky).With(retry), Options{})
				began := time.Now()
				err := r.Run(t.Context())
				if asked != c.asked || (err != nil) != (c.asked > 0) {
					t.Errorf("asked %d times, want %d; %v", asked, c.asked, err)
				}
				var pauses []string
				for _, e := range r.heard.Events() {
					if e.Within == TriedAgain {
						pauses = append(pauses, e.Due.Sub(began).String()+" "+e.Failure.Message)
					}
				}
				if diff := cmp.Diff([]string{"2s Woot", "6s Woot"}, pauses); diff != "" {
					t.Errorf("pauses (-want +got):\n%s", diff)
				}
				if took := time.Since(began); took != 6*time.Second {
					t.Errorf("took %s, want 2 s and 4 s", took)
				}
			})
		})
	}
}

// TestUntilEndsAttempts: a failure that needs no second attempt gets none.
func TestUntilEndsAttempts(t *testing.T) {
	for _, c := range []struct {
		until func(*Failure) bool
		want  int
	}{
		{func(f *Failure) bool { return errors.Is(f, errWoot) }, 1},
		{func(f *Failure) bool { return f.Caused(TypeTimeout) }, 4}, // control
		{nil, 4},
	} {
		synctest.Test(t, func(t *testing.T) {
			n := 0
			task := does("a", func(context.Context) error { n++; return errWoot })
			task.Attempts = Attempts{Max: 4, Until: c.until}
			r := rigged(t, task, Options{})
			if err := r.run(t, Reverted); !errors.Is(err, errWoot) || n != c.want {
				t.Errorf("executed %d times, want %d; %v", n, c.want, err)
			}
		})
	}
}

func TestPauseDoublesWithinBounds(t *testing.T) {
	for _, c := range []struct {
		a        Attempts
		n        int
		low, top time.Duration // at chance 0 and (all but) 1
	}{
		{Attempts{}, 1, 800 * time.Millisecond, 1200 * time.Millisecond},
		{Attempts{}, 3, 3200 * time.Millisecond, 4800 * time.Millisecond},
		{Attempts{}, 1000, 4 * time.Minute, 6 * time.Minute},
		{Attempts{First: time.Minute, Longest: 90 * time.Second, Jitter: -1}, 2, 90 * time.Second, 90 * time.Second},
		{Attempts{First: time.Second, Jitter: 1}, 2, 0, 4 * time.Second},
		{Attempts{First: time.Second, Jitter: 5}, 2, 0, 4 * time.Second},
		{Attempts{First: time.Hour, Longest: time.Minute, Jitter: -1}, 1, time.Minute, time.Minute},
	} {
		low, top := c.a.pause(c.n, 0), c.a.pause(c.n, 1)
		if (low-c.low).Abs() > time.Microsecond || (top-c.top).Abs() > time.Microsecond {
			t.Errorf("%+v after attempt %d: %s to %s, want %s to %s", c.a, c.n, low, top, c.low, c.top)
		}
	}
}

// TestAttemptsSurviveTheirRunner: a new Runner waits for the rest of the pause and continues the count of attempts.
func TestAttemptsSurviveTheirRunner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		make := func() *Task {
			task := does("a", func(context.Context) error { n++; return errWoot })
			task.Attempts = Attempts{Max: 3, First: 10 * time.Second, Jitter: -1}
			return task
		}
		disk := newDisk()
		began := time.Now()
		first := rigged(t, make(), Options{Storage: disk})
		rest, err := first.Advance(t.Context())
		if err != nil || rest == nil || rest.Until.Sub(began) != 10*time.Second || n != 1 {
			t.Fatalf("rest %+v, %v after %d executions", rest, err, n)
		}
		time.Sleep(4 * time.Second)
		second := rigged(t, make(), Options{Storage: disk})
		if err := second.Run(t.Context()); err == nil || err.Error() != "Woot" {
			t.Errorf("got %v", err)
		}
		if took := time.Since(began); n != 3 || took != 30*time.Second {
			t.Errorf("%d executions in %s, want 3 in 30 s", n, took)
		}
		rec, _ := second.Atom("a")
		if rec.State != Reverted {
			t.Errorf("the task is %s", rec.State)
		}
	})
}

// TestKeyOfAnAttempt: the key is the same when an execution is repeated after a wait, another for a further attempt.
func TestKeyOfAnAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var keys []string
		task := &Task{Name: "a", Attempts: Attempts{Max: 2}, Execute: func(_ context.Context, c *Call) (any, error) {
			keys = append(keys, c.Key())
			switch len(keys) {
			case 1:
				return nil, Await("", c.Now().Add(time.Second))
			case 2:
				return nil, errWoot
			}
			return nil, nil
		}}
		r := rigged(t, Linear("f", task), Options{ID: "7"})
		if err := r.run(t, Success); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"7/a/1", "7/a/1", "7/a/2"}, keys); diff != "" {
			t.Errorf("keys (-want +got):\n%s", diff)
		}
	})
}
