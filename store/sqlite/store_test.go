package sqlite

import (
	"testing"
	"time"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/store/storetest"
)

func TestStore(t *testing.T) { contract(t, Options{}) }

// TestStoreWithLog runs the contract with a log in front of the database. Its segments are small, so that they are
// rotated; the applier runs often, so that readers meet both generations of the overlay.
func TestStoreWithLog(t *testing.T) {
	contract(t, Options{Log: true, logSize: 16 << 10, applyAfter: time.Millisecond})
}

// TestStoreWithLogUnapplied runs it with an applier that rests: readers find what they need in the overlay.
func TestStoreWithLogUnapplied(t *testing.T) {
	contract(t, Options{Log: true, logSize: 64 << 10, applyAfter: time.Hour})
}

func contract(t *testing.T, o Options) {
	storetest.Run(t, func(t *testing.T) (job.Store, func() job.Store) {
		dir := t.TempDir()
		s := openStore(t, dir, o)
		return s, func() job.Store {
			closeStore(t, s)
			s = openStore(t, dir, o)
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
