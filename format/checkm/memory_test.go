package checkm_test

import (
	"io"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stagepost/stagepost/format/checkm"
)

// stream makes an Object manifest of n rows as it is read, so that only the Reader can hold memory.
type stream struct {
	n, row int
	rest   []byte
	buffer []byte
}

func newStream(n int) *stream { return &stream{n: n, rest: []byte(objectHeader)} }

func (s *stream) Read(p []byte) (int, error) {
	if len(s.rest) == 0 {
		switch {
		case s.row > s.n:
			return 0, io.EOF
		case s.row == s.n:
			s.rest = []byte("#%eof")
		default:
			number := strconv.Itoa(s.row)
			b := append(s.buffer[:0], "https://example.org/storage/collection/"...)
			b = append(append(b, number...),
				"/file.tif | sha-256 | 5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03 | 123456 |  | "+
					"producer/"...)
			b = append(append(b, number...), "/file.tif | image/tiff\n"...)
			s.buffer, s.rest = b, b
		}
		s.row++
	}
	n := copy(p, s.rest)
	s.rest = s.rest[n:]
	return n, nil
}

const memoryLimit = 64 << 20

// heapGrowth reads a manifest of n rows and gives by how much the heap grew at most; keep is called for each row.
func heapGrowth(t *testing.T, n int, options checkm.Options, keep func(checkm.Row)) uint64 {
	t.Helper()
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	before, most := m.HeapAlloc, m.HeapAlloc
	r := checkm.NewReader("m", newStream(n), options)
	rows := 0
	for {
		row, err := r.Read()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		keep(row)
		if rows++; rows%10_000 == 0 {
			runtime.ReadMemStats(&m)
			most = max(most, m.HeapAlloc)
		}
	}
	if rows != n {
		t.Fatalf("got %d rows, want %d", rows, n)
	}
	return most - before
}

func TestMillionRowsInConstantMemory(t *testing.T) {
	start := time.Now()
	growth := heapGrowth(t, 1_000_000, checkm.Options{}, func(checkm.Row) {})
	if growth > memoryLimit {
		t.Errorf("the heap grew by %d MiB", growth>>20)
	}
	t.Logf("a million rows in %v, heap grew by at most %.1f MiB", time.Since(start).Round(time.Millisecond),
		float64(growth)/(1<<20))
	strict := heapGrowth(t, 100_000, checkm.Options{Strict: true}, func(checkm.Row) {})
	if strict > memoryLimit {
		t.Errorf("in strict mode the heap grew by %d MiB for 100,000 rows", strict>>20)
	}
	t.Logf("100,000 rows in strict mode: %d bytes for each", strict/100_000)
	// Control: the measure sees rows that are kept.
	var kept []checkm.Row
	if growth := heapGrowth(t, 200_000, checkm.Options{},
		func(row checkm.Row) { kept = append(kept, row) }); growth < memoryLimit {
		t.Errorf("%d kept rows make a growth of %d MiB only: the measure is blind", len(kept), growth>>20)
	}
	runtime.KeepAlive(kept)
}

func BenchmarkRead(b *testing.B) {
	for name, options := range map[string]checkm.Options{"default": {}, "strict": {Strict: true}} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			r := checkm.NewReader("m", newStream(b.N), options)
			b.ResetTimer()
			for range b.N {
				if _, err := r.Read(); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "rows/s")
		})
	}
}

func BenchmarkWrite(b *testing.B) {
	b.ReportAllocs()
	w := checkm.NewWriter(io.Discard, checkm.Add)
	row := checkm.Row{URL: "https://example.org/storage/collection/1/file.tif", Size: 123456,
		FileName: "producer/1/file.tif", MIMEType: "image/tiff",
		Digest: checkm.Digest{Algorithm: checkm.SHA256,
			Value: "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03"},
		Modified: time.Unix(1577962000, 0)}
	for range b.N {
		if err := w.Write(row); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "rows/s")
}

// TestBuffersAreUsedAgain reads a short manifest again and again, as the phases of a job do: the buffer of 64 KB is
// allocated once. A reader with a limit of its own has its own buffer, and is the control.
func TestBuffersAreUsedAgain(t *testing.T) {
	const text = "#%checkm_0.7\n#%profile | http://uc3.cdlib.org/registry/ingest/manifest/mrt-ingest-manifest\n" +
		"http://a.example/1 | | | | | 1\n#%eof\n"
	bytes := func(o checkm.Options) uint64 {
		const times = 100
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range times {
			if all, err := readAll(checkm.NewReader("m", strings.NewReader(text), o)); err != nil || len(all) != 1 {
				t.Fatal(all, err)
			}
		}
		runtime.ReadMemStats(&after)
		return (after.TotalAlloc - before.TotalAlloc) / times
	}
	if n := bytes(checkm.Options{}); n > checkm.DefaultMaxLine/2 {
		t.Errorf("%d bytes for a manifest of %d", n, len(text))
	}
	if n := bytes(checkm.Options{MaxLine: checkm.DefaultMaxLine - 1}); n < checkm.DefaultMaxLine {
		t.Errorf("control: %d bytes", n)
	}
}
