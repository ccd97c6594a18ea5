package wire

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
)

// TestStrictHeaders: in strict mode users and servers get no header that the original does not send, whatever they ask
// for. Each answer has headers of ours in the full mode, which is the control.
func TestStrictHeaders(t *testing.T) {
	b := newBoard()
	b.add(View{Status: Completed})
	b.add(View{Status: Queued})
	d := newDesk(t, false)
	d.add(Payload{ID: 1, Status: Completed})
	d.add(Payload{ID: 2, Status: Running})
	file := withFile(`name="user_id"`, "1", `name="service"`, "example")
	for _, c := range []struct {
		method, path, form string
		agent              bool
		header             string // of the request
		busy               bool
	}{
		{path: "/"}, {path: "/health"}, {path: "/download/1"}, {path: "/download/1", header: "Range: bytes=1-2"},
		{path: "/download/2"}, {path: "/download/9"}, {path: "/swagger/"},
		{path: "/swagger"}, {path: "/nothing"}, {method: "HEAD", path: "/download/1"}, {method: "PUT",
			path: "/download/1"}, {path: "/download/1", header: "Host: evil.example"},
		{method: "POST", path: "/terminate/2", header: "Origin: http://evil.example"}, {method: "POST", path: "/upload",
			form: file}, {method: "POST", path: "/upload", form: file, busy: true},
		{agent: true, path: "/"}, {agent: true, path: "/load"}, {agent: true, path: "/retrieve/1"}, {agent: true,
			path: "/retrieve/2"}, {agent: true, path: "/retrieve/9"},
		{agent: true, path: "/retrieve/1", header: "Range: bytes=1-2"}, {agent: true, method: "POST", path: "/kill/2"},
		{agent: true, path: "/retrieve_partial/1"},
	} {
		ours := func(compat Compat) []string {
			b.commitErr = nil
			if c.busy {
				b.commitErr = Busy("it is full")
			}
			h := Users(b, Options{Compat: compat})
			if c.agent {
				h = Agent(d, AgentOptions{Compat: compat})
			}
			addr, header := listen(t, Guard(h, GuardOptions{Compat: compat})), []string(nil)
			if c.header != "" {
				header = append(header, c.header)
			}
			var g got
			switch {
			case c.form != "":
				g = post(t, addr, c.path, c.form, header...)
			case strings.HasPrefix(c.header, "Host: "):
				g = raw(t, addr, fmt.Sprintf("GET %s HTTP/1.1\r\n%s\r\nConnection: close\r\n\r\n", c.path, c.header))
			default:
				g = ask(t, addr, cmp.Or(c.method, "GET"), c.path, header...)
			}
			if compat == Strict && g.Code == http.StatusPartialContent {
				t.Errorf("%+v: a part of it", c)
			}
			for _, name := range []string{"Content-Length", "Content-Type", "Date", "Allow", "Location", "Connection"} {
				// RFC 9110, and the original's
				g.Header.Del(name)
			}
			return slices.Sorted(maps.Keys(g.Header))
		}
		if diff := gocmp.Diff([]string(nil), ours(Strict)); diff != "" {
			t.Errorf("%+v: strict: %s", c, diff)
		}
		if full := ours(Full); !slices.Contains(full, "X-Content-Type-Options") {
			t.Errorf("%+v: full: %v", c, full)
		}
	}
}

// TestBareKeepsControl: what reads a body slowly sets its deadlines through the writer.
func TestBareKeepsControl(t *testing.T) {
	addr := listen(t, Strict.bare(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		c := http.NewResponseController(w)
		if err := errors.Join(c.SetReadDeadline(time.Now().Add(time.Hour)),
			c.SetWriteDeadline(time.Now().Add(time.Hour))); err != nil {
			w.WriteHeader(http.StatusTeapot)
		}
		w.Header().Set("X-Ours", "1")
		_, _ = w.Write([]byte("x"))
	})))
	if g := ask(t, addr, "GET", "/"); g.Code != http.StatusOK || g.Header.Get("X-Ours") != "" {
		t.Errorf("got %v", g)
	}
}
