package agent

import (
	"context"
	"errors"
	"sync"

	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/job"
)

// hub notifies listeners which payloads changed. What is not fetched yet is merged, so that a listener that is slow
// costs no more than a name for each payload.
type hub struct {
	mu        sync.Mutex // guards the rest
	listeners map[*listener]bool
}

// listener receives the changes.
type listener struct {
	mu      sync.Mutex // guards changed
	changed map[job.ID]bool
	woken   chan struct{} // buffers one
}

var errClosed = errors.New("the agent is closed")

func newHub() *hub { return &hub{listeners: map[*listener]bool{}} }

func (h *hub) listen() *listener {
	l := &listener{changed: map[job.ID]bool{}, woken: make(chan struct{}, 1)}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.listeners[l] = true
	return l
}

func (h *hub) leave(l *listener) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.listeners, l)
}

// notify does not block.
func (h *hub) notify(ids ...job.ID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for l := range h.listeners {
		l.mu.Lock()
		for _, id := range ids {
			l.changed[id] = true
		}
		l.mu.Unlock()
		signal(l.woken)
	}
}

// next waits for changes and gives the payloads.
func (l *listener) next(ctx, life context.Context) ([]job.ID, error) {
	select {
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-life.Done():
		return nil, errClosed
	case <-l.woken:
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	ids := make([]job.ID, 0, len(l.changed))
	for id := range l.changed {
		ids = append(ids, id)
	}
	clear(l.changed)
	return ids, nil
}

// observe takes the store's hints: listeners are notified; what ended leaves the line for capacity.
func (a *App) observe(hints []job.Hint) {
	for i := range hints {
		if h := &hints[i]; h.Kind == compute.PayloadKind {
			if h.Ended {
				a.room.ended(h.Job)
				signal(a.freed)
			}
			if h.State == compute.Cleaned {
				a.cleaned.notify(h.Job)
			}
			a.hub.notify(h.Job)
		}
	}
}

// tidies removes the files of payloads that came to Cleaned.
func (a *App) tidies(ctx context.Context) {
	changes := a.cleaned.listen()
	defer a.cleaned.leave(changes)
	for {
		ids, err := changes.next(ctx, a.life)
		if err != nil {
			return
		}
		for _, id := range ids {
			j, err := a.engine.Store().Get(ctx, id)
			if err == nil && j.Gone {
				if err := a.sweepOne(ctx, id); err != nil {
					a.log.Warn("remove", "payload", id, "error", err)
				}
			}
		}
	}
}
