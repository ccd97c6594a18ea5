package server

import (
	"bytes"
	"crypto/sha256"
	"io"
	"maps"
	"net/http"
	"sync"
	"time"

	"github.com/stagepost/stagepost/job"
)

// Bounds of the answers that are kept for repetitions. What creates a job has its key in the record instead.
const (
	onceFor     = time.Hour
	onceAnswers = 10_000
	onceBytes   = 32 << 20 // of the bodies of all; when there are more, the oldest are forgotten
)

// digest is a SHA-256.
type digest = [sha256.Size]byte

// once is the answer to a request with an idempotency key.
type once struct {
	at   time.Time
	sum  digest        // of the request
	done chan struct{} // closed when the answer is complete

	answer // that of a success; the others are not kept
}

// onces are answers by sender, operation and key. The zero value is ready.
type onces struct {
	mu    sync.Mutex // guards the rest
	by    map[digest]*once
	order []digest // the oldest first; it may have some that were removed
	bytes int
}

// begin returns the answer under a name, and whether the caller has to make it: it calls end then.
func (o *onces) begin(name, sum digest, now time.Time) (one *once, first bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.forget(now)
	if one = o.by[name]; one != nil {
		return one, false
	}
	if o.by == nil {
		o.by = map[digest]*once{}
	}
	one = &once{at: now, sum: sum, done: make(chan struct{}), answer: answer{header: http.Header{},
		status: http.StatusOK}}
	o.by[name] = one
	o.order = append(o.order, name)
	return one, true
}

// end completes an answer. One that is not kept is made again by the next request.
func (o *onces) end(name digest, one *once, keep bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if keep && o.by[name] == one {
		o.bytes += one.body.Len()
	} else if o.by[name] == one {
		delete(o.by, name)
	}
	close(one.done)
}

// forget removes the oldest answers. The caller has locked mu.
func (o *onces) forget(now time.Time) {
	for len(o.order) > 0 {
		one := o.by[o.order[0]]
		if one != nil {
			select {
			case <-one.done:
			default:
				return // it is being made
			}
			if now.Sub(one.at) < onceFor && len(o.by) < onceAnswers && o.bytes < onceBytes {
				return
			}
			o.bytes -= one.body.Len()
			delete(o.by, o.order[0])
		}
		o.order = o.order[1:]
	}
}

// recorder records an answer. Deadlines are those of the connection.
type recorder struct {
	*answer
	to http.ResponseWriter
}

// Unwrap is for http.ResponseController.
func (r recorder) Unwrap() http.ResponseWriter { return r.to }

// once handles a request of a route that is carried out once under an idempotency key: a repetition by the same sender
// gets the answer of the first one, with 200 in place of 201. A refused request is carried out again.
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
	for {
		one, first := s.onces.begin(name, sum, time.Now())
		if first {
			return s.carryOut(route, name, one, w, r)
		}
		select {
		case <-one.done:
		case <-r.Context().Done():
			return r.Context().Err()
		}
		if one.sum != sum {
			return job.Errorf(job.Conflict, "request", "", "this idempotency key was used for another request: choose "+
				"another key, or repeat the request as it was")
		}
		if one.begun {
			w.Header().Set("Idempotency-Replayed", "true")
			if one.status == http.StatusCreated {
				return one.write(w, http.StatusOK)
			}
			return one.write(w, one.status)
		}
	}
}

// carryOut has the handler make an answer, which is kept if it is a success.
func (s *Server) carryOut(route *Route, name digest, one *once, w http.ResponseWriter, r *http.Request) error {
	made := answer{header: http.Header{}, status: http.StatusOK}
	keep := false
	defer func() { s.onces.end(name, one, keep) }()
	if err := route.Handle(recorder{&made, w}, r); err != nil {
		maps.Copy(w.Header(), made.header)
		return err
	}
	if keep = made.status < 300; keep {
		made.begun, one.answer = true, made
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
