package sharedfile

import (
	"fmt"
	"io/fs"
	"os"
	"sync"
	"time"
)

// ReadEvery is the shortest time between two readings of a watched file.
const ReadEvery = time.Second

// Watched is the parsed content of a file, which is read again when the file changes. While the file cannot be read,
// for whatever reason, there is no content: something may have been revoked in it. It is safe for concurrent use.
type Watched[T any] struct {
	name  string
	parse func([]byte) (T, error)
	now   func() time.Time

	mu     sync.RWMutex // guards the rest
	value  T
	stat   fs.FileInfo // of what was read last, valid or not
	looked time.Time
	fault  error
}

// Watch reads a file. now is the clock; parse reads its text.
func Watch[T any](name string, now func() time.Time, parse func([]byte) (T, error)) (*Watched[T], error) {
	w := &Watched[T]{name: name, parse: parse, now: now}
	w.load()
	w.looked = now()
	return w, w.fault
}

// Name returns the name of the file.
func (w *Watched[T]) Name() string { return w.name }

// Value returns the content, or why there is none.
func (w *Watched[T]) Value() (T, error) {
	now := w.now()
	w.mu.RLock()
	value, fault, fresh := w.value, w.fault, now.Sub(w.looked) < ReadEvery
	w.mu.RUnlock()
	if fresh {
		return value, fault
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if now.Sub(w.looked) >= ReadEvery {
		w.looked = now
		w.refresh()
	}
	return w.value, w.fault
}

// Latest is as Value, and checks the file at each call: a change counts at once.
func (w *Watched[T]) Latest() (T, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.looked = w.now()
	w.refresh()
	return w.value, w.fault
}

// refresh reads the file again if it has changed. The caller has locked mu.
func (w *Watched[T]) refresh() {
	stat, err := os.Stat(w.name)
	if err != nil {
		var none T
		w.value, w.fault, w.stat = none, err, nil
		return
	}
	if w.stat != nil && os.SameFile(stat, w.stat) && stat.Size() == w.stat.Size() &&
		stat.ModTime().Equal(w.stat.ModTime()) && stat.Mode() == w.stat.Mode() {
		return
	}
	w.load()
}

// load reads the file.
func (w *Watched[T]) load() {
	var text []byte
	var none T
	w.value = none
	if text, w.stat, w.fault = read(w.name); w.fault != nil {
		return
	}
	if w.value, w.fault = w.parse(text); w.fault != nil {
		w.value, w.fault = none, fmt.Errorf("%s: %w", w.name, w.fault)
	}
}
