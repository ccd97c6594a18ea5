package compute_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/edge/fetch"
	"github.com/stagepost/stagepost/edge/webhook"
	"github.com/stagepost/stagepost/edge/webhook/webhooktest"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/engine/operator"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/mem"
)

func newSecret(t *testing.T) webhook.Secret {
	t.Helper()
	text, err := webhook.NewSecret(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	s, err := webhook.ParseSecret(text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// ear is a receiver of callbacks, on a network of its own in which every host is at an address that the test states.
type ear struct {
	t       *testing.T
	secrets []webhook.Secret
	answer  func(nth int, w http.ResponseWriter, r *http.Request) // of the nth try, from 1. Defaults to 200
	at      map[string]string                                     // host: address. Defaults to a public one

	mu    sync.Mutex // guards the rest
	tries []received
	dials []string
	conns chan net.Conn
}

// received is one try as it came.
type received struct {
	id, body, path string
	at             time.Time
	forged         error // the signature under another secret
}

func newEar(t *testing.T) *ear {
	e := &ear{t: t, secrets: []webhook.Secret{newSecret(t)}, at: map[string]string{}, conns: make(chan net.Conn)}
	web := &http.Server{Handler: e}
	go func() { _ = web.Serve(e) }()
	t.Cleanup(func() { _ = web.Close() })
	return e
}

// Accept, Close and Addr are net.Listener.
func (e *ear) Accept() (net.Conn, error) {
	c, ok := <-e.conns
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}

func (e *ear) Close() error   { close(e.conns); return nil }
func (e *ear) Addr() net.Addr { return &net.TCPAddr{} }

// policy is the network.
func (e *ear) policy() fetch.Policy {
	return fetch.Policy{
		OwnAddresses: func() ([]netip.Addr, error) { return nil, nil },
		Lookup: func(_ context.Context, host string) ([]netip.Addr, error) {
			if at, ok := e.at[host]; ok {
				return []netip.Addr{netip.MustParseAddr(at)}, nil
			}
			return []netip.Addr{netip.MustParseAddr("203.0.114.7")}, nil
		},
		Dial: func(ctx context.Context, _, address string) (net.Conn, error) {
			e.mu.Lock()
			e.dials = append(e.dials, address)
			e.mu.Unlock()
			here, there := net.Pipe()
			select {
			case e.conns <- there:
				return here, nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		},
	}
}

func (e *ear) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	id, wrong := webhook.Verify(r.Header, body, time.Now(), e.secrets...)
	if err = errors.Join(err, wrong, webhooktest.Check(r.Header, body)); err != nil {
		e.t.Errorf("%s: %v in %s", id, err, body)
	}
	_, forged := webhook.Verify(r.Header, body, time.Now(), newSecret(e.t))
	e.mu.Lock()
	e.tries = append(e.tries, received{id, string(body), r.URL.RequestURI(), time.Now(), forged})
	n := len(e.tries)
	e.mu.Unlock()
	if e.answer != nil {
		e.answer(n, w, r)
	}
}

func (e *ear) received() []received {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.tries)
}

// options are those under which the service `example` may call hook.example.org, on a private network if the test
// requests it.
func (e *ear) options(networks ...string) compute.Options {
	o := quick(e.t)
	c := &compute.Callbacks{Hosts: []string{"hook.example.org", "other.example.org:8443"},
		Secrets: func() ([]webhook.Secret, error) { return e.secrets, nil }}
	for _, n := range networks {
		c.Networks = append(c.Networks, netip.MustParsePrefix(n))
	}
	o.Services[0].Callbacks, o.Fetch, o.Installation = c, e.policy(), "q7h2"
	return o
}

const hook = "https://hook.example.org/done?token=hush"

// plainHook is the same without TLS, which the tests' network has not.
const plainHook = "http://hook.example.org/done?token=hush"

func (w *harness) calling(url string) job.Job {
	w.t.Helper()
	o := compute.Order{Owner: "ada", Service: "example", Name: "sum", Labels: map[string]string{"run": "7"},
		Callback: url}
	j, err := w.order(o, map[string]string{compute.Script: hello})
	if err != nil {
		w.t.Fatal(err)
	}
	return j
}

// rarely lets hours pass quickly.
func rarely(o *engine.Options) { o.Sweep = time.Second }

// callbacks gives the messages of a job's callback.
func (w *harness) callbacks(id job.ID) (all []job.Message) {
	w.t.Helper()
	messages, err := job.MessagesOf(w.t.Context(), w.store, id)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, m := range messages {
		if m.Topic == "compute-callback" {
			all = append(all, m)
		}
	}
	return all
}

// TestCallbackComesAtLeastOnce to a receiver that fails at first: the same id and body at each try, signed; the pauses
// are those of Standard Webhooks. The control of the signature is another secret.
func TestCallbackComesAtLeastOnce(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		e := newEar(t)
		e.answer = func(nth int, w http.ResponseWriter, _ *http.Request) {
			if nth < 3 {
				w.WriteHeader(http.StatusBadGateway)
			}
		}
		f := newFake()
		f.auto = false
		w := newHarnessOn(t, mem.New(), e.options(), one(notifier{f}), rarely)
		j := w.calling(plainHook)
		w.until(j.ID, compute.Running)
		synctest.Wait()
		if len(e.received()) != 0 || len(w.callbacks(j.ID)) != 0 {
			t.Error("it was reported before its end")
		}
		f.finish(j.ID, &compute.Ending{Exit: 3, Cause: compute.CauseExit, Sentence: "run.sh exited with 3"})
		j = w.until(j.ID, compute.Failed)
		eventually(t, "the first try", func() bool { return len(e.received()) == 1 })
		if m := w.callbacks(j.ID); len(m) != 1 || m[0].Settled != job.Pending || m[0].Key != string(j.ID)+"/callback" ||
			strings.Contains(string(m[0].Body), "hush") {
			t.Errorf("got %+v", m)
		}
		time.Sleep(6 * time.Minute)
		synctest.Wait()
		tries := e.received()
		if len(tries) != 3 {
			t.Fatalf("%d tries", len(tries))
		}
		for i, one := range tries {
			if one.id != string(j.ID)+"/callback" || one.body != tries[0].body || one.path != "/done?token=hush" ||
				!errors.Is(one.forged, webhook.ErrSignature) {
				t.Errorf("try %d: %+v", i+1, one)
			}
			if pause := one.at.Sub(tries[max(i-1, 0)].at); i > 0 && pause < webhook.Pause(i) {
				t.Errorf("try %d after %s", i+1, pause)
			}
		}
		if m := w.callbacks(j.ID); len(m) != 1 || m[0].Settled != job.Delivered || m[0].Attempts != 3 {
			t.Errorf("got %+v", m)
		}
		var n compute.News
		event := read(t, tries[0].body, &n)
		if event.Type != "io.github.stagepost.compute.failed" || event.Source != "stagepost://q7h2/compute" ||
			event.Subject != string(j.ID) || !event.Time.Equal(j.Entered) {
			t.Errorf("got %+v", event)
		}
		exit := 3
		want := compute.News{
			ID: j.ID, Number: j.Number, Service: "example", Owner: "ada", Name: "sum", State: "Failed",
			Cause: "exit-code", Message: "run.sh exited with 3", ExitCode: &exit,
			Labels: map[string]string{"run": "7"}, Created: j.Created.UTC(), Started: n.Started,
			Finished: n.Finished, Ended: j.Entered.UTC(),
		}
		if diff := cmp.Diff(want, n); diff != "" || n.Started.IsZero() || n.Finished.Before(n.Started) {
			t.Error(diff, n.Started, n.Finished)
		}
	})
}

// read reads an event and its data.
func read(t *testing.T, body string, data *compute.News) (event webhook.Event) {
	t.Helper()
	err := json.Unmarshal([]byte(body), &event)
	if err = errors.Join(err, json.Unmarshal(event.Data, data)); err != nil {
		t.Fatal(err)
	}
	return event
}

// TestCallbackOfEveryEnd: each once, with the commit that ends the job, whatever caused it; none when its files go, and
// none for an order that asked for none.
func TestCallbackOfEveryEnd(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		e := newEar(t)
		o := e.options()
		f := newFake()
		f.auto, f.slots = false, 2
		w := newHarnessOn(t, mem.New(), o, one(notifier{f}), rarely)
		well, silent := w.calling(plainHook), w.upload("ada", hello)
		w.until(well.ID, compute.Running)
		w.until(silent.ID, compute.Running)
		off := w.calling(plainHook)
		if _, err := w.app.Cancel(t.Context(), off.ID, compute.Request{By: lifecycle.Owner, Actor: "ada"}); err != nil {
			t.Fatal(err)
		}
		if m := w.callbacks(off.ID); len(m) != 1 {
			t.Errorf("it has ended, and there are %d messages", len(m))
		}
		never, err := w.order(compute.Order{Owner: "ada", Service: "example", Callback: plainHook},
			map[string]string{"data.txt": "no script"})
		if err != nil {
			t.Fatal(err)
		}
		f.finish(well.ID, nil)
		f.finish(silent.ID, nil)
		for id, state := range map[job.ID]lifecycle.State{well.ID: compute.Completed, silent.ID: compute.Completed,
			off.ID: compute.Killed, never.ID: compute.Invalid} {
			w.until(id, state)
		}
		eventually(t, "three callbacks", func() bool { return len(e.received()) == 3 })
		clean := operator.Act{Job: well.ID, Event: compute.Clean, By: lifecycle.Timer}
		if _, err := w.eng.Do(t.Context(), clean); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		got := map[string]string{}
		for _, one := range e.received() {
			var n compute.News
			event := read(t, one.body, &n)
			if got[one.id] != "" {
				t.Errorf("%s again", one.id)
			}
			got[one.id] = strings.TrimPrefix(event.Type, "io.github.stagepost.compute.") + " " + n.Cause
		}
		want := map[string]string{
			string(well.ID) + "/callback": "completed ", string(off.ID) + "/callback": "killed killed",
			string(never.ID) + "/callback": "invalid rejected",
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	})
}

// TestEndWaitsForNoReceiver: one that hangs delays neither the job's end nor those of others, and learns of it later.
func TestEndWaitsForNoReceiver(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		e := newEar(t)
		var hang atomic.Bool
		hang.Store(true)
		e.answer = func(_ int, _ http.ResponseWriter, r *http.Request) {
			if hang.Load() {
				<-r.Context().Done()
			}
		}
		f := newFake()
		f.slots = 1000
		w := newHarnessOn(t, mem.New(), e.options(), one(notifier{f}), rarely)
		begun := time.Now()
		for range 40 { // more than go out at once
			w.until(w.calling(plainHook).ID, compute.Completed)
		}
		if took := time.Since(begun); took > time.Second {
			t.Errorf("the jobs took %s", took)
		}
		id := w.calling(plainHook).ID
		eventually(t, "a try that was given no answer", func() bool {
			return len(e.received()) > 0 && w.callbacks(id) != nil
		})
		time.Sleep(time.Minute) // several handfuls of 10 s
		synctest.Wait()
		if m := w.callbacks(id); len(m) != 1 || m[0].Settled != job.Pending || m[0].Attempts == 0 || m[0].Error == "" {
			t.Errorf("the control: no receiver hung: %+v", m)
		}
		hang.Store(false)
		time.Sleep(time.Hour)
		synctest.Wait()
		if m := w.callbacks(id); m[0].Settled != job.Delivered {
			t.Errorf("got %+v", m)
		}
	})
}

// TestCallbackGoesNowhereElse: not to an address within, whatever a named host's name leads to, and not where a
// redirect leads. The controls are a network that the operator allowed, and a public address.
func TestCallbackGoesNowhereElse(t *testing.T) {
	for _, c := range []struct {
		name, address string
		networks      []string
		dialled       bool
	}{
		{"public", "203.0.114.7", nil, true},
		{"loopback", "127.0.0.1", nil, false},
		{"metadata of a cloud", "169.254.169.254", nil, false},
		{"private", "10.1.2.3", nil, false},
		{"mapped", "::ffff:10.1.2.3", nil, false},
		{"private and allowed", "10.1.2.3", []string{"10.1.0.0/16"}, true},
		{"private and another allowed", "10.2.2.3", []string{"10.1.0.0/16"}, false},
	} {
		runInBubble(t, c.name, func(t *testing.T) {
			e := newEar(t)
			e.at["hook.example.org"] = c.address
			e.answer = func(_ int, w http.ResponseWriter, r *http.Request) {
				http.Redirect(w, r, "http://inner.example.org/secret", http.StatusTemporaryRedirect)
			}
			w := newHarnessOn(t, mem.New(), e.options(c.networks...), one(notifier{newFake()}), rarely)
			j := w.until(w.calling(plainHook).ID, compute.Completed)
			eventually(t, "a try", func() bool { m := w.callbacks(j.ID); return len(m) == 1 && m[0].Error != "" })
			e.mu.Lock()
			defer e.mu.Unlock()
			if got := len(e.dials) > 0; got != c.dialled || len(e.tries) != len(e.dials) {
				t.Errorf("dialled %q", e.dials)
			}
			for _, address := range e.dials {
				if !strings.HasPrefix(address, c.address+":80") {
					t.Errorf("it went to %s", address)
				}
			}
			if m := w.callbacks(j.ID)[0]; strings.Contains(m.Error, "hush") || m.Settled != job.Pending {
				t.Errorf("got %+v", m)
			}
		})
	}
}

// TestCallbackIsGivenUp at once when the receiver accepts no more, and when the service may not send there any more.
func TestCallbackIsGivenUp(t *testing.T) {
	runInBubble(t, "gone", func(t *testing.T) {
		e := newEar(t)
		e.answer = func(_ int, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusGone) }
		w := newHarnessOn(t, mem.New(), e.options(), one(notifier{newFake()}), rarely)
		j := w.calling(plainHook)
		eventually(t, "abandoned", func() bool {
			m := w.callbacks(j.ID)
			return len(m) == 1 && m[0].Settled == job.Abandoned && m[0].Attempts == 1
		})
	})
	runInBubble(t, "not allowed any more", func(t *testing.T) {
		e := newEar(t)
		e.answer = func(_ int, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) }
		store := mem.New()
		w := newHarnessOn(t, store, e.options(), one(notifier{newFake()}), rarely)
		j := w.until(w.calling(plainHook).ID, compute.Completed)
		eventually(t, "a try", func() bool { return len(e.received()) == 1 && w.callbacks(j.ID)[0].Error != "" })
		w.stop()
		o := e.options()
		o.Dir, o.Services[0].Callbacks = w.dir, nil
		w = newHarnessOn(t, store, o, one(notifier{newFake()}), rarely)
		eventually(t, "abandoned", func() bool {
			m := w.callbacks(j.ID)
			return m[0].Settled == job.Abandoned && strings.Contains(m[0].Error, "sends none")
		})
		if len(e.received()) != 1 {
			t.Errorf("%d tries", len(e.received()))
		}
	})
}

// TestCallbackMayBeNamed reports which URLs an order may name.
func TestCallbackMayBeNamed(t *testing.T) {
	named := compute.Service{Name: "example",
		Callbacks: &compute.Callbacks{Hosts: []string{"hook.example.org", "other.example.org:8443", "10.1.2.3:8080"}}}
	none := compute.Service{Name: "quiet"}
	for url, want := range map[string]string{
		"": "", hook: "", plainHook: "", "https://HOOK.example.org./x": "", "https://hook.example.org:443/x": "",
		"https://other.example.org:8443/x": "", "http://10.1.2.3:8080/": "",
		"https://hook.example.org:8443/x":                       "only, not to",
		"https://other.example.org/x":                           "only, not to",
		"https://evil.example.org/":                             "only, not to",
		"https://hook.example.org.evil.org/":                    "only, not to",
		"https://hook.example.org@evil.org/":                    "no user",
		"https://ann:hush@hook.example.org/":                    "no user",
		"https://hook.example.org/#part":                        "no user, no password and no fragment",
		"http://127.0.0.1:7433/api/v1/jobs":                     "only, not to",
		"http://0x0a010203:8080/":                               "callback:",
		"http://[::ffff:10.1.2.3]:8080/":                        "callback:",
		"file:///etc/passwd":                                    "callback:",
		"gopher://hook.example.org/":                            "callback:",
		"hook.example.org":                                      "callback:",
		"https://hook.example.org/\r\nX: y":                     "callback:",
		"https://hook.example.org/%zz":                          "no URL",
		"https://hook.example.org/" + strings.Repeat("x", 2048): "too long",
	} {
		err := named.CheckCallback(url)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) ||
			err != nil && strings.Contains(err.Error(), "hush") {
			t.Errorf("%q: got %v, want %q", url, err, want)
		}
		if err := none.CheckCallback(url); (err == nil) != (url == "") {
			t.Errorf("%q: a service without callbacks: %v", url, err)
		}
	}
}

// TestCallbackIsRefused where it is not allowed, before there is a job.
func TestCallbackIsRefused(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		e := newEar(t)
		w := newHarnessOn(t, mem.New(), e.options(), one(notifier{newFake()}), rarely)
		_, err := w.order(compute.Order{Owner: "ada", Service: "example", Callback: "http://169.254.169.254/latest"},
			map[string]string{compute.Script: hello})
		if job.KindOf(err) != job.Invalid || !strings.Contains(err.Error(), "hook.example.org") {
			t.Errorf("got %v", err)
		}
		first := w.until(w.calling(plainHook).ID, compute.Completed)
		again, err := w.app.Repeat(t.Context(), first.ID, nil)
		if err != nil {
			t.Fatal(err)
		}
		w.until(again.ID, compute.Completed)
		eventually(t, "both are reported", func() bool { return len(e.received()) == 2 })
	})
}

// TestCallbacksOfAService: hosts, and a secret that can be had.
func TestCallbacksOfAService(t *testing.T) {
	secret := newSecret(t)
	can := func() ([]webhook.Secret, error) { return []webhook.Secret{secret}, nil }
	cannot := func() ([]webhook.Secret, error) { return nil, errors.New("there is no such file") }
	for name, c := range map[string]struct {
		callbacks *compute.Callbacks
		want      string
	}{
		"none": {nil, ""},
		"as they should": {&compute.Callbacks{Hosts: []string{"example.org", "[2001:db8::1]:8443", "10.1.2.3"},
			Secrets: can}, ""},
		"no hosts":    {&compute.Callbacks{Secrets: can}, "need hosts"},
		"no secret":   {&compute.Callbacks{Hosts: []string{"example.org"}}, "need a secret"},
		"lost secret": {&compute.Callbacks{Hosts: []string{"example.org"}, Secrets: cannot}, "no such file"},
		"a URL":       {&compute.Callbacks{Hosts: []string{"https://example.org"}, Secrets: can}, "no host such as"},
		"a path":      {&compute.Callbacks{Hosts: []string{"example.org/x"}, Secrets: can}, "no host such as"},
		"everything":  {&compute.Callbacks{Hosts: []string{"*"}, Secrets: can}, "no host such as"},
		"nothing":     {&compute.Callbacks{Hosts: []string{""}, Secrets: can}, "no host such as"},
		"mail":        {&compute.Callbacks{Hosts: []string{"example.org:25"}, Secrets: can}, "port 25"},
	} {
		o := quick(t)
		o.Services[0].Callbacks = c.callbacks
		app, err := compute.New(o)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
		if err == nil {
			if err := app.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}
