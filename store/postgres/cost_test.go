package postgres

import (
	"flag"
	"testing"

	"github.com/stagepost/stagepost/store/storetest"
)

var costJobs = flag.Int("cost-jobs", 12_000, "jobs in the store of TestCosts")

// TestCosts counts the rows and the entries of indexes that PostgreSQL visits, not the time.
func TestCosts(t *testing.T) {
	s := openStore(t, newDatabase(t), Options{CallerTime: true})
	s.counting = true
	storetest.Costs(t, s, *costJobs)
}
