package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/mikestefanello/backlite"
	_ "modernc.org/sqlite"
)

// backlitePeer is backlite on SQLite.
type backlitePeer struct {
	db     *sql.DB
	client *backlite.Client
	waiting
}

// stage is a task for one stage.
type stage message

// Config names the queue.
func (stage) Config() backlite.QueueConfig {
	return backlite.QueueConfig{Name: "j8", MaxAttempts: 3, Timeout: 30 * time.Second}
}

// openBacklite has a task for each stage, whose processor adds the next one. The end of the last processor counts as
// the end of the job: the library removes the task after it and reports no other.
func openBacklite(ctx context.Context, s setting) (peer, error) {
	db, err := sql.Open("sqlite", "file:"+filepath.Join(s.dir, "backlite.db")+
		"?_pragma=journal_mode(wal)&_pragma=synchronous(full)&_pragma=busy_timeout(5000)")
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1) // several connections wait for each other's write lock, which is slower
	p := &backlitePeer{db: db}
	if err := p.start(ctx, s); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return p, nil
}

func (p *backlitePeer) start(ctx context.Context, s setting) error {
	const full = 2
	var sync int
	if err := p.db.QueryRowContext(ctx, "PRAGMA synchronous").Scan(&sync); err != nil || sync != full {
		return fmt.Errorf("SQLite has synchronous=%d, want %d: %w", sync, full, err)
	}
	var err error
	p.client, err = backlite.NewClient(backlite.ClientConfig{
		DB: p.db, NumWorkers: 2*s.callers + 2, ReleaseAfter: time.Minute,
	})
	if err != nil {
		return err
	}
	if err := p.client.Install(); err != nil {
		return err
	}
	p.client.Register(backlite.NewQueue(func(ctx context.Context, t stage) error {
		s.begin()
		if t.Stage == steps {
			p.ended(t.Number)
			return nil
		}
		t.Stage++
		_, err := p.client.Add(t).Ctx(ctx).Save()
		return err
	}))
	p.client.Start(context.WithoutCancel(ctx))
	return nil
}

func (p *backlitePeer) do(ctx context.Context, i int64) error {
	return p.call(ctx, i, func() error {
		_, err := p.client.Add(stage{Number: i, Text: payload}).Ctx(ctx).Save()
		return err
	})
}

func (p *backlitePeer) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	p.client.Stop(ctx)
	return p.db.Close()
}
