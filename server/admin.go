package server

import (
	"fmt"
	"net/http"
	"time"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/engine/clock"
	"github.com/stagepost/stagepost/server/problem"
)

// maintenance returns the maintenance of the store.
func (s *Server) maintenance(r *http.Request) (Maintenance, error) {
	if err := Params(r).Err(); err != nil {
		return nil, err
	}
	if s.Maintenance == nil {
		name := s.Store.Properties().Name
		return nil, problem.Absent("admin", "the store "+name+" has nothing to check or copy", "setting store")
	}
	return s.Maintenance, nil
}

// ExtendDeadline extends the time for an answer to an hour.
func ExtendDeadline(w http.ResponseWriter) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(time.Hour)) // a recorder in a test has none
}

// maintain begins an operation of the maintenance that may take long. It returns the body of the request.
func maintain[In any](s *Server, w http.ResponseWriter, r *http.Request) (k Maintenance, in In, err error) {
	if k, err = s.maintenance(r); err != nil {
		return k, in, err
	}
	if in, err = Decode[In](r, false); err == nil {
		ExtendDeadline(w)
	}
	return k, in, err
}

func (s *Server) verify(w http.ResponseWriter, r *http.Request) error {
	k, v, err := maintain[api.Verify](s, w, r)
	if err != nil {
		return err
	}
	c, err := k.Verify(r.Context(), v.Job)
	if err != nil {
		return err
	}
	return Reply(w, c)
}

// export answers with all histories. An error after the first byte breaks the connection.
func (s *Server) export(w http.ResponseWriter, r *http.Request) error {
	k, err := s.maintenance(r)
	if err != nil {
		return err
	}
	ExtendDeadline(w)
	w.Header().Set("Content-Type", "application/zip")
	w.Header().Set("Content-Disposition", `attachment; filename="histories.zip"`)
	return k.Export(r.Context(), w)
}

func (s *Server) fsck(w http.ResponseWriter, r *http.Request) error {
	k, f, err := maintain[api.Fsck](s, w, r)
	if err != nil {
		return err
	}
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
	k, b, err := maintain[api.Backup](s, w, r)
	if err != nil {
		return err
	}
	if _, b.Actor, err = ActorOf(r, "", b.Actor); err != nil {
		return err
	}
	done, err := k.Backup(r.Context(), b)
	if err != nil {
		return err
	}
	return Reply(w, done)
}

func (s *Server) clock(w http.ResponseWriter, r *http.Request) error {
	if err := Params(r).Err(); err != nil {
		return err
	}
	return Reply(w, clockOf(s.Engine.Clock().State()))
}

func (s *Server) confirmClock(w http.ResponseWriter, r *http.Request) error {
	c, err := Body[api.ConfirmClock](r, true)
	if err != nil {
		return err
	}
	_, actor, err := ActorOf(r, "", c.Actor)
	if err != nil {
		return err
	}
	state, err := s.Engine.Operator().ConfirmClock(r.Context(), actor, c.Note)
	if err != nil {
		return err
	}
	return Reply(w, clockOf(state))
}

func clockOf(s clock.State) api.Clock {
	c := api.Clock{Wall: s.Wall, Now: s.Now, Trusted: s.Trusted, Doubt: s.Doubt, Restart: s.Restart}
	if s.Doubt != "" {
		c.Seconds = int64(s.By.Round(time.Second) / time.Second)
	}
	if !s.Confirmed.IsZero() {
		c.Confirmed = &s.Confirmed
	}
	return c
}

// clockWarnings warn that nothing is removed by its age, and state how that ends.
func (s *Server) clockWarnings() []string {
	c := s.Engine.Clock().State()
	if c.Doubt == "" {
		return nil
	}
	what := map[string]string{
		clock.Ahead:  "is ahead of the time at which the server worked last by " + span(c.By),
		clock.Behind: "is behind the time at which the server worked last by " + span(-c.By),
		clock.Jumped: "was set by " + span(c.By) + " while the server runs",
	}[c.Doubt]
	return []string{fmt.Sprintf("the clock of this machine %s: nothing is removed by its age until the "+
		"clock is set right, or confirmed (stagepost admin clock --confirm --note WHY)", what)}
}

// span is a duration in words of days and hours, for people.
func span(d time.Duration) string {
	if days := d / (24 * time.Hour); days >= 2 || days <= -2 {
		return fmt.Sprintf("%d days", days)
	}
	return d.Round(time.Minute).String()
}
