package httpguard

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// TestGuard has what browsers send for a page of a stranger, and beside it what programs and people send.
func TestGuard(t *testing.T) {
	reached := 0
	inner := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached++ })
	open := httptest.NewServer(Guard(inner, Options{Hosts: []string{"jobs.example.org"}}))
	defer open.Close()
	closed := httptest.NewServer(Guard(inner, Options{Token: true}))
	defer closed.Close()
	for name, c := range map[string]struct {
		server       *httptest.Server
		method, host string
		header       http.Header
		want         int
	}{
		"a program":                {open, "POST", "", nil, 200},
		"a program by name":        {open, "POST", "localhost:5000", nil, 200},
		"a container's name":       {open, "POST", "orchestrator:5000", nil, 200},
		"a name of the server":     {open, "POST", "jobs.example.org", nil, 200},
		"an agent's tunnel":        {open, "POST", "node7.tunnel", nil, 200},
		"the own page":             {open, "POST", "", http.Header{"Sec-Fetch-Site": {"same-origin"}}, 200},
		"a page of another origin": {open, "POST", "", http.Header{"Sec-Fetch-Site": {"cross-site"}}, 403},
		"an old browser":           {open, "POST", "", http.Header{"Origin": {"http://evil.example"}}, 403},
		"it puts":                  {open, "PUT", "", http.Header{"Origin": {"http://evil.example"}}, 403},
		"a file":                   {open, "POST", "", http.Header{"Origin": {"null"}}, 403},
		// it cannot read the answer
		"it only reads": {open, "GET", "", http.Header{"Sec-Fetch-Site": {"cross-site"}}, 200},
		"a stranger's name": {open, "GET", "evil.example:5000",
			http.Header{"Sec-Fetch-Site": {"same-origin"}}, 421},
		"a stranger's name posts": {open, "POST", "evil.example:5000",
			http.Header{"Origin": {"http://evil.example:5000"}}, 421},
		"a name with a token":          {closed, "POST", "proxied.example", nil, 200},
		"another origin with a token":  {closed, "POST", "", http.Header{"Sec-Fetch-Site": {"cross-site"}}, 403},
		"an address in place of names": {open, "GET", "[::1]:5000", nil, 200},
	} {
		r, err := http.NewRequestWithContext(t.Context(), c.method, c.server.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Host, r.Header = c.host, c.header.Clone()
		before := reached
		a, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(a.Body)
		a.Body.Close()
		if err != nil || a.StatusCode != c.want || (reached > before) != (c.want == 200) ||
			a.Header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: %s %s, %v, reached %v", name, a.Status, text, err, reached > before)
		}
		if c.want != 200 && !strings.Contains(string(text), " not ") {
			t.Errorf("%s: the answer is %s", name, text)
		}
	}
}

// TestGuardPatience has peers that hold a connection and do nothing: one never reads the answer, one never sends the
// body that it announced. Each is cut off; one that is slow but does something is not.
func TestGuardPatience(t *testing.T) {
	piece := make([]byte, 1<<20)
	ends := make(chan error, 1)
	s := httptest.NewServer(Guard(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			return
		}
		for range 64 { // more than all buffers in between hold
			if _, err := w.Write(piece); err != nil {
				ends <- err
				return
			}
		}
		ends <- nil
	}), Options{Patience: time.Second}))
	defer s.Close()
	dial := func(request string) net.Conn {
		c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", s.Listener.Addr().String())
		if err == nil {
			_, err = io.WriteString(c, request)
		}
		if err != nil {
			t.Fatal(err)
		}
		_ = c.SetDeadline(time.Now().Add(time.Minute))
		return c
	}
	silent := dial("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
	defer silent.Close()
	select {
	case err := <-ends:
		if err == nil {
			t.Error("all was sent to a peer that reads nothing")
		}
	case <-time.After(time.Minute):
		t.Fatal("a peer that reads nothing holds its answer")
	}
	owing := dial("POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n")
	defer owing.Close()
	if text, err := io.ReadAll(owing); err != nil || !strings.HasPrefix(string(text), "HTTP/1.1 200") {
		t.Errorf("a body that does not come holds its connection: %q, %v", text, err)
	}
	slow := dial("GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
	defer slow.Close()
	if n, err := io.Copy(io.Discard, slow); err != nil || n < 64<<20 || <-ends != nil {
		t.Errorf("control: %d bytes, %v", n, err)
	}
}
