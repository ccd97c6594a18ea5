package agentcli

import (
	"os"
	"strings"
	"testing"

	"github.com/stagepost/stagepost/app/compute/site"
	"github.com/stagepost/stagepost/host"
)

// TestMain has a module that reads two variables.
func TestMain(m *testing.M) {
	host.ComputeModule = site.Module{Environ: func(all []string, _ site.Reader) (e site.Environment, err error) {
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
	os.Exit(m.Run())
}
