package ingestserve

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stagepost/stagepost/app/ingest/fixity"
	"github.com/stagepost/stagepost/server/metrics"
)

// MeterBytes registers the counter of bytes that ingest moves, and returns the function that counts them.
func MeterBytes(m *metrics.Metrics) func(way string, n int64) {
	bytes := m.Counter("ingest_bytes_total",
		"Bytes that ingest moved, by way: fetched from sources, stored in storage "+
			"locations, read back from these.", "way")
	return func(way string, n int64) { bytes.WithLabelValues(way).Add(float64(n)) }
}

// FixityGauges gives the gauges of a summary of stored files, each of which is read again after every (0: on request).
func FixityGauges(summary func(context.Context) (fixity.Summary, error), every time.Duration) metrics.Source {
	faults := metrics.NewGauge("fixity_faults",
		"Stored files that were changed, missing, too many or unreadable when they were last read.")
	unreadable := metrics.NewGauge("fixity_unreadable_locations",
		"Storage locations with versions that cannot be read.")
	oldest := metrics.NewGauge("fixity_oldest_timestamp_seconds",
		"Moment of the oldest check of a stored version, as a Unix time; absent if nothing is stored.")
	interval := metrics.NewGauge("fixity_interval_seconds",
		"Time after which a stored file is read again; 0: only on request.")
	return metrics.Source{
		Name: "fixity", Gauges: []*prometheus.Desc{faults, unreadable, oldest, interval},
		Collect: func(ctx context.Context, put metrics.Putter) error {
			s, err := summary(ctx)
			if err != nil {
				return err
			}
			put(faults, float64(s.Faults))
			put(unreadable, float64(len(s.Unreadable)))
			put(interval, every.Seconds())
			if !s.Oldest.IsZero() {
				put(oldest, float64(s.Oldest.Unix()))
			}
			return nil
		},
	}
}
