package profile

import (
	"context"
	"log/slog"
	"time"

	"github.com/fsnotify/fsnotify"
)

// Watching defines how a directory is watched. The zero Watching is valid.
type Watching struct {
	// of quiet after a change before it is read: editors write in several steps. Defaults to 250 ms
	Settle time.Duration
	// between polls for changes without an event: network disks, a directory that was exchanged. Defaults to 30 s
	Rescan time.Duration
	After  func(time.Duration) <-chan time.Time // the clock; defaults to time.After
	Log    *slog.Logger                         // defaults to none
}

func (w *Watching) complete() {
	if w.Settle <= 0 {
		w.Settle = 250 * time.Millisecond
	}
	if w.Rescan <= 0 {
		w.Rescan = 30 * time.Second
	}
	if w.After == nil {
		w.After = time.After
	}
	if w.Log == nil {
		w.Log = slog.New(slog.DiscardHandler)
	}
}

// Watch reads the directory again whenever it changed, until ctx ends, and reports it: the change, or why the
// profiles remain as they are. A change that makes no difference, such as a file that is written as it was, is not
// reported.
func (l *Live) Watch(ctx context.Context, w Watching, tell func(Change, error)) {
	w.complete()
	events := newEvents(l.dir, w.Log)
	defer events.close()
	look := func() {
		if c, news, err := l.read(false); news && (err != nil || !c.None()) {
			tell(c, err)
		}
	}
	look() // what changed between the start and the first event
	for {
		select {
		case <-ctx.Done():
			return
		case <-events.changed:
			if !w.settle(ctx, events.changed) {
				return
			}
		case <-w.After(w.Rescan):
			events.join()
		}
		look()
	}
}

// settle waits until nothing has changed for a while, but not indefinitely. It reports whether ctx continues.
func (w *Watching) settle(ctx context.Context, changed <-chan struct{}) bool {
	const longest = 8
	last := w.After(longest * w.Settle)
	for quiet := w.After(w.Settle); ; {
		select {
		case <-ctx.Done():
			return false
		case <-changed:
			quiet = w.After(w.Settle)
		case <-quiet:
			return true
		case <-last:
			return true
		}
	}
}

// events signals that something in a directory changed.
type events struct {
	dir     string
	changed chan struct{}
	watcher *fsnotify.Watcher // nil where the system has none: then the rescan finds changes
	log     *slog.Logger
	done    chan struct{}
}

func newEvents(dir string, log *slog.Logger) *events {
	e := &events{dir: dir, changed: make(chan struct{}, 1), log: log, done: make(chan struct{})}
	var err error
	if e.watcher, err = fsnotify.NewWatcher(); err != nil {
		log.Warn("profiles: changes are found by polling", "error", err)
		e.watcher = nil
		close(e.done)
		return e
	}
	go e.pass()
	e.join()
	return e
}

// join watches the directory that has its name now. It may be called again and again.
func (e *events) join() {
	if e.watcher == nil {
		return
	}
	if err := e.watcher.Add(e.dir); err != nil {
		e.log.Debug("profiles: the directory cannot be watched", "dir", e.dir, "error", err) // it may not exist yet
	}
}

// pass makes one signal of many events.
func (e *events) pass() {
	defer close(e.done)
	for {
		select {
		case _, ok := <-e.watcher.Events:
			if !ok {
				return
			}
		case err, ok := <-e.watcher.Errors: // such as an overflow: something changed
			if !ok {
				return
			}
			e.log.Warn("profiles: watch", "error", err)
		}
		select {
		case e.changed <- struct{}{}:
		default:
		}
	}
}

func (e *events) close() {
	if e.watcher != nil {
		if err := e.watcher.Close(); err != nil {
			e.log.Warn("profiles: watch", "error", err)
		}
	}
	<-e.done
}
