package web

import (
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/server/problem"
	"github.com/stagepost/stagepost/web/amount"
)

// holdsView is what the page about holds shows.
type holdsView struct {
	Acts   bool // the reader may put and release holds
	Holds  []holdRow
	Held   []heldRow
	Kinds  []choice
	States []choice
	Wrong  string            // why the form that was sent is refused; empty: none was
	Sent   map[string]string // its fields
}

type holdRow struct {
	api.QueueHold
	Name  string // the scope in words
	Since string
	Left  string // until it ends by itself
}

// heldRow is jobs that people put aside one by one.
type heldRow struct {
	job.Tally
	Many string
	Path string
}

func (h *handlers) holds(r *http.Request) (*Frame, error) {
	var holds api.QueueHolds
	if err := h.Get(r, "/api/v1/queue/holds", &holds); err != nil {
		return nil, err
	}
	v := viewHolds(h.Pages, h.Engine.Clock().Now(), &holds)
	v.Acts = h.Permits(r, http.MethodPost, "/holds")
	return &Frame{Title: "Holds", Body: v, Lead: "A hold keeps jobs " +
		"from being worked on. What runs continues; nothing is lost. Release the hold and the jobs continue."}, nil
}

// viewHolds makes the page.
func viewHolds(kinds Catalog, now time.Time, in *api.QueueHolds) holdsView {
	v := holdsView{States: stateChoices(kinds, nil)}
	for _, k := range kinds.KindsOf() {
		v.Kinds = append(v.Kinds, choice{Value: string(k), Text: kinds.NameOf(k).Many})
	}
	for _, one := range in.Holds {
		row := holdRow{QueueHold: one, Name: one.Scope.String(), Since: amount.Ago(now, one.Since)}
		if !one.Until.IsZero() {
			row.Left = amount.Span(one.Until.Sub(now))
		}
		v.Holds = append(v.Holds, row)
	}
	for _, t := range in.Held {
		q := url.Values{"kind": {string(t.Kind)}, "state": {string(t.State)}}
		if t.Group != "" {
			q.Set("group", t.Group)
		}
		v.Held = append(v.Held, heldRow{t, kinds.NameOf(t.Kind).Many, With("/jobs", q)})
	}
	return v
}

// scope reads the scope of a hold from a form.
func scope(form *Form) (s job.Scope, everything bool) {
	s = job.Scope{Kind: job.Kind(form.Text("kind")), State: lifecycle.State(form.Text("state")),
		Group: form.Text("group"), Owner: form.Text("owner"), Tag: form.Text("tag"), Job: job.ID(form.Text("job"))}
	return s, form.Checked("everything")
}

// hold puts a hold. A form with a mistake is shown again as it was sent.
func (h *handlers) hold(w http.ResponseWriter, r *http.Request) error {
	return h.Form(w, r, func(form *Form) error {
		sent := map[string]string{}
		for name := range form.values {
			sent[name] = form.values.Get(name)
		}
		b := api.Hold{Why: form.Line("why"), Until: form.Time("until")}
		b.Scope, b.Everything = scope(form)
		err := form.Err()
		if err == nil {
			_, err = h.Ask(r, http.MethodPut, "/api/v1/holds", b)
		}
		if err == nil {
			return h.Done(w, "/holds", "Held: "+b.Scope.String())
		}
		of := problem.Of(err)
		f, wrong := h.holds(r)
		if wrong != nil || of.Kind != job.Invalid && of.Kind != job.NotFound {
			return err
		}
		v := f.Body.(holdsView)
		v.Wrong, v.Sent = strings.TrimPrefix(string(of.Job)+": "+of.Detail, ": "), sent
		v.Kinds, v.States = choose(v.Kinds, nonEmpty(sent["kind"])), choose(v.States, nonEmpty(sent["state"]))
		f.Body = v
		return h.Reply(w, r, of.Status, "holds.html", f)
	})
}

func (h *handlers) release(r *http.Request, form *Form) (to, done string, err error) {
	s, everything := scope(form)
	why := form.Line("why")
	if err := form.Err(); err != nil {
		return "", "", err
	}
	q := Given(url.Values{"kind": {string(s.Kind)}, "state": {string(s.State)}, "group": {s.Group}, "owner": {s.Owner},
		"tag": {s.Tag}, "job": {string(s.Job)}, "why": {why}})
	if everything {
		q.Set("everything", "true")
	}
	_, err = h.Ask(r, http.MethodDelete, With("/api/v1/holds", q), nil)
	return "/holds", "Released: " + s.String(), err
}

// locksView is what the page about locks shows.
type locksView struct {
	Absent string // why there are none
	Acts   bool   // the reader may break them
	Locks  []lockRow
}

type lockRow struct {
	api.Lock
	Since string
	Left  bool // its holder has ended
}

func (h *handlers) locks(r *http.Request) (*Frame, error) {
	var locks api.Locks
	v := locksView{Acts: h.Permits(r, http.MethodPost, "/locks/break")}
	err := h.Get(r, "/api/v1/locks", &locks)
	if job.KindOf(err) == job.NotFound {
		v.Absent = job.Reason(err)
		err = nil
	}
	now := h.Engine.Clock().Now()
	for _, l := range locks.Locks {
		v.Locks = append(v.Locks, lockRow{l, amount.Ago(now, l.Since), l.State == "left"})
	}
	return &Frame{Title: "Locks", Body: v, Lead: "A lock belongs to one job and ends with it. Break one only if its " +
		"holder cannot continue: what the holder writes under it afterwards is refused."}, err
}

func (h *handlers) breakLock(r *http.Request, form *Form) (to, done string, err error) {
	q := url.Values{"kind": {form.Text("kind")}, "name": {form.Text("name")}, "note": {form.Line("note")}}
	if err := form.Err(); err != nil {
		return "", "", err
	}
	_, err = h.Ask(r, http.MethodDelete, With("/api/v1/locks", Given(q)), nil)
	return "/locks", "The lock is broken", err
}

// workersView is what the page about workers shows.
type workersView struct {
	Workers []workerRow
	Cut     bool
}

type workerRow struct {
	api.WorkerInfo
	Kinds  string
	Oldest string
	Lease  string
	Seen   string
	Sample job.ID // one of its jobs
	Path   string
}

func (h *handlers) workers(r *http.Request) (*Frame, error) {
	var workers api.Workers
	if err := h.Get(r, "/api/v1/workers", &workers); err != nil {
		return nil, err
	}
	return &Frame{Title: "Workers", Body: viewWorkers(h.Pages, &workers), Refresh: overviewRefresh,
		Lead: "Who takes jobs, and who has some. A worker renews its leases; when one expires, another worker " +
			"continues the job."}, nil
}

// viewWorkers makes the page.
func viewWorkers(kinds Kinds, in *api.Workers) workersView {
	v := workersView{Cut: in.Cut}
	for _, w := range in.Workers {
		jobs := url.Values{"worker": {w.Name}, "ended": {"false"}}
		if w.Tag != "" {
			jobs = url.Values{"tag": {w.Tag}, "ended": {"false"}}
		}
		row := workerRow{WorkerInfo: w, Path: With("/jobs", jobs)}
		if !w.Oldest.IsZero() {
			row.Oldest, row.Lease = amount.Ago(in.At, w.Oldest), amount.Ago(in.At, w.Until)
		}
		if len(w.Running) > 0 {
			row.Sample = w.Running[0]
		}
		if !w.Seen.IsZero() {
			row.Seen = amount.Ago(in.At, w.Seen)
		}
		var names []string
		for _, k := range w.Kinds {
			names = append(names, kinds.NameOf(k).Many)
		}
		row.Kinds = strings.Join(names, ", ")
		v.Workers = append(v.Workers, row)
	}
	return v
}
