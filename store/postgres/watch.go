package postgres

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"time"

	"github.com/stagepost/stagepost/job"
)

// channel is that on which servers notify each other.
const channel = "stagepost"

// Watch is part of job.Store. Hints of other servers have no records.
func (s *Store) Watch(ctx context.Context, wake func([]job.Hint)) {
	s.mu.Lock()
	id := s.watching
	s.watching++
	s.watchers[id] = wake
	s.mu.Unlock()
	context.AfterFunc(ctx, func() {
		s.mu.Lock()
		delete(s.watchers, id)
		s.mu.Unlock()
	})
}

// wake calls the watchers.
func (s *Store) wake(hints []job.Hint) {
	if len(hints) == 0 {
		return
	}
	s.mu.Lock()
	var all []func([]job.Hint)
	for _, w := range s.watchers {
		all = append(all, w)
	}
	s.mu.Unlock()
	for _, w := range all {
		w(hints)
	}
}

// mostHints bounds the hints that wait for being announced. More are lost.
const mostHints = 10_000

// announce lets the announcer notify the other servers.
func (s *Store) announce(hints []job.Hint) {
	s.mu.Lock()
	for _, h := range hints {
		if h.Record = nil; len(s.outgoing) < mostHints {
			s.outgoing = append(s.outgoing, h)
		}
	}
	s.mu.Unlock()
	select {
	case s.ready <- struct{}{}:
	default:
	}
}

// notice is the payload of a notification.
type notice struct {
	From  string     `json:"from"`
	Hints []job.Hint `json:"hints"`
}

// mostPayload is the length of a payload that PostgreSQL accepts.
const mostPayload = 7900

// announcer sends notifications outside of the transactions that changed the jobs: a commit with a notification waits
// for all others that have one. A hint that is lost costs time until the next sweep, nothing else.
func (s *Store) announcer(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.ready:
		}
		s.mu.Lock()
		hints := s.outgoing
		s.outgoing = nil
		s.mu.Unlock()
		for len(hints) > 0 {
			payload, n := s.payload(hints)
			hints = hints[n:]
			if _, err := s.pool.Exec(ctx, "SELECT pg_notify($1, $2)", channel, payload); err != nil {
				break
			}
		}
	}
}

// payload has as many of the hints as fit into one notification, and at least one without any.
func (s *Store) payload(hints []job.Hint) (text string, n int) {
	one := notice{From: hex.EncodeToString(s.id[:])}
	for n = len(hints); n > 0; n /= 2 {
		one.Hints = hints[:n]
		if b, err := json.Marshal(one); err == nil && len(b) <= mostPayload {
			return string(b), n
		}
	}
	return `{}`, 1
}

// listener wakes the watchers when other servers have changed jobs. After a loss of its connection, hints are lost.
func (s *Store) listener(ctx context.Context) {
	for ctx.Err() == nil {
		s.listen(ctx)
		select {
		case <-ctx.Done():
		case <-time.After(200 * time.Millisecond):
		}
	}
}

func (s *Store) listen(ctx context.Context) {
	conn, err := s.connect(ctx)
	if err != nil {
		return
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	if _, err := conn.Exec(ctx, "LISTEN "+channel); err != nil {
		return
	}
	self := hex.EncodeToString(s.id[:])
	for {
		n, err := conn.WaitForNotification(ctx)
		if err != nil {
			return
		}
		var one notice
		if err := json.Unmarshal([]byte(n.Payload), &one); err == nil && one.From != self {
			s.wake(one.Hints)
		}
	}
}
