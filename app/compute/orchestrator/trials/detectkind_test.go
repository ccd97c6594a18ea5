//go:build linux

package trials

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/app/compute/orchestrator/legacy"
	"github.com/stagepost/stagepost/app/compute/orchestrator/wire/wiretest"
	"github.com/stagepost/stagepost/store/mem"
)

// A job of an original client that is handed over again after a restart (LEGACY_REDISPATCH) has the trap in its run.sh
// (LEGACY_INJECT_TRAP), also when it was not detected yet which agent is there.
func TestTrapAfterRestart(t *testing.T) {
	for _, known := range []bool{true, false} {
		c, store, dir := wiretest.Client(t, wiretest.ClientOptions{}), mem.New(), t.TempDir()
		u, err := url.Parse(c.URL)
		if err != nil {
			t.Fatal(err)
		}
		var lose, down atomic.Bool
		var lost atomic.Int64
		web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			p := httputil.NewSingleHostReverseProxy(u)
			if r.URL.Path == "/load" && down.Load() {
				w.WriteHeader(503)
				return
			}
			if callOf(r) == "submit" && lose.Load() {
				lost.Add(1)
				panic(http.ErrAbortHandler) // it does not come through
			}
			p.ServeHTTP(w, r)
		}))
		defer web.Close()
		set := func(s *setting) {
			s.store, s.compute.Dir, s.compute.Resend = store, dir, true
		}
		again := func(o *legacy.Options) { o.Resend, o.Trap = true, true }
		var id int
		t.Run("before", func(t *testing.T) {
			s := open(t, with(found(t, web.URL, store, again)), set)
			s.agent()
			lose.Store(true)
			id = s.upload("echo no trap\n")
			eventually(t, "the submission is lost", func() bool { return lost.Load() > 0 })
			s.await(id, compute.Unknown)
		})
		lose.Store(false)
		x := found(t, web.URL, store, again)
		if known {
			if _, err := x.Capacity(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		// no one else asks who is there
		s := open(t, map[string]compute.Executor{"a1": &slowRoom{Executor: x, ticketless: x.Ticketless}}, set)
		eventually(t, "it ends", func() bool { return s.job(id).Ended })
		if j := s.job(id); j.State != compute.Completed {
			t.Errorf("known=%v: %s %s %s", known, j.State, j.Cause, j.Message)
		}
	}
}

// slowRoom does not answer how it stands.
type slowRoom struct {
	compute.Executor
	ticketless func() bool
}

func (s *slowRoom) Capacity(ctx context.Context) (compute.Capacity, error) {
	<-ctx.Done()
	return compute.Capacity{}, ctx.Err()
}

func (s *slowRoom) Ticketless() bool { return s.ticketless() }

// Results in part complete a job of an original client that cannot pack them (rule 3), also after a restart of the
// server before a server was found at the address.
func TestPartialAfterRestart(t *testing.T) {
	for _, known := range []bool{true, false} {
		c, store, dir := wiretest.Client(t, wiretest.ClientOptions{}), mem.New(), t.TempDir()
		u, err := url.Parse(c.URL)
		if err != nil {
			t.Fatal(err)
		}
		var away atomic.Bool
		web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasPrefix(r.URL.Path, "/retrieve/") {
				if !away.Load() {
					panic(http.ErrAbortHandler)
				}
				w.WriteHeader(500) // it cannot pack
				return
			}
			httputil.NewSingleHostReverseProxy(u).ServeHTTP(w, r)
		}))
		defer web.Close()
		set := func(s *setting) { s.store, s.compute.Dir = store, dir }
		var id int
		t.Run("before", func(t *testing.T) {
			s := open(t, with(found(t, web.URL, store, nil)), set)
			s.agent()
			id = s.upload(script("echo done >out.txt"))
			eventually(t, "the client has it", func() bool {
				return s.data(id).Remote != "" && len(c.Submissions()) > 0
			})
		})
		away.Store(true)
		x := found(t, web.URL, store, nil)
		if known {
			if _, err := x.Capacity(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		s := open(t, map[string]compute.Executor{"a1": &slowRoom{Executor: x, ticketless: x.Ticketless}}, set)
		eventually(t, "it ends", func() bool { return s.job(id).Ended })
		j := s.job(id)
		if j.State != compute.Completed {
			t.Errorf("known=%v: %s %s %s", known, j.State, j.Cause, j.Message)
		}
	}
}

// cutOnce breaks the first transfer of results.
type cutOnce struct {
	slowRoom
	n atomic.Int64
}

func (c *cutOnce) Capacity(ctx context.Context) (compute.Capacity, error) {
	return c.Executor.Capacity(ctx)
}

func (c *cutOnce) Results(ctx context.Context, h compute.Handle) (io.ReadCloser, error) {
	if c.n.Add(1) == 1 {
		return nil, io.ErrUnexpectedEOF
	}
	return c.Executor.Results(ctx, h)
}

// A job of ours has its results whole after a transfer broke once, also while the last one found at its address was an
// original client.
func TestOursWhereAnOriginalWas(t *testing.T) {
	for _, kind := range []string{"agent", "legacy"} {
		store, a := mem.New(), employ(t, nil)
		x := &cutOnce{slowRoom: slowRoom{found(t, a.url, store, nil), func() bool { return kind == legacy.Kind }}}
		s := open(t, map[string]compute.Executor{"a1": x}, func(s *setting) { s.store = store })
		s.agent()
		id := s.upload(script("echo done >out.txt"))
		eventually(t, "it ends", func() bool { return s.job(id).Ended })
		if d := s.data(id); d.Results == nil || d.Results.Partial {
			t.Errorf("%s: %s %+v", kind, s.job(id).State, d.Results)
		}
	}
}
