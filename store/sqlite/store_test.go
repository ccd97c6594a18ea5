package sqlite

import (
	"testing"
	"time"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/store/storetest"
)

func TestStore(t *testing.T) { contract(t, func() Options { return Options{NoLog: true} }) }

// TestStoreWithLog runs the contract with a log in front of the database. Its segments are small, so that they are
// rotated. In turns, the applier of a store runs often, so that readers meet both generations of the overlay, and
// rests, so that they find everything there.
func TestStoreWithLog(t *testing.T) {
	after := []time.Duration{time.Millisecond, time.Hour}
	contract(t, func() Options {
		after[0], after[1] = after[1], after[0]
		return Options{logSize: 16 << 10, applyAfter: after[0]}
	})
}

func contract(t *testing.T, options func() Options) {
	storetest.Run(t, func(t *testing.T) (job.Store, func() job.Store) {
		dir := t.TempDir()
		s := openStore(t, dir, options())
		return s, func() job.Store {
			closeStore(t, s)
			s = openStore(t, dir, options())
			return s
		}
	})
}

// openStore opens a store that is closed at the end of the test at the latest.
func openStore(t testing.TB, dir string, options Options) *Store {
	t.Helper()
	s, err := Open(dir, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeStore(t, s) })
	return s
}

func closeStore(t testing.TB, s *Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}
