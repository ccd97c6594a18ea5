// Package customcli adds to the command line what it needs for lifecycles in files.
package customcli

import (
	"github.com/stagepost/stagepost/app/custom"
	"github.com/stagepost/stagepost/cli"
)

// Part adds the checks of files with work. The commands are those for lifecycles and jobs of every kind.
func Part(*cli.Call) cli.Part { return cli.Part{Lint: custom.Lint} }
