package sqlite

import (
	"testing"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/store/storetest"
)

func TestStore(t *testing.T) {
	storetest.Run(t, func(t *testing.T) (job.Store, func() job.Store) {
		dir := t.TempDir()
		s := openStore(t, dir, Options{})
		return s, func() job.Store {
			closeStore(t, s)
			s = openStore(t, dir, Options{})
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
