package fetch

import (
	"context"
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
			if err != nil && (!errors.As(err, &e) || e.Kind != Refused) {
				t.Errorf("got %v, want an Error of kind %s", err, Refused)
			}
			if e != nil && strings.Contains(e.Error(), "hush") { // paths of webhooks may be secret
				t.Errorf("got %v", e)
			}
		})
	}
}

// TestTransportRefusesAtTheDial has a name that leads to a refused address: the kind of error differs from that of an
// unreachable network. The second case is the control.
func TestTransportRefusesAtTheDial(t *testing.T) {
	for name, c := range map[string]struct {
		lookup  func(context.Context, string) ([]netip.Addr, error)
		refused bool
	}{
		"refused": {func(context.Context, string) ([]netip.Addr, error) {
			return []netip.Addr{netip.MustParseAddr("10.0.0.1")}, nil
		}, true},
		"unknown": {func(context.Context, string) ([]netip.Addr, error) { return nil, errors.New("no such host") },
			false},
	} {
		t.Run(name, func(t *testing.T) {
			client := New(Policy{Lookup: c.lookup})
			defer client.Close()
			r := httptest.NewRequest(http.MethodGet, "http://inner.example/hush", nil)
			answer, err := client.Transport().RoundTrip(r)
			if err == nil {
				answer.Body.Close()
				t.Fatal("the request was sent")
			}
			var e *Error
			if got := errors.As(err, &e) && e.Kind == Refused; got != c.refused {
				t.Errorf("got %v of type %T", err, err)
			}
			if strings.Contains(err.Error(), "hush") { // paths of webhooks may be secret
				t.Errorf("got %v", err)
			}
		})
	}
}
