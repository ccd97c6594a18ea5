package host

import (
	"context"
	"fmt"
	"time"

	"github.com/stagepost/stagepost/app/ingest"
	"github.com/stagepost/stagepost/server/metrics"
)

// fixityMetrics gives the metrics what is known of the stored files.
func (i submissions) fixityMetrics(every time.Duration) func(context.Context) (metrics.Fixity, error) {
	return func(ctx context.Context) (metrics.Fixity, error) {
		s, err := i.app.FixitySummary(ctx)
		return metrics.Fixity{Faults: s.Faults, Unreadable: len(s.Unreadable), Oldest: s.Oldest, Every: every}, err
	}
}

// fixityWarnings says for /healthz what is wrong with stored files.
func (i submissions) fixityWarnings() []string {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	s, err := i.app.FixitySummary(ctx)
	if err != nil {
		return []string{fmt.Sprintf("fixity: %v", err)}
	}
	if s.Faults > 0 {
		return []string{(ingest.Damaged{Files: s.Faults}).Error() + ": stagepost fixity status"}
	}
	return nil
}
