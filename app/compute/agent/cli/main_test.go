package agentcli

import (
	"os"
	"testing"

	"github.com/stagepost/stagepost/app/compute/orchestrator"
	"github.com/stagepost/stagepost/host"
)

func TestMain(m *testing.M) {
	host.ComputeModule = orchestrator.Module()
	os.Exit(m.Run())
}
