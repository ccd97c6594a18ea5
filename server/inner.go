package server

import (
	"bytes"
	"encoding/json"
	"net/http"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/server/problem"
)

// outer are headers of a request that belong to its own body and answer. An operation that it asks gets the others,
// which state who sends it.
var outer = []string{"Accept", "Accept-Encoding", "Content-Encoding", "Content-Length", "Content-Type",
	"Idempotency-Key", "If-Match", "If-Modified-Since", "If-None-Match", "Last-Event-Id", "Origin", "Range"}

// Ask sends a request to an operation of this server, in the name of the sender of r, and returns the body of its
// answer. in is the JSON body; nil: none. Pages use it, so that what a person may see and do is decided by the
// operations alone. A refusal is an error with the kind and the status of the answer.
func (s *Server) Ask(r *http.Request, method, path string, in any) ([]byte, error) {
	var body []byte
	if in != nil {
		text, err := json.Marshal(in)
		if err != nil {
			return nil, job.Errorf(job.Internal, "ask", "", "%w", err)
		}
		body = text
	}
	q, err := http.NewRequestWithContext(r.Context(), method, path, bytes.NewReader(body))
	if err != nil {
		return nil, job.Errorf(job.Invalid, "ask", "", "%w", err)
	}
	q.Header, q.Host, q.RemoteAddr, q.TLS = r.Header.Clone(), r.Host, r.RemoteAddr, r.TLS
	for _, name := range outer {
		q.Header.Del(name)
	}
	if in != nil {
		q.Header.Set("Content-Type", "application/json")
	}
	a := &answer{header: http.Header{}, status: http.StatusOK}
	s.route(a, q)
	if a.status < 400 {
		return a.body.Bytes(), nil
	}
	var p api.Problem
	if err := json.Unmarshal(a.body.Bytes(), &p); err != nil {
		return nil, job.Errorf(job.Internal, "ask", "", "%s %s: status %d", method, path, a.status)
	}
	return nil, reported{problem.From(&p)} // the operation logs what it refuses
}

// answer is the answer of an operation to another request of this server.
type answer struct {
	header http.Header
	status int
	body   bytes.Buffer
	begun  bool
}

// Header is part of http.ResponseWriter.
func (a *answer) Header() http.Header { return a.header }

// WriteHeader is part of http.ResponseWriter.
func (a *answer) WriteHeader(status int) {
	if !a.begun {
		a.begun, a.status = true, status
	}
}

// Write is part of http.ResponseWriter.
func (a *answer) Write(b []byte) (int, error) {
	a.begun = true
	return a.body.Write(b)
}
