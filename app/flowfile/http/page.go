package flowhttp

import (
	"embed"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/flow"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/quantity"
	"github.com/stagepost/stagepost/server"
	"github.com/stagepost/stagepost/server/problem"
)

// flowPolicy is that of a page that follows a flow: it has pictures and a script, both of ours.
const flowPolicy = "default-src 'none'; style-src 'self'; img-src 'self'; script-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

//go:embed pages
var pages embed.FS

var flowTemplates = server.Templates(pages)

// flowRefresh is the pause, in seconds, after which a page of a flow asks again where scripts are off.
const flowRefresh = 5

// mostFlowRows is the number of tasks that the table of a page shows.
const mostFlowRows = 500

// flowView is what the page about a flow shows.
type flowView struct {
	api.Flow
	Open    bool // it has not ended
	Refresh int  // seconds; 0 keeps the page still
	Tasks   int
	Done    int // tasks that need nothing more
	Can     string
	Rows    []flowRow
}

type flowRow struct {
	api.FlowAtom
	Took string
}

// flowPage shows how a flow stands.
func (s *Handlers) flowPage(w http.ResponseWriter, r *http.Request) error {
	p := server.Params(r)
	refresh := p.Choice("refresh", "off")
	err := p.Err()
	var v flowView
	if err == nil {
		v, err = s.flowView(r, refresh != "off")
	}
	if err != nil {
		return s.failFlowPage(w, r, err)
	}
	return server.ReplyPageUnder(w, http.StatusOK, flowTemplates, "flow.html", &v, flowPolicy)
}

func (s *Handlers) flowView(r *http.Request, follow bool) (flowView, error) {
	f, err := s.oneFlow(r)
	if err != nil {
		return flowView{}, err
	}
	all, err := s.viewFlow(f, false)
	if err != nil {
		return flowView{}, err
	}
	v := flowView{Flow: all, Open: !f.Job.Ended, Can: words(all.Job.Can["operator"])}
	if v.Open && follow {
		v.Refresh = flowRefresh
	}
	now := time.Now()
	for i := range v.Atoms {
		if a := &v.Atoms[i]; a.Kind == string(flow.KindTask) && !a.Removed {
			v.Tasks++
			if a.State == flow.Success || a.State == flow.Ignore {
				v.Done++
			}
		}
		v.Rows = append(v.Rows, flowRow{v.Atoms[i], took(&v.Atoms[i], now)})
	}
	if len(v.Rows) > mostFlowRows {
		slices.SortStableFunc(v.Rows, func(a, b flowRow) int { return urgency(&a.FlowAtom) - urgency(&b.FlowAtom) })
		v.Rows = v.Rows[:mostFlowRows]
	}
	return v, nil
}

func words(events []lifecycle.Event) string {
	all := make([]string, len(events))
	for i, e := range events {
		all[i] = string(e)
	}
	return strings.Join(all, ", ")
}

// urgency orders atoms: what failed, what is active, the rest.
func urgency(a *api.FlowAtom) int {
	switch a.State {
	case flow.FailureState, flow.RevertFailure:
		return 0
	case flow.Running, flow.Reverting, flow.Retrying:
		return 1
	}
	return 2
}

// took states how long an atom took, or has taken so far.
func took(a *api.FlowAtom, now time.Time) string {
	var d time.Duration
	switch {
	case a.Began.IsZero(), a.State == flow.Pending, a.State == flow.Ignore:
		return ""
	case a.State == flow.Running || a.State == flow.Reverting:
		d = now.Sub(a.Began)
	default:
		d = a.Ended.Sub(a.Began)
	}
	if d < time.Second {
		return quantity.FormatDuration(max(d, 0).Round(time.Millisecond))
	}
	return quantity.FormatDuration(d.Round(100 * time.Millisecond))
}

// Class is how the page appears.
func (v *flowView) Class() string {
	switch {
	case v.Open:
		return "open"
	case v.Job.Outcome == lifecycle.OK:
		return "done"
	}
	return "failed"
}

// failFlowPage reports a browser in plain words what is wrong.
func (s *Handlers) failFlowPage(w http.ResponseWriter, r *http.Request, err error) error {
	p := problem.Of(err)
	if p.Kind == job.NotFound && strings.Contains(r.Header.Get("Accept"), "text/html") {
		return server.ReplyPage(w, p.Status, flowTemplates, "error.html",
			struct{ Text string }{"There is no flow with this number."})
	}
	return s.FailPage(w, r, err)
}

func pagePath(id job.ID) string { return "/flows/" + url.PathEscape(string(id)) }
