package metrics

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Fixity is what is known of stored files.
type Fixity struct {
	Faults     int           // stored files that had a fault when they were last read
	Unreadable int           // storage locations that cannot be read
	Oldest     time.Time     // check of a version that is the longest ago; zero: nothing is stored
	Every      time.Duration // after which a file is read again; 0: only on request
}

type fixity struct{ faults, unreadable, oldest, interval *prometheus.Desc }

func newFixity(desc func(name, help string, labels ...string) *prometheus.Desc) fixity {
	return fixity{
		faults:     desc("fixity_faults", "Stored files that were changed, missing, too many or unreadable when they were last read."),
		unreadable: desc("fixity_unreadable_locations", "Storage locations with versions that cannot be read."),
		oldest:     desc("fixity_oldest_timestamp_seconds", "Moment of the oldest check of a stored version, as a Unix time; absent if nothing is stored."),
		interval:   desc("fixity_interval_seconds", "Time after which a stored file is read again; 0: only on request."),
	}
}

func (f *fixity) all() []*prometheus.Desc {
	return []*prometheus.Desc{f.faults, f.unreadable, f.oldest, f.interval}
}

func (s *state) collectFixity(ctx context.Context, from *Sources, put putter) error {
	if from.Fixity == nil {
		return nil
	}
	f, err := from.Fixity(ctx)
	if err != nil {
		return err
	}
	put(s.fixity.faults, float64(f.Faults))
	put(s.fixity.unreadable, float64(f.Unreadable))
	put(s.fixity.interval, f.Every.Seconds())
	if !f.Oldest.IsZero() {
		put(s.fixity.oldest, float64(f.Oldest.Unix()))
	}
	return nil
}
