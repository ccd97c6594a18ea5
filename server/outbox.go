package server

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/engine/explain"
	"github.com/stagepost/stagepost/job"
)

// outbox lists messages, without their bodies.
func (s *Server) outbox(w http.ResponseWriter, r *http.Request) error {
	p := Params(r)
	q := job.MessageQuery{Job: job.ID(p.Text("job")), Topic: p.Text("topic")}
	q.Before, q.Limit = p.PageFrom() // the newest come first
	status := p.Choice("status", "pending", string(job.Delivered), string(job.Abandoned))
	if err := p.Err(); err != nil {
		return err
	}
	if err := s.checkTopic(r.Context(), q.Topic); err != nil {
		return err
	}
	switch settled := job.Settled(status); status {
	case "":
	case "pending":
		q.Settled = new(job.Settled)
	default:
		q.Settled = &settled
	}
	messages, err := s.Store.Messages(r.Context(), q)
	if err != nil {
		return err
	}
	answer := api.Outbox{Messages: []job.Message{}}
	for _, m := range messages {
		m.Body = nil
		answer.Messages = append(answer.Messages, m)
	}
	if n := len(messages); n > 0 {
		answer.Next = NextPage(n, cmp.Or(q.Limit, 50), messages[n-1].Number)
	}
	return Reply(w, answer)
}

// checkTopic refuses a topic that no application delivers and no message has.
func (s *Server) checkTopic(ctx context.Context, topic string) error {
	if topic == "" || slices.Contains(s.Topics, topic) {
		return nil
	}
	some, err := s.Store.Messages(ctx, job.MessageQuery{Topic: topic, Limit: 1})
	if err != nil || len(some) > 0 {
		return err
	}
	return OneOf("topic", []string{topic}, s.Topics)
}

// mostReplayed bounds one call.
const mostReplayed = 1000

func (s *Server) replay(w http.ResponseWriter, r *http.Request) error {
	b, err := Body[api.Replay](r, true)
	if err != nil {
		return err
	}
	_, actor, err := ActorOf(r, "", b.Actor)
	if err != nil {
		return err
	}
	if len(b.Keys) > mostReplayed {
		return job.Errorf(job.Invalid, "replay", "", "at most %d keys", mostReplayed)
	}
	if err := s.Engine.Operator().Replay(r.Context(), b.Keys, cmp.Or(actor, "operator"), b.Note); err != nil {
		return err
	}
	return Reply(w, b)
}

// blockUndelivered is the code of a message of an ended job that its receiver has not taken.
const blockUndelivered = "undelivered"

// undelivered returns the messages of a job whose last attempt failed or that were abandoned, without their bodies.
// Users get none: the outbox is closed to them.
func (s *Server) undelivered(ctx context.Context, id job.ID) ([]job.Message, error) {
	if IsUser(ctx) {
		return nil, nil
	}
	// A list is read; any other call of the outbox is a write, which a full disk refuses.
	all, err := s.Store.Messages(ctx, job.MessageQuery{Job: id, Limit: 1000})
	if err != nil {
		return nil, err
	}
	slices.Reverse(all) // the oldest first
	var late []job.Message
	for _, m := range all {
		if m.Settled == job.Abandoned || m.Settled == job.Pending && m.Error != "" {
			m.Body = nil
			late = append(late, m)
		}
	}
	return late, nil
}

// whyUndelivered adds the messages that did not leave to the explanation of a job that has ended.
func (s *Server) whyUndelivered(ctx context.Context, x *api.Explanation) error {
	if len(x.Blockers) == 0 || x.Blockers[0].Code != explain.BlockEnded {
		return nil
	}
	late, err := s.undelivered(ctx, x.Job)
	for i := range late {
		x.Blockers = append(x.Blockers, whyLate(&late[i]))
	}
	return err
}

func whyLate(m *job.Message) job.Blocker {
	b := job.Blocker{Code: blockUndelivered, Since: m.Created, Holder: "the receiver"}
	if m.Settled == job.Abandoned {
		b.Sentence = fmt.Sprintf("the %s message %s was abandoned (attempts: %d): %s", m.Topic, m.Key, m.Attempts,
			m.Error)
		b.Remedy = "correct the receiver, then have the message delivered again"
		b.Remedies = []job.Remedy{job.Replaying(m.Key)}
		return b
	}
	b.Until = m.Due
	next := m.Due.UTC().Format(time.RFC3339)
	b.Sentence = fmt.Sprintf("the %s message %s was not delivered: %s; next attempt at %s", m.Topic, m.Key, m.Error,
		next)
	b.Remedy = "correct the receiver, or wait"
	return b
}
