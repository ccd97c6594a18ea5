// Stagepost runs jobs through their lifecycles: a server with its command line in one program.
//
//go:generate go run . docs ../../docs
package main

import (
	"os"

	"github.com/stagepost/stagepost/edge/sandbox"
)

// version is set by the linker (-X main.version=...).
var version = "devel"

func main() {
	sandbox.Init() // returns, but in the processes that run commands for the sandbox
	call := run
	if calledOrchestrator(os.Args[0]) {
		call = orchestrator
	}
	os.Exit(call(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
