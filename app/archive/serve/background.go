package archiveserve

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/stagepost/stagepost/app/archive"
	"github.com/stagepost/stagepost/app/archive/workdir"
	"github.com/stagepost/stagepost/job"
)

// Tasks of the background work, as labels of metrics.
const (
	taskProbe     = "probe"
	taskRenewal   = "renewal"
	taskRetention = "retention"
	taskSweep     = "sweep"
	taskHolds     = "legal holds"
)

var backgroundTasks = []string{taskProbe, taskRenewal, taskRetention, taskSweep, taskHolds}

const (
	probeEvery     = 5 * time.Minute
	renewalEvery   = 6 * time.Hour
	retentionEvery = time.Hour
	sweepEvery     = time.Hour
	holdsEvery     = 10 * time.Minute   // of what is new in a location
	afterFailure   = 10 * time.Minute   // of renewal
	mostProbe      = time.Minute        // for one location
	mostWait       = time.Second        // for which a query of the health waits for a probe
	betweenQueries = time.Second        // between two probes of queries of the health
	staleDownload  = 3 * 24 * time.Hour // after which no job continues a download
	batch          = 100                // renewals of one run
	takeOver       = time.Minute        // between queries whether this server leads
)

// state is what the background work found out last.
type state struct {
	mu       sync.Mutex           // guards the rest
	unusable map[string]string    // reason by location
	silent   map[string]time.Time // since when locations are asked that did not answer yet, by the machine's clock
	failed   map[string]string    // message by task, of its last run
	probing  chan struct{}        // closed at the end of the last probe of a query; nil: there was none
	began    time.Time            // that probe, by the machine's clock
}

// background starts the background work, until ctx ends. Fixity checks also delete the files of replaced copies, and
// store what a location lacks. What changes archives is done by the server that leads; each server checks which
// locations it can use, and removes its own working files.
func (a *App) background(ctx context.Context) {
	a.running = ctx
	for _, p := range []periodic{
		{name: taskProbe, every: probeEvery, run: a.probe},
		{name: taskRenewal, every: renewalEvery, led: true, run: a.renew},
		{name: taskRetention, every: retentionEvery, led: true, run: a.retain},
		{name: taskSweep, every: sweepEvery, signal: a.endsOf(ctx), run: a.sweep},
		{name: taskHolds, every: holdsEvery, signal: a.holds, led: true, run: a.Copies.PassHolds},
	} {
		a.wait.Go(func() { a.loop(ctx, p) })
	}
	if w := a.printers.worker; w != nil {
		a.wait.Go(func() { _ = w.Run(ctx) }) // it ends with ctx, and logs failures
	}
	for _, w := range a.printers.more {
		a.wait.Go(func() { _ = w.Run(ctx) }) // it ends with ctx, and logs failures
	}
	a.wait.Go(func() { _ = a.Trigger.Run(ctx) }) // it ends with ctx, and logs failures
	a.wait.Go(func() { _ = a.Checker.Run(ctx) }) // it ends with ctx, and logs failures
}

// periodic is a task that is done at intervals.
type periodic struct {
	name   string
	every  time.Duration
	signal <-chan struct{} // requests a run now; nil: there is none
	led    bool            // the times are those of the server that leads; a signal is for its own server
	run    func(context.Context) error
}

// loop runs a task at once, at intervals, and when it is signalled, until ctx ends. A failed run is repeated earlier.
func (a *App) loop(ctx context.Context, p periodic) {
	signalled := false
	for {
		pause := takeOver
		if !p.led || signalled || a.engine.Leads() {
			pause = p.every
			err := p.run(ctx)
			if ctx.Err() != nil {
				return
			}
			if a.note(p.name, err); err != nil {
				pause = min(p.every, afterFailure)
			}
		} else {
			a.note(p.name, nil) // its failures are those of the other server
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
		case <-p.signal:
			signalled = true
		case <-timer.C:
			signalled = false
		}
		timer.Stop()
		if ctx.Err() != nil {
			return
		}
	}
}

// note records the end of a run.
func (a *App) note(task string, err error) {
	a.state.mu.Lock()
	defer a.state.mu.Unlock()
	if a.state.failed == nil {
		a.state.failed = map[string]string{}
	}
	if err == nil {
		delete(a.state.failed, task)
		return
	}
	a.state.failed[task] = err.Error()
	a.failures.WithLabelValues(task).Inc()
	a.h.Log.Error("archive background work", "task", task, "error", err)
}

// endsOf signals that archive jobs ended or were purged.
func (a *App) endsOf(ctx context.Context) <-chan struct{} {
	signal := make(chan struct{}, 1)
	a.engine.Store().Watch(ctx, func(hints []job.Hint) {
		if slices.ContainsFunc(hints, func(h job.Hint) bool { return h.Ended && h.Kind == archive.Kind }) {
			select {
			case signal <- struct{}{}:
			default:
			}
		}
	})
	return signal
}

// retain deletes archives whose retention time has ended, and continues deletions that were interrupted. While the
// clock is in doubt, no time counts as ended.
func (a *App) retain(ctx context.Context) error {
	if _, ok := a.engine.Clock().Before(0); !ok {
		return nil
	}
	return a.Expire(ctx)
}

// sweep removes working directories that no job needs, and unfinished downloads: all if no job is active, else those
// that no job wrote for days.
func (a *App) sweep(ctx context.Context) error {
	base := filepath.Join(a.dir, archive.WorkName)
	names, err := list(base)
	if err != nil {
		return err
	}
	active := 0
	var errs []error
	for _, name := range names {
		j, err := a.engine.Store().Get(ctx, job.ID(name))
		switch {
		case err == nil && !j.Ended:
			active++
		case err == nil, job.KindOf(err) == job.NotFound:
			errs = append(errs, workdir.Remove(base, job.ID(name)))
		default:
			errs = append(errs, err)
		}
	}
	before := time.Now().Add(-staleDownload) // by the clock of the file system
	if active == 0 {
		before = time.Now().Add(time.Hour)
	}
	errs = append(errs, a.sweepDownloads(before))
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("working directories: %w", err)
	}
	return nil
}
