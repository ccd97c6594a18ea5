package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

// tidyEvery is how often a server removes what is not used any more.
const tidyEvery = time.Hour

// tidier removes unused lanes now and then. Of several servers that do so at once, one does the work.
func (s *Store) tidier(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(tidyEvery):
		}
		if err := s.tidy(ctx); err != nil && ctx.Err() == nil {
			s.noteFailure(err)
		}
	}
}

const (
	// Under the exclusive locks of the buckets no transaction is about to add a job to a lane. The jobs of one that
	// does not wait are claimed, or not due.
	removeLanes = `DELETE FROM lane l WHERE NOT waiting AND NOT EXISTS (SELECT FROM job_now j
 WHERE j.kind = l.kind AND j.lane = l.id AND j.worker <> '') AND NOT EXISTS (SELECT FROM
 (SELECT DISTINCT lane FROM job_now WHERE waits = 2) d WHERE d.lane = l.id)`
	removeTurns   = "DELETE FROM turn t WHERE NOT EXISTS (SELECT FROM lane l WHERE l.owner = t.owner)"
	removeTallies = "DELETE FROM tally WHERE jobs = 0 AND claimed = 0 AND bytes = 0"
)

// tidy removes lanes without jobs, the turns of owners without lanes, and counts that are zero.
func (s *Store) tidy(ctx context.Context) error {
	conn, err := s.connect(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SET LOCAL lock_timeout = '2s'"); err != nil {
			return err
		}
		// transactions that read nothing find out that their lanes exist under the shared lock of the holds
		if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock($1, 0)", int32(lockHolds)); err != nil {
			return err
		}
		for bucket := range int32(laneBuckets) {
			if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock($1, $2)", int32(lockLanes), bucket); err != nil {
				return err
			}
		}
		for _, statement := range []string{removeLanes, removeTurns, removeTallies} {
			if _, err := tx.Exec(ctx, statement); err != nil {
				return err
			}
		}
		return nil
	})
}
