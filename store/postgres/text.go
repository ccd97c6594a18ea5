package postgres

import (
	"cmp"
	"math"
	"time"

	"github.com/stagepost/stagepost/internal/pg"
)

// storedAll is [pg.Stored] for a list.
func storedAll[T ~string](texts []T) []string {
	all := make([]string, len(texts))
	for i, t := range texts {
		all[i] = pg.Stored(string(t))
	}
	return all
}

// beginning is the stored form of 1970-01-01T00:00:00Z, because 0 is that of the zero time. It is before all times.
const beginning = math.MinInt64

// micro returns a time as it is stored: microseconds since 1970, 0 for the zero time.
func micro(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return cmp.Or(t.UnixMicro(), beginning)
}

// moment is the reverse of micro.
func moment(micro int64) time.Time {
	switch micro {
	case 0:
		return time.Time{}
	case beginning:
		micro = 0
	}
	return time.UnixMicro(micro).UTC()
}

// stored is a time as it is read again.
func stored(t time.Time) time.Time { return moment(micro(t)) }
