package sqlite

import (
	"context"
	"time"

	"github.com/stagepost/stagepost/internal/conn"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/store/internal/ledger"
)

// Names in table given of the times of [job.KeptClock], in microseconds since 1970; 0 for none.
const (
	givenTrusted   = "clock trusted"
	givenLatest    = "clock latest"
	givenConfirmed = "clock confirmed"
)

var _ job.ClockStore = (*Store)(nil)

// KeptClock is part of job.ClockStore.
func (s *Store) KeptClock(ctx context.Context) (k job.KeptClock, err error) {
	err = s.do(ctx, false, func(*ledger.Ledger) error {
		k = job.KeptClock{}
		const sql = "SELECT what, n FROM given WHERE what IN ('" + givenTrusted + "', '" + givenLatest + "', '" +
			givenConfirmed + "')"
		return s.records.try(each(s.records.c, sql, func(row *conn.Stmt) error {
			at := time.Time{}
			if n := row.GetInt(1); n != 0 {
				at = unixMicro(n)
			}
			switch row.GetText(0) {
			case givenTrusted:
				k.Trusted = at
			case givenLatest:
				k.Latest = at
			case givenConfirmed:
				k.Confirmed = at
			}
			return nil
		}))
	})
	return k, err
}

// KeepClock is part of job.ClockStore.
func (s *Store) KeepClock(ctx context.Context, k job.KeptClock) error {
	return s.do(ctx, false, func(*ledger.Ledger) error {
		return s.records.try(s.records.keepClock(k))
	})
}

func (r *records) keepClock(k job.KeptClock) error {
	put, err := r.c.Prepare("INSERT OR REPLACE INTO given (what, n) VALUES (?, ?)")
	if err != nil {
		return err
	}
	defer put.Close()
	for what, at := range map[string]time.Time{givenTrusted: k.Trusted, givenLatest: k.Latest,
		givenConfirmed: k.Confirmed} {
		n := int64(0)
		if !at.IsZero() {
			n = at.UnixMicro()
		}
		put.Text(1, what)
		put.Int(2, n)
		if err := put.Run(); err != nil {
			return err
		}
	}
	return nil
}
