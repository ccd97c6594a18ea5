package server

import (
	"bytes"
	"crypto/sha256"
	"io"
	"maps"
	"net/http"
	"time"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/server/kept"
)

// recorder records an answer. Deadlines are those of the connection.
type recorder struct {
	*answer
	to http.ResponseWriter
}

// Unwrap is for http.ResponseController.
func (r recorder) Unwrap() http.ResponseWriter { return r.to }

// once handles a request of a route that is carried out once under an idempotency key: a repetition by the same sender
// gets the answer of the first one, with 200 in place of 201. A refused request is carried out again, and one whose
// server ended before it had kept the answer.
func (s *Server) once(route *Route, w http.ResponseWriter, r *http.Request) error {
	if !route.IO.Once {
		return route.Handle(w, r)
	}
	key, err := KeyOf(r, "", nil)
	if err != nil {
		return err
	}
	if key == "" {
		return route.Handle(w, r)
	}
	body, err := io.ReadAll(r.Body) // it is bounded
	if err != nil {
		return BodyError(err)
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	who, _ := Who(r.Context())
	name := sha256.Sum256([]byte(who.Name + "\n" + r.Method + "\n" + r.URL.Path + "\n" + key))
	sum := sha256.Sum256([]byte(r.URL.RawQuery + "\n" + string(body)))
	one, held, err := s.kept.Begin(r.Context(), name, time.Now())
	switch {
	case err != nil && r.Context().Err() != nil:
		return r.Context().Err()
	case err != nil:
		return job.Errorf(job.Unavailable, "request", "", "the answer under an idempotency key cannot be kept: %w",
			s.full(err))
	case held != nil:
		return s.carryOut(route, held, sum, w, r)
	case !bytes.Equal(one.Request, sum[:]):
		return job.Errorf(job.Conflict, "request", "", "this idempotency key was used for another request: choose "+
			"another key, or repeat the request as it was")
	}
	w.Header().Set("Idempotency-Replayed", "true")
	again := answer{header: one.Header, status: one.Status}
	if one.Status == http.StatusCreated {
		again.status = http.StatusOK
	}
	again.body.Write(one.Body)
	return again.write(w, again.status)
}

// full is the error of a full disk, if that is why a file cannot be written.
func (s *Server) full(err error) error {
	if s.Storage == nil {
		return err
	}
	return s.Storage.Full(err)
}

// carryOut has the handler make an answer, which is kept if it is a success.
func (s *Server) carryOut(route *Route, held *kept.Held, sum kept.Sum, w http.ResponseWriter, r *http.Request) error {
	made := answer{header: http.Header{}, status: http.StatusOK}
	done := false
	defer func() {
		if !done {
			held.Drop()
		}
	}()
	if err := route.Handle(recorder{&made, w}, r); err != nil {
		maps.Copy(w.Header(), made.header)
		return err
	}
	if done = made.status < 300; done {
		err := held.Keep(&kept.Answer{At: time.Now(), Request: sum[:], Status: made.status, Header: made.header,
			Body: made.body.Bytes()})
		if err != nil { // what was requested is done
			s.Log.Error("an answer under an idempotency key could not be kept", "path", r.URL.Path, "error", err)
		}
	}
	return made.write(w, made.status)
}

// write sends a recorded answer.
func (a *answer) write(w http.ResponseWriter, status int) error {
	maps.Copy(w.Header(), a.header)
	w.WriteHeader(status)
	_, _ = w.Write(a.body.Bytes()) // who does not read on has gone
	return nil
}
