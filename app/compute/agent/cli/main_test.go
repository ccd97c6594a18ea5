package agentcli

import (
	"strings"

	"github.com/stagepost/stagepost/app/compute/site"
)

// twoVariables is a module that reads two variables.
var twoVariables = site.Module{Environ: func(all []string, _ site.Reader) (e site.Environment, err error) {
	for _, v := range all {
		switch name, value, _ := strings.Cut(v, "="); name {
		case "PORT":
			e.Port = value
		case "SANDBOX":
			e.Sandbox = value
		}
	}
	return e, nil
}}
