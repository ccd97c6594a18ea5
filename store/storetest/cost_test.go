package storetest_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/store/mem"
	"github.com/stagepost/stagepost/store/storetest"
)

func TestCosts(t *testing.T) { storetest.Costs(t, mem.New(), 100_000) }

// linear is a store that gets jobs and peeks by listing all of them.
type linear struct{ *mem.Store }

func (l linear) Get(ctx context.Context, id job.ID) (job.Job, error) {
	l.readAll(ctx)
	return l.Store.Get(ctx, id)
}

func (l linear) readAll(ctx context.Context) {
	q := job.Query{Limit: 1000}
	for {
		page, err := l.List(ctx, q)
		if err != nil || page.Next == "" {
			return
		}
		q.After = page.Next
	}
}

// restless is a store whose peeks visit all lanes: a limit that changes with every call is counted anew.
type restless struct {
	*mem.Store
	n *int
}

func (r restless) Peek(ctx context.Context, c job.Claim, id job.ID) (job.Forecast, error) {
	*r.n++
	other := c
	limit := job.Limit{Kind: c.From[0].Kind, Owner: strings.Repeat("x", *r.n), Max: 1}
	other.Limits = append(slices.Clone(c.Limits), limit)
	if _, err := r.Store.Peek(ctx, other, id); err != nil {
		return job.Forecast{}, err
	}
	return r.Store.Peek(ctx, c, id)
}

// filtering is a store that reads the whole audit log for the entries of holds.
type filtering struct{ *mem.Store }

func (f filtering) AuditHolds(ctx context.Context, seq int64, n int) ([]job.Audit, error) {
	list, err := f.Audit(ctx, 0, 1_000_000)
	return slices.DeleteFunc(list, func(a job.Audit) bool { return !a.OfHold() }), err
}

// passing is a store that passes over the overdue jobs of other kinds.
type passing struct{ *mem.Store }

func (p passing) Overdue(ctx context.Context, now time.Time, kinds []job.Kind, n int) ([]job.Job, error) {
	if len(kinds) > 0 {
		if _, err := p.Store.Overdue(ctx, now, nil, 1000); err != nil {
			return nil, err
		}
	}
	return p.Store.Overdue(ctx, now, kinds, n)
}

// filing is a store that reads all ended jobs of a kind for the old ones.
type filing struct{ *mem.Store }

func (f filing) ListEnded(ctx context.Context, q job.EndedQuery) (job.Page, error) {
	if q.States[0] == "Stopped" {
		linear(f).readAll(ctx)
	}
	return f.Store.ListEnded(ctx, q)
}

// searching is a store that reads all jobs for those of a worker.
type searching struct{ *mem.Store }

func (s searching) List(ctx context.Context, q job.Query) (job.Page, error) {
	if q.Worker != "" {
		linear(s).readAll(ctx)
	}
	return s.Store.List(ctx, q)
}

// scanning is a store that reads all jobs for those with a word.
type scanning struct{ *mem.Store }

func (s scanning) List(ctx context.Context, q job.Query) (job.Page, error) {
	if len(q.Words) == 1 {
		linear(s).readAll(ctx)
	}
	return s.Store.List(ctx, q)
}

// The controls: a store that reads all rows and one that visits all lanes are found, and no other operation of theirs.
func TestCostsSeeLinearStores(t *testing.T) {
	for name, st := range map[string]storetest.Counted{
		"get": linear{mem.New()}, "peek": restless{mem.New(), new(int)},
		"audit of holds": filtering{mem.New()}, "the jobs of a worker": searching{mem.New()},
		"overdue, of a kind of which few are": passing{mem.New()},
		"ended jobs, of which few are old":    filing{mem.New()},
		"found by a word of one job":          scanning{mem.New()},
	} {
		faults, err := storetest.Growth(t.Context(), st, 5_000, t.Logf)
		if err != nil || len(faults) != 1 || !strings.HasPrefix(faults[0], name+" touches ") {
			t.Errorf("%s: %q, %v", name, faults, err)
		}
	}
}
