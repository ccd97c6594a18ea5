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
	api.Flow
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

// details shows the graph and the tree of a flow.
func (s *Handlers) details(r *http.Request, j *api.Job) (d server.Details, err error) {
	v := flowView{Path: pagePath(j.ID)}
	if s.Flows == nil {
		return d, nil
	}
	if err := s.pages.Get(r, flowPath(j.ID)+"?values=true", &v.Flow); err != nil {
		return d, err
	}
	v.Signals = s.Permits(r, http.MethodPost, "/api/v1/flows/{id}/signal")
	v.Marks = s.Permits(r, http.MethodPost, "/api/v1/flows/{id}/mark-reverted")
	v.Unnamed = !s.Visitor(r).SignedIn
	if v.Outline != nil {
		v.grow(time.Now())
		for name, into := range map[string]*template.HTML{"graph.svg": &v.Graph, "timeline.svg": &v.Timeline} {
			text, err := s.pages.Ask(r, http.MethodGet, flowPath(j.ID)+"/"+name, nil)
			if err != nil {
				return d, err
			}
			*into = web.Inline(string(text))
		}
	}
	d = server.Details{Tasks: v.Root != nil, Styles: []string{"/assets/flow-picture.css", "/assets/flow.css"}}
	d.HTML, err = s.pages.Fragment("flow.html", v)
	return d, err
}

// grow makes the tree.
func (v *flowView) grow(now time.Time) {
	g := grower{atoms: map[string]*api.FlowAtom{}, now: now, left: mostNodes}
	for i := range v.Atoms {
		if a := &v.Atoms[i]; !a.Removed {
			g.atoms[a.Kind+" "+a.Name] = a
		}
	}
	v.Root = g.node(v.Outline)
	v.Tasks, v.Done = v.Root.Tasks, v.Root.Done
	if g.left < 0 {
		v.Left = -g.left
	}
	if v.Tasks > mostUrgent {
		v.Urgent = g.urgent
	}
}

// grower makes nodes of an outline.
type grower struct {
	atoms  map[string]*api.FlowAtom
	now    time.Time
	left   int // nodes that may still be shown; negative: so many are not
	urgent []*node
}

func (g *grower) node(o *api.FlowOutline) *node {
	n := &node{Name: o.Name, Kind: o.Kind, Pattern: o.Pattern}
	if o.Kind != "flow" {
		g.fill(n)
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
func (g *grower) add(n *node, o *api.FlowOutline) {
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
func (g *grower) fill(n *node) {
	n.State, n.Tone = flow.Pending, web.Waiting
	a := g.atoms[n.Kind+" "+n.Name]
	if n.Kind == string(flow.KindTask) {
		n.Tasks = 1
	}
	if a == nil {
		return
	}
	n.Atom, n.State, n.Tone, n.Took, n.Result = a, a.State, toneOf(a), took(a, g.now), shownValue(a.Result)
	if n.Tasks == 1 && (a.State == flow.Success || a.State == flow.Ignore) {
		n.Done = 1
	}
	if (n.Tone == web.Bad || n.Tone == web.Held) && len(g.urgent) < mostUrgent {
		g.urgent = append(g.urgent, n)
	}
}

// toneOf returns how the state of a task appears.
func toneOf(a *api.FlowAtom) web.Tone {
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
func took(a *api.FlowAtom, now time.Time) string {
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
