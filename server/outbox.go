package server

import (
	"cmp"
	"net/http"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/job"
)

// outbox lists messages, without what they say.
func (s *Server) outbox(w http.ResponseWriter, r *http.Request) error {
	p := Params(r)
	q := job.MessageQuery{Job: job.ID(p.Text("job")), Topic: p.Text("topic")}
	q.Before, q.Limit = p.PageFrom() // the newest come first
	status := p.Text("status")
	if err := p.Err(); err != nil {
		return err
	}
	switch settled := job.Settled(status); {
	case status == "":
	case status == "pending":
		q.Settled = new(job.Settled)
	case settled == job.Delivered || settled == job.GivenUp:
		q.Settled = &settled
	default:
		return job.Errorf(job.Invalid, "outbox", "", "status must be pending, delivered or given-up, not %.40q", status)
	}
	messages, err := s.Store.Outbox(r.Context(), job.OutboxCall{List: &q})
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

// mostReplayed bounds one call.
const mostReplayed = 1000

func (s *Server) replay(w http.ResponseWriter, r *http.Request) error {
	if err := Params(r).Err(); err != nil {
		return err
	}
	b, err := Decode[api.Replay](r, true)
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
	if err := s.Engine.Replay(r.Context(), b.Keys, cmp.Or(actor, "operator"), b.Note); err != nil {
		return err
	}
	return Reply(w, b)
}
