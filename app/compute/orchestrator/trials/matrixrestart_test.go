//go:build linux

package trials

import (
	"testing"

	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/app/compute/orchestrator/wire/wiretest"
)

// restarts is a real server in front of an original client behind a gate.
type restarts struct {
	user
	server *process
	client *wiretest.FakeClient
	gate   *gate
}

func newRestarts(t *testing.T, env ...string) *restarts {
	t.Helper()
	c := wiretest.Client(t, wiretest.ClientOptions{})
	g := newGate(t, c.URL)
	listen := wiretest.Address(t)
	env = append(env, "SERVICE_EXAMPLE_UPLOAD_URL="+g.url+"/submit", "SERVICE_EXAMPLE_DOWNLOAD_URL="+g.url+"/retrieve",
		"SERVICE_EXAMPLE_TERMINATE_URL="+g.url+"/kill",
		"SERVICE_EXAMPLE_RUNS_PER_USER=1")
	p := launch(t, env, "serve", "--data", t.TempDir(), "--listen", "127.0.0.1:0", "--compute-listen", listen,
		"--log-level", "error")
	return &restarts{user: user{T: t, url: "http://" + listen}, server: p, client: c, gate: g}
}

// again kills the server, lets the network heal, and starts it once more.
func (r *restarts) again() {
	r.Helper()
	r.server.kill()
	r.gate.heal()
	r.server.start()
}

// free shows that no slot is held any more: with one slot for the user, another job gets through.
func (r *restarts) free() {
	r.Helper()
	r.until(r.upload(script("true")), "Completed")
}

// The original leaves the job Processing indefinitely, and a slot with it. Ours reports that it may have been sent and
// is lost; where the operator has configured it it is sent again.
func killedInProcessing(t *testing.T) {
	for env, want := range map[string]string{"LEGACY_REDISPATCH=false": "Failed",
		"LEGACY_REDISPATCH=true": "Completed"} {
		r := newRestarts(t, env)
		r.gate.lose("submit", requestHangs)
		id := r.upload(script("true"))
		r.until(id, "Processing")
		r.gate.struck("submit")
		r.again()
		s := r.until(id, "Failed", "Completed")
		if s.Status != want || want == "Failed" && s.Reason != compute.CauseLost {
			t.Errorf("%s: %+v", env, s)
		}
		r.free()
	}
}

// The original asks for payload 0 indefinitely. With ours the id is lost with the answer: the job is reported lost,
// never sent twice, and its slot is free.
func killedBetween(t *testing.T) {
	r := newRestarts(t)
	r.gate.lose("submit", answerHangs)
	id := r.upload(script("true"))
	r.client.Await("the submission", func() bool { return len(r.client.Submissions()) == 1 })
	r.until(id, "Processing")
	r.again()
	if s := r.until(id, "Failed", "Completed"); s.Status != "Failed" || s.Reason != compute.CauseLost {
		t.Errorf("got %+v", s)
	}
	r.free()
	if n := len(r.client.Submissions()); n != 2 {
		t.Errorf("%d submissions of two jobs", n)
	}
}

// The original leaves the job Locked indefinitely. Ours sends the word once more.
func killedInTerminate(t *testing.T) {
	r := newRestarts(t)
	l := newLatch(t)
	id := r.upload(script(l.wait()))
	l.arrived(1)
	r.until(id, "Running")
	r.gate.lose("kill", requestHangs)
	if code, _ := r.terminate(id); code != 200 {
		t.Errorf("terminate: %d", code)
	}
	r.gate.struck("kill")
	if s := r.status(id); s.Status != "Locked" {
		t.Errorf("got %+v", s)
	}
	r.again()
	r.until(id, "Killed")
	r.free()
}
