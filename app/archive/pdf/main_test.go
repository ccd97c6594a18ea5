package pdf

import (
	"os"
	"testing"

	"github.com/stagepost/stagepost/edge/sandbox"
)

func TestMain(m *testing.M) {
	sandbox.Init() // returns, but in the processes that run commands for the sandbox
	os.Exit(m.Run())
}
