package sqlite

import (
	"flag"
	"testing"

	"github.com/stagepost/stagepost/store/storetest"
)

var costJobs = flag.Int("cost-jobs", 12_000, "jobs in the store of TestCosts")

// TestCosts counts the steps of SQLite, not the time. With a log, its applier takes steps meanwhile.
func TestCosts(t *testing.T) {
	storetest.Costs(t, openStore(t, t.TempDir(), Options{NoLog: true}), *costJobs)
}
