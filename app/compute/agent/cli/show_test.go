package agentcli

import (
	"strings"
	"testing"

	"github.com/stagepost/stagepost/app/compute/agent"
	"github.com/stagepost/stagepost/app/compute/serviceconfig"
)

// The directories of an agent's own environment are shown to the jobs of their service, and all others are served as
// before.
func TestAgentShows(t *testing.T) {
	env := serviceconfig.Environment{
		Shown: []serviceconfig.Shown{{Service: "example", Dirs: []string{"/opt/a", "/opt/b"},
			From: "SERVICE_EXAMPLE_BIND_RO"}}}
	var o agent.Options
	if err := (&agentSettings{env: env}).show(&o); err != nil || !o.Others || len(o.Services) != 1 ||
		len(o.Services["example"].Binds) != 2 || o.Services["example"].Binds[1].From != "/opt/b" {
		t.Errorf("got %+v, %v", o.Services, err)
	}
	o = agent.Options{Services: map[string]agent.Service{"example": {Network: "host"}}}
	if err := (&agentSettings{env: env, services: "s.yaml"}).show(&o); err != nil || o.Others ||
		o.Services["example"].Network != "host" || len(o.Services["example"].Binds) != 2 {
		t.Errorf("beside a file: %+v, %v", o.Services, err)
	}
	o = agent.Options{Services: map[string]agent.Service{"another": {}}}
	if err := (&agentSettings{env: env, services: "s.yaml"}).show(&o); err == nil || !strings.Contains(err.Error(), "SERVICE_EXAMPLE_BIND_RO: s.yaml names no service example") {
		t.Errorf("got %v", err)
	}
	o = agent.Options{} // control: nothing is shown
	if err := (&agentSettings{}).show(&o); err != nil || o.Others || o.Services != nil {
		t.Errorf("got %+v, %v", o, err)
	}
}
