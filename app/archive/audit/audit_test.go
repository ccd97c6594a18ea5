package audit_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stagepost/stagepost/app/archive/audit"
	"github.com/stagepost/stagepost/app/archive/catalog"
	"github.com/stagepost/stagepost/app/archive/copies"
	"github.com/stagepost/stagepost/edge/storage"
)

const job = "0195-job"

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// location keeps files in memory, and counts what is read.
type location struct {
	tier storage.Tier

	mu    sync.Mutex // guards the rest
	files map[string][]byte
	reads []string
	fail  func(key string) error
	ready bool
}

func (l *location) Put(
	_ context.Context, key string, src io.ReaderAt, c storage.Content, _ *storage.Progress,
) error {
	b := make([]byte, c.Size)
	if _, err := io.ReadFull(io.NewSectionReader(src, 0, c.Size), b); err != nil {
		return err
	}
	sum := sha256.Sum256(b)
	l.mu.Lock()
	defer l.mu.Unlock()
	had, exists := l.files[key]
	switch {
	case exists && !bytes.Equal(had, b):
		return &storage.Error{Op: "put", Key: key, Err: storage.ErrExists}
	case hex.EncodeToString(sum[:]) != c.SHA256:
		return &storage.Error{Op: "put", Key: key, Err: storage.ErrSource}
	}
	l.files[key] = b
	return nil
}

func (l *location) Stat(_ context.Context, key string) (storage.Stat, error) {
	b, err := l.content(key)
	return storage.Stat{Size: int64(len(b))}, err
}

func (l *location) content(key string) ([]byte, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	b, ok := l.files[key]
	if !ok {
		return nil, &storage.Error{Op: "open", Key: key, Err: fs.ErrNotExist}
	}
	return b, nil
}

func (l *location) Delete(_ context.Context, key string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.files, key)
	return nil
}

func (l *location) Abandon(context.Context, string, *storage.Progress) error { return nil }

func (l *location) Free(context.Context) (int64, error) { return -1, nil }

func (l *location) Close() error { return nil }

func (l *location) Open(_ context.Context, key string, offset int64) (io.ReadCloser, error) {
	l.mu.Lock()
	fail := l.fail
	if key != copies.Marker {
		l.reads = append(l.reads, key)
	}
	l.mu.Unlock()
	if fail != nil {
		if err := fail(key); err != nil {
			return nil, err
		}
	}
	b, err := l.content(key)
	if err != nil {
		return nil, err
	}
	return io.NopCloser(bytes.NewReader(b[offset:])), nil
}

func (l *location) Recall(context.Context, string) (bool, error) { return l.ready, nil }

func (l *location) Properties() storage.Properties {
	return storage.Properties{Name: "test", Tier: l.tier}
}

type fixture struct {
	t       *testing.T
	now     time.Time
	cat     *catalog.Catalog
	at      map[string]*location
	copies  *copies.Store
	checker *audit.Checker
	options audit.Options // Objects, Pace, Leads and Requests

	later atomic.Int64 // what the clock is ahead of now

	mu       sync.Mutex
	reported []string
	report   func() error
}

// newFixture stores n artifacts in two locations, of which b is of a tier.
func newFixture(t *testing.T, n int, tier storage.Tier) *fixture {
	t.Helper()
	f := &fixture{t: t, now: start, at: map[string]*location{}}
	var err error
	f.cat, err = catalog.Open(t.Context(), filepath.Join(t.TempDir(), catalog.Name), catalog.Options{})
	must(t, err)
	t.Cleanup(func() { _ = f.cat.Close() })
	o := copies.Options{Catalog: f.cat, Now: func() time.Time { return f.now }}
	for _, name := range []string{"a", "b"} {
		f.at[name] = &location{tier: storage.Local, files: map[string][]byte{}}
		o.Targets = append(o.Targets, copies.Target{Name: name, At: f.at[name]})
	}
	f.at["b"].tier = tier
	f.copies, err = copies.New(o)
	must(t, err)
	must(t, f.cat.Begin(t.Context(), catalog.Archive{Job: job, Source: "s", Created: start}))
	must(t, f.cat.PutArtifacts(t.Context(), job, artifacts(n)))
	_, err = f.copies.Save(t.Context(), copies.Request{Job: job, Open: func(path string) (copies.Source, error) {
		return source{bytes.NewReader([]byte("content of " + path))}, nil
	}})
	must(t, err)
	must(t, f.cat.End(t.Context(), job, catalog.Complete, start))
	f.restart()
	return f
}

func (f *fixture) clock() time.Time { return f.now.Add(time.Duration(f.later.Load())) }

// restart makes a checker as a new process does.
func (f *fixture) restart() {
	for _, l := range f.at {
		l.reads = nil
	}
	f.checker = audit.New(audit.Options{
		Objects: f.options.Objects, Pace: f.options.Pace, Leads: f.options.Leads,
		Requests: f.options.Requests,
		Catalog:  f.cat, Copies: f.copies, Now: f.clock,
		Report: func(_ context.Context, event, object, note string) error {
			f.mu.Lock()
			defer f.mu.Unlock()
			if f.report != nil {
				if err := f.report(); err != nil {
					return err
				}
			}
			if note == "" {
				f.t.Errorf("%s of %s has no note", event, object)
			}
			f.reported = append(f.reported, event+" "+object)
			return nil
		},
	})
}

type source struct{ *bytes.Reader }

func (source) Close() error { return nil }

func artifacts(n int) (all []catalog.Artifact) {
	for i := range n {
		path := fmt.Sprintf("file-%04d", i)
		content := []byte("content of " + path)
		a, b := sha256.Sum256(content), sha512.Sum512(content)
		all = append(all, catalog.Artifact{
			Path: path, Size: int64(len(content)), Role: catalog.Payload,
			SHA256: hex.EncodeToString(a[:]), SHA512: hex.EncodeToString(b[:]),
		})
	}
	return all
}

// change changes a stored file; a change to nil removes it.
func (f *fixture) change(name, path string, change func([]byte) []byte) {
	f.t.Helper()
	l := f.at[name]
	had, err := l.content(job + "/" + path)
	must(f.t, err)
	l.mu.Lock()
	defer l.mu.Unlock()
	if b := change(bytes.Clone(had)); b != nil {
		l.files[job+"/"+path] = b
	} else {
		delete(l.files, job+"/"+path)
	}
}

func remove([]byte) []byte { return nil }

func flip(b []byte) []byte {
	b[len(b)/2] ^= 1
	return b
}

// TestLocationsDoNotWait: while the check of one location stands still, another location is checked again.
func TestLocationsDoNotWait(t *testing.T) {
	f := newFixture(t, 1, storage.Local)
	f.now = f.now.Add(time.Second)
	still, release, checked := make(chan struct{}), make(chan struct{}), make(chan struct{}, 1)
	f.at["a"].fail = func(key string) error {
		if key != copies.Marker {
			close(still)
			<-release
		}
		return nil
	}
	f.at["b"].fail = func(key string) error {
		if key != copies.Marker {
			checked <- struct{}{}
		}
		return nil
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- f.checker.Run(ctx) }()
	must(t, f.checker.Start(t.Context(), []string{"a"}))
	<-still
	must(t, f.checker.Start(t.Context(), []string{"b"}))
	<-checked
	close(release)
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func cut(b []byte) []byte { return b[:3] }

func lengthen(b []byte) []byte { return append(b, 0) }

// digestOf gives the SHA-256 of file-0001 after a change.
func digestOf(change func([]byte) []byte) string {
	sum := sha256.Sum256(change([]byte("content of file-0001")))
	return hex.EncodeToString(sum[:])
}

// TestOneByteAmongThousand: one changed bit among 1,000 objects in two locations is found in one cycle, reported,
// healed, and the new copy is found intact in the next cycle.
func TestOneByteAmongThousand(t *testing.T) {
	f := newFixture(t, 1000, storage.Local)
	f.change("b", "file-0617", flip)
	if r, err := f.checker.Pass(t.Context()); err != nil || r.Copies != 0 {
		t.Fatalf("checked early: %+v, %v", r, err)
	}
	f.now = start.AddDate(0, 0, 31)
	r, err := f.checker.Pass(t.Context())
	if must(t, err); r.Copies != 2000 || r.Faults != 1 || r.Healed != 1 {
		t.Errorf("got %+v", r)
	}
	key := "b " + job + "/file-0617"
	if want := []string{audit.EventFault + " " + key, audit.EventHealed + " " + key}; !slices.Equal(f.reported, want) {
		t.Errorf("reported %q", f.reported)
	}
	events, err := f.cat.Events(t.Context(), job, "file-0617", 0)
	if must(t, err); len(events) != 2 || events[0].Outcome != "failure" || events[1].Type != "replication" {
		t.Errorf("got %+v", events)
	}
	if s, err := f.checker.Status(t.Context()); err != nil || len(s.Faults) != 0 || s.Locations[1].Copies != 1000 ||
		s.Locations[1].Overdue != 0 {
		t.Errorf("got %+v, %v", s, err)
	}
	f.now = f.now.AddDate(0, 0, 31)
	r, err = f.checker.Pass(t.Context())
	if must(t, err); r.Copies != 2000 || r.Faults != 0 {
		t.Errorf("got %+v", r)
	}
	if _, err := f.at["b"].content(job + "/file-0617"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the damaged file is still there: %v", err)
	}
}

// TestFaults has each kind of fault.
func TestFaults(t *testing.T) {
	for name, c := range map[string]struct {
		damage func(f *fixture)
		want   catalog.Fixity
		found  string // digest
	}{
		"changed": {func(f *fixture) { f.change("a", "file-0001", flip) }, catalog.Corrupt, digestOf(flip)},
		"cut":     {func(f *fixture) { f.change("a", "file-0001", cut) }, catalog.Corrupt, digestOf(cut)},
		"longer":  {func(f *fixture) { f.change("a", "file-0001", lengthen) }, catalog.Corrupt, digestOf(lengthen)},
		"missing": {func(f *fixture) { f.change("a", "file-0001", remove) }, catalog.Absent, ""},
		"none left": {func(f *fixture) {
			f.change("a", "file-0001", flip)
			f.change("b", "file-0001", flip)
		}, catalog.Corrupt, digestOf(flip)},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, 3, storage.Local)
			c.damage(f)
			f.now = f.now.Add(time.Second)
			must(t, f.checker.Start(t.Context(), nil)) // on request, before it is due
			_, err := f.checker.Pass(t.Context())
			all, e := f.cat.Copies(t.Context(), job, "file-0001")
			must(t, e)
			if all[0].Fixity != c.want || all[0].Detail == "" || all[0].Found != c.found {
				t.Errorf("got %+v", all[0])
			}
			if name != "none left" {
				must(t, err)
				if len(all) != 3 || !all[1].Good() || all[0].Replaced != 2 {
					t.Errorf("got %+v", all)
				}
				return
			}
			if err == nil || len(all) != 4 || all[0].Replaced != 0 {
				t.Errorf("got %v, %+v", err, all)
			}
			if s, err := f.checker.Status(t.Context()); err != nil || len(s.Faults) != 2 ||
				s.Faults[1].Found != c.found || s.Faults[1].Expected != all[0].Of.SHA256 {
				t.Errorf("got %+v, %v", s.Faults, err)
			}
			n := len(f.reported)
			_, err = f.checker.Pass(t.Context()) // it is not reported again
			if err == nil || len(f.reported) != n {
				t.Errorf("got %v, %q", err, f.reported[n:])
			}
			f.change("b", "file-0001", flip) // a user brought it back
			f.now = f.now.Add(time.Second)
			must(t, f.checker.Start(t.Context(), []string{"b"}))
			_, _ = f.checker.Pass(t.Context()) // a may be tried before b is found intact
			_, err = f.checker.Pass(t.Context())
			must(t, err)
			if s, err := f.checker.Status(t.Context()); err != nil || len(s.Faults) != 0 {
				t.Errorf("got %+v, %v", s.Faults, err)
			}
		})
	}
}

// TestUnreadable: a location that cannot be read, or is another one, implies nothing about its copies.
func TestUnreadable(t *testing.T) {
	down := &storage.Error{Location: "b", Op: "open", Err: errors.New("connection refused"), Transient: true}
	for name, damage := range map[string]func(f *fixture){
		"down": func(f *fixture) { f.at["b"].fail = func(string) error { return down } },
		"down later": func(f *fixture) {
			f.at["b"].fail = func(key string) error {
				if key == copies.Marker {
					return nil
				}
				return down
			}
		},
		"not mounted": func(f *fixture) {
			clear(f.at["b"].files)
		},
		"unmounted meanwhile": func(f *fixture) {
			f.at["b"].fail = func(key string) error {
				if key != copies.Marker {
					f.at["b"].mu.Lock()
					defer f.at["b"].mu.Unlock()
					clear(f.at["b"].files)
				}
				return nil
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, 3, storage.Local)
			damage(f)
			f.now = start.AddDate(0, 0, 31)
			r, err := f.checker.Pass(t.Context())
			if err == nil || !strings.Contains(err.Error(), "b: ") || r.Copies != 3 || r.Faults != 0 {
				t.Errorf("got %+v, %v", r, err)
			}
			if len(f.reported) != 0 {
				t.Errorf("reported %q", f.reported)
			}
			s, err := f.checker.Status(t.Context())
			if must(t, err); s.Locations[1].Overdue != 3 || s.Locations[0].Overdue != 0 || len(s.Faults) != 0 {
				t.Errorf("got %+v", s)
			}
		})
	}
}

// TestOneUnreadable: a file that cannot be read does not keep the others from being checked. One on a damaged medium is
// healed.
func TestOneUnreadable(t *testing.T) {
	for _, c := range []struct {
		err    error
		copies int64
		faults int
	}{{errors.New("connection reset"), 9, 0}, {&fs.PathError{Op: "read", Path: "x", Err: syscall.EIO}, 10, 1}} {
		f := newFixture(t, 5, storage.Local)
		f.at["b"].fail = func(key string) error {
			if key == job+"/file-0000" { // it is due first
				return c.err
			}
			return nil
		}
		f.now = start.AddDate(0, 0, 31)
		r, err := f.checker.Pass(t.Context())
		if (err == nil) != (c.faults > 0) || r.Copies != c.copies || r.Faults != c.faults || r.Healed != c.faults {
			t.Errorf("%v: got %+v, %v", c.err, r, err)
		}
		if due, err := f.cat.DueCount(t.Context(), "b", f.now); err != nil || due != 10-c.copies {
			t.Errorf("%v: %d are due, %v", c.err, due, err)
		}
	}
}

// TestRestart ends after each number of checks: the next process continues, and each copy is read once.
func TestRestart(t *testing.T) {
	f := newFixture(t, 20, storage.Local)
	f.now = start.AddDate(0, 0, 31)
	reads := 0
	for range 100 {
		ctx, cancel := context.WithCancel(t.Context())
		n := 0
		f.at["a"].fail = func(key string) error {
			if key == copies.Marker {
				return nil
			}
			if n++; n == 4 {
				cancel()
				return ctx.Err()
			}
			return nil
		}
		_, err := f.checker.Pass(ctx)
		reads += min(n, 3)
		cancel()
		if err == nil {
			break
		}
		f.restart()
	}
	if reads != 20 {
		t.Errorf("%d copies were read", reads)
	}
}

// TestSlow: a slow location recalls a file first, and the others are not kept waiting.
func TestSlow(t *testing.T) {
	f := newFixture(t, 2, storage.Slow)
	f.now = start.AddDate(0, 0, 2) // the first check of a slow copy is due after a day
	if r, err := f.checker.Pass(t.Context()); err != nil || r.Copies != 0 || len(f.at["b"].reads) != 0 {
		t.Errorf("got %+v, %v, read %q", r, err, f.at["b"].reads)
	}
	f.at["b"].ready = true
	if r, err := f.checker.Pass(t.Context()); err != nil || r.Copies != 0 {
		t.Errorf("it does not wait: %+v, %v", r, err)
	}
	f.now = f.now.Add(5 * time.Hour)
	if r, err := f.checker.Pass(t.Context()); err != nil || r.Copies != 2 {
		t.Errorf("got %+v, %v", r, err)
	}
	if due, err := f.cat.DueCount(t.Context(), "b", f.now.AddDate(0, 0, 364)); err != nil || due != 0 {
		t.Errorf("%d are due within a year, %v", due, err)
	}
}

// TestRun does what is requested while it runs.
func TestRun(t *testing.T) {
	f := newFixture(t, 3, storage.Local)
	f.now = f.now.Add(time.Second)
	f.change("a", "file-0002", flip)
	healed := make(chan struct{})
	f.report = func() error {
		if len(f.reported) == 1 {
			close(healed)
		}
		return nil
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- f.checker.Run(ctx) }()
	must(t, f.checker.Start(t.Context(), []string{"a"}))
	<-healed
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestRequestAtAnotherServer: the server that leads carries out a check that was requested at another server on the
// same catalog, from its next query on.
func TestRequestAtAnotherServer(t *testing.T) {
	f := newFixture(t, 1, storage.Local)
	f.now = f.now.Add(time.Second)
	led := make(chan struct{}, 1)
	f.options.Requests = time.Millisecond
	f.options.Leads = func() bool {
		select {
		case led <- struct{}{}:
		default:
		}
		return true
	}
	f.restart()
	other := audit.New(audit.Options{Catalog: f.cat, Copies: f.copies, Now: f.clock})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	ended := make(chan error)
	go func() { ended <- f.checker.Run(ctx) }()
	for range 100 { // so that the passes at the start are over
		<-led
	}
	f.later.Store(int64(time.Minute))
	must(t, other.Start(t.Context(), []string{"a"}))
	for {
		select {
		case <-led:
		case <-ctx.Done():
		}
		k, err := f.cat.LastCheck(t.Context(), "a")
		must(t, err)
		if !k.Ended.IsZero() {
			break
		}
		if ctx.Err() != nil {
			t.Fatalf("the request was not found: %+v", k)
		}
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestOnlyTheLeaderChecks: a server that does not lead reads nothing, also if a check is requested there. It begins
// when it leads.
func TestOnlyTheLeaderChecks(t *testing.T) {
	f := newFixture(t, 1, storage.Local)
	f.now = f.now.Add(time.Second)
	var leads atomic.Bool
	asked, read := make(chan struct{}, 100), make(chan struct{}, 100)
	f.options.Leads = func() bool {
		asked <- struct{}{}
		return leads.Load()
	}
	f.at["a"].fail = func(string) error {
		read <- struct{}{}
		return nil
	}
	f.restart()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- f.checker.Run(ctx) }()
	<-asked
	for range 2 { // at the second query nothing of the first is under way
		must(t, f.checker.Start(t.Context(), []string{"a"}))
		<-asked
	}
	if len(read) > 0 {
		t.Error("a server that does not lead read the location")
	}
	leads.Store(true)
	must(t, f.checker.Start(t.Context(), []string{"a"}))
	<-read
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
