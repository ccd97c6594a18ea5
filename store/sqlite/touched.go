package sqlite

import (
	"context"

	"github.com/stagepost/stagepost/store/internal/ledger"
)

// Touched returns how many steps SQLite has taken so far to read and write rows, and how many parts of the queue were
// visited. It is a measure of cost that does not depend on the machine. It waits for the operations of the store.
func (s *Store) Touched() (steps, lanes int64) {
	err := s.do(context.Background(), true, func(l *ledger.Ledger) error {
		lanes = l.Visits()
		s.writer.Lock() // the applier uses the connection too
		defer s.writer.Unlock()
		steps = s.records.c.Steps()
		return nil
	})
	if err != nil {
		return 0, 0
	}
	for range s.readers.n { // each reader in turn, if none is in use
		r := <-s.readers.free
		steps += r.c.Steps()
		s.readers.free <- r
	}
	return steps, lanes
}
