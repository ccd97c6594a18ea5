//go:build linux

package trials

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/app/compute/orchestrator"
	"github.com/stagepost/stagepost/app/compute/orchestrator/detect"
	"github.com/stagepost/stagepost/app/compute/orchestrator/legacy"
	"github.com/stagepost/stagepost/app/compute/orchestrator/wire"
	"github.com/stagepost/stagepost/app/compute/orchestrator/wire/wiretest"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/store/mem"
)

// found makes the executor of an address that a variable names, for a server on a store.
func found(t *testing.T, url string, store job.Store, set func(*legacy.Options)) *detect.Executor {
	t.Helper()
	e, err := wire.AgentAt(url)
	if err != nil {
		t.Fatal(err)
	}
	o := legacy.Options{Endpoints: e, Temp: t.TempDir(), Services: []string{"example"}, Record: store.Get}
	if set != nil {
		set(&o)
	}
	x, err := detect.New(detect.Options{Name: "a1", Original: o})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(x.Close)
	return x
}

// openOn opens a server on a store, with a service.
func openOn(t *testing.T, store job.Store, x compute.Executor, service compute.Service) *server {
	t.Helper()
	service.Name, service.RunsPerUser, service.MaxRuns = "example", 100, 200
	return open(t, with(x), func(s *setting) {
		s.store, s.compute.Services = store, []compute.Service{service}
	})
}

// order makes a job as our own API does.
func (s *server) order(o compute.Order, text string) (job.Job, error) {
	s.Helper()
	u, err := s.app.Begin(s.Context())
	if err != nil {
		s.Fatal(err)
	}
	defer u.Discard()
	if err := u.File(compute.Script, strings.NewReader(text)); err != nil {
		s.Fatal(err)
	}
	o.Owner, o.Service = "ann", "example"
	return u.Commit(s.Context(), o)
}

// agent gives the only one as people see it, once it was asked.
func (s *server) agent() compute.Agent {
	s.Helper()
	eventually(s.T, "the agent answers", func() bool { return s.app.Agents()[0].Up })
	return s.app.Agents()[0]
}

// An agent of ours that a variable names is used as one: limits hold, variables arrive, the exit code comes back, what
// is written is seen as it is written.
func TestVariablesNameOurs(t *testing.T) {
	t.Parallel()
	const text = "echo \"[$FOO]\"\nexit 3\n"
	t.Run("found", func(t *testing.T) {
		t.Parallel()
		store, a := mem.New(), employ(t, nil)
		s := openOn(t, store, found(t, a.url, store, nil), compute.Service{})
		if got := s.agent(); got.Kind != "agent" || got.Sandbox != "none" || got.Slots != 16 {
			t.Errorf("it is reported as %+v", got)
		}
		j, err := s.order(compute.Order{Env: map[string]string{"FOO": "bar"}}, text)
		if err != nil {
			t.Fatal(err)
		}
		j = s.ends(int(j.Number), compute.Failed, compute.CauseExit)
		if d := s.data(int(j.Number)); d.Notice.Ending.Exit != 3 {
			t.Errorf("got %+v", d.Notice.Ending)
		}
		if got := s.log(int(j.Number)); !strings.Contains(got, "[bar]") {
			t.Errorf("it wrote %q", got)
		}
		l := newLatch(t)
		j, err = s.order(compute.Order{Limits: compute.Limits{Wall: time.Hour}}, "echo begun\n"+l.wait())
		if err != nil {
			t.Fatal(err)
		}
		j = s.await(int(j.Number), compute.Running)
		r, err := s.app.Log(t.Context(), &j, "stdout", 0, true)
		if err != nil {
			t.Fatal(err)
		}
		live := make([]byte, len("begun\n"))
		if _, err := io.ReadFull(r, live); err != nil || string(live) != "begun\n" { // it still runs
			t.Errorf("while it runs: %q, %v", live, err)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		l.lift()
		s.ends(int(j.Number), compute.Completed, "")
		j, err = s.order(compute.Order{Limits: compute.Limits{Wall: 50 * time.Millisecond}},
			"until false; do sleep 0.02; done\n")
		if err != nil {
			t.Fatal(err)
		}
		s.ends(int(j.Number), compute.Failed, compute.CauseTimeout)
	})
	t.Run("taken for an original", func(t *testing.T) { // control: what was lost
		t.Parallel()
		s := open(t, with(originalAt(t, employ(t, nil).url, nil)), nil)
		if got := s.agent(); got.Kind != legacy.Kind {
			t.Errorf("it is reported as %+v", got)
		}
		j, err := s.order(compute.Order{Env: map[string]string{"FOO": "bar"}}, text)
		if err != nil {
			t.Fatal(err)
		}
		j = s.ends(int(j.Number), compute.Failed, compute.CauseExit)
		if d := s.data(int(j.Number)); d.Notice.Ending.Exit == 3 {
			t.Errorf("got %+v", d.Notice.Ending)
		}
		if got := s.log(int(j.Number)); strings.Contains(got, "bar") {
			t.Errorf("it wrote %q", got)
		}
	})
}

// What an original client cannot do is refused if a user asked for it, and named if only the service sets it.
func TestOriginalCannot(t *testing.T) {
	t.Parallel()
	c, store := wiretest.Client(t, wiretest.ClientOptions{}), mem.New()
	service := compute.Service{Limits: compute.Limits{Memory: 1 << 30}, Env: map[string]string{"HOME_OF": "x"}}
	var s *server
	service.Unlimited = func() string { return orchestrator.Limitless(s.app.Agents()[0].Kind) }
	s = openOn(t, store, found(t, c.URL, store, func(o *legacy.Options) {
		o.Service = func(string) compute.Service { return service }
	}), service)
	if got := s.agent(); got.Kind != legacy.Kind || got.Sandbox != "none" ||
		!strings.Contains(got.Detail, "no limits") {
		t.Errorf("it is reported as %+v", got)
	}
	_, err := s.order(compute.Order{Limits: compute.Limits{Wall: time.Minute, Cores: 2}}, script("true"))
	if job.KindOf(err) != job.Invalid || !strings.Contains(err.Error(), "limits (wall, cores) cannot be had") {
		t.Errorf("got %v", err)
	}
	j, err := s.order(compute.Order{Env: map[string]string{"FOO": "bar"}}, script("true"))
	if err != nil {
		t.Fatal(err)
	}
	j = s.ends(int(j.Number), compute.Failed, compute.CauseRejected)
	if !strings.Contains(j.Message, "does not know variables (FOO), which were asked for") {
		t.Errorf("the message is %q", j.Message)
	}
	if got := c.Submissions(); len(got) != 0 {
		t.Errorf("it got %v", got)
	}
	l := newLatch(t) // control: no one asked
	j, err = s.order(compute.Order{}, script(l.wait()))
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is reported what is left away", func() bool {
		now := s.job(int(j.Number))
		return now.State == compute.Running && strings.Contains(now.Message, "limits (memory) and variables (HOME_OF)")
	})
	l.lift()
	s.ends(int(j.Number), compute.Completed, "")
}

// Where an agent of ours serves, too, an order for which an original client cannot care goes there.
func TestOriginalPasses(t *testing.T) {
	t.Parallel()
	c, a, store := wiretest.Client(t, wiretest.ClientOptions{}), employ(t, nil), mem.New()
	both := map[string]compute.Executor{"a1": found(t, c.URL, store, nil)}
	s := open(t, both, func(s *setting) { s.store, s.compute.RetryFor = store, 100*time.Millisecond })
	s.agent()
	j, err := s.order(compute.Order{Env: map[string]string{"FOO": "bar"}}, "echo \"[$FOO]\"\n")
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the original refuses", func() bool { return len(s.data(int(j.Number)).Attempts) > 0 })
	s.app.Join("a2", found(t, a.url, store, nil))
	s.ends(int(j.Number), compute.Completed, "")
	if got := s.log(int(j.Number)); !strings.Contains(got, "[bar]") || len(c.Submissions()) != 0 {
		t.Errorf("it wrote %q, and the original got %v", got, c.Submissions())
	}
}

// street is an address whose machine can be replaced, and whose answers can be lost.
type street struct {
	url  string
	at   atomic.Pointer[url.URL]
	lost atomic.Int64 // how many answers to submissions were
	lose atomic.Bool
}

func newStreet(t *testing.T, machine string) *street {
	t.Helper()
	s := &street{}
	s.move(t, machine)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p := httputil.NewSingleHostReverseProxy(s.at.Load())
		p.FlushInterval, p.ErrorLog = -1, nil
		if callOf(r) == "submit" && s.lose.Load() {
			p.ServeHTTP(httptest.NewRecorder(), r)
			s.lost.Add(1)
			panic(http.ErrAbortHandler)
		}
		p.ServeHTTP(w, r)
	}))
	s.url = web.URL
	t.Cleanup(func() { web.CloseClientConnections(); web.Close() })
	return s
}

func (s *street) move(t *testing.T, machine string) {
	t.Helper()
	u, err := url.Parse(machine)
	if err != nil {
		t.Fatal(err)
	}
	s.at.Store(u)
}

// A job that an original client has stays its own when the machine is replaced by an agent of ours: it is lost, and
// never handed over a second time. What comes later goes to ours.
func TestOriginalReplaced(t *testing.T) {
	t.Parallel()
	c, a, store := wiretest.Client(t, wiretest.ClientOptions{}), employ(t, nil), mem.New()
	way := newStreet(t, c.URL)
	s := openOn(t, store, found(t, way.url, store, nil), compute.Service{})
	l := newLatch(t)
	defer l.lift()
	id := s.upload(script(l.wait()))
	s.await(id, compute.Running)
	way.move(t, a.url)
	s.ends(id, compute.Failed, compute.CauseLost)
	eventually(t, "ours is found", func() bool { return s.app.Agents()[0].Kind == "agent" })
	next := s.upload(script("exit 3"))
	s.ends(next, compute.Failed, compute.CauseExit)
	if d := s.data(next); d.Notice.Ending.Exit != 3 || len(c.Submissions()) != 1 || a.runs.count() != 1 ||
		l.runs() != 1 {
		t.Errorf("got %+v; the original got %d, ours ran %d", d.Notice.Ending, len(c.Submissions()), a.runs.count())
	}
}

// A job whose answer an original client gave in vain runs nowhere else, whatever is there afterwards: unless that is
// wanted.
func TestLostAnswerReplaced(t *testing.T) {
	t.Parallel()
	for _, again := range []bool{false, true} {
		c, a, store := wiretest.Client(t, wiretest.ClientOptions{}), employ(t, nil), mem.New()
		way := newStreet(t, c.URL)
		s := open(t, with(found(t, way.url, store, func(o *legacy.Options) {
			o.Resend = again
		})), func(s *setting) { s.store, s.compute.Resend = store, again })
		s.agent()
		way.lose.Store(true)
		id := s.upload(script("true"))
		eventually(t, "the answer is lost", func() bool { return way.lost.Load() > 0 })
		way.move(t, a.url)
		way.lose.Store(false)
		if again { // control
			s.ends(id, compute.Completed, "")
		} else {
			s.ends(id, compute.Failed, compute.CauseLost)
		}
		if got := a.runs.count(); (got > 0) != again || got > 1 {
			t.Errorf("with LEGACY_REDISPATCH=%v ours ran it %d times", again, got)
		}
	}
}

// A job that our agent has is not asked of an original client at its address, and goes on when the agent is back; so it
// is when the server is another one by then.
func TestOursReplaced(t *testing.T) {
	t.Parallel()
	c, a, store := wiretest.Client(t, wiretest.ClientOptions{}), employ(t, nil), mem.New()
	way := newStreet(t, a.url)
	s := openOn(t, store, found(t, way.url, store, nil), compute.Service{})
	s.agent()
	way.lose.Store(true) // the job is handed over, and the server does not know
	l := newLatch(t)
	id := s.upload(script(l.wait()))
	l.arrived(1)
	way.move(t, c.URL)
	way.lose.Store(false)
	s.await(id, compute.Unknown)
	eventually(t, "the original is found", func() bool { return s.app.Agents()[0].Kind == legacy.Kind })
	way.move(t, a.url)
	s.await(id, compute.Running)
	l.lift()
	s.ends(id, compute.Completed, "")
	asked := c.Requests()
	if len(c.Submissions()) != 0 || a.runs.count() != 1 ||
		slices.ContainsFunc(asked, func(q string) bool { return strings.Contains(q, "/retrieve") }) {
		t.Errorf("the original was asked %v, ours ran it %d times", asked, a.runs.count())
	}
}

// A job that an original client has is asked of it by a server that was started anew, before it was detected what is at
// the address, and by then.
func TestServerRestarted(t *testing.T) {
	t.Parallel()
	c, store := wiretest.Client(t, wiretest.ClientOptions{}), mem.New()
	l := newLatch(t)
	var id int
	dir := t.TempDir()
	t.Run("before", func(t *testing.T) {
		s := open(t, with(found(t, c.URL, store, nil)), func(s *setting) { s.store, s.compute.Dir = store, dir })
		id = s.upload(script(l.wait() + "echo done >out.txt"))
		s.await(id, compute.Running)
	})
	s := open(t, with(found(t, c.URL, store, nil)), func(s *setting) { s.store, s.compute.Dir = store, dir })
	l.lift()
	s.ends(id, compute.Completed, "")
	if files := s.results(id); files["out.txt"] != "done\n" || len(c.Submissions()) != 1 {
		t.Errorf("got %v after %d submissions", files, len(c.Submissions()))
	}
}
