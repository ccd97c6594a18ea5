package ingest

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
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

// shares is the sources of an application with 16 slots, on its own.
type shares struct {
	*sources
	jobs int
}

func newShares(t *testing.T) *shares {
	t.Helper()
	w := wireSlots(t, mem.New(), options(t, t.TempDir()), 16)
	t.Cleanup(func() { _ = w.Close() })
	return &shares{sources: w.sources}
}

// enter asks for a share for a new job, whose number is the number of calls.
func (s *shares) enter(keys ...string) bool {
	s.jobs++
	return s.again(s.jobs, keys...)
}

// again asks for a share for the job with a number.
func (s *shares) again(number int, keys ...string) bool {
	return s.sources.enter(&job.Job{ID: numbered(number)}, keys) == nil
}

func numbered(n int) job.ID { return job.ID(fmt.Sprint("ing_", n)) }

// entered is how many new jobs have a share before one waits.
func (s *shares) entered(keys ...string) (n int) {
	for s.enter(keys...) {
		n++
	}
	return n
}

// TestShares: a host and an owner have three quarters of the slots, a silent host an eighth.
func TestShares(t *testing.T) {
	s := newShares(t)
	for _, key := range []string{"host a", "owner ann"} {
		if n := s.entered(key); n != 12 {
			t.Errorf("%s has %d slots", key, n)
		}
	}
	if s.enter("host b", "owner ann") || s.enter("owner bob", "host a") || !s.enter("host b", "owner bob") {
		t.Error("a job waits for one key without free slots, and for no other reason")
	}
	s = newShares(t)
	timeout := &fetch.Error{Kind: fetch.Network, URL: "http://a/x", Err: errors.New("timeout")}
	s.enter("host a")
	s.next([]string{"host a"}, fmt.Errorf("x: %w", timeout))
	if n := s.entered("host a"); n != 2 {
		t.Errorf("a silent host has %d slots", n)
	}
	if due := s.next([]string{"host a"}, nil); !slices.Equal(due, []job.ID{numbered(s.jobs)}) {
		t.Errorf("%s are due when the host has answered", due)
	}
	if n := s.entered("host a"); n != 10 {
		t.Errorf("a host that answered has %d slots beside two", n)
	}
}

// TestLineForShares: a share that becomes free is kept for the job that has waited longest, until it comes or is late.
// A job that asks again keeps its position, and one that waits for another share as well does not stop those behind it.
func TestLineForShares(t *testing.T) {
	s := newShares(t)
	s.entered("host a") // 13 waits
	s.enter("host a")   // 14
	s.again(13, "host a")
	if due := s.next([]string{"host a"}, nil); !slices.Equal(due, []job.ID{numbered(13)}) {
		t.Errorf("%s are due, not the first that waited", due)
	}
	if s.enter("host a") || s.again(14, "host a") {
		t.Error("a later job took the share of the first in the line")
	}
	if !s.again(13, "host a") {
		t.Error("the job that the share is kept for waits")
	}

	s.entered("owner ann")
	s.again(14, "owner ann", "host a") // what it needs has changed: it waits for its owner now
	if due := s.next([]string{"host a"}, nil); !slices.Equal(due, []job.ID{numbered(15)}) {
		t.Errorf("%s are due, not the one behind a job that waits for its owner", due)
	}
	s.kept[numbered(15)] = keptShare{[]string{"host a"}, s.app.engine.Clock().Now().Add(-time.Second)}
	s.enter("host a")
	if due := s.next([]string{"host b"}, nil); !slices.Equal(due, []job.ID{numbered(s.jobs)}) {
		t.Errorf("%s are due after a job that did not come", due)
	}
	if len(s.kept) != 1 || s.busy["host a"] != 12 || s.busy["host b"] != 0 {
		t.Errorf("kept are %v, used are %v", s.kept, s.busy)
	}
}

// TestLongLineForShares: jobs far back in a long line ask again rarely, and a share that becomes free is for one job.
func TestLongLineForShares(t *testing.T) {
	s := newShares(t)
	s.entered("owner ann")
	const last = 20_000
	for s.jobs < last {
		s.enter("owner ann")
	}
	far := s.sources.enter(&job.Job{ID: numbered(last)}, []string{"owner ann"})
	near := s.sources.enter(&job.Job{ID: numbered(13)}, []string{"owner ann"})
	if now := s.app.engine.Clock().Now(); far.Until.Sub(now) < 100*near.Until.Sub(now) {
		t.Errorf("the last of %d asks again after %s, the first after %s", last, far.Until.Sub(now),
			near.Until.Sub(now))
	}
	for n := 13; n <= last; n++ {
		if due := s.next([]string{"owner ann"}, nil); !slices.Equal(due, []job.ID{numbered(n)}) {
			t.Fatalf("%s are due, want %s", due, numbered(n))
		}
		if !s.again(n, "owner ann") {
			t.Fatalf("%s waits", numbered(n))
		}
	}
	if len(s.line.lines) != 0 || len(s.line.at) != 0 || len(s.kept) != 0 {
		t.Errorf("left are %v, %v, %v", s.line.lines, s.line.at, s.kept)
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
