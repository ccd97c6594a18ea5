package packaging

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var errCrash = errors.New("planned crash")

// crashKind is what a crash leaves of the operation at which it happens.
type crashKind string

const (
	before crashKind = "before"
	after  crashKind = "after"
	torn   crashKind = "torn" // a write is half done
)

// crashDisk is a disk that crashes at one of its operations. Nothing works after it.
type crashDisk struct {
	disk
	stop int // number of the operation, from 1; 0: never
	kind crashKind
	done []string
	dead bool
}

func (c *crashDisk) op(name string, do func() error) error {
	if c.dead {
		return errCrash
	}
	c.done = append(c.done, name)
	if len(c.done) != c.stop {
		return do()
	}
	c.dead = true
	if c.kind == before || c.kind == torn && !strings.HasPrefix(name, "write") {
		return errCrash
	}
	return errors.Join(do(), errCrash)
}

func (c *crashDisk) Mkdir(name string) error {
	return c.op("mkdir "+name, func() error { return c.disk.Mkdir(name) })
}

func (c *crashDisk) Rename(from, to string) error {
	return c.op("rename "+to, func() error { return c.disk.Rename(from, to) })
}

func (c *crashDisk) RemoveAll(name string) error {
	return c.op("remove "+name, func() error { return c.disk.RemoveAll(name) })
}

func (c *crashDisk) SyncDir(name string) error {
	return c.op("syncdir "+name, func() error { return nil })
}

func (c *crashDisk) Create(name string) (file, error) {
	var f file
	err := c.op("create "+name, func() (err error) { f, err = c.disk.Create(name); return err })
	if err != nil {
		if f != nil {
			f.Close()
		}
		return nil, err
	}
	return &crashFile{f, c, name}, nil
}

type crashFile struct {
	file
	c    *crashDisk
	name string
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

func (f *crashFile) Sync() error { return f.c.op("sync "+f.name, func() error { return nil }) }

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
			if kind == torn && !strings.HasPrefix(counted.done[at-1], "write") || kind == after && at < points {
				continue // after one operation is before the next one
			}
			name := fmt.Sprintf("%s %s", kind, counted.done[at-1])
			f := &fixture{Input: whole.Input, into: t.TempDir()} // gathered files are only read
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
