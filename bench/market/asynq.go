package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"syscall"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
)

// asynqPeer is asynq with its Redis.
type asynqPeer struct {
	redis  *daemon
	conn   *redis.Client
	client *asynq.Client
	worker *asynq.Server
	first  int // the stage that a job begins with
	waiting
}

// message is what a task or a message for one stage carries.
type message struct {
	Number int64
	Stage  int
	Text   string
}

// openAsynq has a task for each stage, whose handler enqueues the next one. Redis syncs its log at every write
// (appendfsync always). The end of the last handler counts as the end of the job: the library reports no other.
func openAsynq(ctx context.Context, s setting) (peer, error) {
	return startAsynq(ctx, s, time.Millisecond, 0)
}

// openAsynqDefault polls for new tasks about once a second, as the library does by default. A job has its last stage
// only: the others would take seconds.
func openAsynqDefault(ctx context.Context, s setting) (peer, error) {
	return startAsynq(ctx, s, 0, steps)
}

func startAsynq(ctx context.Context, s setting, interval time.Duration, first int) (peer, error) {
	program, err := programs["redis-server"]()
	if err != nil {
		return nil, err
	}
	socket := filepath.Join(s.dir, "redis.sock")
	p := &asynqPeer{first: first}
	p.redis, err = startServer(s.dir, syscall.SIGTERM, nil, program, "--dir", s.dir, "--port", "0",
		"--unixsocket", socket, "--save", "", "--appendonly", "yes", "--appendfsync", "always")
	if err != nil {
		return nil, err
	}
	p.conn = redis.NewClient(&redis.Options{Network: "unix", Addr: socket, PoolSize: s.callers + 10})
	if err := p.start(ctx, s, interval); err != nil {
		return nil, errors.Join(err, p.conn.Close(), p.redis.stop())
	}
	return p, nil
}

func (p *asynqPeer) start(ctx context.Context, s setting, interval time.Duration) error {
	if err := p.redis.ready(ctx, func(ctx context.Context) error { return p.conn.Ping(ctx).Err() }); err != nil {
		return err
	}
	for name, want := range map[string]string{"appendonly": "yes", "appendfsync": "always"} {
		if got, err := p.conn.ConfigGet(ctx, name).Result(); err != nil || got[name] != want {
			return fmt.Errorf("redis has %s=%s, want %s: %w", name, got[name], want, err)
		}
	}
	p.client = asynq.NewClientFromRedisClient(p.conn)
	p.worker = asynq.NewServerFromRedisClient(p.conn, asynq.Config{
		Concurrency: 2*s.callers + 2, TaskCheckInterval: interval, LogLevel: asynq.FatalLevel,
		ShutdownTimeout: time.Second,
	})
	return p.worker.Start(asynq.HandlerFunc(func(ctx context.Context, t *asynq.Task) error {
		s.begin()
		var m message
		if err := json.Unmarshal(t.Payload(), &m); err != nil {
			return err
		}
		if m.Stage == steps {
			p.ended(m.Number)
			return nil
		}
		m.Stage++
		return p.enqueue(ctx, m)
	}))
}

func (p *asynqPeer) enqueue(ctx context.Context, m message) error {
	raw, err := json.Marshal(m)
	if err != nil {
		return err
	}
	_, err = p.client.EnqueueContext(ctx, asynq.NewTask("stage", raw))
	return err
}

func (p *asynqPeer) do(ctx context.Context, i int64) error {
	return p.call(ctx, i, func() error { return p.enqueue(ctx, message{Number: i, Stage: p.first, Text: payload}) })
}

func (p *asynqPeer) close() error {
	p.worker.Shutdown()
	return errors.Join(p.conn.Close(), p.redis.stop())
}
