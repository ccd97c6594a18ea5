package archiveserve

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stagepost/stagepost/app/archive/audit"
	"github.com/stagepost/stagepost/app/archive/catalog"
	"github.com/stagepost/stagepost/app/archive/pdf"
	"github.com/stagepost/stagepost/quantity"
	"github.com/stagepost/stagepost/server/metrics"
)

// CountFailures registers the counter of failed runs of the background work.
func CountFailures(m *metrics.Metrics) *prometheus.CounterVec {
	c := m.Counter("archive_task_failures_total", "Failed runs of the background work of archives, by task: probe of "+
		"storage locations, renewal of time stamps, retention, sweep of working directories.", "task")
	for _, task := range backgroundTasks {
		c.WithLabelValues(task) // a counter exists before the first failure
	}
	return c
}

// Standing is what the gauges show.
type Standing struct {
	Locations []catalog.LocationState
	Unusable  map[string]string // reason by location, of those that are configured
	Known     []string          // configured locations, and storage roots of OCFL as audit names them
	Expiring  int               // time stamps that are to be renewed
	PDF       pdf.Standing
	Now       time.Time
}

// Gauges gives the gauges of the archives.
func Gauges(standing func(context.Context) (Standing, error)) metrics.Source {
	const by = "location"
	copies := metrics.NewGauge("archive_copies", "Verified copies of artifacts in a storage location.", by)
	bytes := metrics.NewGauge("archive_copies_bytes", "Size of the verified copies in a storage location.", by)
	behind := metrics.NewGauge("archive_copies_behind", "Copies that a storage location lacks.", by)
	faulty := metrics.NewGauge("archive_copies_faulty",
		"Copies in a storage location that were missing or damaged at their last check, and were not replaced.", by)
	overdue := metrics.NewGauge("archive_fixity_overdue_seconds",
		"Time since the first fixity check that is due in a storage location; 0: none is.", by)
	up := metrics.NewGauge("archive_location_up", "1 if a storage location can be used, else 0.", by)
	expiring := metrics.NewGauge("archive_timestamps_expiring", "Time stamps of archives that are to be renewed.")
	waiting := metrics.NewGauge("archive_pdf_waiting_seconds",
		"Time since the oldest PDF file was ordered that no worker prints; 0: there is none.")
	failed := metrics.NewGauge("archive_pdf_failed",
		"PDF files that were not printed and whose jobs are kept, by cause.", "cause")
	return metrics.Source{
		Name:   "archive",
		Gauges: []*prometheus.Desc{copies, bytes, behind, faulty, overdue, up, expiring, waiting, failed},
		Collect: func(ctx context.Context, put metrics.Putter) error {
			s, err := standing(ctx)
			if err != nil {
				return err
			}
			for _, l := range s.Locations {
				name := metrics.Valid(l.Location)
				put(copies, float64(l.Copies), name)
				put(bytes, float64(l.Bytes), name)
				put(behind, float64(l.Behind), name)
				put(faulty, float64(l.Faults), name)
				late := 0.0
				if !l.Next.IsZero() {
					late = max(0, s.Now.Sub(l.Next).Seconds())
				}
				put(overdue, late, name)
			}
			for _, name := range s.Known {
				usable := 1.0
				if s.Unusable[name] != "" {
					usable = 0
				}
				put(up, usable, metrics.Valid(name))
			}
			put(expiring, float64(s.Expiring))
			late := 0.0
			if !s.PDF.Oldest.IsZero() {
				late = max(0, s.Now.Sub(s.PDF.Oldest).Seconds())
			}
			put(waiting, late)
			for cause, n := range s.PDF.Failed {
				put(failed, float64(n), cause)
			}
			return nil
		},
	}
}

// Measure is part of [module.Measurer].
func (a *App) Measure(from *metrics.Sources) { from.More = append(from.More, Gauges(a.standing)) }

func (a *App) standing(ctx context.Context) (s Standing, err error) {
	g := a.live.now.Load()
	s.Now, s.Known = a.now(), slices.Sorted(maps.Keys(g.Config.Locations))
	for _, name := range slices.Sorted(maps.Keys(g.Objects)) {
		s.Known = append(s.Known, audit.RootPrefix+name)
	}
	a.state.mu.Lock()
	s.Unusable = maps.Clone(a.state.unusable)
	a.state.mu.Unlock()
	if s.PDF, err = a.printers.Standing(ctx); err != nil {
		return s, err
	}
	if s.Locations, err = a.Catalog.LocationStates(ctx); err != nil || g.signer == nil {
		return s, err
	}
	tokens, err := g.signer.Expiring(ctx, 1000)
	s.Expiring = len(tokens)
	return s, err
}

// Warn is part of [module.Warner]. It asks the locations now.
func (a *App) Warn() (all []string) {
	a.probeNow(a.probe)
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	s, err := a.standing(ctx)
	if err != nil {
		return []string{fmt.Sprintf("archives: %v", err)}
	}
	for _, l := range s.Locations {
		if l.Faults > 0 {
			all = append(all, fmt.Sprintf("archive location %s: %d copies are missing or damaged", l.Location,
				l.Faults))
		}
		if !slices.Contains(s.Known, l.Location) {
			all = append(all, fmt.Sprintf("archive location %s has %d copies and is not configured: "+
				"add it to locations or objects in %s", l.Location, l.Copies, a.file))
		}
	}
	for _, name := range s.Known {
		if reason := s.Unusable[name]; reason != "" {
			all = append(all, fmt.Sprintf("archive location %s cannot be used: %s", name, reason))
		}
	}
	all = append(all, a.Trigger.Warn()...)
	a.state.mu.Lock()
	defer a.state.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(a.state.silent)) {
		if d := time.Since(a.state.silent[name]); d >= mostWait {
			all = append(all, fmt.Sprintf("archive location %s does not answer: it was asked %s ago", name,
				quantity.FormatDuration(d.Truncate(time.Second))))
		}
	}
	for _, task := range slices.Sorted(maps.Keys(a.state.failed)) {
		all = append(all, fmt.Sprintf("archive %s: %s", task, a.state.failed[task]))
	}
	return all
}
