package profile

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stagepost/stagepost/api"
)

// Live is the profiles of a directory while it changes: a valid set replaces the one before as a whole, an invalid
// one changes nothing. It is safe for concurrent use; a profile that was returned does not change.
type Live struct {
	dir string
	now func() time.Time
	set atomic.Pointer[Set]

	mu     sync.Mutex // guards reading the directory and the rest
	seen   [32]byte   // of the files as they were last read, valid or not
	status Status
}

// Status is the status of the profiles.
type Status = api.ProfileStatus

// Change is what reading the directory again changed, by id.
type Change = api.ProfileChange

// Open reads a directory, which must be valid. now returns the time.
func Open(dir string, now func() time.Time) (*Live, error) {
	l := &Live{dir: dir, now: now, status: Status{Dir: dir}}
	files, err := readDir(dir)
	if err != nil {
		return nil, err
	}
	s, err := load(files, nil)
	if err != nil {
		var m Mistakes
		if errors.As(err, &m) {
			err = fmt.Errorf("%s (stagepost ingest profile check shows the lines): %w", counted(len(m)), err)
		}
		return nil, err
	}
	l.set.Store(s)
	l.seen, l.status.Loaded = s.sum, now()
	return l, nil
}

func counted(n int) string {
	if n == 1 {
		return "1 mistake in the profiles"
	}
	return fmt.Sprintf("%d mistakes in the profiles", n)
}

// Set gives the profiles as they are now.
func (l *Live) Set() *Set { return l.set.Load() }

// Get gives the profile of an id as it is now; "" is the built-in one.
func (l *Live) Get(id string) (*Profile, bool) { return l.Set().Get(id) }

// IDs lists the profiles, sorted.
func (l *Live) IDs() []string { return l.Set().IDs() }

// Status returns the status of the profiles.
func (l *Live) Status() Status {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.status
}

// Reload reads the directory again. With an error, [Mistakes] or that of the disk, everything stays as it was and the
// error is remembered.
func (l *Live) Reload() (Change, error) {
	c, _, err := l.read(true)
	return c, err
}

// read reads the directory again; news is false if it is unchanged, and then only a forced call parses it.
func (l *Live) read(force bool) (c Change, news bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	files, err := readDir(l.dir)
	sum := digest(files)
	if err != nil {
		sum = digest([]file{{name: err.Error()}})
	}
	if sum == l.seen && !force {
		return c, false, nil
	}
	l.seen = sum
	before := l.Set()
	var after *Set
	if err == nil {
		after, err = load(files, before)
	}
	if err == nil {
		err = after.CheckSecrets()
	}
	if err != nil {
		if l.status.Fault == "" {
			l.status.Since = l.now()
		}
		l.status.Fault = err.Error()
		var m Mistakes
		if errors.As(err, &m) {
			l.status.Fault = m.Lines()
		}
		return c, true, err
	}
	l.status.Fault, l.status.Since = "", time.Time{}
	if c = compare(before, after); !c.None() {
		l.status.Loaded = l.now()
	}
	l.set.Store(after)
	return c, true, nil
}

func compare(before, after *Set) Change {
	c := Change{Added: []string{}, Changed: []string{}, Removed: []string{}}
	for id, p := range after.byID {
		switch old := before.byID[id]; {
		case old == nil:
			c.Added = append(c.Added, id)
		case old != p:
			c.Changed = append(c.Changed, id)
		}
	}
	for id := range before.byID {
		if after.byID[id] == nil {
			c.Removed = append(c.Removed, id)
		}
	}
	slices.Sort(c.Added)
	slices.Sort(c.Changed)
	slices.Sort(c.Removed)
	return c
}
