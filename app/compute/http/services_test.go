package computehttp_test

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/server/identity"
	"github.com/stagepost/stagepost/server/token"
)

// TestServicesToWhom: a depositor sees the numbers of its own jobs, an operator those of all, and an identity that is
// limited to services these alone.
func TestServicesToWhom(t *testing.T) {
	c, as := guarded(t, token.Entry{Role: identity.Depositor, Owner: "ann"},
		token.Entry{Role: identity.Depositor, Owner: "bob", Groups: "wide"},
		token.Entry{Role: identity.Operator, Owner: "lab", Groups: "small"},
		token.Entry{Role: identity.Operator, Owner: "root"})
	for _, owner := range []string{"ann", "root", "root"} {
		j := c.sent(as(owner, c.Request(http.MethodPost, "/api/v1/compute/jobs",
			`{"service":"wide","command":["true"]}`)), http.StatusCreated)
		runs := func(j *job.Job) bool { return j.State == compute.Running }
		if _, err := c.Await(t.Context(), j.ID, runs); err != nil {
			t.Fatal(err)
		}
	}
	for owner, want := range map[string]map[string]int64{"ann": {"small": 0, "wide": 1}, "bob": {"wide": 0},
		"lab": {"small": 0}, "root": {"small": 0, "wide": 3}} {
		_, text := c.Ask(as(owner, c.Request(http.MethodGet, "/api/v1/compute/services", "")))
		var all client.ComputeServices
		if err := json.Unmarshal([]byte(text), &all); err != nil {
			t.Fatal(err)
		}
		if len(all.Services) != len(want) {
			t.Errorf("%s sees %d services, want %d", owner, len(all.Services), len(want))
		}
		for _, one := range all.Services {
			if n, ok := want[one.Name]; !ok || one.Running != n {
				t.Errorf("%s: %s has %d running jobs, want %v", owner, one.Name, one.Running, want)
			}
		}
	}
}
