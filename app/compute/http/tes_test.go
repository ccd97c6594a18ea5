package computehttp_test

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/app/compute/tes"
	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/engine/operator"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/server/identity"
	"github.com/stagepost/stagepost/server/token"
)

const tasks = "/ga4gh/tes/v1/tasks"

// openTES is a server that takes tasks.
func openTES(t *testing.T, change func(*compute.Options, *options)) *computing {
	t.Helper()
	a, err := tes.New(tes.Options{Images: map[string]string{"ubuntu": "wide", "tiny": "small"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Close)
	return openCompute(t, func(o *compute.Options, so *options) {
		so.TES, o.Source = a, a
		if change != nil {
			change(o, so)
		}
	})
}

// task makes a task that must be taken.
func (c *computing) task(body string) job.ID {
	c.T.Helper()
	return c.created(c.Request(http.MethodPost, tasks, body))
}

func (c *computing) created(r *http.Request) job.ID {
	c.T.Helper()
	answer, text := c.Ask(r)
	var made tes.Created
	if err := json.Unmarshal([]byte(text), &made); err != nil || answer.StatusCode != http.StatusOK || made.ID == "" {
		c.T.Fatalf("got %s: %s (%v)", answer.Status, text, err)
	}
	return job.ID(made.ID)
}

// shown gives a task as a client sees it.
func (c *computing) shown(id job.ID, view string) (tes.Task, string) {
	c.T.Helper()
	_, text := c.get(tasks + "/" + string(id) + "?view=" + view)
	var got tes.Task
	if err := json.Unmarshal([]byte(text), &got); err != nil {
		c.T.Fatal(err)
	}
	return got, text
}

func command(name string, more string) string {
	return fmt.Sprintf(`{"name":%q,"executors":[{"image":"ubuntu","command":["true"]}]%s}`, name, more)
}

// TestTESRoundTrip makes a task with everything, runs it and inspects it in all views.
func TestTESRoundTrip(t *testing.T) {
	c := openTES(t, nil)
	id := c.task(`{"name":"first","description":"d","id":"x","state":"COMPLETE","creation_time":null,"logs":null,
		"inputs":[{"path":"/data/in.txt","content":"given","type":"FILE","name":"i"}],"outputs":[{"path":"/data/out dir","type":"DIRECTORY","url":""},{"path":"/data/none","url":""},{"path":"/w/*.t","path_prefix":"/w","url":""}],
		"resources":{"cpu_cores":2,"ram_gb":1.5,"disk_gb":1,"backend_parameters":{"wall":"30m"},"backend_parameters_strict":true},
		"executors":[{"image":"ubuntu","command":["cat","/data/in.txt"],"stdout":"/data/greeting","env":{"A":"b"}},{"image":"ubuntu","command":["false"],"ignore_error":true},{"image":"ubuntu","command":["x"]}],
		"volumes":["/vol"],"tags":{"w":"1,2"}}`)
	p := c.runs(id)
	l, run := p.parcel.Limits, `exec env -- A='b' "$nice" -n 0 -- 'cat' "$tes"'/data/in.txt'`
	if p.inputs["tes.in.0"] != "given" || !strings.Contains(p.inputs["run.sh"], run) || l.Cores != 2 ||
		l.Memory != 3<<29 || l.Wall.Minutes() != 30 {
		t.Errorf("the agent got %v, %+v", p.inputs, l)
	}
	if got, text := c.shown(id, ""); got.State != tes.Running || strings.Contains(text, "name") {
		t.Errorf("got %s", text)
	}
	if got, _ := c.shown(id, "FULL"); len(got.Logs) != 1 || len(got.Logs[0].Logs) != 0 ||
		got.Logs[0].Metadata["agent"] != "puppet" || got.Logs[0].Start == "" {
		t.Errorf("while it runs: %+v", got.Logs)
	}
	long := strings.Repeat("x", 20<<10)
	done := c.finish(id, compute.Ending{}, "tes/data/greeting", long+"end", "tes.log/0.stderr", "loud",
		"tes.log/2.stdout",
		"bye", "tes/data/out dir/a", "12345", "tes/w/1.t", "1", "tes/w/sub/2.t", "2",
		"tes/data/out dir/link=>", "a", "tes.log/executors", "0 0 2026-05-04T12:00:00Z 2026-05-04T12:00:01Z\nrubbish\n1 1 2026-05-04T12:00:01Z 2026-05-04T12:00:02Z\n2 0 2026-05-04T12:00:02Z 2026-05-04T12:00:03Z\n7 0 a b\n")
	if done.Labels != nil || done.Name != "first" {
		t.Errorf("the job is %+v", done)
	}
	got, _ := c.shown(id, "FULL")
	log := got.Logs[0]
	switch {
	case got.ID != string(id), got.State != tes.Complete, got.Created == "", got.Inputs[0].Content != "given",
		got.Tags["w"] != "1,2", got.Description != "d", got.Resources.RAM != 1.5, len(got.Executors) != 3,
		got.Volumes[0] != "/vol":
		t.Errorf("got %+v", got)
	case len(log.Logs) != 3, log.Logs[0].Exit != 0, log.Logs[1].Exit != 1, log.Logs[0].Start != "2026-05-04T12:00:00Z",
		log.Logs[0].End != "2026-05-04T12:00:01Z":
		t.Errorf("executors: %+v", log.Logs)
	case log.Logs[0].Stdout != long[:10<<10-3]+"end", log.Logs[0].Stderr != "loud", log.Logs[2].Stdout != "bye":
		t.Errorf("they wrote %.40q %q %q", log.Logs[0].Stdout, log.Logs[0].Stderr, log.Logs[2].Stdout)
	case log.End == "", len(log.SystemLogs) != 1, !strings.Contains(log.SystemLogs[0], "/data/none was not made"):
		t.Errorf("the log is %+v", log.SystemLogs)
	}
	at := c.Web.URL + "/api/v1/compute/jobs/" + string(id) + "/files/tes"
	want := []tes.OutputLog{{URL: at + "/data/out%20dir/a", Path: "/data/out dir/a", Size: "5"},
		{URL: at + "/w/1.t", Path: "/w/1.t", Size: "1"}}
	if diff := cmp.Diff(want, log.Outputs); diff != "" {
		t.Error(diff)
	}
	if _, text := c.get(strings.TrimPrefix(log.Outputs[0].URL, c.Web.URL)); text != "12345" {
		t.Errorf("the URL gives %q", text)
	}
	got, text := c.shown(id, "BASIC")
	if len(got.Logs[0].Logs) != 3 || got.Inputs[0].Content != "" || strings.Contains(text, "bye") ||
		strings.Contains(text, "system_logs") || !strings.Contains(text, `"exit_code":1`) || !strings.Contains(text,
		`"size_bytes":"5"`) {
		t.Errorf("got %s", text)
	}
}

// TestTESEndings holds each ending against state, exit code and words.
func TestTESEndings(t *testing.T) {
	c := openTES(t, nil)
	for _, test := range []struct {
		ending compute.Ending
		want   tes.State
	}{
		{compute.Ending{Exit: 0}, tes.Complete}, {compute.Ending{Exit: 3, Cause: compute.CauseExit,
			Sentence: "it ended with 3"}, tes.ExecutorError},
		{compute.Ending{Exit: -1, Signal: "SIGKILL", Cause: compute.CauseMemory, Sentence: "too much"},
			tes.ExecutorError}, {compute.Ending{Exit: -1, Cause: compute.CauseTimeout, Sentence: "too long"},
			tes.ExecutorError},
		{compute.Ending{Exit: -1, Cause: compute.CauseAgent, Sentence: "its agent ended"}, tes.SystemError},
		{compute.Ending{Exit: -1, Cause: compute.CausePreempt, Sentence: "others"}, tes.Preempted},
	} {
		id := c.task(command("x", ""))
		c.runs(id).write("stdout", "said")
		c.finish(id, test.ending)
		got, text := c.shown(id, "FULL")
		if got.State != test.want || len(got.Logs) != 1 || len(got.Logs[0].Logs) != 1 ||
			got.Logs[0].Logs[0].Exit != test.ending.Exit {
			t.Errorf("%+v: got %s", test.ending, text)
			continue
		}
		if e := test.ending; e.Cause != "" &&
			(!strings.Contains(strings.Join(got.Logs[0].SystemLogs, "|"), "cause: "+e.Cause+"|"+e.Sentence) ||
				got.Logs[0].Logs[0].Stdout != "said") {
			t.Errorf("%+v: got %s", e, text)
		}
	}
}

// TestTESCleaned keeps the state that a task ended in, also in lists by state, when its files are gone.
func TestTESCleaned(t *testing.T) {
	c := openTES(t, nil)
	bad, good := c.task(command("bad", `,"inputs":[{"path":"/a","content":"x"}]`)), c.task(command("good", ""))
	c.finish(bad, compute.Ending{Exit: 3, Cause: compute.CauseExit, Sentence: "three"})
	c.finish(good, compute.Ending{})
	for _, id := range []job.ID{bad, good} {
		if _, err := c.Do(t.Context(), actClean(id)); err != nil {
			t.Fatal(err)
		}
		c.await(id, func(j *job.Job) bool { return j.State == compute.Cleaned })
	}
	got, text := c.shown(bad, "FULL")
	if got.State != tes.ExecutorError || len(got.Logs[0].Logs) != 1 || got.Logs[0].Logs[0].Exit != 3 ||
		!strings.Contains(text, "three") {
		t.Errorf("got %s", text)
	}
	for state, want := range map[string]string{"COMPLETE": string(good), "EXECUTOR_ERROR": string(bad), "CANCELED": "",
		"SYSTEM_ERROR": ""} {
		if got := c.list("state=" + state); strings.Join(got, " ") != want {
			t.Errorf("%s: got %v, want %s", state, got, want)
		}
	}
}

// list gives the ids of all pages of a list.
func (c *computing) list(query string) (ids []string) {
	c.T.Helper()
	token := ""
	for range 50 {
		_, text := c.get(tasks + "?" + query + token)
		var page tes.Page
		if err := json.Unmarshal([]byte(text), &page); err != nil || page.Tasks == nil {
			c.T.Fatalf("%v: %s", err, text)
		}
		for i := range page.Tasks {
			ids = append(ids, page.Tasks[i].ID)
		}
		if page.Next == "" {
			return ids
		}
		token = "&page_token=" + page.Next
	}
	c.T.Fatal("the list has no end")
	return nil
}

// TestTESList filters and turns pages.
func TestTESList(t *testing.T) {
	c := openTES(t, nil)
	ids := map[string]string{}
	for i, name := range []string{"alpha", "alpine", "beta"} {
		id := c.task(command(name, fmt.Sprintf(`,"tags":{"n":"%d","set":"a,b"}`, i)))
		c.runs(id)
		ids[string(id)] = name
	}
	c.order(client.ComputeOrder{Name: "alone"}) // no task
	for query, want := range map[string]string{
		"": "beta alpine alpha", "name_prefix=al": "alpine alpha", "name_prefix=none": "", "tag_key=n": "beta alpine alpha", "tag_key=n&tag_value=1": "alpine", "tag_key=set&tag_value=a,b&tag_key=n&tag_value=2": "beta",
		"tag_key=set&tag_key=n&tag_value=&tag_value=0": "alpha", "tag_key=none": "", "state=RUNNING": "beta alpine alpha", "state=QUEUED": "", "state=PAUSED": "",
	} {
		for _, size := range []string{"1", "2", "2047"} {
			var names []string
			for _, id := range c.list("page_size=" + size + "&" + query) {
				names = append(names, ids[id])
			}
			if got := strings.Join(names, " "); got != want {
				t.Errorf("%q by %s: got %q, want %q", query, size, got, want)
			}
		}
	}
	if _, text := c.get(tasks + "?page_size=2"); !strings.Contains(text, "next_page_token") ||
		strings.Contains(text, "executors") {
		t.Errorf("got %s", text)
	}
	for _, view := range []string{"BASIC", "FULL"} {
		if _, text := c.get(tasks + "?view=" + view); !strings.Contains(text, `"executors"`) ||
			!strings.Contains(text, "alpine") {
			t.Errorf("got %s", text)
		}
	}
	for _, wrong := range []string{"page_size=2048", "page_size=-1", "state=NONE", "view=ALL", "tag_value=x",
		"page_token=garbage", "x=y"} {
		c.Problem(c.Request(http.MethodGet, tasks+"?"+wrong, ""), http.StatusBadRequest, job.Invalid)
	}
}

// TestTESCancel cancels a queued task, a running one, one that has ended, and none.
func TestTESCancel(t *testing.T) {
	c := openTES(t, nil)
	small := `{"executors":[{"image":"tiny","command":["true"]}]}`
	running := c.task(small)
	c.runs(running)
	queued := c.task(small)
	if got, _ := c.shown(queued, "BASIC"); got.State != tes.Queued || len(got.Logs) != 0 {
		t.Errorf("got %+v", got)
	}
	for _, id := range []job.ID{queued, running, running} {
		if answer, text := c.Ask(c.Request(http.MethodPost, tasks+"/"+string(id)+":cancel",
			"")); answer.StatusCode != http.StatusOK || strings.TrimSpace(text) != "{}" {
			t.Errorf("got %s: %s", answer.Status, text)
		}
		c.ended(id)
		if got, text := c.shown(id, "FULL"); got.State != tes.Canceled || len(got.Logs) != 1 ||
			len(got.Logs[0].SystemLogs) == 0 && id == running {
			t.Errorf("got %s", text)
		}
	}
	other := c.order(client.ComputeOrder{})
	for _, id := range []string{"cmp_NOBODY", string(other.ID)} {
		c.Problem(c.Request(http.MethodPost, tasks+"/"+id+":cancel", "{}"), http.StatusNotFound, job.NotFound)
		c.Problem(c.Request(http.MethodGet, tasks+"/"+id, ""), http.StatusNotFound, job.NotFound)
	}
	c.Problem(c.Request(http.MethodPost, tasks+"/"+string(running), ""), http.StatusNotFound, job.NotFound)
	c.Problem(c.Request(http.MethodPost, tasks+"/"+string(running)+":pause", ""), http.StatusNotFound, job.NotFound)
}

// TestTESAttempts shows attempts to submit a task that failed.
func TestTESAttempts(t *testing.T) {
	c := openTES(t, nil)
	id := c.task(command("x", ""))
	if s := c.finish(id, compute.Ending{}).State; s != compute.Completed {
		t.Fatal(s)
	}
	j, err := c.Store().Get(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	d, err := compute.DataOf(&j)
	if err != nil {
		t.Fatal(err)
	}
	d.Attempts = []compute.Past{{Agent: "gone", Error: "no route", At: "2026-05-04T12:00:00Z"}, {Agent: "puppet"}}
	if j.Data, err = json.Marshal(d); err != nil {
		t.Fatal(err)
	}
	for view, want := range map[tes.View]string{tes.Full: "no route", tes.Basic: ""} {
		got, err := tes.Show(t.Context(), c.app, &j, tes.Standing{State: j.State}, view,
			func(name string) string { return name })
		if err != nil || len(got.Logs) != 2 || got.Logs[0].Metadata["agent"] != "gone" ||
			strings.Join(got.Logs[0].SystemLogs, "") != want || got.Logs[1].Metadata["agent"] != "puppet" {
			t.Errorf("got %+v, %v", got.Logs, err)
		}
	}
}

// TestTESKeys: one key, one task; the same key for another task is a conflict.
func TestTESKeys(t *testing.T) {
	c := openTES(t, nil)
	send := func(body string) *http.Request {
		r := c.Request(http.MethodPost, tasks, body)
		r.Header.Set("Idempotency-Key", "k")
		return r
	}
	body := command("x", `,"inputs":[{"path":"/a","content":"x"}]`)
	first := c.created(send(body))
	if again := c.created(send(body)); again != first {
		t.Error("a second task was made")
	}
	for _, other := range []string{command("y", `,"inputs":[{"path":"/a","content":"x"}]`),
		strings.Replace(body, `"content":"x"`, `"content":"y"`, 1), command("x", "")} {
		c.Problem(send(other), http.StatusConflict, job.Conflict)
	}
	order := func(command string) *http.Request {
		return c.Request(http.MethodPost, "/api/v1/compute/jobs", `{"service":"wide","key":"k","command":["`+command+`"]}`)
	}
	c.Problem(order("true"), http.StatusConflict, job.Conflict) // an order is no task
	made := c.sent(c.Request(http.MethodPost, "/api/v1/compute/jobs", `{"service":"wide","key":"k2","command":["true"]}`), http.StatusCreated)
	r := c.Request(http.MethodPost, tasks, body)
	r.Header.Set("Idempotency-Key", "k2")
	c.Problem(r, http.StatusConflict, job.Conflict)
	if got := c.list(""); len(got) != 1 || made.ID == first {
		t.Errorf("there are the tasks %v", got)
	}
	if other := c.task(body); other == first { // the control: without a key
		t.Error("two tasks are one")
	}
}

// TestTESRefused has mistakes in requests.
func TestTESRefused(t *testing.T) {
	c := openTES(t, nil)
	for body, want := range map[string]string{
		`{}`: "at least one", `{"executors":[{"image":"none","command":["x"]}]}`: "known: tiny, ubuntu", command("x", `,"outputs":[{"path":"/a","url":"file:///b"}]`): "the log of the output has the URL",
		command("x", `,"inputs":[{"path":"/a","url":"http://127.0.0.1:9/"}]`): "inputs[0]", `{"executors":[{"image":"tiny","command":["x"]}],"resources":{"ram_gb":4}}`: "memory", `{"bogus":1}`: "bogus",
	} {
		if p := c.Problem(c.Request(http.MethodPost, tasks, body), http.StatusBadRequest,
			job.Invalid); !strings.Contains(p.Detail, want) {
			t.Errorf("%s: got %q, want %q", body, p.Detail, want)
		}
	}
	if got := c.list(""); len(got) != 0 {
		t.Errorf("there are %v", got)
	}
	_, text := c.get("/ga4gh/tes/v1/service-info")
	var info tes.Info
	kind := tes.InfoType{Group: "org.ga4gh", Artifact: "tes", Version: "1.1.0"}
	if err := json.Unmarshal([]byte(text), &info); err != nil || info.Type != kind ||
		!strings.Contains(text, `"tesResources_backend_parameters":["wall"`) || !strings.Contains(text, `"storage":[]`) {
		t.Errorf("got %s", text)
	}
	off := openCompute(t, nil)
	off.Problem(off.Request(http.MethodGet, tasks, ""), http.StatusNotFound, job.NotFound)
}

func actClean(id job.ID) operator.Act {
	return operator.Act{Job: id, Event: compute.Clean, By: lifecycle.Timer}
}

// TestTESOwners: a task is seen, found and cancelled by its owner alone, and by operators; keys are the owner's own.
func TestTESOwners(t *testing.T) {
	file, secrets := filepath.Join(t.TempDir(), "tokens"), map[string]token.Secret{}
	for owner, role := range map[string]identity.Role{"ann": identity.Depositor, "bea": identity.Depositor,
		"root": identity.Operator} {
		secret, err := token.New(rand.Reader)
		if err == nil {
			err = token.Add(file, token.Entry{Hash: secret.Hash(), Role: role, Owner: owner})
		}
		if err != nil {
			t.Fatal(err)
		}
		secrets[owner] = secret
	}
	tokens, err := token.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	c := openTES(t, func(_ *compute.Options, so *options) { so.Identities = tokens })
	as := func(owner, method, path, body string) *http.Request {
		r := c.Request(method, path, body)
		r.Header.Set("Authorization", "Bearer "+secrets[owner].Reveal())
		r.Header.Set("Idempotency-Key", "k")
		return r
	}
	mine, theirs := c.created(as("ann", http.MethodPost, tasks, command("x", ""))), c.created(as("bea", http.MethodPost,
		tasks, command("y", "")))
	if mine == theirs {
		t.Fatal("a key of ann is one of bea")
	}
	c.Problem(as("ann", http.MethodGet, tasks+"/"+string(theirs), ""), http.StatusNotFound, job.NotFound)
	c.Problem(as("ann", http.MethodPost, tasks+"/"+string(theirs)+":cancel", ""), http.StatusNotFound, job.NotFound)
	for owner, want := range map[string]int{"ann": 1, "bea": 1, "root": 2} {
		if _, text := c.Ask(as(owner, http.MethodGet, tasks, "")); strings.Count(text, `"id"`) != want {
			t.Errorf("%s sees %s, want %d", owner, text, want)
		}
	}
	for _, owner := range []string{"bea", "root"} { // the controls
		if answer, text := c.Ask(as(owner, http.MethodPost, tasks+"/"+string(theirs)+":cancel",
			"")); answer.StatusCode != http.StatusOK {
			t.Errorf("%s: got %s: %s", owner, answer.Status, text)
		}
	}
}

// TestTESHeavyList ends a page early when tasks are large, and has all of them on the pages that follow. The control
// are small ones, of which a page has all.
func TestTESHeavyList(t *testing.T) {
	c := openTES(t, nil)
	for size, pages := range map[int]int{1: 2, 3 << 20: 3} {
		name := fmt.Sprintf("s%d", size)
		body := command(name, `,"inputs":[{"path":"/a","content":"`+strings.Repeat("x", size)+`"}]`)
		for range 10 {
			c.task(body)
		}
		n, all, token := 0, 0, ""
		for n == 0 || token != "" {
			_, text := c.get(tasks + "?view=FULL&page_size=6&name_prefix=" + name + "&page_token=" + token)
			var page tes.Page
			if err := json.Unmarshal([]byte(text), &page); err != nil {
				t.Fatal(err)
			}
			n, all, token = n+1, all+len(page.Tasks), page.Next
		}
		if n < pages || size == 1 && n > pages+1 || all != 10 {
			t.Errorf("%d bytes: %d tasks on %d pages, want %d", size, all, n, pages)
		}
	}
}
