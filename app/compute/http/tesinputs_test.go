package computehttp_test

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/app/compute/tes"
	"github.com/stagepost/stagepost/edge/fetch"
	"github.com/stagepost/stagepost/job"
)

// silent is a web server that answers nothing until it is opened. /gone is never there.
type silent struct {
	*httptest.Server
	asked chan string // paths, as they are asked for
	open  func()
}

func newSilent(t *testing.T) *silent {
	t.Helper()
	gate := make(chan struct{})
	s := &silent{asked: make(chan string, 100), open: sync.OnceFunc(func() { close(gate) })}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.asked <- r.URL.Path
		if strings.HasSuffix(r.URL.Path, "gone") {
			http.NotFound(w, r)
			return
		}
		select {
		case <-gate:
			_, _ = w.Write([]byte("content of " + r.URL.Path)) // the client sees it
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(s.Close)
	t.Cleanup(s.open)
	return s
}

// openFetching is a server that takes tasks with inputs from this machine.
func openFetching(t *testing.T) *computing {
	t.Helper()
	return openTES(t, func(o *compute.Options, so *options) {
		loopback := fetch.Policy{
			Allow:        []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
			OwnAddresses: func() ([]netip.Addr, error) { return nil, nil },
		}
		a, err := tes.New(tes.Options{Images: map[string]string{"ubuntu": "wide", "tiny": "small"}, Fetch: loopback})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(a.Close)
		so.TES, o.Source = a, a
	})
}

// TestTESDoesNotWaitForInputs makes a task whose input's server sends nothing. The answer is there at once, the task is
// being prepared, and others run. Then the input comes, and the task runs with it.
func TestTESDoesNotWaitForInputs(t *testing.T) {
	c, web := openFetching(t), newSilent(t)
	// the gate is shut: an answer that waited would not come
	id := c.task(command("x", `,"inputs":[{"path":"/a","url":"`+web.URL+`/one"},{"path":"/b","content":"given"}]`))
	if path := <-web.asked; path != "/one" {
		t.Errorf("asked for %s", path)
	}
	c.await(id, func(j *job.Job) bool { return j.Cause == compute.WaitsForInputs })
	if got, text := c.shown(id, "FULL"); got.State != tes.Initializing || got.Inputs[1].Content != "given" {
		t.Errorf("got %s", text)
	}
	if _, text := c.get("/api/v1/jobs/" + string(id) + "/why"); !strings.Contains(text, "fetches inputs: 0 of 1") {
		t.Errorf("why: %s", text)
	}
	for state, want := range map[string]string{"INITIALIZING": string(id), "QUEUED": ""} {
		if got := strings.Join(c.list("state="+state), " "); got != want {
			t.Errorf("%s: %s", state, got)
		}
	}
	c.finish(c.task(command("other", "")), compute.Ending{})
	if p := c.puppet.get(id); p != nil {
		t.Error("it runs without its inputs")
	}
	web.open()
	if p := c.runs(id); p.inputs["tes.in.0"] != "content of /one" || p.inputs["tes.in.1"] != "given" {
		t.Errorf("the agent got %v", p.inputs)
	}
	if _, text := c.get("/api/v1/compute/jobs/" + string(id) + "/files/tes.in.0"); text != "content of /one" {
		t.Errorf("the input reads %q", text)
	}
	if j := c.finish(id, compute.Ending{}); len(j.Files) < 3 {
		t.Errorf("its files are %+v", j.Files)
	}
	if got, _ := c.shown(id, ""); got.State != tes.Complete {
		t.Errorf("it is %s", got.State)
	}
}

// TestTESInputIsGone: an input that is not there ends the task as the system's error, with the reason in its log.
// Nothing of it ran.
func TestTESInputIsGone(t *testing.T) {
	c, web := openFetching(t), newSilent(t)
	web.open()
	id := c.task(command("x", `,"inputs":[{"path":"/a","url":"`+web.URL+`/one"},{"path":"/b","url":"`+web.URL+
		`/gone"}]`))
	if j := c.ended(id); j.State != compute.Failed || j.Cause != compute.CauseInputs {
		t.Errorf("%s, cause %q: %s", j.State, j.Cause, j.Message)
	}
	got, text := c.shown(id, "FULL")
	if got.State != tes.SystemError || len(got.Logs) != 1 || len(got.Logs[0].Logs) != 0 ||
		!strings.Contains(strings.Join(got.Logs[0].SystemLogs, "|"), "inputs[1]") || !strings.Contains(text, "404") {
		t.Errorf("got %s", text)
	}
	if p := c.puppet.get(id); p != nil {
		t.Error("it ran")
	}
}

// TestTESCancelsFetch cancels a task whose inputs do not come.
func TestTESCancelsFetch(t *testing.T) {
	c, web := openFetching(t), newSilent(t)
	id := c.task(command("x", `,"inputs":[{"path":"/a","url":"`+web.URL+`/one"}]`))
	<-web.asked
	c.await(id, func(j *job.Job) bool { return j.Cause == compute.WaitsForInputs })
	if answer, text := c.Ask(c.Request(http.MethodPost, tasks+"/"+string(id)+":cancel", "")); answer.StatusCode !=
		http.StatusOK {
		t.Fatalf("got %s: %s", answer.Status, text)
	}
	c.ended(id)
	if got, text := c.shown(id, "FULL"); got.State != tes.Canceled {
		t.Errorf("got %s", text)
	}
}

// TestTESKeyWithInputs: the key of a task whose inputs are fetched gives the same task before they came, and is refused
// for another URL.
func TestTESKeyWithInputs(t *testing.T) {
	c, web := openFetching(t), newSilent(t)
	send := func(path string) *http.Request {
		r := c.Request(http.MethodPost, tasks, command("x", `,"inputs":[{"path":"/a","url":"`+web.URL+path+`"}]`))
		r.Header.Set("Idempotency-Key", "k")
		return r
	}
	first := c.created(send("/one"))
	if again := c.created(send("/one")); again != first {
		t.Error("a second task was made")
	}
	c.Problem(send("/two"), http.StatusConflict, job.Conflict)
	web.open()
	c.runs(first)
	if again := c.created(send("/one")); again != first {
		t.Error("a second task was made")
	}
	c.Problem(send("/two"), http.StatusConflict, job.Conflict)
}
