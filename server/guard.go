package server

import (
	"fmt"
	"net"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/server/problem"
)

const policyOfAll = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// headers are set in every answer, errors included. A route may replace Content-Security-Policy.
var headers = []struct {
	name  string
	value []string
}{
	{"Content-Security-Policy", []string{policyOfAll}},
	{"X-Content-Type-Options", []string{"nosniff"}},
	{"X-Frame-Options", []string{"DENY"}},
	{"Referrer-Policy", []string{"no-referrer"}},
	{"Cross-Origin-Opener-Policy", []string{"same-origin"}},
	{"Cross-Origin-Resource-Policy", []string{"same-origin"}},
	{"Cache-Control", []string{"no-store"}},
}

// transport is the header field Strict-Transport-Security: two years (RFC 6797).
var transport = []string{"max-age=63072000"}

// guard wraps all routes: headers, panics, the Host header, the origin.
func (s *Server) guard(next http.Handler) http.Handler {
	origin := http.NewCrossOriginProtection()
	origin.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		err := problem.Refuse(http.StatusForbidden, job.Refused, "a page of another origin may not do this")
		s.Refused(r, err)
		s.fail(w, r, err)
	}))
	next = origin.Handler(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		for _, one := range headers {
			h[one.name] = one.value // shared: a handler that replaces a header sets another slice
		}
		if s.TLS || r.TLS != nil {
			h["Strict-Transport-Security"] = transport
		}
		t := &tracked{ResponseWriter: w}
		w = t
		defer s.answered(t, r, time.Now())
		defer s.recover(t, r)
		if s.Identities == nil && !s.hostIsOurs(r.Host) { // a stranger's page has no token
			s.fail(w, r, problem.Refuse(http.StatusMisdirectedRequest, job.Refused,
				"this server is not called %.100q", r.Host))
			return
		}
		next.ServeHTTP(w, r)
	})
}

// recover makes a problem of a panic in a handler.
func (s *Server) recover(w *tracked, r *http.Request) {
	p := recover()
	if p == nil {
		return
	}
	if p == http.ErrAbortHandler {
		panic(p)
	}
	s.Log.Error("panic", "method", r.Method, "path", s.loggedPath(r), "panic", fmt.Sprint(p), "stack",
		string(debug.Stack()))
	if w.begun {
		panic(http.ErrAbortHandler) // half an answer must not pass for a whole one
	}
	s.fail(w, r, job.Errorf(job.Internal, "request", "", "panic: %v", p))
}

// tracked records whether the answer has begun.
type tracked struct {
	http.ResponseWriter
	begun  bool
	status int
}

// Unwrap is for http.ResponseController.
func (t *tracked) Unwrap() http.ResponseWriter { return t.ResponseWriter }

func (t *tracked) WriteHeader(status int) {
	t.begun = true
	if t.status == 0 && status >= 200 {
		t.status = status
	}
	t.ResponseWriter.WriteHeader(status)
}

func (t *tracked) Write(b []byte) (int, error) {
	t.begun = true
	if t.status == 0 {
		t.status = http.StatusOK
	}
	return t.ResponseWriter.Write(b)
}

// hostIsOurs reports whether a Host header names this server: an address of the loopback, localhost or one of
// Options.Hosts. Any other name may be one that a stranger's page resolved to 127.0.0.1.
func (s *Server) hostIsOurs(host string) bool {
	if last := s.host.Load(); last != nil && *last == host {
		return true
	}
	if !s.names(host) {
		return false
	}
	kept := host // a copy, so that the argument stays off the heap
	s.host.Store(&kept)
	return true
}

// names is hostIsOurs for a header that was not checked before.
func (s *Server) names(host string) bool {
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	name = strings.ToLower(strings.TrimSuffix(strings.Trim(name, "[]"), "."))
	if name == "localhost" || slices.Contains(s.Hosts, name) {
		return true
	}
	ip := net.ParseIP(name)
	return ip != nil && ip.IsLoopback()
}
