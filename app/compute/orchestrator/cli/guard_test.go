package orchestratorcli

import (
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/stagepost/stagepost/host"
)

// TestWireKeepsPagesOut has what browsers send to the listener of job-orchestrator for a stranger's page, and beside it
// the same from a program.
func TestWireKeepsPagesOut(t *testing.T) {
	s, jobs, users := newSettings()
	s.Data, s.Listen, s.Store = t.TempDir(), "127.0.0.1:0", "mem"
	s.Hosts = "Jobs.Example.org., other.example.org"
	users.Listen, jobs.Local, jobs.Sandbox = "127.0.0.1:0", 1, "none"
	r, err := host.Start(t.Context(), s, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := r.Stop(); err != nil {
			t.Error(err)
		}
	}()
	for name, c := range map[string]struct {
		host, origin string
		want         int
	}{
		"a program":                {"", "", http.StatusBadRequest}, // it is received: the form is empty
		"a page of another origin": {"", "http://evil.example", http.StatusForbidden},
		"a name made to lead here": {"evil.example", "http://evil.example", http.StatusMisdirectedRequest},
		"through a proxy":          {"jobs.example.org", "", http.StatusBadRequest},
		"with a port":              {"other.example.org:8443", "https://other.example.org:8443", http.StatusBadRequest},
	} {
		q, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.Address("compute")+"/upload",
			strings.NewReader("--x--\r\n"))
		if err != nil {
			t.Fatal(err)
		}
		q.Header.Set("Content-Type", "multipart/form-data; boundary=x")
		if q.Host = c.host; c.origin != "" {
			q.Header.Set("Origin", c.origin)
		}
		a, err := http.DefaultClient.Do(q)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(a.Body)
		_ = a.Body.Close()
		if err != nil || a.StatusCode != c.want {
			t.Errorf("%s: %s %s, %v", name, a.Status, text, err)
		}
		if code := readAs(t, r.URL, c.host); (code == http.StatusOK) != (c.host != "evil.example") {
			t.Errorf("%s: the main address answers %d", name, code)
		}
	}
}

// readAs asks the main address for its health by a name.
func readAs(t *testing.T, url, name string) int {
	t.Helper()
	q, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/healthz", nil)
	if err != nil {
		t.Fatal(err)
	}
	q.Host = name
	a, err := http.DefaultClient.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	_ = a.Body.Close()
	return a.StatusCode
}
