// Stagepost runs jobs through their lifecycles: a server with its command line in one program.
//
//go:generate go run . docs ../../docs
package main

import (
	"os"

	"github.com/stagepost/stagepost/app/compute/orchestrator"
	"github.com/stagepost/stagepost/edge/sandbox"
)

func main() {
	sandbox.Init() // returns, but in the processes that run commands for the sandbox
	call := run
	if calledOrchestrator(os.Args[0]) {
		call = asOrchestrator
	}
	os.Exit(call(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// computeModule completes compute: compatibility with job-orchestrator. The zero Module, without orchestratorPart below, leaves it out.
var computeModule = orchestrator.Module()

// commandLine lists the parts of the command line.
func commandLine() []func(*cli) Part {
	return []func(*cli) Part{jobsPart, hostPart, ingestPart, computePart, agentPart, orchestratorPart, flowPart, bulkPart, demoPart}
}
