package orchestrator

import (
	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/app/compute/orchestrator/detect"
	"github.com/stagepost/stagepost/app/compute/orchestrator/legacy"
	"github.com/stagepost/stagepost/app/compute/orchestrator/wire"
	"github.com/stagepost/stagepost/app/compute/serviceconfig"
)

// dialer gives [serviceconfig.Environment.Dial].
func dialer(c *wire.Config) func(*serviceconfig.Agent, serviceconfig.Server) (compute.Executor, error) {
	return func(a *serviceconfig.Agent, s serviceconfig.Server) (compute.Executor, error) { return dial(a, c, s) }
}

// dial makes the executor of an agent that a file reaches by legacy, or that variables name. Whether an original client
// is there or an agent of ours is found out where variables give the address; the file reports what it means.
func dial(a *serviceconfig.Agent, c *wire.Config, s serviceconfig.Server) (compute.Executor, error) {
	o := legacy.Options{
		Services: a.Services, Resend: c.LegacyRedispatch, Trap: c.LegacyInjectTrap,
		Record: s.Record, Service: s.Service,
	}
	var added bool
	if o.Endpoints, added = endpoints(c, a.Name); added && a.Added {
		return detect.New(detect.Options{Name: a.Name, Original: o})
	}
	var err error
	if o.Endpoints, err = wire.AgentAt(a.Legacy); err != nil {
		return nil, err
	}
	return legacy.New(o)
}

// Limitless names the executors of a kind if they enforce no limits ([compute.Service.Unlimited]); empty: they do.
func Limitless(kind string) string {
	if kind == legacy.Kind {
		return legacy.Limitless
	}
	return ""
}
