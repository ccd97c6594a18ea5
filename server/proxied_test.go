package server_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync/atomic"
	"testing"

	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/server"
	"github.com/stagepost/stagepost/server/servertest"
)

// proxied is a proxy before servers that restart.
type proxied struct {
	*httptest.Server
	behind  atomic.Pointer[httputil.ReverseProxy]
	missing atomic.Int32 // how many requests are still answered with 502
}

func (p *proxied) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if p.missing.Add(-1) >= 0 {
		http.Error(w, "no server", http.StatusBadGateway)
		return
	}
	p.behind.Load().ServeHTTP(w, r)
}

// to passes requests on to a server, after it answered some with 502.
func (p *proxied) to(t *testing.T, w *servertest.Harness, missing int32) {
	t.Helper()
	at, err := url.Parse(w.Web.URL)
	if err != nil {
		t.Fatal(err)
	}
	p.missing.Store(missing)
	p.behind.Store(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(at) }})
}

// TestWatchBehindAProxy: each entry of a history comes once and in order although the server restarts behind a proxy
// while entries are made. A client without patience, which is the control, fails.
func TestWatchBehindAProxy(t *testing.T) {
	for _, patient := range []bool{true, false} {
		var o server.Options
		first := servertest.Open(t, func(of *server.Options) { o = *of }, nil)
		second := servertest.Serve(t, o)
		p := &proxied{}
		p.to(t, first, 0)
		p.Server = httptest.NewServer(p)
		t.Cleanup(p.Close)
		options := client.Options{}
		said := 0
		options.Retrying = func(error) { said++ }
		if !patient {
			options.Outage = 1
		}
		c, err := client.New(p.URL, options)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		id := first.Post(engine.Order{}).ID
		move := func(event lifecycle.Event) {
			if _, err := second.Client.Do(t.Context(), id, event, client.Act{Note: "a test"}); err != nil {
				t.Error(err)
			}
		}
		move("hold")
		move("release")
		done, seen := errors.New("done"), []int64{}
		err = c.Watch(t.Context(), id, 0, func(u client.Update) error {
			if u.Event == nil {
				return nil
			}
			switch seen = append(seen, u.Event.Seq); u.Event.Seq {
			case 3:
				p.to(t, second, 3)
				p.CloseClientConnections()
				first.Server.Close()
				move("hold")
				move("release")
			case 5:
				return done
			}
			return nil
		})
		switch got := fmt.Sprint(seen); {
		case patient && (!errors.Is(err, done) || got != "[1 2 3 4 5]" || said != 1):
			t.Errorf("got %s, %v; reported %d times", got, err, said)
		case !patient && (job.KindOf(err) != job.Unavailable || got != "[1 2 3]" || said != 0):
			t.Errorf("control: got %s, %v; reported %d times", got, err, said)
		}
	}
}
