package postgres

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/store/storetest"
)

// statementCount counts the statements of a store.
type statementCount struct{ n atomic.Int64 }

func (s *statementCount) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	s.n.Add(1)
	return ctx
}

func (s *statementCount) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func (s *statementCount) TraceBatchStart(
	ctx context.Context, _ *pgx.Conn, d pgx.TraceBatchStartData,
) context.Context {
	s.n.Add(int64(d.Batch.Len()))
	return ctx
}

func (s *statementCount) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}
func (s *statementCount) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData)     {}

// TestManyKinds: a claim of many kinds, each with a limit, makes few statements, however many kinds there are, and
// visits those states in which jobs wait.
func TestManyKinds(t *testing.T) {
	n := &statementCount{}
	s := openStore(t, newDatabase(t), Options{CallerTime: true, LeadEvery: time.Hour, tracer: n})
	const kinds = 400
	var list []job.Created
	claim := job.Claim{Worker: "w1", N: 1, Now: start, Lease: time.Hour, Ageing: job.Ageing{Share: 2}}
	for i := range kinds {
		kind := job.Kind(fmt.Sprint("kind", i))
		if i < 40 {
			list = append(list, newJob(storetest.Step, job.ID(fmt.Sprint("tst_", i)),
				func(j *job.Job) { j.Kind = kind }))
		}
		claim.From = append(claim.From, job.KindState{Kind: kind, State: "Waiting"},
			job.KindState{Kind: kind, State: "Running"})
		claim.Limits = append(claim.Limits, job.Limit{Name: "all", Kind: kind, Max: 2})
	}
	_, err := s.Create(t.Context(), list...)
	check(t, err)
	for _, limited := range []bool{true, false} {
		if !limited {
			claim.Limits = nil
		}
		for range 3 {
			before := n.n.Load()
			got, err := s.Claim(t.Context(), claim)
			check(t, err)
			if made := n.n.Load() - before; made > 40 || len(got) != 1 {
				t.Errorf("limits %v: a claim of %d kinds makes %d statements and is granted %d jobs", limited, kinds, made,
					len(got))
			}
		}
	}
}
