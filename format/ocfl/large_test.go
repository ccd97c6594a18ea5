package ocfl

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// pattern gives size bytes that need no memory.
type pattern struct{ left int64 }

func (p *pattern) Read(b []byte) (int, error) {
	if p.left == 0 {
		return 0, io.EOF
	}
	n := int(min(int64(len(b)), p.left))
	for i := range b[:n] {
		b[i] = byte(p.left >> 12)
	}
	p.left -= int64(n)
	return n, nil
}

func bigFile(path string, size int64) File {
	return File{Path: path, Size: size,
		Open: func() (io.ReadCloser, error) { return io.NopCloser(&pattern{size}), nil }}
}

// peakHeap runs f and gives the most heap that was in use meanwhile, above what was in use before.
func peakHeap(f func()) uint64 {
	// the heap has garbage too, and how much depends on the machine: with frequent collections it is a small part
	defer debug.SetGCPercent(debug.SetGCPercent(25))
	var before, now runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	var peak atomic.Uint64
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(2 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
				runtime.ReadMemStats(&now)
				peak.Store(max(peak.Load(), now.HeapInuse))
			}
		}
	}()
	f()
	close(stop)
	<-ended
	runtime.ReadMemStats(&now)
	return max(peak.Load(), now.HeapInuse) - min(before.HeapInuse, now.HeapInuse)
}

func TestLargeFileInConstantMemory(t *testing.T) {
	r, dir := newRoot(t)
	const size = 96 << 20
	peak := peakHeap(func() {
		add(t, r, testID, version("big", bigFile("big.bin", size)), Options{Fixity: []string{MD5}})
		if _, err := r.VerifyVersion(t.Context(), testID, ""); err != nil {
			t.Error(err)
		}
		if report := mustValidate(t, dir); report.Bytes != size {
			t.Errorf("validated %d bytes", report.Bytes)
		}
	})
	const limit = 16 << 20
	if peak > limit {
		t.Errorf("heap grew by %d MiB for a file of %d MiB, want at most %d MiB", peak>>20, size>>20, limit>>20)
	}
	t.Logf("peak heap %d KiB", peak>>10)
}

func smallFiles(n int) []File {
	files := make([]File, n)
	for i := range files {
		files[i] = text(fmt.Sprintf("dir%02d/file%05d.txt", i%50, i), fmt.Sprintf("content of file %d", i))
	}
	return files
}

func TestManyFiles(t *testing.T) {
	dir := memoryDir(t) // the benchmark has the disk
	r, err := InitRoot(dir, Layout{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	const n = 10_000
	peak := peakHeap(func() {
		start := time.Now()
		files := smallFiles(n)
		add(t, r, testID, version("many", files...), Options{})
		stored := time.Since(start)
		files[0] = text("dir00/file00000.txt", "changed")
		if got := add(t, r, testID, version("one changed", files...), Options{Stage: "s"}); got.Stored != 1 {
			t.Errorf("stored %d files, want 1", got.Stored)
		}
		t.Logf("%d files stored in %v, second version after %v", n, stored, time.Since(start))
	})
	const limit = 64 << 20
	if peak > limit {
		t.Errorf("heap grew by %d MiB, want at most %d", peak>>20, limit>>20)
	}
	t.Logf("peak heap %d MiB", peak>>20)
	o, err := r.Object(testID)
	if err != nil {
		t.Fatal(err)
	}
	if got := read(t, o, "v2", "dir49/file09999.txt"); got != "content of file 9999" {
		t.Errorf("got %q", got)
	}
	report := mustValidate(t, dir)
	if report.Files != n+1 {
		t.Errorf("validated %d files", report.Files)
	}
}

// TestManyWriters runs concurrent writers: with one key they create one version, with different keys one each. The
// object stays valid.
func TestManyWriters(t *testing.T) {
	r, dir := newRoot(t)
	other, err := OpenRoot(dir) // as another process would have it
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	const writers = 8
	race := func(key func(i int) string) (made, same, refused int) {
		var wg sync.WaitGroup
		var mu sync.Mutex
		for i := range writers {
			root := r
			if i%2 == 1 {
				root = other
			}
			wg.Go(func() {
				o := Options{Stage: fmt.Sprintf("job.%d", i), Key: key(i)}
				added, err := root.AddVersion(t.Context(), testID, version("race", text("a", key(i))), o)
				mu.Lock()
				defer mu.Unlock()
				switch {
				case err != nil && isKind(err, ErrConflict):
					refused++
				case err != nil:
					t.Error(err)
				case added.Created:
					made++
				default:
					same++
				}
			})
		}
		wg.Wait()
		return made, same, refused
	}
	if made, same, refused := race(func(int) string { return "one" }); made != 1 || same != writers-1 || refused != 0 {
		t.Errorf("one key: made %d, same %d, refused %d", made, same, refused)
	}
	made, same, _ := race(func(i int) string { return fmt.Sprint("key", i) })
	if made < 1 || same != 0 {
		t.Errorf("keys of their own: made %d, same %d", made, same)
	}
	mustValidate(t, dir)
	o, err := r.Object(testID)
	if err != nil {
		t.Fatal(err)
	}
	if got := len(o.Versions()); got != 1+made {
		t.Errorf("%d versions, %d were made", got, 1+made)
	}
}

// BenchmarkLargeFile stores 2 GiB and reads it back; heap-MiB must not depend on the size.
func BenchmarkLargeFile(b *testing.B) {
	const size = 2 << 30
	b.SetBytes(size)
	for b.Loop() {
		r, _ := newRoot(b)
		peak := peakHeap(func() {
			add(b, r, testID, version("big", bigFile("big.bin", size)), Options{})
			if _, err := r.VerifyVersion(b.Context(), testID, ""); err != nil {
				b.Fatal(err)
			}
		})
		b.ReportMetric(float64(peak)/(1<<20), "heap-MiB")
	}
}

func BenchmarkManyFiles(b *testing.B) {
	files := smallFiles(10_000)
	for b.Loop() {
		r, _ := newRoot(b)
		add(b, r, testID, version("many", files...), Options{})
	}
}
