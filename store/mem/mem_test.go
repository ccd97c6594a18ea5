package mem_test

import (
	"testing"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/store/mem"
	"github.com/stagepost/stagepost/store/storetest"
)

func TestStore(t *testing.T) {
	storetest.Run(t, func(*testing.T) (job.Store, func() job.Store) { return mem.New(), nil })
}
