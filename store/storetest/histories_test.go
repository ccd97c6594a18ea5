package storetest_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/store/mem"
	"github.com/stagepost/stagepost/store/storetest"
)

func TestClaimsAreLinearizable(t *testing.T) {
	const n = 20_000
	if wrong := storetest.Histories(t, n, func() job.Store { return mem.New() }); wrong > 0 {
		t.Errorf("%d of %d histories are not linearizable", wrong, n)
	}
}

// The control: a store that ignores the epoch of a change accepts writes of a worker whose claim has ended, and the
// model detects it.
func TestClaimsWithoutFence(t *testing.T) {
	const n = 2_000
	wrong := storetest.Histories(t, n, func() job.Store { return unfenced{mem.New()} })
	if wrong < n/10 {
		t.Errorf("%d of %d histories are not linearizable without a fence; the check is blind", wrong, n)
	}
	t.Logf("%d of %d histories are not linearizable without a fence", wrong, n)
}

// The control: in a store that several servers share, a claim that finds nothing although no other call is under way is
// still detected.
func TestClaimsThatFindNothing(t *testing.T) {
	const n = 2_000
	wrong := storetest.Histories(t, n, func() job.Store { return &idle{Store: mem.New()} })
	if wrong < n/10 {
		t.Errorf("%d of %d histories with claims that find nothing are not linearizable; the check is blind", wrong, n)
	}
}

// idle states that several servers share it, and finds nothing at every third claim.
type idle struct {
	job.Store
	claims atomic.Int64
}

func (s *idle) Properties() job.Properties { return job.Properties{Name: "idle"} }

func (s *idle) Claim(ctx context.Context, c job.Claim) ([]job.Job, error) {
	if s.claims.Add(1)%3 == 0 {
		return nil, nil
	}
	return s.Store.Claim(ctx, c)
}

// unfenced takes every change as one made under the current claim.
type unfenced struct{ job.Store }

func (u unfenced) Commit(ctx context.Context, changes ...job.Change) ([]job.Result, error) {
	for i := range changes {
		if j, err := u.Get(ctx, changes[i].Job); err == nil && changes[i].Epoch != 0 {
			changes[i].Epoch = j.Epoch
		}
	}
	return u.Store.Commit(ctx, changes...)
}
