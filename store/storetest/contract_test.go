package storetest_test

import (
	"testing"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/store/mem"
	"github.com/stagepost/stagepost/store/storetest"
)

// The contract holds for the simplest store; the packages of the other stores run the same tests.
func TestMemory(t *testing.T) {
	storetest.Run(t, func(*testing.T) (job.Store, func() job.Store) { return mem.New(), nil })
}
