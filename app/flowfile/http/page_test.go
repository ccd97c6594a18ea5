package flowhttp_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/flow"
	"github.com/stagepost/stagepost/flow/durable"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/server/servertest"
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

// TestFlowPage: it works without scripts, loads nothing from elsewhere, and believes no name.
func TestFlowPage(t *testing.T) {
	const evil = `"><script>alert(1)</script><img src=x onerror=alert(1)>` + "\u202e"
	w := openFlows(t, map[string]durable.Factory{"evil": func(json.RawMessage) (flow.Item, error) {
		return flow.Linear(evil, &flow.Task{Name: evil + "1", Execute: func(context.Context, *flow.Call) (any, error) {
			return nil, job.Errorf(job.Invalid, "x", "", "%s", evil)
		}}), nil
	}})
	page := func(id job.ID, query string) (string, string) {
		t.Helper()
		answer, text := w.Ask(w.Request(http.MethodGet, "/flows/"+string(id)+query, ""))
		servertest.CheckHeaders(t, answer)
		if answer.StatusCode != http.StatusOK || answer.Header.Get("Content-Type") != "text/html; charset=utf-8" {
			t.Errorf("got %s: %.200q", answer.Status, text)
		}
		return text, answer.Header.Get("Content-Security-Policy")
	}
	j := w.submit(client.FlowOrder{File: waits})
	w.until(j.ID, waiting)
	text, policy := page(j.ID, "")
	for _, part := range []string{
		`<img src="/api/v1/flows/` + string(j.ID) + `/graph.svg?version=`,
		`<img src="/api/v1/flows/` + string(j.ID) + `/timeline.svg?version=`, "RUNNING: 1 of 3 tasks done",
		"<strong><bdi>approved</bdi></strong>", `<noscript><meta http-equiv="refresh" content="5"></noscript>`, `data-events="/api/v1/jobs/` + string(j.ID) + `/events"`,
		"waits for the signal approved", "An operator can now: cancel, stop, suspend.", `href="?refresh=off"`,
	} {
		if !strings.Contains(text, part) {
			t.Errorf("the page lacks %s", part)
		}
	}
	for _, part := range []string{"script-src 'self'", "img-src 'self'", "connect-src 'self'", "default-src 'none'"} {
		if !strings.Contains(policy, part) || strings.Contains(policy, "unsafe") {
			t.Errorf("the policy is %s", policy)
		}
	}
	if text, _ = page(j.ID, "?refresh=off"); strings.Contains(text, "http-equiv") ||
		!strings.Contains(text, `data-events=""`) {
		t.Error("a page that is to keep still refreshes")
	}
	bad := w.submit(client.FlowOrder{Factory: "evil"})
	w.until(bad.ID, ended)
	text, _ = page(bad.ID, "")
	for _, never := range []string{"<script>alert", "<img src=x", "\u202e", "http-equiv", "http://", "https://"} {
		if strings.Contains(text, never) {
			t.Errorf("the page has %q", never)
		}
	}
	// the control
	if !strings.Contains(text, "REVERTED: 0 of 1 task done") || !strings.Contains(text, `class="failed"`) ||
		!strings.Contains(text, "&lt;script&gt;alert(1)") {
		t.Errorf("the page does not show the failure: %s", text)
	}
	r := w.Request(http.MethodGet, "/flows/flw_none", "")
	r.Header.Set("Accept", "text/html")
	if answer, text := w.Ask(r); answer.StatusCode != http.StatusNotFound ||
		!strings.Contains(text, "There is no flow with this number.") {
		t.Errorf("got %s %.200q", answer.Status, text)
	}
	if answer, text := w.Ask(w.Request(http.MethodGet, "/assets/flow.js",
		"")); answer.Header.Get("Content-Type") != "text/javascript; charset=utf-8" ||
		!strings.Contains(text, "EventSource") {
		t.Errorf("got %s", answer.Header.Get("Content-Type"))
	}
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
