// Package session ends requests whose credential is no longer valid, and limits what one identity has open at once.
package session

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/server/identity"
	"github.com/stagepost/stagepost/server/problem"
)

// errRevoked is the cause with which a request ends whose credential is no longer valid.
var errRevoked = problem.Refuse(http.StatusUnauthorized, job.Refused, "the sign-in or token is no longer valid")

// Sessions are the running requests and the connections that were taken over from them, each with its credential.
// They end when it is revoked, expires or can no longer be read. The zero value is ready.
type Sessions struct {
	mu   sync.Mutex // guards open
	open map[*session]bool
}

// session is a request, or a connection that was taken over from it.
type session struct {
	who identity.Identity
	end func() // called once, with the lock of Sessions held; it must not block
}

func (s *Sessions) begin(one *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open == nil {
		s.open = map[*session]bool{}
	}
	s.open[one] = true
}

func (s *Sessions) over(one *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, one)
}

// Keep ends the sessions whose credentials are not valid, or give another role.
func (s *Sessions) Keep(valid func(*identity.Identity) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for one := range s.open {
		if !valid(&one.who) {
			delete(s.open, one)
			one.end()
		}
	}
}

// Open prepares a request and its answer to end with a credential. The caller calls the function when the handler has
// returned.
func (s *Sessions) Open(
	w http.ResponseWriter, r *http.Request, who identity.Identity,
) (http.ResponseWriter, *http.Request, func()) {
	ctx, cancel := context.WithCancelCause(r.Context())
	control := http.NewResponseController(w)
	one := &session{who: who, end: func() {
		cancel(errRevoked)
		_ = control.SetReadDeadline(time.Unix(1, 0)) // a recorder in a test has none
		_ = control.SetWriteDeadline(time.Unix(1, 0))
	}}
	s.begin(one)
	r = r.WithContext(ctx)
	if r.Body != nil && r.Body != http.NoBody {
		r.Body = &endingBody{r.Body, ctx}
	}
	return &endingAnswer{w, ctx, s, who}, r, func() {
		s.over(one)
		cancel(nil)
	}
}

// revoked reports whether a request has ended because of its credential.
func revoked(ctx context.Context) bool { return ctx.Err() != nil && context.Cause(ctx) == errRevoked }

// endingBody is a request's body that ends with the credential.
type endingBody struct {
	io.ReadCloser
	ctx context.Context
}

func (b *endingBody) Read(p []byte) (int, error) {
	if revoked(b.ctx) {
		return 0, errRevoked
	}
	n, err := b.ReadCloser.Read(p)
	if err != nil && revoked(b.ctx) {
		err = errRevoked
	}
	return n, err
}

// endingAnswer is an answer that ends with the credential.
type endingAnswer struct {
	http.ResponseWriter
	ctx      context.Context
	sessions *Sessions
	who      identity.Identity
}

// Unwrap is for http.ResponseController.
func (a *endingAnswer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

func (a *endingAnswer) Write(p []byte) (int, error) {
	if revoked(a.ctx) {
		return 0, errRevoked
	}
	return a.ResponseWriter.Write(p)
}

// Hijack lets the handler take the connection over; it is closed when the credential is no longer valid.
func (a *endingAnswer) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	if revoked(a.ctx) {
		return nil, nil, errRevoked
	}
	c, buffered, err := http.NewResponseController(a.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	taken := &takenOver{Conn: c, sessions: a.sessions}
	taken.session = &session{who: a.who, end: func() { _ = c.Close() }}
	a.sessions.begin(taken.session)
	return taken, buffered, nil
}

// takenOver is a connection that a handler took over.
type takenOver struct {
	net.Conn
	sessions *Sessions
	session  *session
}

func (t *takenOver) Close() error {
	t.sessions.over(t.session)
	return t.Conn.Close()
}
