package crash_test

import (
	"context"
	"testing"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/store/crash"
	"github.com/stagepost/stagepost/store/storetest"
)

// torn commits a move first and what goes with it in a second call, as a store would that has no transactions.
type torn struct{ job.Store }

func (s torn) Commit(ctx context.Context, changes ...job.Change) ([]job.Result, error) {
	results := make([]job.Result, len(changes))
	for i, c := range changes {
		rest := job.Change{Job: c.Job, At: c.At, Tasks: c.Tasks, Outbox: c.Outbox, Spawn: c.Spawn}
		c.Tasks, c.Outbox, c.Spawn = nil, nil, nil
		first, err := s.Store.Commit(ctx, c)
		if err != nil {
			return nil, err
		}
		if results[i] = first[0]; first[0].Err != nil {
			continue
		}
		rest.Version = first[0].Job.Version
		second, err := s.Store.Commit(ctx, rest)
		if err != nil {
			return nil, err
		}
		results[i] = second[0]
	}
	return results, nil
}

// The control: the enumerator finds a commit that is two.
func TestTornCommitIsFound(t *testing.T) {
	var all crash.Report
	moves := crash.Transitions(storetest.Step)
	for _, w := range moves {
		run := w.Run
		w.Run = func(ctx context.Context, st job.Store) error { return run(ctx, torn{st}) }
		all.Add(crash.Enumerate(t, memory, w))
	}
	if all.Inconsistent < 2*len(moves) {
		t.Errorf("%d of %d windows are inconsistent; between the two halves of %d commits there are %d",
			all.Inconsistent, all.Windows, len(moves), 2*len(moves))
	}
}

func TestFuse(t *testing.T) {
	for _, c := range []struct {
		at    int
		side  crash.Side
		ran   int // how many of four calls took effect
		heard int // how many got an answer
	}{{0, crash.Before, 4, 4}, {1, crash.Before, 0, 0}, {3, crash.Before, 2, 2}, {3, crash.After, 3, 2},
		{9, crash.After, 4, 4}} {
		fuse := &crash.Fuse{At: c.at, Side: c.side}
		ran, heard := 0, 0
		for range 4 {
			if fuse.Call(func() error { ran++; return nil }) == nil {
				heard++
			}
		}
		if ran != c.ran || heard != c.heard || fuse.Blown() != (heard < 4) {
			t.Errorf("%s call %d: %d ran and %d were answered, want %d and %d", c.side, c.at, ran, heard, c.ran,
				c.heard)
		}
	}
}
