package sqlite

import (
	"cmp"
	"context"
	"math"
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
			at := keptTime(row.GetInt(1))
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
		put.Text(1, what)
		put.Int(2, keptNumber(at))
		if err := put.Run(); err != nil {
			return err
		}
	}
	return nil
}

// beginning is the stored form of 1970-01-01T00:00:00Z, because 0 is that of the zero time.
const beginning = math.MinInt64

// keptNumber returns a time of the clock as it is stored; keptTime is the reverse.
func keptNumber(at time.Time) int64 {
	if at.IsZero() {
		return 0
	}
	return cmp.Or(at.UnixMicro(), beginning)
}

func keptTime(n int64) time.Time {
	switch n {
	case 0:
		return time.Time{}
	case beginning:
		n = 0
	}
	return unixMicro(n)
}
