package archiveserve

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/stagepost/stagepost/app/archive/audit"
)

// probe asks each location and storage root whether it can be used. One that was never used gets no file by that. Each
// answer is recorded as it comes: one that does not answer delays no other.
func (a *App) probe(ctx context.Context) error {
	questions := a.questions()
	var group sync.WaitGroup
	for name, ask := range questions {
		a.asked(name)
		group.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, mostProbe)
			defer cancel()
			a.answered(name, ask(ctx))
		})
	}
	group.Wait()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	a.state.mu.Lock()
	defer a.state.mu.Unlock()
	maps.DeleteFunc(a.state.unusable, func(name, _ string) bool { return questions[name] == nil })
	return nil
}

// questions gives how to ask each location and storage root whether it can be used, by name.
func (a *App) questions() map[string]func(context.Context) error {
	all := map[string]func(context.Context) error{}
	for _, t := range a.live.now.Load().Targets {
		all[t.Name] = func(ctx context.Context) error {
			l, err := a.Catalog.Location(ctx, t.Name, a.now())
			if err == nil && l.Marked {
				err = a.Copies.Ready(ctx, t.Name)
			} else if err == nil {
				_, err = t.At.Free(ctx)
			}
			return err
		}
	}
	for name, root := range a.live.objects() {
		all[audit.RootPrefix+name] = func(context.Context) error { return root.Ready() }
	}
	return all
}

// asked records that a location is asked.
func (a *App) asked(name string) {
	a.state.mu.Lock()
	defer a.state.mu.Unlock()
	if a.state.silent == nil {
		a.state.silent = map[string]time.Time{}
	}
	if a.state.silent[name].IsZero() {
		a.state.silent[name] = time.Now()
	}
}

// answered records whether a location can be used. While the server stops, nothing is found out.
func (a *App) answered(name string, err error) {
	a.state.mu.Lock()
	defer a.state.mu.Unlock()
	delete(a.state.silent, name)
	if a.running.Err() != nil {
		return
	}
	if err == nil {
		delete(a.state.unusable, name)
		return
	}
	if a.state.unusable == nil {
		a.state.unusable = map[string]string{}
	}
	a.state.unusable[name] = err.Error()
}

// probeNow probes the locations for a query of the health, and waits up to a second for the answers. Queries at the
// same time have one probe, so that their number does not decide how often locations are asked. A location that does
// not answer delays one query, not the next ones; its answer is recorded when it comes.
func (a *App) probeNow(probe func(context.Context) error) {
	a.state.mu.Lock()
	if a.running == nil {
		a.state.mu.Unlock()
		return
	}
	now := time.Now()
	ended := a.state.probing == nil
	if !ended {
		select {
		case <-a.state.probing:
			ended = true
		default:
		}
	}
	if ended && now.Sub(a.state.began) >= betweenQueries && a.running.Err() == nil {
		done := make(chan struct{})
		a.state.probing, a.state.began = done, now
		a.wait.Go(func() {
			defer close(done)
			_ = probe(a.running) // it fails only when the server stops
		})
	}
	done, wait := a.state.probing, mostWait-now.Sub(a.state.began)
	a.state.mu.Unlock()
	if done == nil || wait <= 0 {
		return
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	}
}
