package web

import (
	"cmp"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/server"
	"github.com/stagepost/stagepost/web/amount"
)

// outboxView is what the page about messages shows.
type outboxView struct {
	Filter   url.Values
	Acts     bool // the reader may have them delivered again
	Messages []messageRow
	Statuses []choice
	Next     string
}

type messageRow struct {
	job.Message
	Tone   Tone
	Status string
	When   string // it was created
	Again  string // the next attempt
}

func (h *handlers) outbox(r *http.Request) (*Frame, error) {
	q := Given(r.URL.Query())
	var box api.Outbox
	if err := h.Get(r, With("/api/v1/outbox", q), &box); err != nil {
		return nil, err
	}
	v := viewOutbox(time.Now(), q, &box)
	v.Acts = h.Permits(r, http.MethodPost, "/outbox/replay")
	return &Frame{Title: "Messages", Body: v, Refresh: overviewRefresh,
		Lead: "Mails, webhooks and callbacks: each is delivered at least once, always with the same key."}, nil
}

// viewOutbox makes the page.
func viewOutbox(now time.Time, q url.Values, box *api.Outbox) outboxView {
	v := outboxView{Filter: q}
	for _, s := range []string{"pending", "delivered", "abandoned"} {
		v.Statuses = append(v.Statuses, choice{s, s, q.Get("status") == s})
	}
	for i := range box.Messages {
		m := &box.Messages[i]
		row := messageRow{Message: *m, When: amount.Ago(now, m.Created), Status: string(m.Settled), Tone: Good}
		switch m.Settled {
		case job.Pending:
			row.Status, row.Tone = "pending", Waiting
			if m.Error != "" {
				row.Tone, row.Again = Held, amount.Ago(now, m.Due)
			}
		case job.Abandoned:
			row.Tone = Bad
		}
		slices.Reverse(row.Tried)
		v.Messages = append(v.Messages, row)
	}
	if box.Next != "" {
		v.Next = With("/outbox", changed(q, "after", box.Next))
	}
	return v
}

// changed returns a query with another value of one parameter.
func changed(q url.Values, name, value string) url.Values {
	all := url.Values{name: {value}}
	for n, values := range q {
		if n != name {
			all[n] = values
		}
	}
	return all
}

func (h *handlers) replay(r *http.Request, form *Form) (to, done string, err error) {
	b := api.Replay{Keys: form.All("key"), Note: form.Line("note")}
	if err := form.Err(); err != nil {
		return "", "", err
	}
	if len(b.Keys) == 0 {
		return "", "", job.Errorf(job.Invalid, "replay", "", "no message is selected: check the boxes of some")
	}
	_, err = h.Ask(r, http.MethodPost, "/api/v1/outbox/replay", b)
	return "/outbox", numbered(len(b.Keys), "message is", "messages are") + " delivered again", err
}

// auditView is what the page about the audit log shows.
type auditView struct {
	Filter  url.Values
	Entries []job.Audit // the newest first
	Next    string
	Cut     bool
	Key     string // that verifies checkpoints
}

func (h *handlers) audit(r *http.Request) (*Frame, error) {
	q := Given(r.URL.Query())
	var audits api.Audits
	if err := h.Get(r, With("/api/v1/audit", q), &audits); err != nil {
		return nil, err
	}
	var health api.Health
	_ = h.Get(r, "/healthz", &health) // the answer of a server that is ill has no key
	v := auditView{Filter: q, Entries: audits.Entries, Cut: audits.Cut, Key: health.CheckpointKey}
	if !q.Has("after") {
		slices.Reverse(v.Entries)
	} else if audits.Next != "" {
		v.Next = With("/audit", changed(q, "after", audits.Next))
	}
	return &Frame{Title: "Audit log", Body: v, Lead: "What people did, who, when and why. Each entry has the hash of " +
		"the one before; stagepost verify checks them."}, nil
}

// lifecyclesView is what the page about all lifecycles shows.
type lifecyclesView struct {
	Lifecycles []lifecycleRow
}

type lifecycleRow struct {
	api.Lifecycle
	What string
	Path string
}

func (h *handlers) lifecycles(r *http.Request) (*Frame, error) {
	if err := server.Params(r).Err(); err != nil {
		return nil, err
	}
	var all api.Lifecycles
	if err := h.Get(r, "/api/v1/lifecycles", &all); err != nil {
		return nil, err
	}
	v := lifecyclesView{}
	for _, l := range all.Lifecycles {
		v.Lifecycles = append(v.Lifecycles, lifecycleRow{l, h.NameOf(job.Kind(l.Name)).Many,
			"/lifecycles/" + url.PathEscape(l.Name)})
	}
	slices.SortStableFunc(v.Lifecycles, func(a, b lifecycleRow) int {
		return cmp.Compare(btoi(b.Jobs), btoi(a.Jobs))
	})
	return &Frame{Title: "Lifecycles", Body: v,
			Lead: "The states and transitions that jobs can take. Nothing else can happen."},
		nil
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// lifecycleView is what the page about one lifecycle shows.
type lifecycleView struct {
	Name    string            `json:"name"`
	Hash    string            `json:"hash"`
	Stages  []lifecycle.Stage `json:"stages"`
	Diagram template.HTML     `json:"-"`
}

func (h *handlers) lifecycle(r *http.Request) (*Frame, error) {
	if err := server.Params(r).Err(); err != nil {
		return nil, err
	}
	name := r.PathValue("name")
	if !slices.ContainsFunc(h.Tables(), func(t *lifecycle.Table) bool { return t.Name() == name }) {
		return nil, job.Errorf(job.NotFound, "lifecycle", "", "there is no lifecycle %.100q", name)
	}
	path := "/api/v1/lifecycles/" + url.PathEscape(name)
	v := lifecycleView{}
	if err := h.Get(r, path, &v); err != nil {
		return nil, err
	}
	svg, err := h.Ask(r, http.MethodGet, path+".svg", nil)
	v.Diagram = Inline(string(svg))
	return &Frame{Title: "Lifecycle " + v.Name, Up: server.Link{Title: "Lifecycles", Path: "/lifecycles"}, Body: v}, err
}

// fixityView is what the page about storage shows.
type fixityView struct {
	Absent    string // why there is nothing
	Acts      bool   // the reader may request checks
	Locations []locationRow
	Faults    []api.FixityFault
	Count     int
}

type locationRow struct {
	api.FixityLocation
	Tone        Tone
	FixityState string
	Oldest      string
	Next        string
	Check       string // that was requested last
}

func (h *handlers) fixity(r *http.Request) (*Frame, error) {
	if err := server.Params(r).Err(); err != nil {
		return nil, err
	}
	var fixity api.Fixity
	err := h.Get(r, "/api/v1/fixity", &fixity)
	v := viewFixity(time.Now(), &fixity)
	v.Acts = h.Permits(r, http.MethodPost, "/fixity/check")
	if job.KindOf(err) == job.NotFound {
		v.Absent, err = job.Reason(err), nil
	}
	return &Frame{Title: "Storage and fixity", Body: v, Refresh: overviewRefresh,
		Lead: "Where copies are stored, and " +
			"whether they are still as they were. A fixity check reads stored files and compares them with their " +
			"digests."}, err
}

// mostFaults is how many faults the page shows.
const mostFaults = 200

// viewFixity makes the page.
func viewFixity(now time.Time, f *api.Fixity) fixityView {
	v := fixityView{Count: f.Count, Faults: f.Faults[:min(len(f.Faults), mostFaults)]}
	for _, l := range f.Locations {
		row := locationRow{FixityLocation: l, Oldest: amount.Ago(now, l.Oldest), Next: amount.Ago(now, l.Next),
			Tone: Good, FixityState: "sound"}
		switch {
		case l.Reason != "":
			row.Tone, row.FixityState = Bad, "not readable"
		case l.Damaged > 0:
			row.Tone, row.FixityState = Bad, "damaged"
		case l.Overdue > 0:
			row.Tone, row.FixityState = Held, "overdue"
		}
		switch c := l.Check; {
		case c == nil:
		case c.Failure != "":
			row.Check = "ended early: " + c.Failure
		case c.Ended.IsZero():
			row.Check = "in progress, " + numbered(int(c.Copies), "copy", "copies") + " read"
		default:
			row.Check = amount.Ago(now, c.Ended) + ", " + numbered(int(c.Copies), "copy", "copies") + " read"
		}
		v.Locations = append(v.Locations, row)
	}
	return v
}

func (h *handlers) checkFixity(r *http.Request, form *Form) (to, done string, err error) {
	b := api.CheckFixity{Application: form.Text("application"), Location: form.Text("location"),
		Note: form.Line("note")}
	if err := form.Err(); err != nil {
		return "", "", err
	}
	_, err = h.Ask(r, http.MethodPost, "/api/v1/fixity", b)
	return "/fixity", "The check is requested and runs in the background", err
}
