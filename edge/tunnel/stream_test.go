package tunnel_test

import (
	"crypto/sha256"
	"flag"
	"fmt"
	"hash"
	"io"
	"net/http"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stagepost/stagepost/edge/tunnel"
)

var streamed = flag.Int64("tunnel.bytes", 64<<20, "bytes that are streamed each way")

// pattern gives n bytes that are cheap to make, and their digest.
type pattern struct {
	left int64
	sum  hash.Hash
	seed byte
}

func newPattern(n int64) *pattern { return &pattern{left: n, sum: sha256.New()} }

func (p *pattern) Read(b []byte) (int, error) {
	if p.left == 0 {
		return 0, io.EOF
	}
	b = b[:min(int64(len(b)), p.left)]
	p.seed++
	for i := range b {
		b[i] = byte(i)*7 + p.seed
	}
	p.sum.Write(b)
	p.left -= int64(len(b))
	return len(b), nil
}

// TestStreams sends much both ways and holds the digests and the memory against it. For a real size: -tunnel.bytes
// 2147483648.
func TestStreams(t *testing.T) {
	w := open(t, tunnel.PoolOptions{})
	w.agent("node-1", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sum := sha256.New()
		if r.Method == http.MethodPut {
			_, _ = io.Copy(sum, r.Body)
			fmt.Fprintf(w, "%x", sum.Sum(nil))
			return
		}
		w.Header().Set("Trailer", "Digest")
		p := newPattern(*streamed)
		_, _ = io.Copy(w, p)
		w.Header().Set("Digest", fmt.Sprintf("%x", p.sum.Sum(nil)))
	}), tunnel.Options{})
	var before, now runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	var most atomic.Uint64
	quit, quitted := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(quitted)
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				runtime.ReadMemStats(&now)
				most.Store(max(most.Load(), now.HeapAlloc))
			case <-quit:
				return
			}
		}
	}()
	began := time.Now()
	up := newPattern(*streamed)
	_, text, err := w.ask(t.Context(), http.MethodPut, "http://node-1.tunnel/", up)
	if want := fmt.Sprintf("%x", up.sum.Sum(nil)); err != nil || text != want {
		t.Errorf("got %s, %v, want %s", text, err, want)
	}
	r, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://node-1.tunnel/", nil)
	answer, err := w.client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	sum := sha256.New()
	n, err := io.Copy(sum, answer.Body)
	if got := fmt.Sprintf("%x", sum.Sum(nil)); err != nil || n != *streamed || got != answer.Trailer.Get("Digest") {
		t.Errorf("got %d bytes %s, %v, want %s", n, got, err, answer.Trailer.Get("Digest"))
	}
	close(quit)
	<-quitted
	grown := int64(most.Load()) - int64(before.HeapAlloc)
	t.Logf("%d MiB in each direction in %s, heap at most %d KiB larger", *streamed>>20,
		time.Since(began).Round(time.Millisecond), grown>>10)
	if grown > 16<<20 {
		t.Errorf("the heap grew by %d bytes", grown)
	}
}
