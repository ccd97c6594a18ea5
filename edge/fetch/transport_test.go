package fetch

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
)

// TestTransport sends through the guard. The allowed network is the control.
func TestTransport(t *testing.T) {
	got := 0
	web := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { got++ }))
	defer web.Close()
	loopback := []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	for name, c := range map[string]struct {
		url     string
		allow   []netip.Prefix
		refused string
	}{
		"allowed":     {web.URL, loopback, ""},
		"not allowed": {web.URL, nil, "loopback"},
		"a port":      {"http://127.0.0.1:25/hush", loopback, "port 25"},
		"a spelling":  {"http://127.1/", loopback, "unusual spelling"},
		"a scheme":    {"gopher://127.0.0.1:7070/", loopback, "scheme"},
	} {
		t.Run(name, func(t *testing.T) {
			client := New(Policy{Allow: c.allow})
			defer client.Close()
			before := got
			h := http.Client{Transport: client.Transport()}
			answer, err := h.Post(c.url, "text/plain", strings.NewReader("x"))
			if err == nil {
				answer.Body.Close()
			}
			if (err == nil) != (c.refused == "") || err != nil && !strings.Contains(err.Error(), c.refused) {
				t.Errorf("got %v", err)
			}
			if sent := got > before; sent != (c.refused == "") {
				t.Errorf("sent: %t", sent)
			}
			var e *Error
			if errors.As(err, &e) && e.Kind != Refused {
				t.Errorf("got kind %s", e.Kind)
			}
			if e != nil && strings.Contains(e.Error(), "hush") { // paths of webhooks may be secret
				t.Errorf("got %v", e)
			}
		})
	}
}
