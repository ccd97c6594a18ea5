package server

import (
	"net/http"
	"time"

	"github.com/stagepost/stagepost/api"
)

// keeper gives who looks after the store.
func (s *Server) keeper(r *http.Request) (Keeper, error) {
	if err := Params(r).Err(); err != nil {
		return nil, err
	}
	if s.Keeper == nil {
		name := s.Store.Properties().Name
		return nil, Absent("admin", "the store "+name+" has nothing to check or copy", "setting store")
	}
	return s.Keeper, nil
}

// unhurried gives a handler an hour to answer.
func ExtendDeadline(w http.ResponseWriter) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(time.Hour)) // a recorder in a test has none
}

func (s *Server) verify(w http.ResponseWriter, r *http.Request) error {
	k, err := s.keeper(r)
	if err != nil {
		return err
	}
	v, err := Decode[api.Verify](r, false)
	if err != nil {
		return err
	}
	ExtendDeadline(w)
	c, err := k.Verify(r.Context(), v.Job)
	if err != nil {
		return err
	}
	return Reply(w, c)
}

func (s *Server) fsck(w http.ResponseWriter, r *http.Request) error {
	k, err := s.keeper(r)
	if err != nil {
		return err
	}
	f, err := Decode[api.Fsck](r, false)
	if err != nil {
		return err
	}
	ExtendDeadline(w)
	if _, f.Actor, err = ActorOf(r, "", f.Actor); err != nil {
		return err
	}
	c, err := k.Fsck(r.Context(), f)
	if err != nil {
		return err
	}
	return Reply(w, c)
}

func (s *Server) backup(w http.ResponseWriter, r *http.Request) error {
	k, err := s.keeper(r)
	if err != nil {
		return err
	}
	b, err := Decode[api.Backup](r, false)
	if err != nil {
		return err
	}
	ExtendDeadline(w)
	if _, b.Actor, err = ActorOf(r, "", b.Actor); err != nil {
		return err
	}
	done, err := k.Backup(r.Context(), b)
	if err != nil {
		return err
	}
	return Reply(w, done)
}
