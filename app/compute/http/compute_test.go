package computehttp_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stagepost/stagepost/app/compute"
	computehttp "github.com/stagepost/stagepost/app/compute/http"
	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/server"
	"github.com/stagepost/stagepost/server/servertest"
)

// TestComputeRoundTrip submits a form, runs it and reads all views.
func TestComputeRoundTrip(t *testing.T) {
	c := openCompute(t, nil)
	order := `{"service":"wide","name":"first","env":{"A":"b"},"labels":{"p":"x"},"limits":{"memory":"512MiB","wall":"2h","cpu":90},"owner":"ann","priority":0}`
	r := c.form(nil, part{"order", "", order}, part{"file", "run.sh", "echo hi"}, part{"any", "data.csv", "1,2"})
	answer, text := c.Ask(r)
	var j client.ComputeJob
	if err := json.Unmarshal([]byte(text), &j); err != nil || answer.StatusCode != http.StatusCreated ||
		answer.Header.Get("Location") != "/api/v1/compute/jobs/"+string(j.ID) {
		t.Fatalf("%s %s %v: %s", answer.Status, answer.Header.Get("Location"), err, text)
	}
	p := c.runs(j.ID)
	if p.inputs["run.sh"] != "echo hi" || p.inputs["data.csv"] != "1,2" || p.parcel.Env["A"] != "b" {
		t.Errorf("the agent got %v, %v", p.inputs, p.parcel.Env)
	}
	if l := p.parcel.Limits; l.Memory != 512<<20 || l.Wall != 2*time.Hour || l.CPU != 90*time.Second {
		t.Errorf("limits are %+v", l)
	}
	p.write("stdout", "hi\n")
	done := c.finish(j.ID, compute.Ending{Exit: 3, Cause: compute.CauseExit, Sentence: "run.sh ended with 3",
		WallMS: 12, Memory: 4096}, "out.txt", "result")
	switch {
	case done.State != compute.Failed, done.Status != "Failed", done.Cause != "exit-code", done.Ending == nil,
		done.Ending.ExitCode != 3, done.Ending.Memory != 4096:
		t.Errorf("it ended as %+v, %+v", done, done.Ending)
	case done.Owner != "ann", done.Name != "first", done.Labels["p"] != "x", done.Priority != 0, done.Agent != "puppet",
		done.Place != "node1", done.Number == 0:
		t.Errorf("it is %+v", done)
	case done.Results == nil, done.Results.Files != 3, len(done.Results.SHA256) != 64, done.Started.IsZero(),
		done.Finished.IsZero(), done.Expires.IsZero():
		t.Errorf("its results are %+v", done.Results)
	case len(done.Files) != 2, done.Files[0].Name != "data.csv", len(done.Files[0].SHA256) != 64,
		*done.Asked != *done.Limits:
		t.Errorf("its files are %+v, its limits %+v", done.Files, done.Limits)
	}
	for name, path := range done.Links {
		if name != "events" && name != "logs" {
			c.get(path)
		}
	}
}

// TestComputeCommand makes run.sh of commands; words arrive as they are, whatever they hold.
func TestComputeCommand(t *testing.T) {
	c := openCompute(t, nil)
	hostile := []string{"printf", "%s\n", "a b", `it's`, "$(id)", "`id`", "\n", "", "*", "-n", `\`, "!x"}
	j := c.order(client.ComputeOrder{Command: &client.ComputeCommand{Words: hostile}})
	want := "#!/bin/bash\nexec -- 'printf' '%s\n' 'a b' 'it'\\''s' '$(id)' '`id`' '\n' '' '*' '-n' '\\' '!x'\n"
	if got := c.runs(j.ID).inputs["run.sh"]; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	j = c.sent(c.Request(http.MethodPost, "/api/v1/compute/jobs", `{"service":"wide","command":"echo one\necho two"}`), http.StatusCreated)
	if got := c.runs(j.ID).inputs["run.sh"]; got != "#!/bin/bash\necho one\necho two\n" {
		t.Errorf("got %q", got)
	}
}

// TestComputeRefused has mistakes in orders. Each has the good order beside it as its control.
func TestComputeRefused(t *testing.T) {
	c := openCompute(t, func(_ *compute.Options, so *options) { so.MaxBody, so.MaxUpload = 64<<10, 256<<10 })
	c.sent(c.Request(http.MethodPost, "/api/v1/compute/jobs", `{"service":"wide","command":["true"]}`),
		http.StatusCreated)
	for body, want := range map[string]string{
		`{"command":["true"]}`:                      "service is missing",
		`{"service":"other","command":["true"]}`:    `there is no service \"other\" (known: `,
		`{"service":"wide"}`:                        "there are no files",
		`{"service":"wide","command":[]}`:           "the command is empty",
		`{"service":"wide","command":" "}`:          "the command is empty",
		`{"service":"wide","command":7}`:            "a list of words or a text",
		`{"service":"wide","command":["a\u0000b"]}`: "NUL",
		`{"service":"wide","command":["true"],"files":[{"name":"run.sh","text":"x"}]}`:        "two files",
		`{"service":"wide","files":[{"name":"a/b","text":"x"}]}`:                              "uploads are flat",
		`{"service":"wide","files":[{"name":"..","text":"x"}]}`:                               "no name for a file",
		`{"service":"wide","files":[{"name":"a","text":"x","base64":"eA=="}]}`:                "text and base64",
		`{"service":"wide","command":["true"],"env":{"A=B":"x"}}`:                             "name of a variable",
		`{"service":"wide","command":["true"],"env":{"A":"\u0000"}}`:                          "NUL",
		`{"service":"wide","command":["true"],"labels":{"a=b":"x"}}`:                          "name of a label",
		`{"service":"wide","command":["true"],"labels":{"a":"x,y"}}`:                          "comma",
		`{"service":"wide","command":["true"],"limits":{"memory":"much"}}`:                    "it is not a size",
		`{"service":"wide","command":["true"],"limits":{"wall":"-1s"}}`:                       "it must not be negative",
		`{"service":"wide","command":["true"],"limits":{"processes":-1}}`:                     "must not be negative",
		`{"service":"small","command":["true"],"limits":{"memory":"2GiB"}}`:                   "memory 2 GiB is more than the 1 GiB that its service allows",
		`{"service":"wide","command":["true"],"priority":100}`:                                "priority must be",
		`{"service":"wide","command":["true"],"name":"a\u0007"}`:                              "control character",
		`{"service":"wide","command":["true"],"key":"` + strings.Repeat("k", 256) + `"}`:      "longer than 255",
		`{"service":"wide","command":["true"],"uploads":["` + strings.Repeat("A", 26) + `"]}`: "there is no such upload",
		`{"service":"wide","command":["true"],"nonsense":1}`:                                  "unknown field",
		`{"service":"wide","command":["true"],"service":"small"}`:                             "stands there twice",
		`{"service":"wide","command":["true"],"limits":{"memory":1,"memory":2}}`:              "stands there twice",
	} {
		answer, text := c.Ask(c.Request(http.MethodPost, "/api/v1/compute/jobs", body))
		if !strings.Contains(text, want) || answer.StatusCode != 400 && answer.StatusCode != 404 {
			t.Errorf("%s: got %s %s, want %q", body, answer.Status, text, want)
		}
	}
	c.Problem(c.Request(http.MethodPost, "/api/v1/compute/jobs", `{"service":"`+strings.Repeat("x", 64<<10)+`"}`),
		http.StatusRequestEntityTooLarge, job.Invalid)
	good := part{"order", "", `{"service":"wide"}`}
	c.sent(c.form(nil, good, part{"file", "run.sh", "x"}), http.StatusCreated)
	for want, parts := range map[string][]part{
		"first part":       {{"file", "run.sh", "x"}, good},
		"no file name":     {good, {"file", "", "x"}},
		"uploads are flat": {good, {"file", "../../evil.txt", "x"}},
		"two files":        {good, {"file", "run.sh", "x"}, {"file", "run.sh", "y"}},
		"JSON":             {{"order", "", "{"}},
	} {
		if p := c.Problem(c.form(nil, parts...), http.StatusBadRequest, job.Invalid); !strings.Contains(p.Detail,
			want) {
			t.Errorf("got %q, want %q", p.Detail, want)
		}
	}
	c.Problem(c.form(nil, good, part{"file", "run.sh", strings.Repeat("x", 300<<10)}), http.StatusRequestEntityTooLarge,
		job.Invalid)
	page, err := c.Client.ComputeJobs(t.Context(), client.ComputeQuery{})
	if err != nil || len(page.Jobs) != 2 {
		t.Errorf("%d jobs were made, %v", len(page.Jobs), err)
	}
}

// TestComputeCutForm has a sender that goes in the middle: no job is made.
func TestComputeCutForm(t *testing.T) {
	c := openCompute(t, nil)
	r := c.Request(http.MethodPost, "/api/v1/compute/jobs", "--edge\r\nContent-Disposition: form-data; name=\"order\"\r\n\r\n{\"service\":\"wide\"}\r\n--edge\r\nContent-Disposition: form-data; name=\"f\"; filename=\"run.sh\"\r\n\r\nhalf")
	r.Header.Set("Content-Type", "multipart/form-data; boundary=edge")
	c.Problem(r, http.StatusBadRequest, job.Invalid)
	if page, err := c.Client.ComputeJobs(t.Context(), client.ComputeQuery{}); err != nil || len(page.Jobs) != 0 {
		t.Errorf("got %v, %v", page.Jobs, err)
	}
}

// TestComputeKeys: one key, one job; the same key for anything else is a conflict.
func TestComputeKeys(t *testing.T) {
	c := openCompute(t, nil)
	key := http.Header{"Idempotency-Key": {"k1"}}
	send := func(order, script string, status int) job.ID {
		t.Helper()
		return c.sent(c.form(key, part{"order", "", order}, part{"file", "run.sh", script}), status).ID
	}
	first := send(`{"service":"wide","env":{"A":"1"}}`, "x", http.StatusCreated)
	if again := send(`{"service":"wide","env":{"A":"1"}}`, "x", http.StatusOK); again != first {
		t.Errorf("a second job was made")
	}
	for order, script := range map[string]string{
		`{"service":"wide","env":{"A":"1"}}`: "y", `{"service":"wide","env":{"A":"2"}}`: "x",
		`{"service":"small","env":{"A":"1"}}`:                      "x",
		`{"service":"wide","env":{"A":"1"},"limits":{"memory":5}}`: "x", `{"service":"wide","env":{"A":"1"},"inputs":true}`: "x",
		`{"service":"wide","env":{"A":"1"},"name":"n"}`: "x", `{"service":"wide","env":{"A":"1"},"labels":{"l":"v"}}`: "x",
	} {
		c.Problem(c.form(key, part{"order", "", order}, part{"file", "run.sh", script}), http.StatusConflict,
			job.Conflict)
	}
	send(`{"service":"wide","owner":"bea"}`, "x", http.StatusCreated) // another owner's keys are its own
	c.Problem(c.form(key, part{"order", "", `{"service":"wide","key":"k2"}`}, part{"file", "run.sh", "x"}),
		http.StatusBadRequest, job.Invalid)
}

// TestComputeUploads makes jobs of resumable uploads; when the answer was lost, the same order gives the same job
// although its uploads are gone.
func TestComputeUploads(t *testing.T) {
	c := openCompute(t, nil)
	id := c.uploaded("big.bin", "large")
	body := `{"service":"wide","command":["cat","big.bin"],"key":"u1","uploads":["` + id + `"]}`
	j := c.sent(c.Request(http.MethodPost, "/api/v1/compute/jobs", body), http.StatusCreated)
	if got := c.runs(j.ID).inputs["big.bin"]; got != "large" {
		t.Errorf("the agent got %q", got)
	}
	if again := c.sent(c.Request(http.MethodPost, "/api/v1/compute/jobs", body), http.StatusOK); again.ID != j.ID {
		t.Error("a second job was made")
	}
	c.Problem(c.Request(http.MethodPost, "/api/v1/compute/jobs", strings.Replace(body, `"cat"`, `"tac"`, 1)),
		http.StatusConflict, job.Conflict)
	c.Problem(c.Request(http.MethodPost, "/api/v1/compute/jobs", strings.Replace(body, "u1", "u2", 1)),
		http.StatusNotFound, job.NotFound)
	c.Problem(c.Request(http.MethodPost, "/api/v1/compute/jobs", strings.Replace(body, id, "another", 1)),
		http.StatusConflict, job.Conflict)
	kept := c.uploaded("a/b", "x")
	order := `{"service":"wide","command":["true"],"uploads":["` + kept + `"]}`
	c.Problem(c.Request(http.MethodPost, "/api/v1/compute/jobs", order), http.StatusBadRequest, job.Invalid)
	r := c.Request(http.MethodHead, "/api/v1/compute/uploads/"+kept, "")
	r.Header.Set("Tus-Resumable", "1.0.0")
	if answer, _ := c.Ask(r); answer.StatusCode != http.StatusOK {
		t.Errorf("an upload of an order that was refused is gone: %s", answer.Status)
	}
	p := c.Problem(c.Request(http.MethodPost, "/api/v1/compute/uploads", ""), http.StatusPreconditionFailed,
		job.Invalid)
	if !strings.Contains(p.Detail, "Tus-Resumable") || p.Op != "uploads" {
		t.Errorf("got %+v", p)
	}
}

// TestComputeOnly: jobs of other kinds are as unknown as none.
func TestComputeOnly(t *testing.T) {
	c := openCompute(t, nil)
	other, err := c.Submit(t.Context(), engine.Order{Kind: "test.letter"})
	if err != nil {
		t.Fatal(err)
	}
	mine := c.order(client.ComputeOrder{})
	c.finish(mine.ID, compute.Ending{}, "x", "y")
	n := 0
	for _, r := range c.Server.All() {
		if !strings.HasPrefix(r.Pattern, "/api/v1/compute/jobs/{id}") {
			continue
		}
		n++
		at := func(id job.ID) string {
			return strings.NewReplacer("{id}", string(id), "{path...}", "x").Replace(r.Pattern)
		}
		c.Problem(c.Request(r.Method, at(other.ID), ""), http.StatusNotFound, job.NotFound)
		if r.Method == http.MethodGet {
			c.get(at(mine.ID))
		}
	}
	if n < 10 {
		t.Errorf("only %d routes were tried", n)
	}
}

// TestComputeCancel cancels a queued job, a running one and one that has ended.
func TestComputeCancel(t *testing.T) {
	c := openCompute(t, nil)
	running := c.order(client.ComputeOrder{Service: "small"})
	c.runs(running.ID)
	queued := c.order(client.ComputeOrder{Service: "small"})
	third := c.order(client.ComputeOrder{Service: "small"})
	if got, err := c.Client.ComputeJob(t.Context(), third.ID); err != nil || got.QueuePosition != 2 ||
		got.Status != "Queued" {
		t.Errorf("got %+v, %v", got, err)
	}
	c.Problem(c.Request(http.MethodPost, "/api/v1/compute/jobs/"+string(queued.ID)+"/cancel", `{"version":99}`),
		http.StatusConflict, job.Conflict)
	got, err := c.Client.CancelCompute(t.Context(), queued.ID, client.Act{Note: "no", Actor: "ann"})
	if err != nil || got.State != compute.Killed {
		t.Errorf("got %+v, %v", got, err)
	}
	if got, _ := c.Client.ComputeJob(t.Context(), third.ID); got.QueuePosition != 1 {
		t.Errorf("the position of the next is %d", got.QueuePosition)
	}
	h, err := c.Client.History(t.Context(), queued.ID, 0, 0)
	if last := h[len(h)-1]; err != nil || last.Note != "no" || last.Actor != "ann" {
		t.Errorf("got %+v, %v", last, err)
	}
	c.sent(c.Request(http.MethodDelete, "/api/v1/compute/jobs/"+string(running.ID)+"?note=enough", ""), http.StatusOK)
	done := c.ended(running.ID)
	if done.State != compute.Killed || done.Ending == nil || done.Ending.Signal != "SIGKILL" {
		t.Errorf("got %+v", done)
	}
	if got, err = c.Client.CancelCompute(t.Context(), running.ID, client.Act{}); err != nil ||
		got.Version != done.Version {
		t.Errorf("a second cancel: %+v, %v", got, err)
	}
}

// TestComputeRepeat retries and clones.
func TestComputeRepeat(t *testing.T) {
	c := openCompute(t, nil)
	bad := c.order(client.ComputeOrder{Service: "small", Env: map[string]string{"A": "1", "B": "2"}, Name: "n",
		Owner: "ann"}, "run.sh", "x")
	path := "/api/v1/compute/jobs/" + string(bad.ID)
	c.runs(bad.ID)
	p := c.Problem(c.Request(http.MethodPost, path+"/retry", `{}`), http.StatusConflict, job.Refused)
	if !strings.Contains(p.Detail, "has not ended") {
		t.Errorf("got %+v", p)
	}
	c.finish(bad.ID, compute.Ending{Exit: 1, Cause: compute.CauseExit})
	c.Problem(c.Request(http.MethodPost, path+"/retry", `{"service":"wide"}`), http.StatusBadRequest, job.Invalid)
	again, err := c.Client.RetryCompute(t.Context(), bad.ID, client.ComputeRepeat{Key: "r1"})
	if err != nil || again.ID == bad.ID || again.From != bad.ID || again.Env["A"] != "1" || again.Owner != "ann" ||
		again.Name != "n" {
		t.Fatalf("got %+v, %v", again, err)
	}
	if same, err := c.Client.RetryCompute(t.Context(), bad.ID, client.ComputeRepeat{Key: "r1"}); err != nil ||
		same.ID != again.ID {
		t.Errorf("a key made two: %v, %v", same.ID, err)
	}
	if got := c.runs(again.ID).inputs["run.sh"]; got != "x" {
		t.Errorf("the agent got %q", got)
	}
	c.finish(again.ID, compute.Ending{})
	c.Problem(c.Request(http.MethodPost, "/api/v1/compute/jobs/"+string(again.ID)+"/retry", `{}`), http.StatusConflict,
		job.Refused)
	c.sent(c.Request(http.MethodPost, "/api/v1/compute/jobs/"+string(again.ID)+"/retry", `{"confirm":true}`),
		http.StatusCreated)
	c.Problem(c.Request(http.MethodPost, "/api/v1/compute/jobs/"+string(again.ID)+"/retry",
		`{"key":"r1","confirm":true}`), http.StatusConflict, job.Conflict)
	clone, err := c.Client.CloneCompute(t.Context(), again.ID, client.ComputeRepeat{
		Service: "wide", Name: "m", Env: map[string]string{"A": "", "C": "3"}, Limits: client.ComputeLimits{Memory: 7},
		Labels: map[string]string{"l": "v"},
	})
	switch {
	case err != nil:
		t.Fatal(err)
	case clone.Service != "wide", clone.Name != "m", len(clone.Env) != 2, clone.Env["B"] != "2", clone.Env["C"] != "3",
		clone.Asked.Memory != 7, clone.Labels["l"] != "v":
		t.Errorf("got %+v", clone)
	}
	c.Problem(c.Request(http.MethodPost, path+"/clone", `{"service":"none"}`), http.StatusBadRequest, job.Invalid)
	c.Problem(c.Request(http.MethodPost, path+"/clone", `{"env":{"1":"x"}}`), http.StatusBadRequest, job.Invalid)
}

// TestComputeList filters and turns pages, also by what the store has no index for.
func TestComputeList(t *testing.T) {
	c := openCompute(t, nil)
	for i, name := range []string{"a", "b", "c", "d", "e"} {
		labels := map[string]string{"set": "odd", "n": name}
		if i%2 == 0 {
			labels["set"] = "even"
		}
		owner := "ann"
		if name == "e" {
			owner = "bea"
		}
		j := c.order(client.ComputeOrder{Name: name, Labels: labels, Owner: owner})
		switch name {
		case "a":
			c.finish(j.ID, compute.Ending{Exit: 1, Cause: compute.CauseExit})
		case "b":
			c.finish(j.ID, compute.Ending{})
		default:
			c.runs(j.ID)
		}
	}
	yes, no := true, false
	for _, test := range []struct {
		q    client.ComputeQuery
		want string
	}{
		{client.ComputeQuery{}, "a b c d e"}, {client.ComputeQuery{Labels: []string{"set=even"}}, "a c e"},
		{client.ComputeQuery{Labels: []string{"set=even", "n=c"}}, "c"},
		{client.ComputeQuery{Labels: []string{"missing"}}, ""}, {client.ComputeQuery{Name: "d"}, "d"},
		{client.ComputeQuery{Owner: "bea"}, "e"},
		{client.ComputeQuery{Ended: &yes}, "a b"}, {client.ComputeQuery{Ended: &no, Labels: []string{"n"}}, "c d e"},
		{client.ComputeQuery{States: []string{"running"}}, "c d e"},
		{client.ComputeQuery{Outcomes: []string{"failed"}}, "a"}, {client.ComputeQuery{Causes: []string{"exit-code"}},
			"a"}, {client.ComputeQuery{Services: []string{"small"}}, ""},
		{client.ComputeQuery{Services: []string{"small", "wide"}}, "a b c d e"},
	} {
		for _, limit := range []int{1, 2, 100} {
			q := test.q
			q.Limit = limit
			var all []client.ComputeJob
			for range 20 {
				page, err := c.Client.ComputeJobs(t.Context(), q)
				if err != nil {
					t.Fatal(err)
				}
				if len(page.Jobs) > limit {
					t.Errorf("%+v: %d on a page of %d", q, len(page.Jobs), limit)
				}
				all = append(all, page.Jobs...)
				if q.After = page.Next; q.After == "" {
					break
				}
			}
			if got := strings.Join(names(all), " "); got != test.want || q.After != "" {
				t.Errorf("%+v: got %q, want %q", test.q, got, test.want)
			}
		}
	}
	for _, wrong := range []string{"service=nothing", "state=Nowhere", "outcome=great", "limit=0", "after=garbage",
		"ended=maybe", "name=a&name=b"} {
		c.Problem(c.Request(http.MethodGet, "/api/v1/compute/jobs?"+wrong, ""), http.StatusBadRequest, job.Invalid)
	}
}

// TestComputeStanding asks for services, agents and usage.
func TestComputeStanding(t *testing.T) {
	c := openCompute(t, nil)
	one := c.order(client.ComputeOrder{Service: "small", Owner: "ann"}, "run.sh", "12345", "x", "1")
	c.runs(one.ID)
	c.order(client.ComputeOrder{Service: "small", Owner: "ann"})
	other := c.order(client.ComputeOrder{Owner: "bea"})
	c.finish(other.ID, compute.Ending{}, "f", "g")
	services, err := c.Client.ComputeServices(t.Context())
	if err != nil || len(services) != 2 || services[0].Name != "small" || services[0].Running != 1 ||
		services[0].Queued != 1 || services[0].MaxRuns != 1 || services[0].Max.Memory != 1<<30 {
		t.Errorf("got %+v, %v", services, err)
	}
	agents, err := c.Client.ComputeAgents(t.Context())
	if err != nil || len(agents) != 1 || !agents[0].Up || agents[0].Slots != 50 || agents[0].Kind != "agent" ||
		agents[0].Services == nil {
		t.Errorf("got %+v, %v", agents, err)
	}
	usage, err := c.Client.ComputeUsage(t.Context(), "")
	if err != nil || len(usage.Owners) != 2 {
		t.Fatalf("got %+v, %v", usage, err)
	}
	if a := usage.Owners[0]; a.Owner != "ann" || a.Jobs != 2 || a.Files != 3 || a.Running["small"] != 1 ||
		a.Queued["small"] != 1 || a.Bytes <= 6 {
		t.Errorf("got %+v", a)
	}
	if b := usage.Owners[1]; b.Files != 4 || len(b.Running) != 0 {
		t.Errorf("got %+v", b)
	}
	if usage, err = c.Client.ComputeUsage(t.Context(), "bea"); err != nil || len(usage.Owners) != 1 {
		t.Errorf("got %+v, %v", usage, err)
	}
}

// TestComputeEvents gets the same stream as that of any job, from a number of its history on.
func TestComputeEvents(t *testing.T) {
	c := openCompute(t, nil)
	j := c.order(client.ComputeOrder{})
	c.finish(j.ID, compute.Ending{})
	_, all := c.get("/api/v1/compute/jobs/" + string(j.ID) + "/events")
	_, rest := c.get("/api/v1/compute/jobs/"+string(j.ID)+"/events", "Last-Event-ID", "2")
	for text, from := range map[string]string{all: "id: 1-", rest: "id: 3-"} {
		if !strings.HasPrefix(text, from) || !strings.Contains(text, `"event":"finish"`) ||
			!strings.Contains(text, "event: job\n") {
			t.Errorf("got %.200q", text)
		}
	}
	var states []string
	err := c.Client.Watch(t.Context(), j.ID, 0, func(u client.Update) error {
		if u.Event != nil {
			states = append(states, string(u.Event.To))
		}
		return nil
	})
	if err != nil || !slices.Contains(states, "Running") || states[len(states)-1] != "Completed" {
		t.Errorf("got %v, %v", states, err)
	}
}

// TestNoCompute: a server without the application refuses, and reports it.
func TestNoCompute(t *testing.T) {
	w := servertest.Open(t, nil, nil, func(w *servertest.Harness) server.Part {
		return computehttp.Part(w.Server, computehttp.Options{})
	})
	for _, path := range []string{"/api/v1/compute/jobs", "/api/v1/compute/services", "/api/v1/compute/agents",
		"/api/v1/compute/usage"} {
		w.Problem(w.Request(http.MethodGet, path, ""), http.StatusNotFound, job.NotFound)
	}
	w.Problem(w.Request(http.MethodPost, "/api/v1/compute/jobs", `{}`), http.StatusNotFound, job.NotFound)
	w.Problem(w.Request(http.MethodPost, "/api/v1/compute/uploads", ""), http.StatusNotFound, job.NotFound)
}
