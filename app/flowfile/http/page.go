package flowhttp

import (
	"embed"
	"encoding/json"
	"html/template"
	"net/http"
	"net/url"
	"time"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/flow"
	"github.com/stagepost/stagepost/flow/durable"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/server"
	"github.com/stagepost/stagepost/web"
	"github.com/stagepost/stagepost/web/amount"
)

//go:embed pages
var files embed.FS

// Bounds of the page about a flow.
const (
	mostNodes  = 1000 // tasks that the tree shows
	mostUrgent = 50   // tasks that are listed because they failed or wait
)

// flowView is what the page about a job shows of a flow.
type flowView struct {
	ID       job.ID
	Awaits   []string // signals
	Remains  []string // tasks whose effects were not reverted
	Tasks    int
	Done     int // tasks that need nothing more
	Graph    template.HTML
	Timeline template.HTML
	Root     *node   // nil: no worker has made the flow yet
	Urgent   []*node // that failed or wait, if the tree is large
	Left     int     // tasks that the tree does not show
	Signals  bool    // the reader may send signals
	Marks    bool    // the reader may note that a task was rolled back manually
	Unnamed  bool    // the server does not know who the reader is
	Path     string  // of the forms
}

// node is a part of the tree: a flow, a task or a retry controller.
type node struct {
	Name    string
	Kind    string // flow, task, retry
	Pattern string // of a flow: linear, unordered, graph
	State   lifecycle.State
	Tone    web.Tone
	Atom    *api.FlowAtom // nil: a flow
	Took    string
	Result  string
	Items   []*node
	Tasks   int // of a flow, with those in it
	Done    int
	Open    bool // of a flow: it is shown opened
}

// details shows the graph and the tree of a flow. All of it is made of one reading, and only of what is shown.
func (s *Handlers) details(r *http.Request, j *api.Job) (d server.Details, err error) {
	if s.Flows == nil || !s.Permits(r, http.MethodGet, "/api/v1/flows/{id}") {
		return d, nil
	}
	f, err := s.readFlow(r.Context(), s.Flows, j.ID)
	if err != nil {
		return d, err
	}
	v := flowView{ID: j.ID, Awaits: f.Awaits, Remains: f.Remains, Path: pagePath(j.ID)}
	v.Signals = s.Permits(r, http.MethodPost, "/api/v1/flows/{id}/signal")
	v.Marks = s.Permits(r, http.MethodPost, "/api/v1/flows/{id}/mark-reverted")
	v.Unnamed = !s.Visitor(r).SignedIn
	if f.Outline != nil {
		now, records := time.Now(), recordsOf(f)
		v.grow(f, now)
		for name, into := range map[string]*template.HTML{"graph.svg": &v.Graph, "timeline.svg": &v.Timeline} {
			text, err := drawnAs(name, f, records, now)
			if err != nil {
				return d, err
			}
			*into = web.Inline(text)
		}
	}
	d = server.Details{Tasks: v.Root != nil, Styles: []string{"/assets/flow-picture.css", "/assets/flow.css"}}
	d.HTML, err = s.pages.Fragment("flow.html", v)
	return d, err
}

// grow makes the tree.
func (v *flowView) grow(f *durable.View, now time.Time) {
	g := grower{atoms: make(map[atomName]*durable.Atom, len(f.Atoms)), now: now, left: mostNodes}
	for i := range f.Atoms {
		if a := &f.Atoms[i]; !a.Removed {
			g.atoms[atomName{a.Kind, a.Name}] = a
		}
	}
	v.Root = g.node(f.Outline)
	v.Tasks, v.Done = v.Root.Tasks, v.Root.Done
	if g.left < 0 {
		v.Left = -g.left
	}
	if v.Tasks > mostUrgent {
		v.Urgent = g.urgent
	}
}

type atomName struct {
	kind flow.Kind
	name string
}

// grower makes nodes of an outline.
type grower struct {
	atoms  map[atomName]*durable.Atom
	now    time.Time
	left   int // nodes that may still be shown; negative: so many are not
	urgent []*node
}

func (g *grower) node(o *flow.Outline) *node {
	n := &node{Name: o.Name, Kind: string(o.Kind), Pattern: string(o.Pattern)}
	if o.Kind != flow.KindFlow {
		g.fill(n, o.Kind)
		return n
	}
	if o.Retry != nil {
		g.add(n, o.Retry)
	}
	for _, item := range o.Items {
		g.add(n, item)
	}
	n.Open = n.Done < n.Tasks || n.Tasks <= mostUrgent
	return n
}

// add adds a part to a flow, and what it counts.
func (g *grower) add(n *node, o *flow.Outline) {
	of := g.node(o)
	n.Tasks, n.Done = n.Tasks+of.Tasks, n.Done+of.Done
	if of.Kind == "flow" || g.left > 0 {
		n.Items = append(n.Items, of)
	}
	if of.Kind != "flow" {
		g.left--
	}
}

// fill sets what is known of a task or a retry controller.
func (g *grower) fill(n *node, kind flow.Kind) {
	n.State, n.Tone = flow.Pending, web.Waiting
	a := g.atoms[atomName{kind, n.Name}]
	if kind == flow.KindTask {
		n.Tasks = 1
	}
	if a == nil {
		return
	}
	n.State, n.Tone = a.State, toneOf(&a.Record)
	if n.Tasks == 1 && (a.State == flow.Success || a.State == flow.Ignore) {
		n.Done = 1
	}
	urgent := (n.Tone == web.Bad || n.Tone == web.Held) && len(g.urgent) < mostUrgent
	if urgent {
		g.urgent = append(g.urgent, n)
	}
	if urgent || g.left > 0 { // it is shown
		one := viewAtom(a, true)
		n.Atom, n.Took, n.Result = &one, took(&a.Record, g.now), shownValue(one.Result)
	}
}

// toneOf returns how the state of a task appears.
func toneOf(a *flow.Record) web.Tone {
	switch a.State {
	case flow.Success:
		return web.Good
	case flow.FailureState, flow.RevertFailure:
		return web.Bad
	case flow.Reverted, flow.Ignore:
		return web.Quiet
	case flow.Pending:
		return web.Waiting
	}
	if a.Waits {
		return web.Held
	}
	return web.Working
}

// shownValue writes a result for people.
func shownValue(v *api.Seen) string {
	switch {
	case v == nil || string(v.Value) == "null":
		return ""
	case v.Value == nil:
		return v.Begin + "…"
	}
	var text string
	if json.Unmarshal(v.Value, &text) == nil {
		return text
	}
	return string(v.Value)
}

// took states how long an atom took, or has taken so far.
func took(a *flow.Record, now time.Time) string {
	switch {
	case a.Began.IsZero(), a.State == flow.Pending, a.State == flow.Ignore:
		return ""
	case a.State == flow.Running || a.State == flow.Reverting:
		return amount.Span(max(0, now.Sub(a.Began))) + " so far"
	}
	return amount.Span(max(0, a.Ended.Sub(a.Began)))
}

// flowPage leads to the page about the job: the address that people were given before stays valid.
func (s *Handlers) flowPage(w http.ResponseWriter, r *http.Request) error {
	if err := server.Params(r).Err(); err != nil {
		return s.pages.Fail(w, r, err)
	}
	j, _, err := s.foundFlow(r)
	if err != nil {
		return s.pages.Fail(w, r, err)
	}
	return s.pages.Done(w, pagePath(j.ID), "")
}

// signalForm sends the signal of the form.
func (s *Handlers) signalForm(r *http.Request, form *web.Form) (to, done string, err error) {
	b := api.FlowSignal{Name: form.Text("name"), Note: form.Line("note")}
	if text := form.Text("value"); text != "" {
		if b.Value = json.RawMessage(text); !json.Valid(b.Value) { // what is no JSON is a text
			if b.Value, err = json.Marshal(text); err != nil {
				return "", "", err
			}
		}
	}
	if err := form.Err(); err != nil {
		return "", "", err
	}
	id := server.JobID(r)
	_, err = s.pages.Ask(r, http.MethodPost, flowPath(id)+"/signal", b)
	return pagePath(id), "Sent: " + b.Name, err
}

// markForm notes that a task was rolled back manually.
func (s *Handlers) markForm(r *http.Request, form *web.Form) (to, done string, err error) {
	b := api.FlowMark{Task: form.Text("task"), Note: form.Line("note"), Actor: form.Line("actor")}
	if err := form.Err(); err != nil {
		return "", "", err
	}
	id := server.JobID(r)
	_, err = s.pages.Ask(r, http.MethodPost, flowPath(id)+"/mark-reverted", b)
	return pagePath(id), "Noted: " + b.Task + " is rolled back", err
}

func pagePath(id job.ID) string { return "/jobs/" + url.PathEscape(string(id)) }
