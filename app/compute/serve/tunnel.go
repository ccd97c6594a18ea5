package computeserve

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync"

	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/app/compute/agent"
	computehttp "github.com/stagepost/stagepost/app/compute/http"
	"github.com/stagepost/stagepost/app/compute/serviceconfig"
	"github.com/stagepost/stagepost/config"
	"github.com/stagepost/stagepost/edge/tunnel"
	"github.com/stagepost/stagepost/module"
	"github.com/stagepost/stagepost/server"
	"github.com/stagepost/stagepost/server/identity"
)

// tunnels are the agents that come by themselves (agent --server). One that goes stays on the registry: it cannot be
// reached then, and its jobs wait for it.
type tunnels struct {
	*tunnel.Pool
	compute *App
	log     *slog.Logger
	taken   []string // names of agents that are reached otherwise

	mu      sync.Mutex // guards the rest
	agents  map[string]compute.Executor
	allowed map[string]identity.Services // of agents
}

// openTunnels makes the pool. An agent that comes cannot replace one that the service configuration names otherwise, or
// of the server's own.
func (c *App) openTunnels(h *module.Host) error {
	t := &tunnels{compute: c, log: h.Log, taken: []string{serviceconfig.Local}, agents: map[string]compute.Executor{},
		allowed: map[string]identity.Services{}}
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
	if err != nil {
		return name, err
	}
	return name, t.admit(name, r)
}

// admit notes whose jobs an agent may run: those of the services that its certificate or token names; without
// authentication, and for an admin, all.
func (t *tunnels) admit(name string, r *http.Request) error {
	allowed := identity.AllServices
	if who, ok := server.Who(r.Context()); ok {
		if allowed = who.Serves(); allowed == "" {
			command := "token new --role worker"
			if who.Way == identity.ByCertificate {
				command = "ca enrol"
			}
			return fmt.Errorf("the %s of %s names no services: it is no agent (stagepost admin %s --services NAME)",
				who.Way, name, command)
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.allowed[name] = allowed
	return nil
}

// allows returns whose jobs an agent may run.
func (t *tunnels) allows(name string) identity.Services {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.allowed[name]
}

// limited is an agent that runs the jobs of some services only, whatever it offers.
type limited struct {
	telling
	allows func() identity.Services
}

// Capacity is part of compute.Executor. An agent that offers none of its services has no capacity.
func (x *limited) Capacity(ctx context.Context) (compute.Capacity, error) {
	room, err := x.telling.Capacity(ctx)
	allowed := x.allows()
	if err != nil || allowed == identity.AllServices {
		return room, err
	}
	if len(room.Services) == 0 {
		room.Services = config.List(string(allowed))
		return room, nil
	}
	room.Services = slices.DeleteFunc(room.Services, func(s string) bool { return !allowed.Allow(s) })
	if len(room.Services) == 0 {
		return room, fmt.Errorf("it offers none of the services of its certificate or token (%s)", allowed)
	}
	return room, nil
}

// Submit is part of compute.Executor.
func (x *limited) Submit(ctx context.Context, p *compute.Parcel) (compute.Notice, error) {
	if !x.allows().Allow(p.Service) {
		return compute.Notice{}, fmt.Errorf("%w: its certificate or token does not name the service %s",
			compute.ErrNotSent, p.Service)
	}
	return x.telling.Submit(ctx, p)
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
		remote, err := agent.Dial(agent.DialOptions{Name: name, URL: "http://" + name + ".tunnel", Transport: t.Pool})
		if err != nil {
			t.log.Warn("an agent that came cannot be used", "agent", name, "error", err)
			return
		}
		x = &limited{remote, func() identity.Services { return t.allows(name) }}
		t.agents[name] = x
	}
	t.compute.Join(name, x)
}
