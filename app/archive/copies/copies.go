// Package copies keeps copies of the artifacts of an archive in several storage locations.
//
//	Save     stores every artifact in every location, reads it back, and applies the quorum
//	Open     reads an artifact from the best copy
//	Heal     replaces a damaged copy from a good one
//	CatchUp  stores what a location lacks that was not reachable
//	Delete   executes an approved deletion; Discard removes the copies of a job that failed
//
// Every step is in the catalog before the next one depends on it. After a crash each method may be called again: it
// continues, and there is one copy of each artifact in each location.
package copies

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stagepost/stagepost/app/archive/catalog"
	"github.com/stagepost/stagepost/edge/storage"
	"github.com/stagepost/stagepost/format/ocfl"
)

// Target is a storage location by its name in the catalog and in policies.
type Target struct {
	Name     string
	At       storage.Location
	Parallel int    // files at once; defaults to 2
	Locks    *Locks // of a location with object lock; nil: none

	// Hold sets or releases the legal hold of a file in the location. A repetition changes nothing. Nil: the location
	// has no legal holds.
	Hold func(ctx context.Context, key string, on bool) error
}

// Source is an artifact that is read.
type Source interface {
	io.ReaderAt
	io.Closer
}

// Options of [New]. Catalog and Targets are required.
type Options struct {
	Catalog   *catalog.Catalog
	Targets   []Target
	Intervals map[storage.Tier]time.Duration // between fixity checks; default to 30, 90 and 365 days
	Now       func() time.Time               // defaults to time.Now
	Log       *slog.Logger                   // defaults to no log
	Agent     string                         // of events; defaults to stagepost
}

// intervals are the times after which a copy is read again.
var intervals = map[storage.Tier]time.Duration{
	storage.Local: 30 * 24 * time.Hour, storage.Fast: 90 * 24 * time.Hour, storage.Slow: 365 * 24 * time.Hour,
}

// Store stores and reads copies. It is safe for concurrent use.
type Store struct {
	o   Options
	set atomic.Pointer[set]

	objects  atomic.Pointer[func() map[string]*ocfl.Root] // nil: there are none
	removing chan struct{}                                // a semaphore: one version is removed at once
	doubts   doubts
}

// set is the locations of a store. It does not change.
type set struct {
	targets map[string]*Target
	order   []string           // names, the quickest tier first
	past    map[string]*Target // that earlier sets had: calls that began with them end with them
}

// New makes a store of locations.
func New(o Options) (*Store, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	o.Agent = cmp.Or(o.Agent, "stagepost")
	s := &Store{o: o, removing: make(chan struct{}, 1)}
	return s, s.SetTargets(o.Targets)
}

// SetTargets replaces the locations. Calls that run keep those that they began with, which must stay open. It must not
// be called concurrently with itself.
func (s *Store) SetTargets(all []Target) error {
	fresh := &set{targets: map[string]*Target{}, past: map[string]*Target{}}
	for _, t := range all {
		if t.Name == "" || t.At == nil || fresh.targets[t.Name] != nil {
			return fmt.Errorf("storage location %q: each needs a name of its own and a location", t.Name)
		}
		t.Parallel = max(cmp.Or(t.Parallel, 2), 1)
		fresh.targets[t.Name] = &t
		fresh.order = append(fresh.order, t.Name)
	}
	slices.SortStableFunc(fresh.order, func(a, b string) int { return rank(fresh.targets[a]) - rank(fresh.targets[b]) })
	if was := s.set.Load(); was != nil {
		maps.Copy(fresh.past, was.past)
		maps.Copy(fresh.past, was.targets)
	}
	s.set.Store(fresh)
	return nil
}

// target gives a location that is configured, or nil.
func (s *Store) target(name string) *Target { return s.set.Load().targets[name] }

// used gives a location of a call that runs, also one that is no longer configured.
func (s *Store) used(name string) *Target {
	now := s.set.Load()
	if t := now.targets[name]; t != nil {
		return t
	}
	return now.past[name]
}

// rank orders locations by how quickly they give a file; one that is not configured (nil) is the last.
func rank(t *Target) int {
	tiers := []storage.Tier{storage.Local, storage.Fast, storage.Slow}
	if t != nil {
		return slices.Index(tiers, t.At.Properties().Tier)
	}
	return len(tiers)
}

// Interval gives the time after which the copies in a location are read again.
func (s *Store) Interval(name string) time.Duration {
	t := s.target(name)
	if t == nil {
		return intervals[storage.Fast]
	}
	tier := t.At.Properties().Tier
	return cmp.Or(s.o.Intervals[tier], intervals[tier], intervals[storage.Fast])
}

// Names lists the locations, the quickest tier first.
func (s *Store) Names() []string { return slices.Clone(s.set.Load().order) }

// Quorum is how many locations must have a copy of each artifact before an archive counts as stored.
type Quorum int

// Besides these a Quorum is a number of locations.
const (
	All      Quorum = 0 // of the policy's locations
	Majority Quorum = -1
)

// ParseQuorum reads "all", "majority" or a number of at least 1.
func ParseQuorum(s string) (Quorum, error) {
	switch s {
	case "", "all":
		return All, nil
	case "majority":
		return Majority, nil
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 {
		return 0, fmt.Errorf("quorum %q: write all, majority, or a number of storage locations", s)
	}
	return Quorum(n), nil
}

// String is the inverse of [ParseQuorum].
func (q Quorum) String() string {
	switch q {
	case All:
		return "all"
	case Majority:
		return "majority"
	}
	return strconv.Itoa(int(q))
}

// of gives the number of copies among n locations.
func (q Quorum) of(n int) int {
	switch q {
	case All:
		return n
	case Majority:
		return n/2 + 1
	}
	return int(q)
}

// Policy is where an archive is stored. The zero value: in all locations, each required.
type Policy struct {
	Locations []string // nil: all
	Required  []string // of these each must have every artifact, whatever the quorum
	Quorum    Quorum
}

// Check reports why a policy cannot be kept.
func (s *Store) Check(p Policy) error {
	names := s.locations(p)
	for i, name := range names {
		if s.target(name) == nil {
			return fmt.Errorf("storage location %q is not configured", name)
		}
		if slices.Contains(names[:i], name) {
			return fmt.Errorf("storage location %q is listed twice", name)
		}
	}
	for _, name := range p.Required {
		if !slices.Contains(names, name) {
			return fmt.Errorf("required storage location %q is not one of %s", name, strings.Join(names, ", "))
		}
	}
	if n := p.Quorum.of(len(names)); len(names) == 0 || n > len(names) {
		return fmt.Errorf("quorum %s: there are %d storage locations", p.Quorum, len(names))
	}
	return nil
}

func (s *Store) locations(p Policy) []string {
	if p.Locations == nil {
		return s.set.Load().order
	}
	return p.Locations
}

// Missing is what a location lacks.
type Missing struct {
	Location string
	Copies   int
	Err      error // of the last attempt; nil: none was made
}

// Error is an archive that is not stored as its policy requires, or a deletion that is not complete.
type Error struct {
	Op        string
	Job       string
	Missing   []Missing
	Transient bool // a later attempt can succeed
}

// Error names each location with the number of copies and the cause.
func (e *Error) Error() string {
	var all []string
	for _, m := range e.Missing {
		cause := "not attempted"
		if m.Err != nil {
			cause = m.Err.Error()
		}
		all = append(all, fmt.Sprintf("%s lacks %d copies: %s", m.Location, m.Copies, cause))
	}
	return fmt.Sprintf("%s archive %s: %s", e.Op, e.Job, strings.Join(all, "; "))
}

// Unwrap gives the causes.
func (e *Error) Unwrap() (all []error) {
	for _, m := range e.Missing {
		if m.Err != nil {
			all = append(all, m.Err)
		}
	}
	return all
}

// Temporary reports whether a later attempt can succeed.
func (e *Error) Temporary() bool { return e.Transient }

// temporary reports whether an error of a location may pass.
func temporary(err error) bool {
	var t interface{ Temporary() bool }
	return !errors.As(err, &t) || t.Temporary()
}

// Locks gives the retention times of copies to a location with object lock: its method Lock is the option Lock of
// [storage.S3Options]. The service then refuses to delete a copy before.
type Locks struct {
	Mode string // GOVERNANCE or COMPLIANCE

	mu    sync.Mutex // guards until
	until map[string]time.Time
}

// Lock gives mode and time for a key that is being stored.
func (l *Locks) Lock(key string) (mode string, until time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	until, ok := l.until[key]
	if !ok {
		return "", time.Time{}
	}
	return l.Mode, until
}

// set enters the time of a key, and gives the function that removes it.
func (l *Locks) set(key string, until time.Time) (remove func()) {
	if l == nil || until.IsZero() {
		return func() {}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.until == nil {
		l.until = map[string]time.Time{}
	}
	l.until[key] = until
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.until, key)
	}
}
