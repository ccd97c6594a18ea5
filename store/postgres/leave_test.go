package postgres

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/storetest"
)

// leaving makes a new job with a message that are due.
func leaving(id job.ID, c *job.Chain) job.Created {
	life, at := storetest.Step, time.Now().Add(-time.Minute)
	j, e := job.New(job.Job{ID: id, Kind: job.Kind(life.Name()), Position: life.Start(), Definition: life.Hash()},
		lifecycle.Owner, "alice", at)
	m := job.Message{Key: string(id), Job: id, Topic: "t", Created: at, Due: at}
	return job.Created{Job: j, Event: e, Outbox: []job.Message{m}, Chain: c}
}

// TestContextEndsInCommit: a caller whose context ends while the writer has its operation gets the result.
func TestContextEndsInCommit(t *testing.T) {
	s := openStore(t, newDatabase(t), Options{})
	ctx, end := context.WithCancel(t.Context())
	s.beforeFlush = func(*writer) { end() }
	again := func() { ctx, end = context.WithCancel(t.Context()) }
	made, err := s.Create(ctx, leaving("tst_1", &job.Chain{Worker: "w", Lease: time.Minute}))
	if err != nil || len(made) != 1 || made[0].Worker != "w" {
		t.Errorf("the creation returned %+v, %v; want a job that is claimed", made, err)
	}
	again()
	if _, err := s.Create(ctx, leaving("tst_2", nil)); err != nil {
		t.Error(err)
	}
	again()
	from := job.KindState{Kind: job.Kind(storetest.Step.Name()), State: storetest.Step.Start().State}
	claim := job.Claim{Worker: "w", N: 1, From: []job.KindState{from}, Now: time.Now(), Lease: time.Minute}
	if jobs, err := s.Claim(ctx, claim); err != nil || len(jobs) != 1 {
		t.Errorf("the claim returned %d jobs, %v; want 1", len(jobs), err)
	}
	again()
	m, err := s.Take(ctx, job.Taking{N: 9, Lease: time.Minute, Now: time.Now()})
	if err != nil || len(m) != 2 {
		t.Errorf("%d messages were taken, %v; want 2", len(m), err)
	}
	if ctx.Err() == nil {
		t.Error("the context did not end during the call")
	}
}

// TestContextEndsWithoutDatabase: while no attempt can have been committed, a caller whose context ends does not wait
// for the patience of the store.
func TestContextEndsWithoutDatabase(t *testing.T) {
	ctx, end := context.WithCancel(t.Context())
	failed := 0
	s := openStore(t, newDatabase(t), Options{Patience: time.Hour, RetryAfter: time.Nanosecond, OnFailure: func(error) {
		if failed++; failed == 3 {
			end()
		}
	}})
	away := errors.New("no database is there")
	s.writerDial = func(context.Context, string, string) (net.Conn, error) { return nil, away }
	_, err := s.Create(ctx, leaving("tst_1", nil))
	if job.KindOf(err) != job.Unavailable || !errors.Is(err, context.Canceled) {
		t.Errorf("the creation failed with %v; want kind unavailable, because its context ended", err)
	}
}

// TestPatienceOnce: operations of one transaction that are carried out one after another, because one of them cannot be
// written, do not each wait for the patience of the store when the database is away by then.
func TestPatienceOnce(t *testing.T) {
	s := openStore(t, newDatabase(t), Options{Patience: job.Off})
	begun, queued := make(chan bool), make(chan bool)
	first := &operation{apply: func(*batch) error {
		close(begun)
		<-queued
		return nil
	}}
	attempts, others := 0, 0
	failing := &operation{ctx: t.Context(), done: make(chan error, 1), apply: func(*batch) error {
		if attempts++; attempts == 1 {
			return errors.New("no such value")
		}
		return &pgconn.PgError{Code: "57P01"} // the server is shut down
	}}
	other := &operation{ctx: t.Context(), done: make(chan error, 1), apply: func(*batch) error {
		others++
		return nil
	}}
	result := make(chan error)
	go func() { result <- s.do(t.Context(), "first", first) }()
	<-begun
	s.operations <- failing
	s.operations <- other
	close(queued)
	if err := <-result; err != nil {
		t.Error(err)
	}
	for _, o := range []*operation{failing, other} {
		if err := <-o.done; job.KindOf(err) != job.Unavailable {
			t.Errorf("an operation ended with %v; want kind unavailable", err)
		}
	}
	if attempts != 2 || others != 0 {
		t.Errorf("%d attempts of the operation that fails, %d of the other; want 2 and 0", attempts, others)
	}
}
