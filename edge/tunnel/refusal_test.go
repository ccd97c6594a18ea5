package tunnel_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stagepost/stagepost/edge/tunnel"
)

// refusing is a server in the same bubble that gives every agent one answer, and counts how often it is asked.
type refusing struct {
	mu     sync.Mutex // guards the rest
	status int
	body   string
	asked  int
}

func (s *refusing) answer(status int, body string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status, s.body, s.asked = status, body, 0
}

func (s *refusing) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked
}

// dial connects an agent. An accepted agent stays connected until it disconnects.
func (s *refusing) dial(context.Context, string, string) (net.Conn, error) {
	here, there := net.Pipe()
	go func() {
		defer there.Close()
		if _, err := http.ReadRequest(bufio.NewReader(there)); err != nil {
			return
		}
		s.mu.Lock()
		s.asked++
		status, body := s.status, s.body
		s.mu.Unlock()
		if status == http.StatusSwitchingProtocols {
			_, _ = fmt.Fprint(there,
				"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: stagepost-tunnel/2\r\n\r\n")
			_, _ = there.Read(make([]byte, 1)) // until the agent goes
			return
		}
		_, _ = fmt.Fprintf(there, "HTTP/1.1 %d %s\r\nContent-Length: %d\r\n\r\n%s", status, http.StatusText(status),
			len(body), body)
	}()
	return here, nil
}

// TestRefusalLasts: an agent that is refused for its token retries seldom and logs the reason once; it connects when
// the token is corrected. A server that is only busy is the control: it is asked often.
func TestRefusalLasts(t *testing.T) {
	const forbidden = `{"type":"about:blank","title":"Forbidden","status":403,"detail":"the token is that of the ` +
		`agent \"b\",\nnot of \"a\"","kind":"refused"}`
	for _, c := range []struct {
		status      int
		body        string
		least, most int
		want        string
	}{
		{http.StatusForbidden, forbidden, 6, 10,
			`the server refuses the tunnel: 403 Forbidden: the token is that of the agent "b", not of "a"`},
		{http.StatusUnauthorized, "who are you?\n", 6, 10,
			"the server refuses the tunnel: 401 Unauthorized: who are you?"},
		{http.StatusServiceUnavailable, `{"title":"busy"}`, 15, 500,
			"the server refuses the tunnel: 503 Service Unavailable: busy"},
	} {
		synctest.Test(t, func(t *testing.T) {
			server := &refusing{status: c.status, body: c.body}
			var log lockedBuffer
			l, err := tunnel.Listen(t.Context(),
				tunnel.Options{URL: "http://server", Name: "a", Silence: 24 * time.Hour, Dial: server.dial,
					Log: log.logger()})
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(10 * time.Minute)
			synctest.Wait()
			if n := server.count(); n < c.least || n > c.most {
				t.Errorf("%d: asked %d times in ten minutes, want %d to %d", c.status, n, c.least, c.most)
			}
			var r *tunnel.Refusal
			if err := l.Err(); !errors.As(err, &r) || r.Status != c.status || err.Error() != c.want {
				t.Errorf("got %v, want %s", err, c.want)
			}
			if text := log.String(); strings.Count(text, "level=WARN") != 1 || strings.Contains(text, `\\\"`) {
				t.Errorf("the log has %s", text)
			}
			server.answer(http.StatusSwitchingProtocols, "")
			time.Sleep(2 * time.Minute)
			synctest.Wait()
			if n := server.count(); n != 1 || l.Err() != nil ||
				strings.Count(log.String(), "the tunnel is connected") != 1 {
				t.Errorf("%d: after it was mended there are %d connections, %v", c.status, n, l.Err())
			}
			if err := l.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestRefusalAfterSilence: a refusal is logged also if the server was unreachable before.
func TestRefusalAfterSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &refusing{status: http.StatusServiceUnavailable}
		var log lockedBuffer
		l, err := tunnel.Listen(t.Context(),
			tunnel.Options{URL: "http://server", Name: "a", Dial: server.dial, Log: log.logger()})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		server.answer(http.StatusForbidden, "not you")
		time.Sleep(time.Minute)
		synctest.Wait()
		if text := log.String(); strings.Count(text, "the server refuses this agent") != 1 ||
			!strings.Contains(text, `reason="not you"`) {
			t.Errorf("the log has %s", text)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestRefusedCertificate: a server that refuses the agent's certificate in TLS is asked seldom, and the log states the
// next step once. The control is another fault of TLS.
func TestRefusedCertificate(t *testing.T) {
	for alert, refused := range map[string]bool{"tls: expired certificate": true, "tls: internal error": false} {
		synctest.Test(t, func(t *testing.T) {
			var log lockedBuffer
			l, err := tunnel.Listen(t.Context(), tunnel.Options{URL: "http://server", Name: "a", Log: log.logger(),
				Dial: func(context.Context, string, string) (net.Conn, error) {
					return nil, &net.OpError{Op: "remote error", Err: errors.New(alert)}
				}})
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(10 * time.Minute)
			synctest.Wait()
			var r *tunnel.Refusal
			if got := errors.As(l.Err(), &r); got != refused {
				t.Errorf("%s: got %v", alert, l.Err())
			}
			text := log.String()
			if strings.Count(text, "level=WARN") != 1 || strings.Contains(text, "stagepost work enrol") != refused {
				t.Errorf("%s: the log has %s", alert, text)
			}
			if err := l.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}
