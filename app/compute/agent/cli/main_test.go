package agentcli

import (
	"strings"

	"github.com/stagepost/stagepost/app/compute/serviceconfig"
)

// twoVariables is a module that reads two variables.
var twoVariables = serviceconfig.Module{
	Environ: func(all []string, _ serviceconfig.Reader) (e serviceconfig.Environment, err error) {
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
