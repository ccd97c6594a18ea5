package server

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/server/problem"
)

// fail answers with a problem.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, err error) {
	if s.Storage != nil {
		err = s.Storage.Full(err)
	}
	p := problem.Of(err)
	if p.Kind == job.Conflict && r.Header.Get("If-Match") != "" {
		p.Status = http.StatusPreconditionFailed
	}
	if p.Kind == job.Internal {
		s.Log.Error("request", "method", r.Method, "path", s.loggedPath(r), "error", err)
	}
	if p.Status == http.StatusUnauthorized && s.toSignIn(r) {
		w.Header().Del("WWW-Authenticate")
		http.Redirect(w, r, signInAt(r), http.StatusSeeOther)
		return
	}
	if s.failPage(w, r, err) {
		return
	}
	problem.Write(w, p)
}

// failPage answers a browser with a page about an error. It reports whether it did: programs get the problem.
func (s *Server) failPage(w http.ResponseWriter, r *http.Request, err error) bool {
	if !ForPeople(r) || r.Header.Get("Authorization") != "" || forPrograms(r.URL.Path) {
		return false
	}
	for i := range s.parts {
		fail := s.parts[i].Pages.Fail
		if fail == nil {
			continue
		}
		if s.Identities != nil { // the request was refused before it had its identity
			if who, err := s.Identities.Identify(r); err == nil {
				r = r.WithContext(context.WithValue(r.Context(), identityKey{}, who))
			}
		}
		w.Header().Del("Content-Disposition")
		if wrong := fail(w, r, err); wrong != nil {
			s.Log.Error("page", "path", s.loggedPath(r), "error", wrong)
			return false
		}
		return true
	}
	return false
}

// forPrograms reports whether a path is of the API, whose refusals are problems for every client.
func forPrograms(path string) bool { return strings.HasPrefix(path, "/api/") }

// loggedPath is the path of a request without the secret half of a token in it.
func (s *Server) loggedPath(r *http.Request) string {
	const shown = 26 // the bytes of a token that name it
	for i := range s.all {
		before, _, found := strings.Cut(s.all[i].Pattern, "{token}")
		if token, ok := strings.CutPrefix(r.URL.Path, before); found && ok && len(token) > shown {
			return before + token[:shown] + "***"
		}
	}
	return r.URL.Path
}

// listed returns a list that JSON writes as [], not as null.
func listed[T any](all []T) []T {
	if all == nil {
		return []T{}
	}
	return all
}

// Reply answers with JSON.
func Reply[T any](w http.ResponseWriter, v T) error { return ReplyAs(w, http.StatusOK, v) }

func ReplyAs[T any](w http.ResponseWriter, status int, v T) error {
	text, err := json.Marshal(v)
	if err != nil {
		return job.Errorf(job.Internal, "encode", "", "%w", err)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(text, '\n')) // who does not read on has gone
	return nil
}
