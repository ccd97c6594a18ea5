package computeserve

import (
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync"

	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/app/compute/agent"
	computehttp "github.com/stagepost/stagepost/app/compute/http"
	"github.com/stagepost/stagepost/app/compute/serviceconfig"
	"github.com/stagepost/stagepost/edge/tunnel"
	"github.com/stagepost/stagepost/module"
)

// tunnels are the agents that come by themselves (agent --server). One that goes stays on the registry: it cannot be
// reached then, and its jobs wait for it.
type tunnels struct {
	*tunnel.Pool
	compute *App
	log     *slog.Logger
	taken   []string // names of agents that are reached otherwise

	mu     sync.Mutex // guards agents
	agents map[string]compute.Executor
}

// openTunnels makes the pool. An agent that comes cannot replace one that the service configuration names otherwise, or
// of the server's own.
func (c *App) openTunnels(h *module.Host) error {
	t := &tunnels{compute: c, log: h.Log, taken: []string{serviceconfig.Local}, agents: map[string]compute.Executor{}}
	for _, a := range c.config.Agents {
		if !a.Tunnel {
			t.taken = append(t.taken, a.Name)
		}
	}
	var err error
	t.Pool, err = tunnel.NewPool(tunnel.PoolOptions{Authenticate: t.authenticate, Fail: computehttp.FailTunnel,
		Changed: t.changed, Log: h.Log})
	if err != nil {
		return err
	}
	c.tunnels = t
	return nil
}

// authenticate gives the name of the agent that asks.
func (t *tunnels) authenticate(r *http.Request) (string, error) {
	name, err := computehttp.AgentOf(r)
	if err == nil && slices.Contains(t.taken, name) {
		err = fmt.Errorf("the agent %.80q is reached otherwise: a tunnel cannot have its name", name)
	}
	return name, err
}

// changed puts an agent that has come on the registry, where it is asked at once.
func (t *tunnels) changed(name string, here bool) {
	if !here {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	x := t.agents[name]
	if x == nil {
		var err error
		if x, err = agent.Dial(agent.DialOptions{Name: name, URL: "http://" + name + ".tunnel",
			Transport: t.Pool}); err != nil {
			t.log.Warn("an agent that came cannot be used", "agent", name, "error", err)
			return
		}
		t.agents[name] = x
	}
	t.compute.Join(name, x)
}
