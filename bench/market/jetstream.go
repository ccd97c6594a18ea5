package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// jetStreamPeer is a NATS server in this process, without a port, and a client of it.
type jetStreamPeer struct {
	server *server.Server
	conn   *nats.Conn
	js     jetstream.JetStream
	stop   func()
	waiting
}

// openJetStream has a message for each stage in a work queue whose writes are synced (sync_always). A worker publishes
// the next message, waits until it is acknowledged as stored, and acknowledges its own, which removes it. These are two
// writes: after a crash between them a stage runs again.
func openJetStream(ctx context.Context, s setting) (peer, error) {
	n, err := server.NewServer(&server.Options{
		ServerName: "market", DontListen: true, JetStream: true, StoreDir: s.dir, SyncAlways: true,
		NoLog: true, NoSigs: true,
	})
	if err != nil {
		return nil, err
	}
	n.Start()
	p := &jetStreamPeer{server: n, stop: func() {}}
	if err := p.start(ctx, s); err != nil {
		return nil, errors.Join(err, p.close())
	}
	return p, nil
}

func (p *jetStreamPeer) start(ctx context.Context, s setting) (err error) {
	if !p.server.ReadyForConnections(20 * time.Second) {
		return errors.New("the NATS server does not start")
	}
	if c := p.server.JetStreamConfig(); c == nil || !c.SyncAlways {
		return fmt.Errorf("the NATS server has %+v, want sync_always", c)
	}
	if p.conn, err = nats.Connect("", nats.InProcessServer(p.server)); err != nil {
		return err
	}
	if p.js, err = jetstream.New(p.conn); err != nil {
		return err
	}
	stream, err := p.js.CreateStream(ctx, jetstream.StreamConfig{
		Name: "J8", Subjects: []string{"j8.*"}, Retention: jetstream.WorkQueuePolicy, Storage: jetstream.FileStorage,
	})
	if err != nil {
		return err
	}
	consumer, err := stream.CreateConsumer(ctx, jetstream.ConsumerConfig{
		Durable: "workers", AckPolicy: jetstream.AckExplicitPolicy, MaxAckPending: 2*s.callers + 2,
	})
	if err != nil {
		return err
	}
	run := context.WithoutCancel(ctx)
	consuming, err := consumer.Consume(func(m jetstream.Msg) {
		s.begin()
		go p.work(run, m)
	})
	if err != nil {
		return err
	}
	p.stop = consuming.Stop
	return nil
}

// work does one stage. A message whose stage fails is delivered again.
func (p *jetStreamPeer) work(ctx context.Context, m jetstream.Msg) {
	var content message
	if err := json.Unmarshal(m.Data(), &content); err != nil {
		_ = m.Term()
		return
	}
	if content.Stage == steps {
		if m.DoubleAck(ctx) == nil {
			p.ended(content.Number)
		}
		return
	}
	content.Stage++
	if p.publish(ctx, content) == nil {
		_ = m.Ack()
	}
}

func (p *jetStreamPeer) publish(ctx context.Context, m message) error {
	raw, err := json.Marshal(m)
	if err != nil {
		return err
	}
	_, err = p.js.Publish(ctx, fmt.Sprint("j8.", m.Stage), raw)
	return err
}

func (p *jetStreamPeer) do(ctx context.Context, i int64) error {
	return p.call(ctx, i, func() error { return p.publish(ctx, message{Number: i, Text: payload}) })
}

func (p *jetStreamPeer) close() error {
	p.stop()
	if p.conn != nil {
		p.conn.Close()
	}
	p.server.Shutdown()
	p.server.WaitForShutdown()
	return nil
}
