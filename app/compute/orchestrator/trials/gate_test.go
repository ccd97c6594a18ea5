//go:build linux

package trials

import (
	"bytes"
	"context"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"
)

// harm is what the network does to a call.
type harm string

// What may happen to a call. All but doubled is the work of toxiproxy.
const (
	none harm = ""
	// it never arrives, and the connection stays open
	requestHangs harm = `{"type":"timeout","stream":"upstream","attributes":{"timeout":0}}`
	// it arrives, and its answer never does
	answerHangs harm = `{"type":"timeout","stream":"downstream","attributes":{"timeout":0}}`
	// it arrives, and the connection ends before the answer; 25 bytes are "100 Continue"
	answerLost harm = `{"type":"limit_data","stream":"downstream","attributes":{"bytes":25}}`
	// the connection ends within the answer
	answerCut harm = `{"type":"limit_data","stream":"downstream","attributes":{"bytes":400}}`
	// the connection is reset
	reset harm = `{"type":"reset_peer","stream":"downstream","attributes":{"timeout":0}}`
	// the answer comes after its caller has timed out
	answerDelayed harm = `{"type":"latency","stream":"downstream","attributes":{"latency":2500}}`
	doubled       harm = "doubled" // it arrives twice, and the second answer counts
)

// gate is the network between a server and its agent. It distinguishes the calls and sends each on its way: straight,
// or through a proxy of its own that does it harm.
type gate struct {
	t   *testing.T
	url string

	mu      sync.Mutex // guards the rest
	target  *url.URL
	ways    map[string]*way
	strikes map[string]int // by call, and by path
	changed chan struct{}  // closed at each strike
}

// way is what a call is to suffer.
type way struct {
	harm  harm
	pass  int // calls that are left alone before
	times int // calls that suffer; 0: all
	proxy *toxiproxy.Proxy
}

// newGate opens a gate to an address.
func newGate(t *testing.T, target string) *gate {
	t.Helper()
	u, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	g := &gate{t: t, target: u, ways: map[string]*way{}, strikes: map[string]int{}, changed: make(chan struct{})}
	web := httptest.NewServer(http.HandlerFunc(g.serve))
	g.url = web.URL
	t.Cleanup(func() {
		g.heal()
		web.CloseClientConnections()
		web.Close()
	})
	return g
}

// callOf names the call that a request is, of our agent's API or of the original client's.
func callOf(r *http.Request) string {
	path := r.URL.Path
	last := path[strings.LastIndexByte(path, '/')+1:]
	switch {
	case r.Method == http.MethodPut, path == "/submit":
		return "submit"
	case r.Method == http.MethodDelete:
		return "forget"
	case last == "kill", strings.HasPrefix(path, "/kill/"):
		return "kill"
	case last == "results", last == "partial", last == "log", last == "room", last == "events":
		return last
	case strings.HasPrefix(path, "/retrieve_partial/"):
		return "partial"
	case path == "/health", path == "/load":
		return "room"
	}
	return "look"
}

// lose has all calls of a name suffer harm from now on, until heal.
func (g *gate) lose(call string, h harm) { g.harm(call, h, 0, 0) }

// harm has calls suffer: after so many that pass, so many; 0: all.
func (g *gate) harm(call string, h harm, pass, times int) {
	g.t.Helper()
	w := &way{harm: h, pass: pass, times: times}
	g.mu.Lock()
	defer g.mu.Unlock()
	if h != doubled {
		w.proxy = g.proxy(call, h)
	}
	g.ways[call] = w
}

// proxy starts a toxiproxy with one toxic. The caller has the lock.
func (g *gate) proxy(call string, h harm) *toxiproxy.Proxy {
	p := toxiproxy.NewProxy(toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop()), call, "127.0.0.1:0",
		g.target.Host)
	err := p.Start()
	if err == nil {
		_, err = p.Toxics.AddToxicJson(strings.NewReader(string(h)))
	}
	if err != nil {
		g.t.Fatal(err)
	}
	return p
}

// heal lets everything through again, and cuts what hangs.
func (g *gate) heal() {
	g.mu.Lock()
	ways := g.ways
	g.ways = map[string]*way{}
	g.mu.Unlock()
	for _, w := range ways {
		if w.proxy != nil {
			w.proxy.Stop()
		}
	}
}

// struck waits until a call has suffered, or one to a path.
func (g *gate) struck(call string) {
	g.t.Helper()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for {
		g.mu.Lock()
		n, changed := g.strikes[call], g.changed
		g.mu.Unlock()
		if n > 0 {
			return
		}
		select {
		case <-changed:
		case <-timer.C:
			g.t.Fatalf("no call %s came to harm", call)
		}
	}
}

// route decides about a call.
func (g *gate) route(call, path string) (target string, h harm) {
	g.mu.Lock()
	defer g.mu.Unlock()
	w := g.ways[call]
	if w == nil {
		return g.target.Host, none
	}
	if w.pass > 0 {
		w.pass--
		return g.target.Host, none
	}
	if w.times > 0 {
		if w.times--; w.times == 0 {
			defer delete(g.ways, call)
			if p := w.proxy; p != nil {
				g.t.Cleanup(p.Stop)
			}
		}
	}
	g.strikes[call]++
	g.strikes[path]++
	close(g.changed)
	g.changed = make(chan struct{})
	if w.harm == doubled {
		return g.target.Host, doubled
	}
	return w.proxy.Listen, w.harm
}

func (g *gate) serve(w http.ResponseWriter, r *http.Request) {
	target, h := g.route(callOf(r), r.URL.Path)
	// Where an answer is to hang, the server must not close the connection behind it: toxiproxy passes that on, and the
	// answer is lost instead.
	transport := &http.Transport{DisableKeepAlives: h != answerHangs, DisableCompression: true}
	if h == doubled {
		g.twice(r, target, transport)
	}
	p := &httputil.ReverseProxy{
		Rewrite: func(q *httputil.ProxyRequest) {
			q.Out.URL.Scheme, q.Out.URL.Host, q.Out.Host = "http", target, q.In.Host
		},
		Transport:     transport,
		FlushInterval: -1,
		// a network has no words
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
		ErrorLog:     log.New(io.Discard, "", 0),
	}
	p.ServeHTTP(w, r)
}

// twice sends a request once before it is sent on. A stream without end is read for its first bytes only.
func (g *gate) twice(r *http.Request, target string, transport http.RoundTripper) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), patience)
	defer cancel()
	first := r.Clone(ctx)
	first.URL.Scheme, first.URL.Host, first.RequestURI = "http", target, ""
	first.Body = io.NopCloser(bytes.NewReader(body))
	first.Header.Del("Expect")
	a, err := transport.RoundTrip(first)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	defer a.Body.Close()
	if callOf(r) == "events" {
		_, _ = a.Body.Read(make([]byte, 1))
		return
	}
	if _, err := io.Copy(io.Discard, a.Body); err != nil {
		panic(http.ErrAbortHandler)
	}
}
