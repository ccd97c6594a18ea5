package ingest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stagepost/stagepost/edge/fetch"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/store/mem"
)

// silentServer never answers. Each request is counted; all end when the test does.
func silentServer(t *testing.T) (url string, requests <-chan struct{}) {
	t.Helper()
	came, over := make(chan struct{}, 1000), make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		came <- struct{}{}
		select {
		case <-over:
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(func() { close(over); s.CloseClientConnections(); s.Close() })
	return s.URL, came
}

// batchOf is a manifest of objects that are one file each.
func batchOf(url string, n int) string {
	var b strings.Builder
	b.WriteString("#%checkm_0.7\n#%profile | " +
		"http://uc3.cdlib.org/registry/ingest/manifest/mrt-single-file-batch-manifest\n" +
		"#%prefix | mrt: | http://merritt.cdlib.org/terms#\n#%prefix | nfo: | " +
		"http://www.semanticdesktop.org/ontologies/2007/03/22/nfo#\n" +
		"#%fields | nfo:fileUrl | nfo:hashAlgorithm | nfo:hashValue | nfo:fileSize | nfo:fileLastModified | " +
		"nfo:fileName | mrt:primaryIdentifier | mrt:localIdentifier | mrt:creator | mrt:title | mrt:date\n")
	for i := range n {
		fmt.Fprintf(&b, "%s/%d.txt | | | | | %d.txt | | | | object %d |\n", url, i, i, i)
	}
	return b.String() + "#%eof\n"
}

// TestSilentServerLeavesSlotsToOthers: a batch of objects on a server that does not answer uses three of four slots;
// the object of another server is stored meanwhile. Control: without shares all four slots wait for the silent server.
func TestSilentServerLeavesSlotsToOthers(t *testing.T) {
	for _, shared := range []bool{true, false} {
		t.Run(fmt.Sprint("shared=", shared), func(t *testing.T) {
			url, requests := silentServer(t)
			o := options(t, t.TempDir())
			o.Fetch.HeaderTimeout = time.Hour
			w := wireSlots(t, mem.New(), o, 4)
			if !shared {
				w.sources.most = func(slots int, _ bool) int { return slots }
			}
			w.run()
			w.submit(Submission{Type: TypeFileBatchManifest, Submitter: "eve"}, batchOf(url, 8))
			held := 3
			if !shared {
				held = 4
			}
			for range held {
				<-requests
			}
			good := w.submit(Submission{Type: TypeFile, Filename: "a.txt", Submitter: "bob"}, "text")
			if shared {
				if j := w.end(good.ID); j.Outcome != "ok" {
					t.Errorf("%s: %s", j.State, j.Message)
				}
				return
			}
			if s := w.e.Status(); s.Running != s.Slots {
				t.Errorf("control: %d of %d slots are used", s.Running, s.Slots)
			}
		})
	}
}

// wireSlots is wire with so many slots.
func wireSlots(t *testing.T, store job.Store, o Options, slots int) *harness {
	t.Helper()
	a, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	e, err := engine.New(store, a.Works(),
		engine.Options{Deliver: a.Deliver(), Sweep: 20 * time.Millisecond, Grace: time.Millisecond, Slots: slots})
	if err != nil {
		t.Fatal(err)
	}
	a.Bind(e)
	return &harness{App: a, t: t, dir: o.Dir, store: store, e: e}
}

// TestShares: a host and an owner have three quarters of the slots, a silent host an eighth; a job that leaves wakes
// the first that can enter.
func TestShares(t *testing.T) {
	w := wireSlots(t, mem.New(), options(t, t.TempDir()), 16)
	defer w.Close()
	s := w.sources
	var jobs atomic.Int64
	enter := func(keys ...string) bool {
		return s.enter(&job.Job{ID: job.ID(fmt.Sprint("ing_", jobs.Add(1)))}, keys) == nil
	}
	entered := func(key string) (n int) {
		for enter(key) {
			n++
		}
		return n
	}
	for _, key := range []string{"host a", "owner ann"} {
		if n := entered(key); n != 12 {
			t.Errorf("%s has %d slots", key, n)
		}
	}
	if enter("host b", "owner ann") || enter("owner bob", "host a") || !enter("host b", "owner bob") {
		t.Error("a job waits for one key without free slots, and for no other reason")
	}
	if next := s.next([]string{"host a"}, nil); next != "ing_13" {
		t.Errorf("%s is next, not the first that waited for host a", next)
	}
	timeout := &fetch.Error{Kind: fetch.Network, URL: "http://a/x", Err: errors.New("timeout")}
	for range 11 {
		s.next([]string{"host a"}, fmt.Errorf("x: %w", timeout))
	}
	if n := entered("host a"); n != 2 {
		t.Errorf("a silent host has %d slots", n)
	}
	s.leave(context.Background(), []string{"host a"}, nil)
	if n := entered("host a"); n != 11 {
		t.Errorf("a host that answered has %d more slots beside one", n)
	}
}

// TestSilentHostsAreForgotten: a host that no job asks again is not kept for longer than it counts as silent.
func TestSilentHostsAreForgotten(t *testing.T) {
	w := wireSlots(t, mem.New(), options(t, t.TempDir()), 16)
	defer w.Close()
	s, now := w.sources, w.e.Clock().Now()
	s.silent["host old"], s.silent["host recent"] = now.Add(-silentFor), now.Add(-silentFor/2)
	s.next([]string{"host a"}, &fetch.Error{Kind: fetch.Network, URL: "http://a/x", Err: errors.New("timeout")})
	if got := slices.Sorted(maps.Keys(s.silent)); !slices.Equal(got, []string{"host a", "host recent"}) {
		t.Errorf("silent are %q", got)
	}
}
