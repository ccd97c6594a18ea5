package fixity

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/app/ingest/inventory"
	"github.com/stagepost/stagepost/format/ocfl"
)

// pair is a checker over two locations, archive and mirror, that have the same objects.
type pair struct {
	*harness
	roots  map[string]*ocfl.Root
	mirror string           // directory of the location
	away   map[string]error // locations that cannot be opened
}

func newPair(t *testing.T) *pair {
	t.Helper()
	if _, err := os.Stat("/dev/shm"); err == nil {
		t.Setenv("TMPDIR", "/dev/shm") // a real disk makes these tests wait
	}
	p := &pair{harness: newHarness(t), away: map[string]error{}}
	p.mirror = filepath.Join(t.TempDir(), "mirror")
	mirror, err := ocfl.InitRoot(p.mirror, ocfl.DefaultLayout())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { mirror.Close() })
	p.roots = map[string]*ocfl.Root{"archive": p.root, "mirror": mirror}
	p.Locations = func(context.Context) ([]string, error) { return []string{"archive", "mirror"}, nil }
	p.Open = func(_ context.Context, dir string) (*ocfl.Root, error) { return p.roots[dir], p.away[dir] }
	return p
}

// both stores one version of an object in both locations.
func (p *pair) both(ark, jobID string, files map[string]string) {
	p.t.Helper()
	e := inventory.Entry{Object: inventory.Object{ARK: ark, Owner: "o"}, Job: jobID, At: p.now}
	var rows []inventory.File
	for _, place := range []string{"archive", "mirror"} {
		v := ocfl.Version{Created: p.now, Message: "m"}
		for name, text := range files {
			open := func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(text)), nil }
			v.Files = append(v.Files, ocfl.File{Path: name, Size: int64(len(text)), Open: open})
		}
		added, err := p.roots[place].AddVersion(p.t.Context(), ark, v, ocfl.Options{Stage: jobID, Key: jobID})
		if err != nil {
			p.t.Fatal(err)
		}
		o, err := p.roots[place].Object(ark)
		if err != nil {
			p.t.Fatal(err)
		}
		stored, err := o.Files(added.Version)
		if err != nil {
			p.t.Fatal(err)
		}
		rows = nil
		for _, f := range stored {
			rows = append(rows, inventory.File{Path: f.Path, Size: int64(len(files[f.Path])), SHA512: f.Digest})
		}
		e.Version = len(o.Versions())
		e.Places = append(e.Places, inventory.Place{Dir: place, Name: added.Version})
	}
	all := iter.Seq2[inventory.File, error](func(yield func(inventory.File, error) bool) {
		for _, f := range rows {
			if !yield(f, nil) {
				return
			}
		}
	})
	if err := p.inv.Record(p.t.Context(), e, all); err != nil {
		p.t.Fatal(err)
	}
}

// fixityQuery selects all objects.
var fixityQuery = api.FixityQuery{Limit: 10}

// mirrorDir is the directory of the location mirror.
func (p *pair) mirrorDir() string { return p.mirror }

// all checks both locations, and gives the errors of the pass.
func (p *pair) all() error {
	p.t.Helper()
	return p.until(p.t.Context())
}

// until is all with a context, which can end it as a crash does.
func (p *pair) until(ctx context.Context) error {
	p.now = p.now.Add(time.Hour)
	if err := p.Start(p.t.Context(), []string{"archive", "mirror"}); err != nil {
		p.t.Fatal(err)
	}
	return p.pass(ctx)
}

func flip(name string) error {
	text, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	text[len(text)/2] ^= 1
	return replace(name, text)
}

// TestOneByteAmongThousand: one changed bit among 1,000 objects in two locations is found in one cycle, reported and
// healed.
func TestOneByteAmongThousand(t *testing.T) {
	p := newPair(t)
	const many = 1000
	for i := range many {
		text := fmt.Sprint("text ", i)
		p.both(fmt.Sprintf("ark:/99999/fk4%04d", i), fmt.Sprintf("ing_%d", i), map[string]string{"a": text})
	}
	bad := "ark:/99999/fk40617"
	if err := flip(p.path(bad, "v1/content/a")); err != nil {
		t.Fatal(err)
	}
	if err := p.all(); err != nil {
		t.Fatal(err)
	}
	what := "archive " + bad + " v1 v1/content/a: "
	if len(p.audit) != 2 || !strings.HasPrefix(p.audit[0], "fixity-fault "+what) ||
		p.audit[1] != "fixity-healed "+what+"repaired from mirror" {
		t.Errorf("audit: %q", p.audit)
	}
	s := p.status()
	if near, far := s.Locations[0], s.Locations[1]; s.Count != 0 || near.Check.Copies != many || near.Healed != 1 ||
		far.Healed != 0 || near.Damaged != 0 {
		t.Errorf("got %+v", s)
	}
	if text, err := os.ReadFile(p.path(bad, "v1/content/a")); string(text) != "text 617" {
		t.Errorf("the file is %q, %v", text, err)
	}
}

// TestEachDamageHeals: each damage of a copy is found and healed from the other location, in each of the two.
func TestEachDamageHeals(t *testing.T) {
	for name, damage := range map[string]func(home string) error{
		"changed":   func(h string) error { return flip(h + "/v1/content/a.txt") },
		"truncated": func(h string) error { return os.Truncate(h+"/v1/content/a.txt", 3) },
		"deleted":   func(h string) error { return os.Remove(h + "/v1/content/a.txt") },
		"a directory instead of a file": func(h string) error {
			return errors.Join(os.Remove(h+"/v1/content/a.txt"), os.Mkdir(h+"/v1/content/a.txt", 0o700))
		},
		"version deleted":   func(h string) error { return os.RemoveAll(h + "/v2") },
		"object deleted":    os.RemoveAll,
		"inventory changed": func(h string) error { return flip(h + "/inventory.json") },
		"older one changed": func(h string) error { return flip(h + "/v1/inventory.json") },
		"two files, two kinds": func(h string) error {
			return errors.Join(flip(h+"/v2/content/c.txt"), os.Remove(h+"/v1/content/a.txt"))
		},
	} {
		for _, place := range []string{"archive", "mirror"} {
			p := newPair(t)
			p.both(object, "ing_1", map[string]string{"a.txt": "some text"})
			p.both(object, "ing_2", map[string]string{"a.txt": "some text", "c.txt": "more"})
			home := p.path(object, ".")
			if place == "mirror" {
				home = filepath.Join(p.mirrorDir(), filepath.FromSlash(p.root.Path(object)))
			}
			if err := damage(home); err != nil {
				t.Fatal(err)
			}
			err := p.all()
			s := p.status()
			if err != nil || s.Count != 0 || s.Locations[0].Healed+s.Locations[1].Healed == 0 {
				t.Errorf("%s in %s: %v, %+v, %q", name, place, err, s.Faults, p.audit)
			}
			for _, root := range p.roots {
				if r, err := root.ValidateObject(t.Context(), object); err != nil || !r.Valid() {
					t.Errorf("%s in %s: %v, %v", name, place, r, err)
				}
			}
			if !strings.HasPrefix(p.audit[0], "fixity-fault "+place) {
				t.Errorf("%s in %s: not reported first: %q", name, place, p.audit)
			}
			objects, err := p.Objects(t.Context(), fixityQuery)
			if err != nil || len(objects) != 1 || objects[0].Copies != 4 || objects[0].Damaged != 0 ||
				objects[0].Healed == 0 || !slices.Equal(objects[0].Locations, []string{"archive", "mirror"}) {
				t.Errorf("%s: report %+v, %v", name, objects, err)
			}
		}
	}
}

// TestNotHealedFromBad: a copy is never healed from a damaged one. The fault stays, is reported once, and is healed
// when a good copy is there again.
func TestNotHealedFromBad(t *testing.T) {
	p := newPair(t)
	p.both(object, "ing_1", map[string]string{"a.txt": "some text"})
	other := filepath.Join(p.mirrorDir(), filepath.FromSlash(p.root.Path(object)), "v1/content/a.txt")
	if err := errors.Join(flip(p.path(object, "v1/content/a.txt")), flip(other)); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := p.all(); err != nil {
			t.Fatal(err)
		}
	}
	s := p.status()
	count := func(event string) (n int) {
		for _, a := range p.audit {
			if strings.HasPrefix(a, event) {
				n++
			}
		}
		return n
	}
	if s.Count != 2 || s.Locations[0].Damaged != 1 || count("fixity-fault") != 2 || count("fixity-lost") != 2 ||
		count("fixity-healed") != 0 {
		t.Errorf("got %+v, %q", s, p.audit)
	}
	if err := flip(other); err != nil { // a user brought the good copy back
		t.Fatal(err)
	}
	p.now = p.now.Add(25 * time.Hour)
	if err := p.pass(t.Context()); err != nil {
		t.Fatal(err)
	}
	if count("fixity-healed") != 1 || p.status().Locations[0].Damaged != 0 {
		t.Errorf("a good copy is back: %+v, %q", p.status(), p.audit)
	}
}

// TestSourceAway: a fault waits for the location with the good copy.
func TestSourceAway(t *testing.T) {
	p := newPair(t)
	p.both(object, "ing_1", map[string]string{"a.txt": "some text"})
	if err := flip(p.path(object, "v1/content/a.txt")); err != nil {
		t.Fatal(err)
	}
	p.away["mirror"] = errors.New("it is not mounted")
	if err := p.all(); !errors.Is(err, ErrUnreadable) {
		t.Errorf("got %v", err)
	}
	if s := p.status(); s.Count != 1 || s.Locations[1].Check.Failure == "" {
		t.Errorf("got %+v", s)
	}
	delete(p.away, "mirror")
	if err := p.pass(t.Context()); err != nil || p.status().Count != 1 {
		t.Errorf("control: tried again within a day: %v", err)
	}
	p.now = p.now.Add(25 * time.Hour)
	if err := p.pass(t.Context()); err != nil || p.status().Count != 0 {
		t.Errorf("got %v, %+v", err, p.status())
	}
}

// TestCrashWhileHealing ends the pass after each entry of the audit list: the next process continues, and the copy is
// good in the end.
func TestCrashWhileHealing(t *testing.T) {
	for stop := 1; ; stop++ {
		p := newPair(t)
		p.both(object, "ing_1", map[string]string{"a.txt": "some text", "b.txt": "more"})
		if err := errors.Join(flip(p.path(object, "v1/content/a.txt")),
			os.Remove(p.path(object, "v1/content/b.txt"))); err != nil {
			t.Fatal(err)
		}
		n, audit := 0, p.Audit
		dying, crash := context.WithCancel(t.Context())
		p.Audit = func(ctx context.Context, event, object, note string) error {
			if n++; n == stop {
				crash()
				return dying.Err()
			}
			return audit(ctx, event, object, note)
		}
		err := p.until(dying)
		crash()
		p.Audit = audit
		c := New(p.Options)
		if e := c.pass(t.Context()); e != nil {
			t.Errorf("stop %d: %v", stop, e)
		}
		if s := p.status(); s.Count != 0 || s.Locations[0].Check.Ended.IsZero() {
			t.Errorf("stop %d: %+v, %q", stop, s, p.audit)
		}
		if !strings.Contains(strings.Join(p.audit, " "), "fixity-fault archive "+object+" v1 v1/content/a.txt") {
			t.Errorf("stop %d: not reported: %q", stop, p.audit)
		}
		if err == nil {
			break
		}
		if stop > 20 {
			t.Fatal(err)
		}
	}
}
