package sqlite

import (
	"flag"
	"testing"

	"github.com/stagepost/stagepost/store/storetest"
)

var costJobs = flag.Int("cost-jobs", 12_000, "jobs in the store of TestCosts")

// TestCosts counts the steps of SQLite, not the time.
func TestCosts(t *testing.T) { storetest.Costs(t, openStore(t, t.TempDir(), Options{}), *costJobs) }
