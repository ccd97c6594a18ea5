// Stagepost runs jobs through their lifecycles: a server with its command line in one program.
//
//go:generate go run . docs ../../docs
package main

import (
	"io"
	"os"

	bulkcli "github.com/stagepost/stagepost/app/bulk/cli"
	agentcli "github.com/stagepost/stagepost/app/compute/agent/cli"
	computecli "github.com/stagepost/stagepost/app/compute/cli"
	"github.com/stagepost/stagepost/app/compute/orchestrator"
	orchestratorcli "github.com/stagepost/stagepost/app/compute/orchestrator/cli"
	customcli "github.com/stagepost/stagepost/app/custom/cli"
	flowcli "github.com/stagepost/stagepost/app/flowfile/cli"
	ingestcli "github.com/stagepost/stagepost/app/ingest/cli"
	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/cli/jobs"
	"github.com/stagepost/stagepost/docs"
	"github.com/stagepost/stagepost/edge/sandbox"
	"github.com/stagepost/stagepost/examples/demo"
	"github.com/stagepost/stagepost/host"
	hostcli "github.com/stagepost/stagepost/host/cli"
)

func main() {
	host.ComputeModule = orchestrator.Module()
	sandbox.Init() // returns, but in the processes that run commands for the sandbox
	if orchestratorcli.Called(os.Args[0]) {
		os.Exit(orchestratorcli.Main(run, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
	}
	os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// newCall makes a call with the default settings.
func newCall(in io.Reader, out, errs io.Writer) *cli.Call {
	s := host.NewSettings()
	return cli.New(in, cli.NewPrinter(out), cli.NewPrinter(errs), s.Common, docs.All(),
		jobs.Part, hostcli.Part(s), ingestcli.Part(s), computecli.Part, agentcli.Part(s), orchestratorcli.Part(s), flowcli.Part(s), bulkcli.Part, customcli.Part, demo.Part(s))
}

// run does one call and gives its exit code.
func run(args []string, in io.Reader, out, errs io.Writer) int {
	return newCall(in, out, errs).Run(args)
}
