package detect

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/app/compute/agent"
	"github.com/stagepost/stagepost/app/compute/orchestrator/client"
	"github.com/stagepost/stagepost/app/compute/orchestrator/legacy"
	"github.com/stagepost/stagepost/app/compute/orchestrator/wire"
	"github.com/stagepost/stagepost/app/compute/orchestrator/wire/wiretest"
	"github.com/stagepost/stagepost/edge/sandbox"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/store/mem"
)

// actor runs nothing, counts, and ends well.
type actor struct{ runs atomic.Int64 }

// Run is part of agent.Runner.
func (f *actor) Run(context.Context, *sandbox.Command) (sandbox.Ending, error) {
	f.runs.Add(1)
	return sandbox.Ending{Tier: sandbox.Native}, nil
}

// ours is an agent of ours.
type ours struct {
	url   string
	runs  *actor
	store job.Store
}

func employ(t *testing.T, token string, services map[string]agent.Service) *ours {
	t.Helper()
	o := &ours{runs: &actor{}, store: mem.New()}
	app, err := agent.New(agent.Options{Dir: t.TempDir(), Name: "a1", Slots: 4, Cores: -1, Memory: -1, Runner: o.runs,
		Sandbox: sandbox.Native, Reserve: 1, Services: services})
	if err != nil {
		t.Fatal(err)
	}
	e, err := engine.New(o.store, app.Works(), engine.Options{Name: "agent", Grace: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	if app.Bind(e); app.Fault() != nil {
		t.Fatal(app.Fault())
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = e.Run(ctx) }()
	other, err := client.Handler(t.Context(), app, token, wire.AgentOptions{})
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(app.Handler(agent.HandlerOptions{Token: token, Other: other}))
	o.url = web.URL
	t.Cleanup(sync.OnceFunc(func() {
		web.CloseClientConnections()
		cancel()
		<-done
		if err := app.Close(); err != nil {
			t.Error(err)
		}
		web.Close()
	}))
	return o
}

// taken counts what it took.
func (o *ours) taken(t *testing.T) int {
	t.Helper()
	page, err := o.store.List(t.Context(), job.Query{Kinds: []job.Kind{compute.PayloadKind}, Limit: 100})
	if err != nil {
		t.Fatal(err)
	}
	return len(page.Jobs)
}

// street is an address whose house can be replaced.
type street struct {
	url string
	at  atomic.Pointer[url.URL]
}

func newStreet(t *testing.T, house string) *street {
	t.Helper()
	s := &street{}
	s.move(t, house)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p := httputil.NewSingleHostReverseProxy(s.at.Load())
		p.FlushInterval = -1
		p.ServeHTTP(w, r)
	}))
	s.url = web.URL
	t.Cleanup(func() { web.CloseClientConnections(); web.Close() })
	return s
}

func (s *street) move(t *testing.T, house string) {
	t.Helper()
	u, err := url.Parse(house)
	if err != nil {
		t.Fatal(err)
	}
	s.at.Store(u)
}

// ledger has the records of a server.
type ledger struct {
	mu   sync.Mutex // guards jobs
	jobs map[job.ID]compute.Data
	spec compute.Spec
}

func (l *ledger) put(d compute.Data) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.jobs[d.Job] = d
}

func (l *ledger) get(_ context.Context, id job.ID) (job.Job, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	d, ok := l.jobs[id]
	if !ok {
		return job.Job{}, &job.Error{Kind: job.NotFound}
	}
	return job.Job{ID: id, Kind: compute.JobKind, Group: "example", Spec: encode(l.spec), Data: encode(d)}, nil
}

// at makes an executor of an address.
func at(t *testing.T, address string, l *ledger, set func(*legacy.Options)) *Executor {
	t.Helper()
	e, err := wire.AgentAt(address)
	if err != nil {
		t.Fatal(err)
	}
	o := legacy.Options{Endpoints: e, Temp: t.TempDir(), Record: l.get}
	if set != nil {
		set(&o)
	}
	x, err := New(Options{Name: "example-1", Original: o})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(x.Close)
	return x
}

// parcel makes a parcel of a ticket.
func parcel(ticket compute.Ticket, instance string) *compute.Parcel {
	const script = "#!/bin/bash\ntrap 'echo $? > .orchestrator.exit' EXIT\ntrue\n"
	p := &compute.Parcel{Ticket: ticket, Instance: instance, Service: "example", Owner: "ann",
		Files: []compute.File{{Name: compute.Script, Size: int64(len(script)), SHA256: digest(script)}}}
	p.Open = func(string) (io.ReadSeekCloser, error) { return file{strings.NewReader(script)}, nil }
	return p
}

type file struct{ *strings.Reader }

func (file) Close() error { return nil }

// The agent at the address is detected and reported, again when the machine was replaced.
func TestRoom(t *testing.T) {
	t.Parallel()
	original, agent := wiretest.Client(t, wiretest.ClientOptions{}), employ(t, "", nil)
	s := newStreet(t, original.URL)
	x := at(t, s.url, newLedger(), func(o *legacy.Options) { o.Services = []string{"example"} })
	if x.Kind() != "" {
		t.Errorf("unasked it is %q", x.Kind())
	}
	notified := make(chan struct{})
	go func() {
		_ = x.Notify(t.Context(), func() { close(notified) }, func(job.ID) {})
	}()
	for _, want := range []struct{ house, kind, sandbox string }{{original.URL, "legacy", "none"},
		{agent.url, "agent", "native"}, {original.URL, "legacy", "none"}} {
		s.move(t, want.house)
		room, err := x.Capacity(t.Context())
		if err != nil || room.Kind != want.kind || room.Sandbox != want.sandbox || x.Kind() != want.kind ||
			len(room.Services) != 1 || room.Services[0] != "example" {
			t.Errorf("got %+v, %v, want %s", room, err, want.kind)
		}
		if (room.Instance == legacy.Instance) != (want.kind == "legacy") || room.Instance == "" {
			t.Errorf("%s names its memory %q", want.kind, room.Instance)
		}
		if want.kind == "agent" {
			<-notified // an original client sends no notifications
		}
	}
}

// What cannot be used reports why.
func TestUnfit(t *testing.T) {
	t.Parallel()
	for _, one := range []struct {
		name, url, want string
	}{
		{"an agent that requires a token", employ(t, "a token of some length", nil).url,
			"token_file in the services file"},
		{"an agent of another service", employ(t, "", map[string]agent.Service{"other": {}}).url,
			"serves other, and not example"},
		{"our server", serve(t, `{"status":"ok","database":"ok","impl":"stagepost","features":["range"]}`), "it is no agent"},
		{"what is no JSON", serve(t, `hello`), "invalid character"},
	} {
		x := at(t, one.url, newLedger(), func(o *legacy.Options) { o.Services = []string{"example"} })
		if _, err := x.Capacity(t.Context()); err == nil || !strings.Contains(err.Error(), one.want) {
			t.Errorf("%s: got %v", one.name, err)
		}
	}
	// control: another original is no agent of ours
	x := at(t, serve(t, `{"status":"ok","database":"ok","version":"3"}`), newLedger(), nil)
	if kind, err := x.find(t.Context()); err != nil || kind != legacy.Kind {
		t.Errorf("got %q, %v", kind, err)
	}
}

// A parcel goes only to whom its record names, and once.
func TestSubmit(t *testing.T) {
	t.Parallel()
	type result struct {
		original, ours int // that were taken
		err            string
		standing       compute.Standing
	}
	for name, one := range map[string]struct {
		recorded string // the instance in the record
		again    bool   // it may have been handed over before
		resend   bool
		ours     bool // an agent of ours is there now
		want     result
	}{
		"an original client": {recorded: legacy.Instance, want: result{original: 1, standing: compute.Waits}},
		"an agent of ours":   {recorded: "its", ours: true, want: result{ours: 1, standing: compute.Waits}},
		"ours, once more under the ticket": {recorded: "its", ours: true, again: true,
			want: result{ours: 1, standing: compute.Waits}},
		"the original was replaced before": {recorded: legacy.Instance, ours: true, want: result{err: "replaced"}},
		"ours was replaced before":         {recorded: "its", want: result{err: "replaced"}},
		"an original may have it": {recorded: legacy.Instance, again: true,
			want: result{standing: compute.Lost}},
		"an original may have it, and ours is there":   {recorded: legacy.Instance, again: true, ours: true, want: result{standing: compute.Lost}},
		"ours may have it, and an original is there":   {recorded: "its", again: true, want: result{err: "replaced"}},
		"a record from before they were distinguished": {recorded: "", again: true, ours: true, want: result{standing: compute.Lost}},
		"LEGACY_REDISPATCH, an original may have it":   {recorded: legacy.Instance, again: true, resend: true, want: result{original: 1, standing: compute.Waits}},
		"LEGACY_REDISPATCH, and ours is there": {recorded: legacy.Instance, again: true, resend: true,
			ours: true, want: result{ours: 1, standing: compute.Waits}},
		"LEGACY_REDISPATCH, ours may have it, and is no": {recorded: "its", again: true, resend: true, want: result{err: "replaced"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			original, mine, l := wiretest.Client(t, wiretest.ClientOptions{}), employ(t, "", nil), newLedger()
			house := original.URL
			if one.ours {
				house = mine.url
			}
			x := at(t, house, l, func(o *legacy.Options) { o.Resend = one.resend })
			if one.recorded == "its" {
				room, err := at(t, mine.url, l, nil).Capacity(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				one.recorded = room.Instance
			}
			h := compute.Handle{Ticket: compute.Ticket{Job: "cmp_1", Attempt: 1, Secret: "a secret of some length"},
				Instance: one.recorded}
			l.put(compute.Data{Handle: h})
			instance := ""
			if one.again {
				instance = one.recorded
			}
			for range 2 { // the second is what a lost answer makes of the first
				n, err := x.Submit(t.Context(), parcel(h.Ticket, instance))
				if (err != nil) != (one.want.err != "") || err != nil && !strings.Contains(err.Error(), one.want.err) {
					t.Fatalf("got %+v, %v", n, err)
				}
				if first := !one.again; err != nil && errors.Is(err, compute.ErrNotSent) != first {
					t.Errorf("got %v", err)
				}
				if err == nil && (n.Standing == compute.Lost) != (one.want.standing == compute.Lost) {
					t.Errorf("got %+v", n)
				}
				if x.Kind() == legacy.Kind {
					break // it has no tickets
				}
			}
			if got := (result{len(original.Submissions()), mine.taken(t), one.want.err, one.want.standing}); got !=
				one.want {
				t.Errorf("got %+v, want %+v", got, one.want)
			}
		})
	}
}

// A job that has gone on, and one without a record, are sent nowhere.
func TestNoRecord(t *testing.T) {
	t.Parallel()
	original, l := wiretest.Client(t, wiretest.ClientOptions{}), newLedger()
	x := at(t, original.URL, l, nil)
	ticket := compute.Ticket{Job: "cmp_1", Attempt: 1, Secret: "a secret of some length"}
	if n, err := x.Submit(t.Context(), parcel(ticket, "")); !errors.Is(err, compute.ErrNotSent) {
		t.Errorf("without a record: %+v, %v", n, err)
	}
	later := ticket
	later.Attempt = 2
	l.put(compute.Data{Handle: compute.Handle{Ticket: later, Instance: legacy.Instance}})
	if n, err := x.Submit(t.Context(), parcel(ticket, "")); !errors.Is(err, compute.ErrNotSent) {
		t.Errorf("of an earlier attempt: %+v, %v", n, err)
	}
	if got := original.Submissions(); len(got) != 0 {
		t.Errorf("it got %v", got)
	}
	if n, err := x.Submit(t.Context(), parcel(later, "")); err != nil || n.Remote == "" { // control
		t.Errorf("got %+v, %v", n, err)
	}
}

// A payload is asked for by the protocol by which it was handed over, whatever is there now.
func TestLook(t *testing.T) {
	t.Parallel()
	original, mine, l := wiretest.Client(t, wiretest.ClientOptions{}), employ(t, "", nil), newLedger()
	s := newStreet(t, original.URL)
	x := at(t, s.url, l, nil)
	handed := func(id job.ID) compute.Handle {
		room, err := x.Capacity(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		h := compute.Handle{Ticket: compute.Ticket{Job: id, Attempt: 1, Secret: "a secret of some length"},
			Instance: room.Instance}
		l.put(compute.Data{Handle: h})
		n, err := x.Submit(t.Context(), parcel(h.Ticket, ""))
		if err != nil || n.Remote == "" || n.Instance != room.Instance {
			t.Fatalf("got %+v, %v", n, err)
		}
		h.Remote = n.Remote
		return h
	}
	there := handed("cmp_1")
	original.Await("its end", func() bool { return original.Status(1) == "Completed" })
	if n, err := x.Query(t.Context(), there); err != nil || n.Standing != compute.Ended || !n.HasResult {
		t.Errorf("got %+v, %v", n, err)
	}
	s.move(t, mine.url)
	if zip, err := x.Results(t.Context(), there); err != nil { // the query has asked for them, and they were held
		t.Error(err)
	} else if err := zip.Close(); err != nil {
		t.Error(err)
	}
	if n, err := x.Query(t.Context(), there); err != nil || n.Standing != compute.Lost {
		t.Errorf("got %+v, %v", n, err)
	}
	here := handed("cmp_2")
	if n, err := x.Query(t.Context(), here); err != nil || n.Standing == compute.Lost {
		t.Errorf("got %+v, %v", n, err)
	}
	s.move(t, original.URL)
	if n, err := x.Query(t.Context(), here); err == nil {
		t.Errorf("an original client reports %+v of a payload of ours", n)
	}
	unanswered := there
	unanswered.Remote = ""
	if n, err := x.Query(t.Context(), unanswered); err != nil || n.Standing != compute.Lost {
		t.Errorf("got %+v, %v", n, err)
	}
	s.move(t, mine.url)
	if n, err := x.Query(t.Context(), here); err != nil || n.Standing == compute.Lost { // control
		t.Errorf("got %+v, %v", n, err)
	}
	if len(original.Submissions()) != 1 || mine.taken(t) != 1 {
		t.Errorf("%d and %d were taken", len(original.Submissions()), mine.taken(t))
	}
}

// The addresses of variables are where our own API would be.
func TestBase(t *testing.T) {
	for upload, want := range map[string]string{
		"http://c1:9000/submit": "http://c1:9000", "http://c1:9000/submit/": "http://c1:9000",
		"https://c1/a/b/submit": "https://c1/a/b",
		"http://u:p@c1/submit":  "", "http://c1/submit?x=1": "",
	} {
		if got, ok := base(upload); got != want || ok != (want != "") {
			t.Errorf("%s: got %q", upload, got)
		}
	}
}
