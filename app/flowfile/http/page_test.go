package flowhttp_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/flow"
	"github.com/stagepost/stagepost/flow/draw"
	"github.com/stagepost/stagepost/flow/durable"
	"github.com/stagepost/stagepost/internal/goldentest"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/server/servertest"
	"github.com/stagepost/stagepost/store/mem"
)

func TestFlowIsDrawn(t *testing.T) {
	w := openFlows(t, nil)
	j := w.submit(client.FlowOrder{File: waits})
	w.until(j.ID, waiting)
	for _, c := range []struct{ name, accept, media, begins string }{
		{"graph.svg", "", "image/svg+xml", "<svg "},
		{"graph.dot", "", "text/plain; charset=utf-8", "digraph"},
		{"graph.mmd", "", "text/plain; charset=utf-8", "flowchart"},
		{"timeline.svg", "", "image/svg+xml", "<svg "},
		{"graph.svg?version=7", "", "image/svg+xml", "<svg "},
		{"graph", "text/html, image/svg+xml", "image/svg+xml", "<svg "},
		{"graph", "text/vnd.graphviz;q=0.9", "text/plain; charset=utf-8", "digraph"},
		{"graph", "text/plain", "text/plain; charset=utf-8", "flowchart"},
		{"graph", "", "image/svg+xml", "<svg "},
		{"timeline", "text/plain", "image/svg+xml", "<svg "},
	} {
		r := w.Request(http.MethodGet, "/api/v1/flows/"+string(j.ID)+"/"+c.name, "")
		r.Header.Set("Accept", c.accept)
		answer, text := w.Ask(r)
		if answer.StatusCode != http.StatusOK || answer.Header.Get("Content-Type") != c.media ||
			!strings.Contains(text[:min(len(text), 200)], c.begins) || !strings.Contains(text, "approve") {
			t.Errorf("%s for %q: got %s, %s, %.80q", c.name, c.accept, answer.Status, answer.Header.Get("Content-Type"),
				text)
		}
		servertest.CheckHeaders(t, answer)
	}
	for _, name := range []string{"graph.gif", "graph.", "timeline.dot", "other.svg", "..%2f", "graph.svg.svg"} {
		p := w.Problem(w.Request(http.MethodGet, "/api/v1/flows/"+string(j.ID)+"/"+name, ""), http.StatusNotFound,
			job.NotFound)
		if !strings.Contains(p.Detail, "graph.svg, graph.dot") {
			t.Errorf("%s: got %q", name, p.Detail)
		}
	}
	w.Problem(w.Request(http.MethodGet, "/api/v1/flows/"+string(j.ID)+"/graph.svg?version=x", ""),
		http.StatusBadRequest, job.Invalid)
	if text, err := w.Client.DrawFlow(t.Context(), j.ID, "graph", "dot"); err != nil ||
		!strings.Contains(string(text), "digraph") {
		t.Errorf("got %.80q, %v", text, err)
	}
}

const evil = `"><script>alert(1)</script><img src=x onerror=alert(1)>` + "\u202e"

// evils makes a flow whose every text is hostile.
func evils(json.RawMessage) (flow.Item, error) {
	return flow.Linear(evil, &flow.Task{Name: evil + "0", Result: flow.One("x"),
		Execute: func(context.Context, *flow.Call) (any, error) { return evil, nil }},
		&flow.Task{Name: evil + "1", Execute: func(context.Context, *flow.Call) (any, error) {
			return nil, job.Errorf(job.Invalid, "x", "", "%s", evil)
		}}), nil
}

// page reads the page of a flow as a browser does.
func (w *harness) page(path string) string {
	w.T.Helper()
	r := w.Request(http.MethodGet, path, "")
	r.Header.Set("Accept", "text/html")
	answer, text := w.Ask(r)
	servertest.CheckHeaders(w.T, answer)
	if answer.StatusCode != http.StatusOK || answer.Header.Get("Content-Type") != "text/html; charset=utf-8" ||
		strings.Contains(answer.Header.Get("Content-Security-Policy"), "unsafe") {
		w.T.Fatalf("%s: got %s: %.300s", path, answer.Status, text)
	}
	return text
}

// send sends a form of the page as a browser does.
func (w *harness) send(path string, fields ...string) (*http.Response, string) {
	w.T.Helper()
	q := url.Values{}
	for i := 0; i < len(fields); i += 2 {
		q.Set(fields[i], fields[i+1])
	}
	r := w.Request(http.MethodPost, path, q.Encode())
	r.Header.Set("Accept", "text/html")
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return w.Ask(r)
}

// TestFlowPage: the page about the job has the graph and the tree of a flow, and sends the signal that it waits for.
func TestFlowPage(t *testing.T) {
	w := openFlows(t, map[string]durable.Factory{"evil": evils})
	j := w.submit(client.FlowOrder{File: waits})
	w.until(j.ID, waiting)
	path := "/jobs/" + string(j.ID)
	text := w.page(path)
	for _, part := range []string{`class="flow-picture"`, "1 of 3 tasks done",
		"It waits for the signal <bdi>approved</bdi>",
		`action="` + path + `/signal"`, "linear, 1 of 3 done", `href="/assets/flow-picture.css"`,
		`<b><bdi>before</bdi></b> <span class="badge good">SUCCESS</span>`,
		`<b><bdi>approve</bdi></b> <span class="badge held">RUNNING</span>`,
		`<b><bdi>after</bdi></b> <span class="badge waiting">PENDING</span>`} {
		if !strings.Contains(text, part) {
			t.Errorf("the page lacks %s: %s", part, text)
		}
	}
	before, _, _ := strings.Cut(w.page("/mine"), "In progress</h2>")
	if !strings.Contains(before, "Needs your attention</h2>") || !strings.Contains(before, string(j.ID)) {
		t.Errorf("the work of its owner lacks that it waits: %s", before)
	}
	if strings.Contains(text, "<style") || strings.Contains(text, `id="tasks"`) {
		t.Error("the page has a style sheet in it, or the tasks twice")
	}
	if answer, text := w.send(path+"/signal", "name", "nothing", "value", "", "note", ""); answer.StatusCode < 400 {
		t.Errorf("a signal that no task waits for: got %s %s", answer.Status, text)
	}
	if answer, text := w.send(path+"/signal", "name", "approved", "value", `{"by":"ann"}`, "note", "good"); answer.
		StatusCode != http.StatusSeeOther || answer.Header.Get("Location") != path {
		t.Fatalf("got %s %s", answer.Status, text)
	}
	w.until(j.ID, ended)
	if text := w.page(path); !strings.Contains(text, "3 of 3 tasks done") ||
		!strings.Contains(text, `result: <bdi>{&#34;by&#34;:&#34;ann&#34;}`) || strings.Contains(text, "/signal\"") {
		t.Errorf("after the signal: %s", text)
	}
	answer, _ := w.Ask(w.Request(http.MethodGet, "/flows/"+string(j.ID), ""))
	if answer.Header.Get("Location") != path {
		t.Errorf("the old address leads to %q", answer.Header.Get("Location"))
	}
	bad := w.submit(client.FlowOrder{Factory: "evil"})
	w.until(bad.ID, ended)
	text = w.page("/jobs/" + string(bad.ID))
	for _, never := range []string{"<script>alert", "<img src=x", "\u202e"} {
		if strings.Contains(text, never) {
			t.Errorf("the page has %q", never)
		}
	}
	// the control
	if !strings.Contains(text, "0 of 2 tasks done") || !strings.Contains(text, "&lt;script&gt;alert(1)") {
		t.Errorf("the page does not show the failure: %s", text)
	}
}

// TestMarkOnThePage: a task whose rollback failed is noted as rolled back manually.
func TestMarkOnThePage(t *testing.T) {
	w := openFlows(t, map[string]durable.Factory{"stays": func(json.RawMessage) (flow.Item, error) {
		no := func(context.Context, *flow.Call) (any, error) {
			return nil, job.Errorf(job.Invalid, "x", "", "no paper")
		}
		return flow.Linear("stays", &flow.Task{Name: "print", Revert: no,
			Execute: func(context.Context, *flow.Call) (any, error) { return nil, nil }},
			&flow.Task{Name: "send", Execute: no}), nil
	}})
	j := w.submit(client.FlowOrder{Factory: "stays"})
	w.until(j.ID, func(j *job.Job) bool { return j.State == flow.FailureState })
	path := "/jobs/" + string(j.ID)
	if text := w.page(path); !strings.Contains(text, "What the task <bdi>print</bdi> did is not rolled back.") {
		t.Fatalf("the page does not name the task: %s", text)
	}
	if answer, text := w.send(path+"/reverted", "task", "other", "note", "x", "actor", "ann"); answer.StatusCode < 400 {
		t.Errorf("another task: got %s %s", answer.Status, text)
	}
	if answer, text := w.send(path+"/reverted", "task", "print", "note", "paper shredded", "actor",
		"ann"); answer.StatusCode !=
		http.StatusSeeOther {
		t.Fatalf("got %s %s", answer.Status, text)
	}
	if text := w.page(path); strings.Contains(text, "is not rolled back") {
		t.Errorf("it is still named: %s", text)
	}
}

// reads counts how often the tasks of a job are read.
type reads struct {
	job.Store
	n atomic.Int64
}

func (r *reads) Tasks(ctx context.Context, id job.ID) ([]job.Task, error) {
	r.n.Add(1)
	return r.Store.Tasks(ctx, id)
}

// TestLargeTree: the page of a flow with many tasks shows some, and each that failed. It reads the tasks once.
func TestLargeTree(t *testing.T) {
	store := &reads{Store: mem.New()}
	w := openFlowsIn(t, store, map[string]durable.Factory{"large": func(json.RawMessage) (flow.Item, error) {
		var all []flow.Item
		for i := range 1200 {
			all = append(all, &flow.Task{Name: fmt.Sprint("task ", i),
				Execute: func(context.Context, *flow.Call) (any, error) {
					if i == 1199 {
						return nil, job.Errorf(job.Invalid, "x", "", "the last one fails")
					}
					return nil, nil
				}})
		}
		return flow.Unordered("large", all...), nil
	}})
	j := w.submit(client.FlowOrder{Factory: "large", NeverResolve: true})
	w.until(j.ID, func(j *job.Job) bool { return j.State == flow.FailureState || j.Ended })
	before := store.n.Load()
	text := w.page("/jobs/" + string(j.ID))
	if n := store.n.Load() - before; n != 1 {
		t.Errorf("the page read the tasks %d times", n)
	}
	if !strings.Contains(text, "200 more are not shown") || !strings.Contains(text, "the last one fails") ||
		!strings.Contains(text, "Tasks that failed or wait") || !strings.Contains(text, "<bdi>task 7</bdi>") {
		t.Errorf("got %d bytes: %.3000s", len(text), text)
	}
}

// TestStyleOfPictures compares flow-picture.css with the style sheet of package draw.
func TestStyleOfPictures(t *testing.T) {
	goldentest.Compare(t, "pages/flow-picture.css", []byte(draw.Style), *update,
		"go test ./app/flowfile/http -run TestStyle -update")
}

var update = flag.Bool("update", false, "write the generated style sheet instead of comparing it")

// browsed is a server with a flow that waits, one that failed, and one whose every text is hostile.
func browsed(t *testing.T) (*harness, map[string]any) {
	w := openFlows(t, map[string]durable.Factory{"evil": evils, "fails": fails})
	open := w.submit(client.FlowOrder{File: waits})
	w.until(open.ID, waiting)
	bad := w.submit(client.FlowOrder{Factory: "fails", NeverResolve: true})
	w.until(bad.ID, func(j *job.Job) bool { return j.State == flow.FailureState || j.Ended })
	return w, map[string]any{"open": open.ID, "failed": bad.ID}
}

// TestBrowser runs scripts/browser/flow.mjs.
func TestBrowser(t *testing.T) {
	w, set := browsed(t)
	bad := w.submit(client.FlowOrder{Factory: "evil", NeverResolve: true})
	w.until(bad.ID, func(j *job.Job) bool { return j.State == flow.FailureState || j.Ended })
	set["pages"] = []string{fmt.Sprint("/jobs/", set["open"]), "/jobs/" + string(bad.ID)}
	w.Browser(t, "flow.mjs", set)
}

// TestFlowIsFollowed: changes of tasks are reported though the flow makes no transition, and many of them in few
// messages.
func TestFlowIsFollowed(t *testing.T) {
	const tasks = 300
	w := openFlows(t, map[string]durable.Factory{"many": func(json.RawMessage) (flow.Item, error) {
		items := make([]flow.Item, tasks)
		for i := range items {
			items[i] = &flow.Task{Name: "t" + strings.Repeat("x", i)[:i%100] + string(rune('a'+i/100)),
				Execute: func(context.Context, *flow.Call) (any, error) { return nil, nil }}
		}
		return flow.Linear("many", items...), nil
	}})
	began := time.Now()
	j := w.submit(client.FlowOrder{Factory: "many"})
	messages, last := 0, client.Job{}
	var versions []int64
	err := w.Client.Watch(t.Context(), j.ID, 0, func(u client.Update) error {
		if u.Job != nil {
			messages++
			last, versions = *u.Job, append(versions, u.Job.Version)
		}
		return nil
	})
	took := time.Since(began)
	if err != nil || last.State != "SUCCESS" || last.Version < tasks {
		t.Fatalf("got %+v, %v", last.Job, err)
	}
	// without the pause it is one for nearly every task
	if most := int(took/(50*time.Millisecond)) + 3; messages > most {
		t.Errorf("%d messages about %d versions in %s, want at most %d", messages, last.Version, took, most)
	}

	waiter := w.submit(client.FlowOrder{File: waits})
	w.until(waiter.ID, waiting)
	updates := make(chan client.Update, 100)
	go func() {
		_ = w.Client.Watch(t.Context(), waiter.ID, 1<<40, func(u client.Update) error { updates <- u; return nil })
	}()
	before := (<-updates).Job
	// moves nothing
	if _, err := w.Client.SignalFlow(t.Context(), waiter.ID, client.FlowSignal{Name: "else", Early: true}); err != nil {
		t.Fatal(err)
	}
	if after := (<-updates).Job; after == nil || after.Version <= before.Version || after.State != before.State {
		t.Errorf("got %+v after %+v", after, before)
	}
}
