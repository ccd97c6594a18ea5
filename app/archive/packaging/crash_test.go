package packaging

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var errCrash = errors.New("planned crash")

// crashKind is what a crash leaves of the operation at which it happens.
type crashKind string

const (
	before crashKind = "before"
	after  crashKind = "after"
	torn   crashKind = "torn"  // a write is half done
	fails  crashKind = "fails" // only this operation fails, as on a full disk
)

// crashDisk is a disk that crashes at one of its operations. Nothing works after it.
type crashDisk struct {
	disk
	stop int // number of the operation, from 1; 0: never
	kind crashKind
	done []string
	dead bool
	mu   sync.Mutex // guards the operations: products are written by goroutines of their own

	// what a power cut loses
	contents map[string]*bool // file -> it was synced
	entries  map[string]bool  // names whose directory was not synced
	forget   string           // a control: syncs of this kind do nothing
}

func (c *crashDisk) op(name string, do func() error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dead {
		return errCrash
	}
	c.done = append(c.done, name)
	if len(c.done) != c.stop {
		return do()
	}
	if c.kind == fails {
		return errCrash
	}
	c.dead = true
	if c.kind == before || c.kind == torn && !strings.HasPrefix(name, "write") {
		return errCrash
	}
	return errors.Join(do(), errCrash)
}

func (c *crashDisk) Mkdir(name string) error {
	return c.op("mkdir "+name, func() error {
		c.enter(name)
		return c.disk.Mkdir(name)
	})
}

// enter records a name that a power cut loses until its directory is synced.
func (c *crashDisk) enter(name string) {
	if c.entries == nil {
		c.entries, c.contents = map[string]bool{}, map[string]*bool{}
	}
	c.entries[name] = true
}

func (c *crashDisk) Rename(from, to string) error {
	return c.op("rename "+to, func() error {
		c.enter(to)
		c.contents[to] = c.contents[from]
		delete(c.contents, from)
		delete(c.entries, from)
		return c.disk.Rename(from, to)
	})
}

func (c *crashDisk) RemoveAll(name string) error {
	return c.op("remove "+name, func() error {
		below := func(other string) bool { return other == name || strings.HasPrefix(other, name+"/") }
		maps.DeleteFunc(c.contents, func(other string, _ *bool) bool { return below(other) })
		maps.DeleteFunc(c.entries, func(other string, _ bool) bool { return below(other) })
		return c.disk.RemoveAll(name)
	})
}

func (c *crashDisk) SyncDir(name string) error {
	return c.op("syncdir "+name, func() error {
		if c.forget != "directories" {
			maps.DeleteFunc(c.entries, func(other string, _ bool) bool { return path.Dir(other) == name })
		}
		return nil
	})
}

// lose makes the directory what it is after a power cut: content and names that were not synced are lost.
func (c *crashDisk) lose(t *testing.T, dir string) {
	t.Helper()
	for name := range c.entries {
		remove(t, filepath.Join(dir, name))
	}
	for name, synced := range c.contents {
		full := filepath.Join(dir, name)
		if _, err := os.Stat(full); err == nil && !*synced {
			if err := os.Truncate(full, 0); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func (c *crashDisk) Create(name string) (file, error) {
	var f file
	synced := new(bool)
	err := c.op("create "+name, func() (err error) {
		c.enter(name)
		c.contents[name] = synced
		f, err = c.disk.Create(name)
		return err
	})
	if err != nil {
		if f != nil {
			f.Close()
		}
		return nil, err
	}
	return &crashFile{f, c, name, synced}, nil
}

type crashFile struct {
	file
	c      *crashDisk
	name   string
	synced *bool
}

func (f *crashFile) Write(b []byte) (n int, err error) {
	err = f.c.op("write "+f.name, func() error {
		part := b
		if f.c.dead && f.c.kind == torn {
			part = b[:len(b)/2]
		}
		_, err := f.file.Write(part)
		return err
	})
	if err != nil {
		return 0, err
	}
	return len(b), nil
}

func (f *crashFile) Sync() error {
	return f.c.op("sync "+f.name, func() error {
		*f.synced = f.c.forget != "files"
		return nil
	})
}

// TestCrashAnywhere crashes at every operation of a build, and sometimes once more at another one. Then it builds again
// and compares the result with that of a build without a crash.
func TestCrashAnywhere(t *testing.T) {
	whole := newFixture(t)
	large := slices.IndexFunc(whole.Files, func(f File) bool { return f.Role == Backup })
	whole.Containers = []Container{TarGzip, Directory}
	whole.Files = slices.Delete(whole.Files, large, large+1) // it takes most of the time
	counted := &crashDisk{disk: rootDisk{whole.Into}}
	want, err := build(t.Context(), whole.Input, counted)
	if err != nil {
		t.Fatal(err)
	}
	files, points := tree(t, whole.into), len(counted.done)
	t.Logf("%d operations", points)
	if points < 60 {
		t.Fatalf("only %d operations: %v", points, counted.done)
	}
	for _, kind := range []crashKind{before, after, torn} {
		for at := 1; at <= points; at++ {
			if kind == torn && (at%2 == 0 || !strings.HasPrefix(counted.done[at-1], "write")) ||
				kind == after && at < points { // after one operation is before the next one
				continue
			}
			name := fmt.Sprintf("%s %s", kind, counted.done[at-1])
			f := &fixture{Input: whole.Input, into: scratch(t)} // gathered files are only read
			f.Into = root(t, f.into)
			for _, stop := range []int{at, (at*7)%points + 1}[:1+at%5/4] {
				crashing := &crashDisk{disk: rootDisk{f.Into}, stop: stop, kind: kind}
				p, err := build(t.Context(), f.Input, crashing)
				if stop == at && (p != nil || !errors.Is(err, errCrash)) {
					t.Fatalf("%s: got %+v, %v", name, p, err)
				}
			}
			p, err := build(t.Context(), f.Input, &crashDisk{disk: rootDisk{f.Into}})
			if diff := cmp.Diff(want, p); diff != "" || err != nil {
				t.Fatalf("%s: %v, the package differs: %s", name, err, diff)
			}
			if got := tree(t, f.into); !cmp.Equal(files, got) {
				t.Fatalf("%s: the files differ", name)
			}
		}
	}
}

// TestFailAnywhere lets every operation fail once, as on a full disk. No error is lost, little remains, and the next
// attempt makes the same package.
func TestFailAnywhere(t *testing.T) {
	whole := newFixture(t)
	whole.Containers = []Container{TarGzip, Zip, Directory}
	counted := &crashDisk{disk: rootDisk{whole.Into}}
	want, err := build(t.Context(), whole.Input, counted)
	if err != nil {
		t.Fatal(err)
	}
	files := tree(t, whole.into)
	for at := 1; at <= len(counted.done); at++ {
		f := &fixture{Input: whole.Input, into: scratch(t)}
		f.Into = root(t, f.into)
		failing := &crashDisk{disk: rootDisk{f.Into}, stop: at, kind: fails}
		name := counted.done[at-1]
		if p, err := build(t.Context(), f.Input, failing); p != nil || !errors.Is(err, errCrash) {
			t.Fatalf("%s: got %+v, %v", name, p, err)
		}
		if _, err := os.Stat(filepath.Join(f.into, workDir)); err == nil && at > 2 && at < len(counted.done) {
			t.Errorf("%s: unfinished files remain", name)
		}
		p, err := build(t.Context(), f.Input, &crashDisk{disk: rootDisk{f.Into}})
		if err != nil || !cmp.Equal(want, p) || !cmp.Equal(files, tree(t, f.into)) {
			t.Fatalf("%s: the package differs, %v", name, err)
		}
	}
}

// TestRecordIsLast checks the order on which TestCrashAnywhere depends: a product that is not durable has no record.
func TestRecordIsLast(t *testing.T) {
	f := newFixture(t)
	d := &crashDisk{disk: rootDisk{f.Into}}
	if _, err := build(t.Context(), f.Input, d); err != nil {
		t.Fatal(err)
	}
	at := func(op string) int {
		for i, done := range d.done {
			if done == op {
				return i
			}
		}
		t.Fatalf("there is no operation %q", op)
		return 0
	}
	record := at("rename " + packageFile)
	for _, kind := range f.Containers {
		name := f.Name + "." + string(kind)
		synced, renamed := at("sync "+workDir+"/"+name), at("rename "+name)
		if synced > renamed || renamed > record {
			t.Errorf("%s: synced %d, renamed %d, recorded %d", name, synced, renamed, record)
		}
	}
	dir := 0
	for i, done := range d.done[:record] {
		if done == "syncdir ." {
			dir = i
		}
	}
	if dir < at("rename "+f.Name+".zip") {
		t.Error("the names of the products are not durable before the record")
	}
}

// TestPowerCut cuts the power after a build, and at every fourth of its operations. A build that has returned remains
// whole; another build makes the same package.
func TestPowerCut(t *testing.T) {
	for _, kinds := range [][]Container{{TarGzip, Directory}, {Zip}} {
		whole := newFixture(t)
		whole.Containers = kinds
		powerCut(t, whole)
	}
}

func powerCut(t *testing.T, whole *fixture) {
	t.Helper()
	for _, forget := range []string{"", "files", "directories"} {
		f := &fixture{Input: whole.Input, into: scratch(t)}
		f.Into = root(t, f.into)
		d := &crashDisk{disk: rootDisk{f.Into}, forget: forget}
		want, err := build(t.Context(), f.Input, d)
		if err != nil {
			t.Fatal(err)
		}
		files := tree(t, f.into)
		d.lose(t, f.into)
		if lost := !cmp.Equal(files, tree(t, f.into)); lost != (forget != "") {
			t.Errorf("a build that does not sync %q: lost %v", forget, lost)
		}
		if forget != "" {
			continue
		}
		for at := 1; at < len(d.done); at += 4 {
			f := &fixture{Input: whole.Input, into: scratch(t)}
			f.Into = root(t, f.into)
			crashing := &crashDisk{disk: rootDisk{f.Into}, stop: at, kind: before}
			if _, err := build(t.Context(), f.Input, crashing); !errors.Is(err, errCrash) {
				t.Fatal(err)
			}
			crashing.lose(t, f.into)
			p, err := build(t.Context(), f.Input, &crashDisk{disk: rootDisk{f.Into}})
			if err != nil || !cmp.Equal(want, p) || !cmp.Equal(files, tree(t, f.into)) {
				t.Fatalf("%s: the package differs, %v", d.done[at-1], err)
			}
		}
	}
}
