package host

import (
	"os"
	"testing"

	"github.com/stagepost/stagepost/app/compute/orchestrator"
)

func TestMain(m *testing.M) {
	ComputeModule = orchestrator.Module()
	os.Exit(m.Run())
}
