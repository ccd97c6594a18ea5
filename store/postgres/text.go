package postgres

import (
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

// micro returns a time as it is stored: microseconds since 1970, 0 for the zero time.
func micro(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

// moment is the reverse of micro.
func moment(micro int64) time.Time {
	if micro == 0 {
		return time.Time{}
	}
	return time.UnixMicro(micro).UTC()
}

// stored is a time as it is read again.
func stored(t time.Time) time.Time { return moment(micro(t)) }
