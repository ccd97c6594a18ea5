package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// Touched returns how many rows the statements of the store have returned and written so far, and how many lanes its
// claims have visited. It is a measure of cost that does not depend on the machine.
func (s *Store) Touched() (rows, lanes int64) { return s.touched.Load(), s.visited.Load() }

// selectScanned counts the rows and the entries of indexes that the present transaction has visited, and those that the
// connection has not reported yet.
const selectScanned = `SELECT coalesce(sum(pg_stat_get_xact_tuples_returned(oid)), 0)::bigint FROM pg_class
 WHERE relkind IN ('r', 'i') AND relnamespace = 'public'::regnamespace`

// scanned adds a measurement to the statements of a transaction, if the store counts.
func (s *Store) scanned(p *pgx.Batch, sign int64) {
	if s.counting {
		p.Queue(selectScanned).QueryRow(func(row pgx.Row) error {
			var n int64
			err := row.Scan(&n)
			s.touched.Add(sign * n)
			return err
		})
	}
}

// scannedNow is scanned for a transaction that sends its statements one by one.
func (s *Store) scannedNow(ctx context.Context, q querier, sign int64) error {
	if !s.counting {
		return nil
	}
	var p pgx.Batch
	s.scanned(&p, sign)
	return q.SendBatch(ctx, &p).Close()
}
