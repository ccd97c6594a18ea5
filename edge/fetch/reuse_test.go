package fetch

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"testing"
)

// TestConnectionsAreReused downloads many files at once, twice: the second time no connection is made. With as few idle
// connections as before (4), 12 of 16 are closed after each file.
func TestConnectionsAreReused(t *testing.T) {
	const atOnce = 16
	var made atomic.Int64
	var all sync.WaitGroup // until all requests of a round are there
	web := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		all.Done()
		all.Wait()
		fmt.Fprint(w, "hello")
	}))
	web.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			made.Add(1)
		}
	}
	web.Start()
	defer web.Close()
	client := New(Policy{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
	defer client.Close()
	root, err := os.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	for range 2 {
		all.Add(atOnce)
		var done sync.WaitGroup
		for n := range atOnce {
			done.Go(func() {
				want := Want{Size: UnknownSize}
				if _, err := client.Download(t.Context(), web.URL, root, fmt.Sprint(n), want); err != nil {
					t.Error(err)
				}
			})
		}
		done.Wait()
	}
	if n := made.Load(); n != atOnce {
		t.Errorf("%d connections for two rounds of %d downloads", n, atOnce)
	}
}
