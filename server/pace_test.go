package server_test

import (
	"net/http"
	"testing"

	"github.com/stagepost/stagepost/server"
	"github.com/stagepost/stagepost/server/identity"
	"github.com/stagepost/stagepost/server/servertest"
)

// paced starts a server that allows bursts of ten requests without an identity from one address. ask sends one from an
// address, with a token or without (""), and returns the status.
func paced(t *testing.T) (g *servertest.Guarded, ask func(address, secret, path string) int) {
	t.Helper()
	g = servertest.GuardWith(t, func(_ *servertest.Guarded, o *server.Options) {
		behindProxy(o)
		o.RateAddress = 1
	})
	return g, func(address, secret, path string) int {
		t.Helper()
		r := g.With(secret, http.MethodGet, path, "")
		r.Header.Set("X-Forwarded-For", address)
		answer, _ := g.Ask(r)
		return answer.StatusCode
	}
}

// TestRefusalsCountForTheirSender: refused requests of a known sender do not use up what its address has. The control
// is requests without an identity.
func TestRefusalsCountForTheirSender(t *testing.T) {
	g, ask := paced(t)
	ann := g.Tokens[identity.Depositor]
	for range 30 {
		if got := ask("192.0.2.1", ann, "/api/v1/jobs/let_nobody"); got != http.StatusNotFound {
			t.Fatalf("a job that is not there: got %d", got)
		}
		if got := ask("192.0.2.1", ann, "/api/v1/admin/tokens"); got == http.StatusTooManyRequests {
			t.Fatal("what a depositor may not do counts for the address")
		}
	}
	if got := ask("192.0.2.1", "", "/healthz"); got != http.StatusOK {
		t.Errorf("another one from the address: got %d", got)
	}
	last := 0
	for range 30 {
		last = ask("192.0.2.2", "", "/healthz")
	}
	if last != http.StatusTooManyRequests {
		t.Errorf("control: got %d", last)
	}
}

// TestNetworksCountAsOne: addresses of one network of 64 bits are one sender, others are not.
func TestNetworksCountAsOne(t *testing.T) {
	_, ask := paced(t)
	last := 0
	for _, address := range []string{"2001:db8::1", "2001:db8::2", "2001:db8::3:4:5:6"} {
		for range 10 {
			last = ask(address, "", "/healthz")
		}
	}
	if last != http.StatusTooManyRequests {
		t.Errorf("the third address of a network: got %d", last)
	}
	if got := ask("2001:db8:0:1::1", "", "/healthz"); got != http.StatusOK {
		t.Errorf("another network: got %d", got)
	}
}
