// Stagepost runs jobs through their lifecycles: a server with its command line in one program.
//
//go:generate go run . docs ../../docs
package main

import (
	"io"
	"os"

	archivemodule "github.com/stagepost/stagepost/app/archive/module"
	bulkmodule "github.com/stagepost/stagepost/app/bulk/module"
	computemodule "github.com/stagepost/stagepost/app/compute/module"
	orchestratorcli "github.com/stagepost/stagepost/app/compute/orchestrator/cli"
	orchestratormodule "github.com/stagepost/stagepost/app/compute/orchestrator/module"
	computeserve "github.com/stagepost/stagepost/app/compute/serve"
	custommodule "github.com/stagepost/stagepost/app/custom/module"
	flowmodule "github.com/stagepost/stagepost/app/flowfile/module"
	ingestmodule "github.com/stagepost/stagepost/app/ingest/module"
	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/edge/sandbox"
	"github.com/stagepost/stagepost/examples/demo"
	"github.com/stagepost/stagepost/host"
	hostcli "github.com/stagepost/stagepost/host/cli"
	"github.com/stagepost/stagepost/module"
)

func main() {
	sandbox.Init() // returns, but in the processes that run commands for the sandbox
	if orchestratorcli.Called(os.Args[0]) {
		os.Exit(orchestratorcli.Main(run, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
	}
	os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// newSettings makes the settings of a server with all modules.
func newSettings() *host.Settings {
	jobs := &computeserve.Settings{}
	s := host.NewSettings(
		ingestmodule.New(),
		flowmodule.New(),
		computemodule.New(jobs),
		orchestratormodule.New(jobs),
		archivemodule.New(),
		bulkmodule.New(),
		custommodule.New(),
	)
	s.Modules = append(s.Modules, module.Module{Name: "demo", Commands: []func(*cli.Call) cli.Part{demo.Part(s)},
		Data: demo.Data()})
	return s
}

// newCall makes a call with the default settings.
func newCall(in io.Reader, out, errs io.Writer) *cli.Call {
	return hostcli.New(in, out, errs, newSettings())
}

// run does one call and gives its exit code.
func run(args []string, in io.Reader, out, errs io.Writer) int {
	return newCall(in, out, errs).Run(args)
}
