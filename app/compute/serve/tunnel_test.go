package computeserve

import (
	"net/http/httptest"
	"testing"
)

// TestTunnelNames refuses agents that call themselves as one that is reached otherwise. The control is any other name.
func TestTunnelNames(t *testing.T) {
	c := &tunnels{taken: []string{"local", "node1"}}
	for name, ok := range map[string]bool{"local": false, "node1": false, "far": true} {
		got, err := c.authenticate(httptest.NewRequest("GET", "/api/v1/compute/tunnel?agent="+name, nil))
		if got != name || (err == nil) != ok {
			t.Errorf("%s: got %q, %v", name, got, err)
		}
	}
}
