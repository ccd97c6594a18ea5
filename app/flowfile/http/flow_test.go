package flowhttp_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	flowhttp "github.com/stagepost/stagepost/app/flowfile/http"
	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/flow/durable"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/server"
	"github.com/stagepost/stagepost/server/servertest"
	"github.com/stagepost/stagepost/store/mem"
)

// TestFlowOverTheAPI goes with a flow from its order to its end: it waits for a signal, pauses, goes on, and is begun
// anew.
func TestFlowOverTheAPI(t *testing.T) {
	w := openFlows(t, nil)
	first := 0
	order := client.FlowOrder{File: waits, Inputs: map[string]json.RawMessage{"who": json.RawMessage(`"bob"`)},
		Key: "k", Priority: &first, Group: "maps", Actor: "ann", Note: "try"}
	j := w.submit(order)
	if again := w.submit(order); again.ID != j.ID || j.Kind != "flow" || j.Priority != 0 || j.Group != "maps" {
		t.Errorf("got %+v, then %s", j.Job, again.ID)
	}
	w.until(j.ID, waiting)
	v, err := w.Client.Flow(t.Context(), j.ID, true)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, a := range v.Atoms {
		names = append(names, fmt.Sprintf("%s %s %s %s", a.Kind, a.Name, a.State, a.Notes()))
	}
	want := []string{"task before SUCCESS ", "task approve RUNNING waits for the signal approved", "task after PENDING "}
	if cmp.Diff(want, names) != "" || v.Name != "approval" || v.Factory != "file" ||
		string(v.Values["who"].Value) != `"bob"` || cmp.Diff([]string{"approved"}, v.Awaits) != "" ||
		v.Outline == nil || v.Outline.Pattern != "linear" || len(v.Outline.Items) != 3 ||
		v.Job.Links["page"] != "/jobs/"+string(j.ID) {
		t.Errorf("got %+v, atoms %q", v, names)
	}
	x, err := w.Client.Why(t.Context(), j.ID, time.Time{})
	if err != nil || len(x.Blockers) != 1 || x.Blockers[0].Sentence != "approve waits for the signal approved" ||
		len(x.Blockers[0].Remedies) != 1 || x.Blockers[0].Remedies[0].Command != "stagepost flow signal "+string(j.ID)+
		" approved VALUE" {
		t.Errorf("why: got %+v, %v", x.Blockers, err)
	}

	p := w.Problem(w.Request(http.MethodPost, "/api/v1/jobs/"+string(j.ID)+"/run", `{}`), http.StatusConflict,
		job.Refused)
	if fmt.Sprint(p.Can) != "[cancel stop suspend]" {
		t.Errorf("run while RUNNING: got %+v", p)
	}
	if _, err := w.Client.Do(t.Context(), j.ID, "suspend", client.Act{Note: "flood"}); err != nil {
		t.Fatal(err)
	}
	w.until(j.ID, suspended)
	if x, err = w.Client.Why(t.Context(), j.ID, time.Time{}); err != nil || len(x.Blockers) != 1 ||
		!strings.Contains(x.Blockers[0].Sentence, "flood") || len(x.Blockers[0].Remedies) != 1 ||
		!strings.Contains(x.Blockers[0].Remedies[0].Command, "flow resume") {
		t.Errorf("why: got %+v, %v", x.Blockers, err)
	}
	if _, err := w.Client.SignalFlow(t.Context(), j.ID,
		client.FlowSignal{Name: "approved", Value: json.RawMessage(`{"by":"ann"}`), Actor: "ann"}); err != nil {
		t.Fatal(err)
	}
	if v, err = w.Client.Flow(t.Context(), j.ID, false); err != nil || len(v.Signals) != 1 ||
		string(v.Signals[0].Value.Value) != `{"by":"ann"}` || v.Signals[0].Actor != "ann" || v.Values != nil {
		t.Errorf("got signals %+v, values %v, %v", v.Signals, v.Values, err)
	}
	if _, err := w.Client.Do(t.Context(), j.ID, "run", client.Act{}); err != nil {
		t.Fatal(err)
	}
	if end := w.until(j.ID, ended); end.State != "SUCCESS" {
		t.Errorf("got %s: %s", end.State, end.Message)
	}
	if _, err := w.Client.SignalFlow(t.Context(), j.ID,
		client.FlowSignal{Name: "approved"}); job.KindOf(err) != job.Refused ||
		client.ProblemOf(err).State != "SUCCESS" || len(client.ProblemOf(err).Can) == 0 {
		t.Errorf("a signal to one that has ended: got %v, %+v", err, client.ProblemOf(err))
	}
	if _, err := w.Client.Do(t.Context(), j.ID, "reset", client.Act{Confirm: true}); err != nil {
		t.Fatal(err)
	}
	w.until(j.ID, waiting)
}

// TestLargeResultsAreCut in views: how large they are, and how they begin.
func TestLargeResultsAreCut(t *testing.T) {
	w := openFlows(t, map[string]durable.Factory{"gives": gives})
	result := func(text string) client.Seen {
		t.Helper()
		args, _ := json.Marshal(text)
		j := w.submit(client.FlowOrder{Factory: "gives", Args: args})
		w.until(j.ID, ended)
		v, err := w.Client.Flow(t.Context(), j.ID, true)
		if err != nil || len(v.Atoms) != 1 || v.Atoms[0].Result == nil {
			t.Fatalf("got %+v, %v", v, err)
		}
		return *v.Atoms[0].Result
	}
	if got := result("short"); string(got.Value) != `"short"` || got.Bytes != 7 || got.Begin != "" { // the control
		t.Errorf("got %+v", got)
	}
	if got := result(long); got.Value != nil || got.Bytes != 20_002 || !strings.HasPrefix(got.Begin, `"äää`) ||
		len([]rune(got.Begin)) != 200 {
		t.Errorf("got %d bytes, %.20q", got.Bytes, got.Begin)
	}
	if got := result(strings.Repeat("x", 100_000)); got.Value != nil || got.Bytes != 100_002 { // put away
		t.Errorf("got %+v", got)
	}
}

func TestFailedFlow(t *testing.T) {
	w := openFlows(t, map[string]durable.Factory{"fails": fails})
	j := w.submit(client.FlowOrder{Factory: "fails"})
	if end := w.until(j.ID, ended); end.State != "REVERTED" {
		t.Errorf("got %s", end.State)
	}
	v, err := w.Client.Flow(t.Context(), j.ID, false)
	if err != nil || len(v.Atoms) != 2 || v.Atoms[0].State != "REVERTED" || v.Atoms[1].Failure == nil ||
		!strings.Contains(v.Atoms[1].Notes(), "no paper") {
		t.Errorf("got %+v, %v", v.Atoms, err)
	}
	p := w.Problem(w.Request(http.MethodPost, "/api/v1/jobs/"+string(j.ID)+"/run", `{}`), http.StatusConflict,
		job.Refused)
	if fmt.Sprint(p.Can) != "[reset delete]" {
		t.Errorf("got %+v", p)
	}
	wreck := w.submit(client.FlowOrder{Factory: "fails", NeverResolve: true})
	if end := w.until(wreck.ID, ended); end.State != "FAILURE" {
		t.Errorf("got %s", end.State)
	}
	if v, err = w.Client.Flow(t.Context(), wreck.ID, false); err != nil ||
		cmp.Diff([]string{"one", "two"}, v.Remains) != "" {
		t.Errorf("got %q, %v", v.Remains, err)
	}
}

func TestHostileFlows(t *testing.T) {
	w := openFlows(t, nil)
	file := func(text string) string {
		quoted, _ := json.Marshal(text)
		return `{"file":` + string(quoted) + `}`
	}
	with := func(more string) string { return strings.TrimSuffix(file(waits), "}") + "," + more + "}" }
	for body, status := range map[string]int{
		file(waits):                       201, // the control
		with(`"inputs":{"who":[1]}`):      201,
		``:                                415,
		`[]`:                              400,
		`{}`:                              400,
		`{"file":""}`:                     400,
		`{"file":"x","factory":"y"}`:      400,
		`{"factory":"none"}`:              400,
		`{"factory":"file","args":{}}`:    400,
		`{"factory":"file","args":"x"}`:   400,
		file("flow: x"):                   400,
		file("flow: x\nlinear: []\ny: 1"): 400,
		file("flow: x\nlinear:\n  - task: a\n    run: echo"): 400, // commands are off
		with(`"args":1`):                400,
		with(`"inputs":{"nobody":1}`):   400,
		with(`"inputs":{"a\u0000b":1}`): 400,
		with(`"inputs":{"":1}`):         400,
		with(`"inputs":[]`):             400,
		with(`"workers":-1`):            400,
		with(`"workers":1001`):          400,
		with(`"priority":100`):          400,
		with(`"priority":-1`):           400,
		with(`"priority":"high"`):       400,
		with(`"due":"tomorrow"`):        400,
		with(`"due":"2030-01-02T00:00:00Z","deadline":"2030-01-01T00:00:00Z"`): 400,
		with(`"actor":"a\nb"`):                                  400,
		with(`"key":"` + strings.Repeat("k", 2000) + `"`):       400,
		with(`"defer_reverts":"yes"`):                           400,
		with(`"state":"SUCCESS"`):                               400,
		with(`"file":"twice"`):                                  400,
		file("flow: x\n" + strings.Repeat("# no\n", 300_000)):   413,
		file("flow: x\n" + strings.Repeat("# no\n", 3_000_000)): 413,
	} {
		answer, text := w.Ask(w.Request(http.MethodPost, "/api/v1/flows", body))
		if answer.StatusCode != status {
			t.Errorf("%.100s: got %s %.200s, want %d", body, answer.Status, text, status)
		}
	}
	p := w.Problem(w.Request(http.MethodPost, "/api/v1/flows", file("flow: x\nlinear:\n  - tusk: a\n  - sleep: 3\n")), http.StatusBadRequest, job.Invalid)
	if !strings.Contains(p.Detail, "3:5: ") || !strings.Contains(p.Detail, "4:12: ") {
		t.Errorf("not all mistakes with their positions: %q", p.Detail)
	}
	p = w.Problem(w.Request(http.MethodPost, "/api/v1/flows", `{"factory":"none"}`), http.StatusBadRequest, job.Invalid)
	if !strings.Contains(p.Detail, "known: file") {
		t.Errorf("got %q", p.Detail)
	}
	r := w.Request(http.MethodPost, "/api/v1/flows", with(`"key":"a"`))
	r.Header.Set("Idempotency-Key", "b")
	w.Problem(r, http.StatusBadRequest, job.Invalid)
}

func TestHostileSignals(t *testing.T) {
	w := openFlows(t, nil)
	j := w.submit(client.FlowOrder{File: waits})
	w.until(j.ID, waiting)
	for body, status := range map[string]int{
		`{"name":"other","early":true,"value":{"a":[1]}}`: 200, // the control
		`{"name":"none","early":true}`:                    200,
		``:                                                415,
		`{}`:                                              400,
		`{"name":""}`:                                     400,
		`{"name":"a\nb"}`:                                 400,
		`{"name":1}`:                                      400,
		`{"name":"a","value":}`:                           400,
		`{"name":"a","actor":"x\u0007"}`:                  400,
		`{"name":"` + strings.Repeat("n", 201) + `"}`:                                 400,
		`{"name":"a","value":"` + strings.Repeat("v", 1<<20) + `"}`:                   413,
		`{"name":"a","value":"` + strings.Repeat("v", 5<<20) + `"}`:                   413,
		`{"name":"a","value":"` + strings.Repeat("v", 1<<20-1000) + `"}`:              400, // no task waits for it
		`{"name":"a","early":true,"value":"` + strings.Repeat("v", 1<<20-1000) + `"}`: 200,
	} {
		answer, text := w.Ask(w.Request(http.MethodPost, "/api/v1/flows/"+string(j.ID)+"/signal", body))
		if answer.StatusCode != status {
			t.Errorf("%.100s: got %s %.200s, want %d", body, answer.Status, text, status)
		}
	}
}

// TestOthersAreNoFlows: what is no flow is not found where flows are, and the answer states what it is.
func TestOthersAreNoFlows(t *testing.T) {
	w := openFlows(t, nil)
	other := w.Post(engine.Order{})
	for _, path := range []string{"", "/graph.svg", "/timeline.svg"} {
		p := w.Problem(w.Request(http.MethodGet, "/api/v1/flows/"+string(other.ID)+path, ""), http.StatusNotFound,
			job.NotFound)
		if !strings.Contains(p.Detail, "it is no flow but of kind test.letter") {
			t.Errorf("%s: got %q", path, p.Detail)
		}
		w.Problem(w.Request(http.MethodGet, "/api/v1/flows/flw_none"+path, ""), http.StatusNotFound, job.NotFound)
	}
	w.Problem(w.Request(http.MethodPost, "/api/v1/flows/"+string(other.ID)+"/signal", `{"name":"x"}`),
		http.StatusNotFound, job.NotFound)
	w.Problem(w.Request(http.MethodGet, "/flows/"+string(other.ID), ""), http.StatusNotFound, job.NotFound)
}

// TestNoFlows: a server without flows states that, and still reports what does not exist.
func TestNoFlows(t *testing.T) {
	e, err := engine.New(mem.New(), []engine.Work{{Life: servertest.Letter, Prefix: "let", Outside: true}},
		engine.Options{})
	if err != nil {
		t.Fatal(err)
	}
	w := servertest.Serve(t, server.Options{Engine: e}, func(w *servertest.Harness) server.Part {
		return flowhttp.Part(w.Server, nil)
	})
	p := w.Problem(w.Request(http.MethodPost, "/api/v1/flows", `{"factory":"x"}`), http.StatusNotFound, job.NotFound)
	if !strings.Contains(p.Detail, "runs no flows") {
		t.Errorf("got %q", p.Detail)
	}
	w.Problem(w.Request(http.MethodGet, "/api/v1/flows/flw_none", ""), http.StatusNotFound, job.NotFound)
}

// TestFlowEndedOverTheAPI: a flow is cancelled by the event of its job, a deadline of the order that is kept ends in
// FAILURE, and a key that was used for another flow is a conflict.
func TestFlowEndedOverTheAPI(t *testing.T) {
	w := openFlows(t, nil)
	j := w.submit(client.FlowOrder{File: waits, Key: "k"})
	w.until(j.ID, waiting)
	if _, err := w.Client.SubmitFlow(t.Context(), client.FlowOrder{File: waits, Key: "k",
		Workers: 3}); job.KindOf(err) != job.Conflict {
		t.Errorf("another order under the key: %v", err)
	}
	if again, err := w.Client.SubmitFlow(t.Context(), client.FlowOrder{File: waits, Key: "k"}); err != nil ||
		again.ID != j.ID {
		t.Errorf("the same order under the key: %s, %v", again.ID, err)
	}
	if _, err := w.Client.Do(t.Context(), j.ID, "cancel", client.Act{Note: "enough", Now: true}); err != nil {
		t.Fatal(err)
	}
	w.until(j.ID, ended)
	v, err := w.Client.Flow(t.Context(), j.ID, false)
	if err != nil || v.Job.State != "REVERTED" || v.Job.Cause != "cancelled" {
		t.Errorf("got %+v, %v", v.Job, err)
	}
	by := func(word string) string { return strings.Replace(waits, "\n", "\nat_deadline: "+word+"\n", 1) }
	for name, c := range map[string]struct {
		file string
		keep bool
		end  lifecycle.State
	}{"by the order": {waits, true, "FAILURE"}, "by the file": {by("keep"), false, "FAILURE"},
		"as usual": {waits, false, "REVERTED"}, "reverted by the file": {by("revert"), false, "REVERTED"}} {
		late := w.submit(client.FlowOrder{File: c.file, Deadline: time.Now().Add(-time.Hour), KeepAtDeadline: c.keep})
		w.until(late.ID, ended)
		if v, err := w.Client.Flow(t.Context(), late.ID, false); err != nil || v.Job.State != c.end ||
			v.Job.Cause != "timeout" {
			t.Errorf("%s: got %+v, %v", name, v.Job, err)
		}
	}
}
