// Package orchestrator is compatibility with job-orchestrator, a module beside compute that a program may be built
// without. Nothing of compute imports it: what compute leaves open is completed here.
//
//	users.go     the user's API of job-orchestrator over compute's jobs
//	client/      serves an agent of ours to servers of job-orchestrator
//	executor.go  original clients, and addresses at which one may be, as executors (packages legacy and detect)
//	environ.go   services from job-orchestrator's variables
//	settings.go  the address of users
//	takeover/    the jobs in the database of an original server
//	cli/         commands: import, and the program under the name job-orchestrator
//	module/      the module of a program
//	wire/        the HTTP wire and the variables
//	trials/      tests of all of it against the original's programs
package orchestrator

import (
	"context"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/app/compute/agent"
	"github.com/stagepost/stagepost/app/compute/orchestrator/client"
	"github.com/stagepost/stagepost/app/compute/orchestrator/policy"
	"github.com/stagepost/stagepost/app/compute/orchestrator/wire"
	"github.com/stagepost/stagepost/app/compute/serviceconfig"
)

// Module is what a program with compute adds to be compatible.
func Module(s *Settings) serviceconfig.Module {
	return serviceconfig.Module{
		Legacy: true, Policies: []serviceconfig.Policy{
			{Word: string(policy.Warn), Check: Check(policy.Warn)},
			{Word: string(policy.Legacy), Check: Check(policy.Legacy)},
		},
		Environ: environ, Limitless: Limitless, Users: s, Agent: serveAgent,
	}
}

// environ reads job-orchestrator's variables. A server that does not listen has them if one names a service.
func environ(all []string, r serviceconfig.Reader) (serviceconfig.Environment, error) {
	c, mode := wire.Config{}, wire.ServerMode
	if r == serviceconfig.ForAgent {
		mode = wire.AgentMode
	}
	named := slices.ContainsFunc(all, func(v string) bool { return strings.HasPrefix(v, "SERVICE_") })
	if r == serviceconfig.ForServer && !named {
		return serviceconfig.Environment{Dial: dialer(&c)}, nil
	}
	c, err := wire.Environ(all, mode)
	if err != nil {
		return serviceconfig.Environment{}, err
	}
	return environment(&c, all, mode), nil
}

// serveAgent serves an agent to original servers.
func serveAgent(ctx context.Context, app *agent.App, o serviceconfig.AgentOptions) (http.Handler, error) {
	return client.Handler(ctx, app, o.Token, wire.AgentOptions{Compat: compat(o.Strict), Log: o.Log})
}

func compat(strict bool) wire.Compat {
	if strict {
		return wire.Strict
	}
	return wire.Full
}

// Check is the original's check of run.sh. nil for the policy off.
func Check(p policy.Policy) compute.ScriptCheck {
	if p != policy.Warn && p != policy.Legacy {
		return nil
	}
	return func(script io.Reader) (compute.Verdict, error) {
		v, err := p.Check(script)
		return compute.Verdict(v), err
	}
}
