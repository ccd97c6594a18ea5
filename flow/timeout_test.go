package flow

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// inTasks counts the goroutines that are in a task.
func inTasks() int {
	stacks := make([]byte, 1<<20)
	return strings.Count(string(stacks[:runtime.Stack(stacks, true)]), "flow.guard(")
}

// TestTimeout: a task fails with type Timeout whether it ends with its context, returns late, or never returns.
func TestTimeout(t *testing.T) {
	late := errors.New("I was busy")
	for _, c := range []struct {
		name string
		do   func(ctx context.Context) error
		took time.Duration
		kind string // of the failure; empty: none
		left bool   // behind
	}{
		{"heeds its context", func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		}, 5 * time.Second, TypeTimeout, false},
		{"returns its own error", func(ctx context.Context) error {
			<-ctx.Done()
			return late
		}, 5 * time.Second, TypeTimeout, false},
		{"returns late", func(context.Context) error {
			time.Sleep(7 * time.Second)
			return late
		}, 7 * time.Second, TypeTimeout, false},
		{"never returns", func(context.Context) error {
			time.Sleep(time.Hour)
			return nil
		}, 8 * time.Second, TypeTimeout, true},
		{"control: in time", func(context.Context) error {
			time.Sleep(4 * time.Second)
			return nil
		}, 4 * time.Second, "", false},
		{"control: in time, with an error", func(context.Context) error {
			return late
		}, 0, "*errors.errorString", false},
		{"done, but late", func(context.Context) error {
			time.Sleep(7 * time.Second)
			return nil
		}, 7 * time.Second, "", false},
	} {
		for _, workers := range []*Pool{nil, NewPool(2)} {
			t.Run(c.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var log bytes.Buffer
					task := does("a", c.do)
					task.Timeout = 5 * time.Second
					began := time.Now()
					r := rigged(t, task, Options{Workers: workers, Grace: 3 * time.Second,
						Log: slog.New(slog.NewTextHandler(&log, nil))})
					err := r.Run(t.Context())
					if took := time.Since(began); took != c.took {
						t.Errorf("took %s, want %s", took, c.took)
					}
					var f *Failure
					switch {
					case c.kind == "" && err != nil, c.kind != "" &&
						(!errors.As(err, &f) || f.Type != strings.TrimPrefix(c.kind, "*")):
						t.Errorf("got %v, want type %q", err, c.kind)
					}
					if c.name == "returns its own error" && !errors.Is(err, late) {
						t.Errorf("%v does not have the task's error", err)
					}
					if strings.Contains(log.String(), "a task did not return after its timeout") != c.left {
						t.Errorf("log: %s", log.String())
					}
					synctest.Wait()
					if n := inTasks(); (n > 0) != c.left {
						t.Errorf("%d goroutines are left in tasks", n)
					}
					time.Sleep(2 * time.Hour)
				})
			})
		}
	}
}

// TestTimeoutOfRevert: a revert whose time is up is a revert that failed; the next run tries it again, with what the
// task gave.
func TestTimeoutOfRevert(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow, seen := true, []any{}
		a := gives("a", 5)
		a.Timeout = time.Second
		a.Revert = func(ctx context.Context, c *Call) (any, error) {
			seen = append(seen, c.Result.Any())
			if slow {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return nil, nil
		}
		r := rigged(t, Linear("f", a, fails("b")), Options{Storage: newDisk()})
		var f *Failure
		if err := r.run(t, FailureState); !errors.As(err, &f) || f.Type != TypeTimeout {
			t.Fatalf("got %v", err)
		}
		r.atoms(t, "a REVERT_FAILURE, b REVERTED")
		slow = false
		if err := r.run(t, Reverted); !errors.Is(err, errWoot) {
			t.Errorf("got %v", err)
		}
		r.atoms(t, "a REVERTED, b REVERTED")
		if len(seen) != 2 || seen[0] != 5 || seen[1] != 5 {
			t.Errorf("the reverts saw %v, want the result each time", seen)
		}
	})
}

// TestTimeoutIsTriedAgain: attempts and time go together.
func TestTimeoutIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		task := does("a", func(ctx context.Context) error {
			if n++; n == 1 {
				<-ctx.Done()
				return ctx.Err()
			}
			return nil
		})
		task.Timeout, task.Attempts = time.Second, Attempts{Max: 2, First: time.Second, Jitter: -1}
		began := time.Now()
		r := rigged(t, task, Options{})
		if err := r.run(t, Success); err != nil || n != 2 || time.Since(began) != 2*time.Second {
			t.Errorf("%v after %d executions in %s", err, n, time.Since(began))
		}
	})
}
