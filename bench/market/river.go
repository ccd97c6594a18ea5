package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

// riverPeer is a client of River with its workers and its database.
type riverPeer struct {
	*database
	client *river.Client[pgx.Tx]
	submit func(ctx context.Context, i int64) error
	waiting
}

// openRiver has one job with six resumable steps. Each step is committed in a transaction of its own
// (ResumableSetStepTx), and so is the completion (JobCompleteTx): 8 commits, the insertion included.
func openRiver(ctx context.Context, s setting) (peer, error) {
	return startRiver(ctx, s, time.Millisecond, addResumable)
}

// openRiverDefault has the intervals between fetches that River has by default.
func openRiverDefault(ctx context.Context, s setting) (peer, error) {
	return startRiver(ctx, s, 0, addResumable)
}

// openRiverChain has a job for each stage. One transaction completes it and inserts the next.
func openRiverChain(ctx context.Context, s setting) (peer, error) {
	return startRiver(ctx, s, time.Millisecond, addChain)
}

func startRiver(ctx context.Context, s setting, cooldown time.Duration,
	add func(p *riverPeer, workers *river.Workers, begin func())) (peer, error) {
	d, err := openPostgres(ctx, s.dir, poolSize(s.callers)+4)
	if err != nil {
		return nil, err
	}
	p := &riverPeer{database: d}
	if err := p.start(ctx, s, cooldown, add); err != nil {
		return nil, errors.Join(err, d.close())
	}
	return p, nil
}

func (p *riverPeer) start(ctx context.Context, s setting, cooldown time.Duration,
	add func(p *riverPeer, workers *river.Workers, begin func())) error {
	driver := riverpgxv5.New(p.pool)
	quiet := slog.New(slog.DiscardHandler)
	migrator, err := rivermigrate.New(driver, &rivermigrate.Config{Logger: quiet})
	if err != nil {
		return err
	}
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return err
	}
	workers := river.NewWorkers()
	add(p, workers, s.begin)
	p.client, err = river.NewClient(driver, &river.Config{
		FetchCooldown: cooldown, Logger: quiet, Workers: workers,
		Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 2*s.callers + 2}},
	})
	if err != nil {
		return err
	}
	// the client outlives the context of the opening
	return p.client.Start(context.WithoutCancel(ctx))
}

func (p *riverPeer) do(ctx context.Context, i int64) error {
	return p.call(ctx, i, func() error { return p.submit(ctx, i) })
}

func (p *riverPeer) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return errors.Join(p.client.Stop(ctx), p.database.close())
}

// resumable is a job that does all stages.
type resumable struct {
	Number int64
	Text   string
}

func (resumable) Kind() string { return "resumable" }

func addResumable(p *riverPeer, workers *river.Workers, begin func()) {
	river.AddWorker(workers, river.WorkFunc(func(ctx context.Context, j *river.Job[resumable]) error {
		begin()
		for n := range steps {
			river.ResumableStep(ctx, fmt.Sprint("stage", n), nil, func(ctx context.Context) error {
				return pgx.BeginFunc(ctx, p.pool, func(tx pgx.Tx) error {
					_, err := river.ResumableSetStepTx[*riverpgxv5.Driver](ctx, tx, j)
					return err
				})
			})
		}
		err := pgx.BeginFunc(ctx, p.pool, func(tx pgx.Tx) error {
			_, err := river.JobCompleteTx[*riverpgxv5.Driver](ctx, tx, j)
			return err
		})
		if err == nil {
			p.ended(j.Args.Number)
		}
		return err
	}))
	p.submit = func(ctx context.Context, i int64) error {
		_, err := p.client.Insert(ctx, resumable{Number: i, Text: payload}, nil)
		return err
	}
}

// link is a job that does one stage.
type link struct {
	Number int64
	Stage  int
	Text   string
}

func (link) Kind() string { return "link" }

func addChain(p *riverPeer, workers *river.Workers, begin func()) {
	river.AddWorker(workers, river.WorkFunc(func(ctx context.Context, j *river.Job[link]) error {
		begin()
		err := pgx.BeginFunc(ctx, p.pool, func(tx pgx.Tx) error {
			if _, err := river.JobCompleteTx[*riverpgxv5.Driver](ctx, tx, j); err != nil || j.Args.Stage == steps {
				return err
			}
			next := j.Args
			next.Stage++
			_, err := p.client.InsertTx(ctx, tx, next, nil)
			return err
		})
		if err == nil && j.Args.Stage == steps {
			p.ended(j.Args.Number)
		}
		return err
	}))
	p.submit = func(ctx context.Context, i int64) error {
		_, err := p.client.Insert(ctx, link{Number: i, Text: payload}, nil)
		return err
	}
}
