package access

import (
	"context"
	"flag"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stagepost/stagepost/app/ingest"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/store/mem"
)

var vast = flag.Bool("vast", false, "make a package of 2 GiB, not of 128 MiB")

// sparse is one object with one file of zeros that uses no space on the disk.
type sparse struct {
	dir            string
	size           int64
	sha256, sha512 string // head -c SIZE /dev/zero | sha256sum
}

func newSparse(dir string) sparse {
	if *vast {
		return sparse{
			dir, 2 << 30, "a7c744c13cc101ed66c29f672f92455547889cc586ce6d44fe76ae824958ea51",
			"0414cac598ebfa08e8e9c6d2544aa414385b9985c5d67d7a8746aa64324c715fa96ff63351016d30dd2b89276252c121c71619f15496b5ca95785d0b25fe4dfd",
		}
	}
	return sparse{
		dir, 128 << 20, "254bcc3fc4f27172636df4bf32de9f107f620d559b20d760197e452b97453917",
		"0ff7859005e5debb631f55b7dcf4fb3a1293ff937b488d8bf5a8e173d758917ccf9e835403c16db1b33d406b9b40438f88d184d95c81baece136bc68fa0ae5d2",
	}
}

var made = time.Date(2024, 5, 4, 3, 2, 1, 0, time.UTC)

func (sparse) Permit(user string) ingest.Permit { return ingest.Permit{User: user} }

func (s sparse) Objects(context.Context, ingest.ObjectQuery) ([]ingest.Object, error) {
	v := ingest.Version{Number: 1, Files: 1, Bytes: s.size, Created: made,
		Places: []ingest.Place{{Dir: "first", Name: "v1"}}}
	return []ingest.Object{{ARK: "ark:/99999/fk4vast", Collection: "maps", Head: 1, Versions: []ingest.Version{v}}}, nil
}

func (s sparse) Files(_ context.Context, _ string, _ int, after string, _ int) ([]ingest.StoredFile, error) {
	if after != "" {
		return nil, nil
	}
	return []ingest.StoredFile{{Path: "producer/vast", Size: s.size, SHA256: s.sha256, SHA512: s.sha512}}, nil
}

func (sparse) Content(context.Context, string, ingest.Place) (map[string]string, error) {
	return map[string]string{"producer/vast": "vast"}, nil
}

func (s sparse) OpenContent(_, path string) (*os.File, error) {
	return os.Open(filepath.Join(s.dir, path))
}

// TestMemory makes a bag of a large file and reads parts of it: at no time is more than a few MiB needed, and no more
// than manifests lies on the disk.
func TestMemory(t *testing.T) {
	dir := t.TempDir()
	holdings := newSparse(dir)
	f, err := os.Create(filepath.Join(dir, "vast"))
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Truncate(holdings.size); err != nil {
		t.Fatal(err)
	}
	_ = f.Close()
	a := openAccess(t, dir, holdings, func(o *Options) { o.SmallBytes = 1 << 20 })
	e, err := engine.New(mem.New(), a.Works(), engine.Options{})
	if err != nil {
		t.Fatal(err)
	}
	a.Bind(e)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx) }()
	w := &harness{App: a, t: t, dir: dir, e: e, store: e.Store()}
	defer func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	}()

	most := watchMemory(t)
	began := time.Now()
	s := w.ready(Request{Object: "ark:/99999/fk4vast", Format: FormatBagZIP})
	t.Logf("assembled in %s", time.Since(began).Round(time.Millisecond))
	if s.Queue != "large" {
		t.Errorf("got %+v", s)
	}
	p := w.open(s.Token)
	for _, part := range []struct{ from, n int64 }{{0, 32 << 20}, {p.Size - 4<<20, 4 << 20}, {p.Size / 2, 1 << 20}} {
		if _, err := p.Seek(part.from, io.SeekStart); err != nil {
			t.Fatal(err)
		}
		if n, err := io.CopyN(io.Discard, p, part.n); err != nil || n != part.n {
			t.Fatalf("%d bytes, %v", n, err)
		}
	}
	if grown := most(); grown > 32<<20 {
		t.Errorf("it took %d MiB more", grown>>20)
	} else {
		t.Logf("it took %d KiB more", grown>>10)
	}
	if n := diskUse(t, filepath.Join(dir, dirName)); n > 64<<10 {
		t.Errorf("%d bytes on the disk for a package of %d", n, p.Size)
	}
}

// watchMemory samples what the heap and the stacks take until the function that it gives is called, which gives the
// most it grew.
func watchMemory(t *testing.T) (most func() int64) {
	t.Helper()
	use := func() int64 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapInuse + m.StackInuse)
	}
	runtime.GC()
	before, peak, stop, stopped := use(), atomic.Int64{}, make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for {
			peak.Store(max(peak.Load(), use()))
			select {
			case <-stop:
				return
			case <-tick.C:
			}
		}
	}()
	return func() int64 {
		close(stop)
		<-stopped
		return peak.Load() - before
	}
}

func diskUse(t *testing.T, dir string) (n int64) {
	t.Helper()
	err := filepath.WalkDir(dir, func(_ string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			n += info.Size()
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}
