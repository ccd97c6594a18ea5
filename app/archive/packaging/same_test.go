package packaging

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// variant is the same input as that of newFixture, on a machine with other settings.
func variant(t *testing.T) *fixture {
	f := newFixture(t)
	remove(t, f.gathered)
	paths := slices.Sorted(maps.Keys(texts))
	slices.Reverse(paths)
	for i, path := range paths { // another order, other times and modes
		f.write(t, path, texts[path])
		name := filepath.Join(f.gathered, path)
		if err := os.Chtimes(name, time.Time{}, time.Unix(int64(i)*1e6, 0)); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(name, 0o640|os.FileMode(i%2)); err != nil {
			t.Fatal(err)
		}
	}
	f.Gathered = root(t, f.gathered)
	slices.Reverse(f.Files)
	slices.Reverse(f.Facts.Activities)
	slices.Reverse(f.Facts.People)
	slices.Reverse(f.Facts.Locations)
	slices.Reverse(f.Facts.Events)
	zone := time.FixedZone("far", -9*3600)
	job := &f.Facts.Job
	for _, at := range []*time.Time{&job.Packaged, &job.Requested, &job.Started, &job.RetainUntil,
		&f.Facts.Course.Start, &f.Facts.Events[0].Time, &f.Facts.Activities[0].Modified} {
		*at = at.In(zone)
	}
	for i := range f.Files {
		f.Files[i].Origin.Modified = f.Files[i].Origin.Modified.In(zone)
	}
	return f
}

// TestSameBytes makes the same package twice, with other settings of the machine: umask, time zone, locale, order of
// files, number of processors. It changes the whole process, so it is not parallel to others.
func TestSameBytes(t *testing.T) {
	first := newFixture(t)
	p := first.build(t)
	want := tree(t, first.into)

	umask := syscall.Umask(0o077)
	zone, procs := time.Local, runtime.GOMAXPROCS(1)
	t.Cleanup(func() {
		syscall.Umask(umask)
		time.Local = zone
		runtime.GOMAXPROCS(procs)
	})
	time.Local = time.FixedZone("Kiritimati", 14*3600)
	t.Setenv("TZ", "Pacific/Kiritimati")
	t.Setenv("LC_ALL", "tr_TR.UTF-8")
	t.Setenv("LANG", "tr_TR.UTF-8")
	second := variant(t)
	if diff := cmp.Diff(p, second.build(t)); diff != "" {
		t.Errorf("the package differs: %s", diff)
	}
	for name, text := range tree(t, second.into) {
		if text != want[name] {
			t.Errorf("%s differs", name)
		}
	}
	second.Facts.Job.Packaged = second.Facts.Job.Packaged.Add(time.Second)
	if second.build(t).Digest == p.Digest {
		t.Error("the control: another time of the job has the same digest")
	}
}

// TestGolden pins the digests of a package and of its files, which are the same on every machine. All change with
// README.txt and layoutVersion, and the second also with the version of the compressor.
func TestGolden(t *testing.T) {
	f := newFixture(t)
	f.Containers = []Container{TarGzip, Tar, Zip}
	p := f.build(t)
	got := map[string]string{"package": p.Digest}
	for _, product := range p.Products {
		if kind := strings.TrimPrefix(product.Name, f.Name+"."); !strings.HasSuffix(kind, sidecarName) {
			got[kind] = product.SHA256
		}
	}
	want := map[string]string{
		"package": "9ab3e0c2c1d30481329cfee6c5a37a66c6bd9fd4ee992799de00abe6d790b195",
		"tar":     "38545ca20162df8229a9a0d643270d02a282af7a063a5a34547da30e9bb70237",
		"tar.gz":  "46f4ce78f8097623af860c4f9836ee51463d5e826f529ee4ef0e5d4cdf823f55",
		"zip":     "4fe3b3138be9b8fff2a0119de00baa7c27e8a3331792840979fcaeabfe8f1ad6",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestGzip compresses blocks, parts of blocks and nothing. The bytes do not depend on the sizes of the writes or on the
// number of workers, and are one member for any reader.
func TestGzip(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, size := range []int{0, 1, gzipBlock - 1, gzipBlock, gzipBlock + 1, 5*gzipBlock + 77} {
		text := make([]byte, size)
		for i := range text { // every second half MiB is like a file that is compressed already
			if text[i] = byte(random.Uint32()); i>>19%2 == 0 {
				text[i] = text[i] % 4 * 17
			}
		}
		var want []byte
		for workers := 1; workers <= 3; workers++ {
			var out bytes.Buffer
			g := newGzip(&out)
			g.workers = workers
			for rest := text; len(rest) > 0; {
				n := min(1+random.IntN(gzipBlock/workers), len(rest))
				if _, err := g.Write(rest[:n]); err != nil {
					t.Fatal(err)
				}
				rest = rest[n:]
			}
			if err := g.Close(); err != nil {
				t.Fatal(err)
			}
			if want == nil {
				want = out.Bytes()
			}
			if !bytes.Equal(out.Bytes(), want) {
				t.Errorf("%d bytes, %d workers: other bytes", size, workers)
			}
		}
		z, err := gzip.NewReader(bytes.NewReader(want))
		if err != nil {
			t.Fatal(err)
		}
		z.Multistream(false)
		got, err := io.ReadAll(z)
		if err != nil || !bytes.Equal(got, text) {
			t.Errorf("%d bytes: got %d, %v", size, len(got), err)
		}
	}
}

// TestGzipFails reports a full disk.
func TestGzipFails(t *testing.T) {
	for at := range 4 {
		g := newGzip(&limited{left: at})
		text := make([]byte, 2*gzipBlock)
		_, err := g.Write(text)
		if err == nil {
			err = g.Close()
		}
		if err == nil {
			t.Errorf("write %d: no error", at)
		}
	}
}

// limited fails after a number of writes.
type limited struct{ left int }

func (l *limited) Write(b []byte) (int, error) {
	if l.left--; l.left < 0 {
		return 0, syscall.ENOSPC
	}
	return len(b), nil
}

// TestMemory makes a package of 10,000 files.
func TestMemory(t *testing.T) {
	f := newFixture(t)
	f.Files = f.Files[:0]
	for i := range 10_000 {
		path := fmt.Sprintf("12/attempts/user-%05d.html", i)
		text := fmt.Sprintf("<p>answer %d</p>", i)
		f.write(t, path, text)
		f.Files = append(f.Files, fileOf(path, text))
	}
	stop, peak := make(chan struct{}), make(chan uint64)
	go func() {
		var most uint64
		for {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			most = max(most, m.HeapInuse+m.StackInuse)
			select {
			case <-stop:
				peak <- most
				return
			case <-time.After(5 * time.Millisecond):
			}
		}
	}()
	began := time.Now()
	p := f.build(t)
	close(stop)
	most := <-peak
	t.Logf("%d MiB, %v for %d files", most>>20, time.Since(began), p.Files)
	if most > 128<<20 || p.Files != 10_007 {
		t.Errorf("%d bytes of memory for %d files", most, p.Files)
	}
}
