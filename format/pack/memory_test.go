package pack_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stagepost/stagepost/format/pack"
)

// TestMemoryOfAReader reads ranges of an archive of 100,000 files: what a reader keeps does not grow with them.
func TestMemoryOfAReader(t *testing.T) {
	const n = 100_000
	dir := folder(t)
	p, err := pack.Create(dir, pack.TAR)
	if err != nil {
		t.Fatal(err)
	}
	e := entry("x", "text")
	for i := range n {
		e.Name = fmt.Sprintf("a/rather/long/path/of/some/depth/%d.txt", i)
		if err := p.Add(e); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := p.Close(); err != nil {
		t.Fatal(err)
	}
	texts := shelf{"x": "text"}
	held := heap()
	r := open(t, dir, texts.open)
	if _, err := r.Seek(r.Size/2, io.SeekStart); err != nil {
		t.Fatal(err)
	}
	if n, err := io.Copy(io.Discard, r); err != nil || n != r.Size-r.Size/2 {
		t.Fatalf("%d bytes, %v", n, err)
	}
	if grown := heap() - held; grown > 1<<20 {
		t.Errorf("a reader of %d files keeps %d bytes", n, grown)
	}
	runtime.KeepAlive(r)
}

// TestMemoryOfALargeFile reads parts of an archive of a sparse file of 2 GiB.
func TestMemoryOfALargeFile(t *testing.T) {
	const size = 2 << 30
	name := filepath.Join(t.TempDir(), "vast")
	f, err := os.Create(name)
	if err == nil {
		err = errors.Join(f.Truncate(size), f.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, format := range formats {
		held := heap()
		r := open(t, plan(t, format,
			pack.Entry{Name: "vast", Size: size, Mode: 0o644, Modified: modified, Source: name}),
			func(source string) (pack.File, error) {
				return os.Open(source)
			})
		for _, part := range []struct{ from, n int64 }{{0, 64 << 20}, {r.Size - 2<<20, 2 << 20},
			{r.Size / 2, 2 << 20}} {
			if _, err := r.Seek(part.from, io.SeekStart); err != nil {
				t.Fatal(err)
			}
			if n, err := io.CopyN(io.Discard, r, part.n); err != nil || n != part.n {
				t.Fatalf("%s: %d bytes at %d, %v", format, n, part.from, err)
			}
		}
		if grown := heap() - held; grown > 1<<20 {
			t.Errorf("%s: a reader keeps %d bytes", format, grown)
		}
		runtime.KeepAlive(r)
	}
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
