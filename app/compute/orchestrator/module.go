// Package orchestrator is compatibility with job-orchestrator, a module beside compute that a program may be built
// without. Nothing of compute imports it: what compute leaves open is completed here.
//
//	users.go     the user's API of job-orchestrator over compute's jobs
//	client/      an agent of ours as servers of job-orchestrator know it
//	executor.go  original clients, and addresses at which one may be, as executors (packages legacy and detect)
//	environ.go   services from job-orchestrator's variables
//	takeover.go  the jobs in the database of an original server
//	wire/        the HTTP wire and the variables
//	trials/      tests of all of it against the original's programs
package orchestrator

import (
	"io"

	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/app/compute/orchestrator/wire"
	"github.com/stagepost/stagepost/app/compute/site"
)

// Site is what the module adds to files of services.
func Site() site.Module {
	return site.Module{Legacy: true, Policies: []site.Policy{
		{Word: string(wire.PolicyWarn), Check: Check(wire.PolicyWarn)},
		{Word: string(wire.PolicyLegacy), Check: Check(wire.PolicyLegacy)},
	}}
}

// Check is the original's check of run.sh. nil for the policy off.
func Check(p wire.Policy) compute.ScriptCheck {
	if p != wire.PolicyWarn && p != wire.PolicyLegacy {
		return nil
	}
	return func(script io.Reader) (compute.Verdict, error) {
		v, err := p.Judge(script)
		return compute.Verdict(v), err
	}
}
