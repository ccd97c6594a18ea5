// Module is Stagepost with an application of its own: notes. docs/modules.md walks through it.
package main

import (
	"os"

	"github.com/stagepost/stagepost/host"
	hostcli "github.com/stagepost/stagepost/host/cli"
)

func main() {
	s := host.NewSettings(notes()) // one line for each module: see cmd/stagepost
	os.Exit(hostcli.New(os.Stdin, os.Stdout, os.Stderr, s).Run(os.Args[1:]))
}
