package fixity

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stagepost/stagepost/app/ingest/inventory"
	"github.com/stagepost/stagepost/format/ocfl"
)

const object = "ark:/99999/fk4one"

// harness is a checker over one location, archive.
type harness struct {
	*Checker
	t     *testing.T
	dir   string // of the location
	root  *ocfl.Root
	inv   *inventory.Inventory
	now   time.Time
	audit []string
	fail  error // of opening the location
}

func newHarness(t *testing.T) *harness {
	t.Helper()
	h := &harness{t: t, dir: filepath.Join(t.TempDir(), "archive"), now: time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)}
	var err error
	if h.root, err = ocfl.InitRoot(h.dir, ocfl.DefaultLayout()); err != nil {
		t.Fatal(err)
	}
	if h.inv, err = inventory.Open(t.Context(), filepath.Join(t.TempDir(), "inventory.db"), ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(h.inv.Close(), h.root.Close()); err != nil {
			t.Error(err)
		}
	})
	h.Checker = New(Options{
		Inventory: h.inv, Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return h.now },
		Locations: func(context.Context) ([]string, error) { return []string{"archive"}, nil },
		Open:      func(context.Context, string) (*ocfl.Root, error) { return h.root, h.fail },
		Audit: func(_ context.Context, event, object, note string) error {
			h.audit = append(h.audit, event+" "+object+": "+note)
			return nil
		},
	})
	return h
}

// store stores one version of an object with its files, and records it at the present time.
func (h *harness) store(ark, jobID string, files map[string]string) {
	h.t.Helper()
	v := ocfl.Version{Created: h.now, User: ocfl.User{Name: "x"}, Message: "m"}
	for name, text := range files {
		v.Files = append(v.Files, ocfl.File{Path: name, Size: int64(len(text)), Open: func() (io.ReadCloser, error) {
			return io.NopCloser(strings.NewReader(text)), nil
		}})
	}
	added, err := h.root.AddVersion(h.t.Context(), ark, v, ocfl.Options{Stage: jobID, Key: jobID})
	if err != nil {
		h.t.Fatal(err)
	}
	o, err := h.root.Object(ark)
	if err != nil {
		h.t.Fatal(err)
	}
	stored, err := o.Files(added.Version)
	if err != nil {
		h.t.Fatal(err)
	}
	e := inventory.Entry{
		Object: inventory.Object{ARK: ark, Owner: "o"}, Job: jobID, Version: len(o.Versions()), At: h.now,
		Places: []inventory.Place{{Dir: "archive", Name: added.Version}},
	}
	rows := iter.Seq2[inventory.File, error](func(yield func(inventory.File, error) bool) {
		for _, f := range stored {
			if !yield(inventory.File{Path: f.Path, Size: int64(len(files[f.Path])), SHA512: f.Digest}, nil) {
				return
			}
		}
	})
	if err := h.inv.Record(h.t.Context(), e, rows); err != nil {
		h.t.Fatal(err)
	}
}

// check asks for a check of everything and does it.
func (h *harness) check() Status {
	h.t.Helper()
	if err := h.Start(h.t.Context(), []string{"archive"}); err != nil {
		h.t.Fatal(err)
	}
	if err := h.pass(h.t.Context()); err != nil {
		h.t.Fatal(err)
	}
	return h.status()
}

func (h *harness) status() Status {
	h.t.Helper()
	s, err := h.Status(h.t.Context())
	if err != nil {
		h.t.Fatal(err)
	}
	return s
}

// path is a file of the object on disk.
func (h *harness) path(ark, name string) string {
	return filepath.Join(h.dir, filepath.FromSlash(h.root.Path(ark)), filepath.FromSlash(name))
}

func faults(s Status) []string {
	var all []string
	for _, f := range s.Faults {
		all = append(all, fmt.Sprintf("%s %s v%d %s %s", f.Location, f.Object, f.Version, f.Kind, f.Path))
	}
	return all
}

// Each damage of a stored file is found by the next check, entered once in the audit list, and is no more when the
// file is sound again. The unchanged object is the control: it is read in full and has no fault.
func TestFaultsAreFoundAndClear(t *testing.T) {
	for name, c := range map[string]struct {
		damage func(h *harness) error
		want   string
	}{
		"two bytes changed": {func(h *harness) error {
			text, err := os.ReadFile(h.path(object, "v1/content/a.txt"))
			if err != nil {
				return err
			}
			text[3], text[4] = text[3]^1, text[4]^1
			return replace(h.path(object, "v1/content/a.txt"), text)
		}, "v1 changed v1/content/a.txt"},
		"a file is missing": {func(h *harness) error { return os.Remove(h.path(object, "v1/content/a.txt")) },
			"v1 missing v1/content/a.txt"},
		"a file too many": {func(h *harness) error {
			return os.WriteFile(h.path(object, "v2/content/b.txt"), []byte("x"), 0o600)
		}, "v2 extra v2/content/b.txt"},
		"a file too many beside the inventory": {func(h *harness) error {
			return os.WriteFile(h.path(object, "notes"),
				nil, 0o600)
		}, "v2 extra notes"},
		"a directory instead of a file": {func(h *harness) error {
			return errors.Join(os.Remove(h.path(object, "v1/content/a.txt")),
				os.Mkdir(h.path(object, "v1/content/a.txt"), 0o700))
		}, "v1 unreadable v1/content/a.txt"},
		"an older inventory is changed": {func(h *harness) error {
			return replace(h.path(object, "v1/inventory.json"), []byte("{}"))
		}, "v1 changed v1/inventory.json"},
		"the whole object is missing": {func(h *harness) error { return os.RemoveAll(h.path(object, ".")) },
			"v1 missing .\nv2 missing ."},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t)
			h.store(object, "ing_1", map[string]string{"a.txt": "some text"})
			h.store(object, "ing_2", map[string]string{"a.txt": "some text", "c.txt": "more"})
			kept := filepath.Join(t.TempDir(), "kept")
			if err := os.CopyFS(kept, os.DirFS(h.path(object, "."))); err != nil {
				t.Fatal(err)
			}
			if s := h.check(); len(s.Faults) > 0 || s.Locations[0].Check.Copies != 2 ||
				s.Locations[0].Check.Files != 4 || len(h.audit) > 0 {
				t.Fatalf("undamaged: %+v, %q", s, h.audit)
			}
			if err := c.damage(h); err != nil {
				t.Fatal(err)
			}
			var want []string
			for line := range strings.SplitSeq(c.want, "\n") {
				want = append(want, "archive "+object+" "+line)
			}
			h.now = h.now.Add(time.Hour)
			first := h.check()
			if diff := cmp.Diff(want, faults(first)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if len(h.audit) != len(want) || !strings.HasPrefix(h.audit[0], "fixity-fault archive "+object) {
				t.Errorf("audit: %q", h.audit)
			}
			if f := first.Faults[0]; f.Kind == "changed" &&
				(len(f.Expected) != 128 ||
					len(f.Found) != 128 || !strings.Contains(h.audit[0], f.Expected) ||
					!strings.Contains(h.audit[0], f.Found)) {
				t.Errorf("digests: %+v, %q", f, h.audit)
			}
			h.now = h.now.Add(time.Hour)
			if second := h.check(); !cmp.Equal(first.Faults, second.Faults) || len(h.audit) != len(want) {
				t.Errorf("found again: %+v, audit %q", second.Faults, h.audit)
			}
			if err := errors.Join(os.RemoveAll(h.path(object, ".")),
				os.CopyFS(h.path(object, "."), os.DirFS(kept))); err != nil {
				t.Fatal(err)
			}
			h.now = h.now.Add(time.Hour)
			if s := h.check(); s.Count != 0 ||
				len(s.Faults) > 0 || len(h.audit) != 2*len(want) ||
				!strings.HasPrefix(h.audit[len(h.audit)-1], "fixity-sound") {
				t.Errorf("sound again: %+v, audit %q", s, h.audit)
			}
		})
	}
}

// replace writes a file as a bad disk would: with the same name, whatever its mode.
func replace(name string, text []byte) error {
	return errors.Join(os.Remove(name), os.WriteFile(name, text, 0o600))
}

// A file that was exchanged together with all digests in its object is noticed by the digest in the inventory.
func TestExchangedWithItsDigest(t *testing.T) {
	h := newHarness(t)
	h.store(object, "ing_1", map[string]string{"a.txt": "some text"})
	other := newHarness(t)
	other.store(object, "ing_1", map[string]string{"a.txt": "same size"})
	if err := errors.Join(os.RemoveAll(h.path(object, ".")),
		os.CopyFS(h.path(object, "."), os.DirFS(other.path(object, ".")))); err != nil {
		t.Fatal(err)
	}
	h.now = h.now.Add(time.Hour)
	if diff := cmp.Diff([]string{"archive " + object + " v1 changed v1/content/a.txt"}, faults(h.check())); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A location that cannot be read is no damage: nothing is noted of its files, and the check ends with the reason.
// When it is back, all is checked.
func TestUnreadableLocation(t *testing.T) {
	h := newHarness(t)
	h.store(object, "ing_1", map[string]string{"a.txt": "some text"})
	before := h.status().Locations[0].Oldest
	h.now = h.now.Add(time.Hour)
	h.fail = errors.New("it is not mounted")
	if err := h.Start(t.Context(), []string{"archive"}); err != nil {
		t.Fatal(err)
	}
	if err := h.pass(t.Context()); !errors.Is(err, ErrUnreadable) {
		t.Errorf("got %v", err)
	}
	s := h.status()
	if l := s.Locations[0]; s.Count != 0 ||
		l.Reason == "" || !l.Oldest.Equal(before) || !strings.Contains(l.Check.Failure, "not mounted") ||
		len(h.audit) > 0 {
		t.Errorf("got %+v, %q", s, h.audit)
	}

	// Unmounted while files are read: what is missing then is no fault.
	h.fail = nil
	if err := os.Remove(h.path(object, "v1/content/a.txt")); err != nil {
		t.Fatal(err)
	}
	opened := 0
	open := h.Open
	h.Open = func(ctx context.Context, dir string) (*ocfl.Root, error) {
		if opened++; opened > 1 {
			return nil, fs.ErrNotExist
		}
		return open(ctx, dir)
	}
	if err := errors.Join(h.Start(t.Context(), []string{"archive"}), h.pass(t.Context())); !errors.Is(err,
		ErrUnreadable) {
		t.Errorf("got %v", err)
	}
	h.Open = open
	if s := h.status(); s.Count != 0 || len(h.audit) > 0 {
		t.Errorf("got %+v, %q", s, h.audit)
	}
	if s := h.check(); s.Count != 1 || s.Locations[0].Check.Failure != "" {
		t.Errorf("when it is back: %+v", s)
	}
}

// A check that is interrupted goes on where it was: what it had checked is not read again, the oldest check comes
// first.
func TestInterruptedCheckGoesOn(t *testing.T) {
	h := newHarness(t)
	for i := range 5 {
		h.store(fmt.Sprintf("ark:/99999/fk4%d", i), fmt.Sprintf("ing_%d", i),
			map[string]string{"a.txt": fmt.Sprint("text ", i)})
		h.now = h.now.Add(time.Minute)
	}
	if err := h.Start(t.Context(), []string{"archive"}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	opened := 0
	open := h.Open
	h.Open = func(ctx context.Context, dir string) (*ocfl.Root, error) {
		if opened++; opened == 3 {
			cancel()
		}
		return open(ctx, dir)
	}
	if err := h.pass(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	h.Open = open
	l := h.status().Locations[0]
	if l.Check.Copies != 2 || !l.Check.Ended.IsZero() {
		t.Errorf("interrupted: %+v", l.Check)
	}
	next, err := h.inv.Due(t.Context(), "archive", l.Check.Began, h.now)
	if err != nil || next.ARK != "ark:/99999/fk42" {
		t.Errorf("next is %+v, %v", next, err)
	}
	c := New(h.Options) // after a restart
	if err := c.pass(t.Context()); err != nil {
		t.Fatal(err)
	}
	if l = h.status().Locations[0]; l.Check.Copies != 5 || l.Check.Ended.IsZero() {
		t.Errorf("in the end: %+v", l.Check)
	}
}

// With a schedule a version is read when its last check is as old as the interval, and not before. One that was
// checked in the future is read as well.
func TestSchedule(t *testing.T) {
	h := newHarness(t)
	h.Every = 24 * time.Hour
	h.store("ark:/99999/fk41", "ing_1", map[string]string{"a.txt": "1"})
	h.now = h.now.Add(12 * time.Hour)
	h.store("ark:/99999/fk42", "ing_2", map[string]string{"a.txt": "2"})
	late := h.now
	opened := 0
	open := h.Open
	h.Open = func(ctx context.Context, dir string) (*ocfl.Root, error) {
		opened++
		return open(ctx, dir)
	}
	for _, step := range []struct {
		at   time.Duration // after the second version was stored
		want int
	}{{11 * time.Hour, 0}, {12 * time.Hour, 1}, {23 * time.Hour, 1}, {24 * time.Hour, 2}, {35 * time.Hour, 2}} {
		h.now = late.Add(step.at)
		if err := h.pass(t.Context()); err != nil || opened != step.want {
			t.Errorf("after %s: %d versions read, %v; want %d", step.at, opened, err, step.want)
		}
	}
	h.now = late.Add(-1000 * time.Hour) // the clock was ahead
	if err := h.pass(t.Context()); err != nil || opened != 4 {
		t.Errorf("%d versions read, %v", opened, err)
	}
}

// The rate holds for the reads of a check.
func TestCheckKeepsTheRate(t *testing.T) {
	h := newHarness(t)
	h.store(object, "ing_1", map[string]string{"a.txt": strings.Repeat("x", 1000)})
	o, err := h.root.Object(object)
	if err != nil {
		t.Fatal(err)
	}
	var paced int64
	done, err := o.CheckVersion(t.Context(), "v1", func(_ context.Context, n int) error {
		paced += int64(n)
		return nil
	}, func(ocfl.FileFault) { t.Error("a fault in a sound object") })
	if err != nil || done.Bytes < 1000 || paced != done.Bytes {
		t.Errorf("%d bytes read, %d paced, %v", done.Bytes, paced, err)
	}
	stop := errors.New("stop")
	if _, err := o.CheckVersion(t.Context(), "v1", func(context.Context, int) error { return stop },
		func(ocfl.FileFault) {}); !errors.Is(err, stop) {
		t.Errorf("got %v", err)
	}
}

// TestRequestAtAnotherServer: the server that leads begins a check within seconds that was requested at another server
// on the same inventory, also while it checks what is due by its age. A server that does not lead begins none.
func TestRequestAtAnotherServer(t *testing.T) {
	h := newHarness(t)
	h.store("ark:/99999/fk41", "ing_1", map[string]string{"a.txt": "1"})
	h.requests = time.Millisecond
	other := New(Options{Inventory: h.inv, Now: func() time.Time { return h.now }})
	request := func() {
		t.Helper()
		h.now = h.now.Add(time.Minute)
		if err := other.Start(t.Context(), []string{"archive"}); err != nil {
			t.Fatal(err)
		}
	}
	if h.interrupted(t.Context()) {
		t.Error("interrupted without a request")
	}
	request()
	h.queried = time.Time{}
	if !h.interrupted(t.Context()) {
		t.Error("a request at another server does not interrupt what is due by its age")
	}
	<-h.poke
	if h.query(t.Context()); len(h.poke) > 0 {
		t.Error("one request wakes twice")
	}
	if err := h.pass(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, leads := range []bool{true, false} {
		request()
		h.Leads = func() bool { return leads }
		ctx, cancel := context.WithTimeout(t.Context(), map[bool]time.Duration{true: time.Minute}[leads]+100*h.requests)
		h.sleep(ctx, time.Hour)
		if woken := ctx.Err() == nil; woken != leads {
			t.Errorf("leads %t: woken %t", leads, woken)
		}
		cancel()
		if err := h.pass(t.Context()); err != nil {
			t.Fatal(err)
		}
		if last, err := h.inv.LastCheck(t.Context(), "archive"); err != nil || last.Ended.IsZero() {
			t.Errorf("got %+v, %v", last, err)
		}
	}
}

// TestOnlyTheLeaderChecks: a server that does not lead reads nothing, also if a check is requested there. It begins
// when it leads.
func TestOnlyTheLeaderChecks(t *testing.T) {
	h := newHarness(t)
	h.store("ark:/99999/fk41", "ing_1", map[string]string{"a.txt": "1"})
	var leads atomic.Bool
	asked, read := make(chan struct{}, 100), make(chan struct{}, 100)
	open := h.Open
	h.Open = func(ctx context.Context, dir string) (*ocfl.Root, error) {
		read <- struct{}{}
		return open(ctx, dir)
	}
	h.Leads = func() bool {
		asked <- struct{}{}
		return leads.Load()
	}
	request := func() {
		t.Helper()
		if err := h.Start(t.Context(), []string{"archive"}); err != nil {
			t.Fatal(err)
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { h.Run(ctx); close(ended) }()
	<-asked
	for range 2 { // at the second query nothing of the first is under way
		request()
		<-asked
	}
	if len(read) > 0 {
		t.Error("a server that does not lead read the location")
	}
	leads.Store(true)
	request()
	<-read
	stop()
	<-ended
}
