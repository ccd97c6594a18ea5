package server

import (
	"net/http"
	"strings"
	"time"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/server/problem"
)

// Metrics counts answers and shows all that is counted; *metrics.Metrics is one.
type Metrics interface {
	http.Handler
	Answered(method, route string, status int, took time.Duration)
}

// metrics answers with the metrics, in the text form that Prometheus reads.
func (s *Server) metrics(w http.ResponseWriter, r *http.Request) error {
	if err := Params(r).Err(); err != nil {
		return err
	}
	if s.Metrics == nil || s.MetricsElsewhere {
		return problem.Absent("metrics", "this address has no metrics", "setting metrics.listen")
	}
	s.Metrics.ServeHTTP(w, r)
	return nil
}

// answered counts an answer. The route is asked of the mux where the request that it saw was a copy.
func (s *Server) answered(w *tracked, r *http.Request, began time.Time) {
	if s.Metrics == nil {
		return
	}
	pattern := r.Pattern
	if pattern == "" {
		_, pattern = s.mux.Handler(r)
	}
	_, route, _ := strings.Cut(pattern, " ")
	s.Metrics.Answered(r.Method, route, w.status, time.Since(began))
}

// Watching returns how many event streams are open.
func (s *Server) Watching() int { return int(s.watching.Load()) }

// MetricsAlone returns a handler that serves only /metrics, for an address of its own. It has the guards of all
// routes.
func (s *Server) MetricsAlone() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, r *http.Request) { s.Metrics.ServeHTTP(w, r) })
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		s.fail(w, r, job.Errorf(job.NotFound, "route", "", "this address has nothing but GET /metrics"))
	})
	return s.guard(mux)
}
