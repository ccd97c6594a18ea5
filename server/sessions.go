package server

import (
	"context"
	"net/http"
	"time"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/server/problem"
)

// checkEvery is the time between checks whether the credentials of open requests are still valid.
const checkEvery = time.Second

// watchIdentities ends requests whose credentials are no longer valid, or give another role, until ctx ends.
func (s *Server) watchIdentities(ctx context.Context) {
	tick := time.NewTicker(checkEvery)
	defer tick.Stop()
	known := ""
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			s.sessions.Keep(s.Identities.Valid)
			known = s.logFault(known)
		}
	}
}

// logFault logs when the credentials become unreadable, why, and when they are readable again; known is what was
// logged last.
func (s *Server) logFault(known string) string {
	fault := ""
	if err := s.Identities.Fault(); err != nil {
		fault = err.Error()
	}
	switch {
	case fault == known:
	case fault == "":
		s.Log.Info("the tokens and accounts are readable again")
	default:
		s.Log.Error("the tokens or accounts cannot be read: none is accepted until the file is repaired", "error",
			fault)
	}
	return fault
}

// UnderIdentities ends the requests of a handler that authenticates itself when their credentials are no longer valid.
// What they change has their address, and their number is limited, as in routes of the server.
func (s *Server) UnderIdentities(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r, name := s.withAddress(r), ""
		if s.Identities != nil {
			if who, err := s.Identities.Identify(r); err == nil {
				var over func()
				w, r, over = s.sessions.Open(w, r.WithContext(context.WithValue(r.Context(), identityKey{}, who)), who)
				defer over()
				name = who.Name
			}
		}
		if err := s.pace(w, r, name); err != nil {
			s.Refused(r, err)
			problem.Write(w, problem.Of(err))
			return
		}
		next.ServeHTTP(w, r)
	})
}

// UnderLimits limits the requests of a handler whose credentials are its own. sender returns the name under which the
// requests of a valid credential count, or "": they count for their address. The log has no path of those beyond a
// limit: a credential may be in it.
func (s *Server) UnderLimits(next http.Handler, sender func(*http.Request) string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := s.pace(w, r, sender(r)); err != nil {
			shown := r.Clone(r.Context())
			shown.URL.Path, shown.URL.RawPath, shown.URL.RawQuery = "/"+job.Withheld, "", ""
			s.Refused(shown, err)
			problem.Write(w, problem.Of(err))
			return
		}
		next.ServeHTTP(w, r)
	})
}

// WatchJob returns a channel that a change of the job fills. The caller calls stop once.
func (s *Server) WatchJob(id job.ID) (changed <-chan struct{}, stop func()) { return s.hub.Watch(id) }

// Closing is closed when the server closes: streams end then.
func (s *Server) Closing() <-chan struct{} { return s.hub.Done() }

// EnterStream counts one more event stream. The caller calls leave once, unless there is an error.
func (s *Server) EnterStream(r *http.Request) (leave func(), err error) {
	own, err := s.streams.Enter(OwnerOf(r.Context()))
	if err != nil {
		return nil, err
	}
	if s.watching.Add(1) > int64(s.Watchers) {
		s.watching.Add(-1)
		own()
		return nil, job.Errorf(job.Unavailable, "watch", JobID(r), "%d streams are open, which is the most", s.Watchers)
	}
	return func() { s.watching.Add(-1); own() }, nil
}
