package web

import (
	"cmp"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/server"
	"github.com/stagepost/stagepost/server/identity"
	"github.com/stagepost/stagepost/web/amount"
	"github.com/stagepost/stagepost/web/markup"
	"github.com/stagepost/stagepost/web/plain"
	"github.com/stagepost/stagepost/web/timeline"
)

// Bounds of the page about a job; the lists of the API have all.
const (
	jobHistory  = server.MostPage // entries from which the timeline is made
	jobChildren = 10
	jobLines    = 20 // of the end of its log
	jobTasks    = 1000
)

// jobInput is what the API answers about a job.
type jobInput struct {
	Job      api.Job
	Why      api.Explanation
	History  []job.Event // the newest, oldest first
	Tasks    api.Tasks
	Children api.Page
	Diagram  template.HTML
	Log      logView
	Entry    int64 // of the history, whose state is shown; 0: the last
	Now      time.Time
	By       lifecycle.Actor // as whom the reader acts
	Reorders bool            // the reader may change priorities

	Plain plain.Words // for its owner; nil: for staff
}

// jobView is what the page shows.
type jobView struct {
	Row
	Progress *job.Progress
	Owners   string // group and owner
	Plain    bool   // it has no terms of operators
	Past     bool   // it shows an earlier time
	At       time.Time
	Entry    int64
	First    int64 // number of the first entry that the slider reaches
	Blockers []blockerView
	Queue    *api.QueuePosition // then
	Next     string             // what the next sweep moves it for
	Chain    []job.Event
	Attempts string
	Not      []string
	Unknown  []string // of an earlier time
	Exits    []exit
	Stays    []stay
	Claims   string
	Tasks    []taskRow
	AllTasks int  // with those that are not shown
	Unnamed  bool // the server does not know who the reader is
	Children childrenView
	Diagram  template.HTML
	History  []historyRow
	Older    bool // there are entries before the first row
	Chained  string
	Broken   bool // a hash does not match
	Newer    bool // a newer version wrote an entry, whose hash this one cannot compute
	Spec     string
	Data     string
	Log      logView
	Files    string        // address of the page with its files; empty: it has none
	Expected string        // when it should end
	Page     string        // of the application, for the depositor
	Details  template.HTML // of the application
	Reorders bool          // the reader may change the priority
}

// blockerView is one reason why a job does not move.
type blockerView struct {
	job.Blocker
	For   string // how long it has been so
	Again string // in how long it ends or is examined again
}

// exit is a legal event that a person may cause.
type exit struct {
	Event   lifecycle.Event
	To      lifecycle.State
	Doc     string
	Refused string
	Confirm bool // it loses something: a box must be checked
	Command string
}

type taskRow struct {
	job.Task
	Tone    Tone
	Percent int
	Since   string
	Retry   bool // the reader may have it tried again
}

type childrenView struct {
	Rows  []Row
	Parts []part
	Total int
	All   string // address of the whole list
	Bad   string // address of those that failed; empty: none did
}

// part is one outcome of the jobs of a batch, as a part of a bar.
type part struct {
	Name  string
	Tone  Tone
	Jobs  int
	X, W  int // of 100
	Where string
}

type historyRow struct {
	job.Event
	Who   string
	Sent  string // the address of the sender, if the reader may see it
	After string // time since the entry before
	Moved bool   // the state changed
	Bad   bool   // its hash does not match
	Path  string // of the page as it was after this entry
}

func (h *handlers) job(r *http.Request) (*Frame, error) {
	p := server.Params(r)
	in := jobInput{Now: h.Engine.Clock().Now(), Entry: p.Number("entry", 1, 1<<53), By: lifecycle.Operator,
		Reorders: h.Permits(r, http.MethodPut, "/api/v1/jobs/{id}/priority")}
	text := p.Text("text")
	if err := p.Err(); err != nil {
		return nil, err
	}
	if server.IsUser(r.Context()) {
		in.By, in.Plain = lifecycle.Owner, h.PlainOf
	}
	if h.Visitor(r).Role == identity.Auditor {
		in.By = 0 // an auditor reads
	}
	if err := h.readJob(r, &in, text); err != nil {
		return nil, err
	}
	var details server.Details
	if in.Entry == 0 {
		var err error
		if details, err = h.DetailsOf(r, &in.Job); err != nil {
			return nil, err
		}
		if !details.Tasks {
			if err := h.Get(r, jobAPI(in.Job.ID)+"/tasks", &in.Tasks); err != nil {
				return nil, err
			}
		}
	}
	v := viewJob(h.Pages, &in)
	v.Unnamed = !h.Visitor(r).SignedIn
	if path := h.FilesOf(&in.Job.Job); path != "" {
		v.Files = JobPath(in.Job.ID) + "/files"
	}
	if !v.Past && !in.Job.Ended {
		var x api.Expected
		if err := h.Get(r, jobAPI(in.Job.ID)+"/expected", &x); err != nil {
			return nil, err
		}
		v.Expected = amount.Expectation(&x)
	}
	v.Details = details.HTML
	if details.Children {
		v.Children.Rows = nil
	}
	f := &Frame{Title: v.Name, Plain: true, Styles: details.Styles, Scripts: details.Scripts, Body: v}
	if !in.Job.Ended && !v.Past {
		f.Events = eventsOf(&in.Job.Job, &in.Log)
	}
	return f, nil
}

// jobAPI is the path of a job in the API.
func jobAPI(id job.ID) string { return "/api/v1/jobs/" + url.PathEscape(string(id)) }

// readJob asks the API about a job without its tasks, and for the lines of its log that contain a text.
func (h *handlers) readJob(r *http.Request, in *jobInput, text string) error {
	path := "/api/v1/jobs/" + url.PathEscape(r.PathValue("id"))
	if err := h.Get(r, path, &in.Job); err != nil {
		return err
	}
	var history api.History
	first := max(0, cmp.Or(in.Entry, in.Job.Seq)-jobHistory)
	if err := h.Get(r, path+"/history?limit=1000&after="+strconv.FormatInt(first, 10), &history); err != nil {
		return err
	}
	in.History = history.History
	at := ""
	if in.Entry > 0 && in.Entry < in.Job.Seq {
		if i := in.Entry - first - 1; i < int64(len(in.History)) {
			at = "?at=" + url.QueryEscape(in.History[i].At.UTC().Format(time.RFC3339Nano))
		}
	} else {
		in.Entry = 0
	}
	if err := h.Get(r, path+"/why"+at, &in.Why); err != nil {
		return err
	}
	if in.Entry == 0 {
		log, err := h.readLog(r, in.Job.ID, 0, text, jobLines)
		if err != nil {
			return err
		}
		in.Log, in.Log.Form = log, JobPath(in.Job.ID)+"#log"
	}
	if in.Job.Children.Expected > 0 {
		if err := h.Get(r, path+"/children?brief=true&limit="+strconv.Itoa(jobChildren), &in.Children); err != nil {
			return err
		}
	}
	if svg, err := h.Ask(r, http.MethodGet, path+"/diagram.svg"+at, nil); err == nil {
		in.Diagram = Inline(string(svg)) // a job of an unknown kind has none
	}
	return nil
}

// Inline makes a drawing a part of a page, without the style sheet in it, which is served as a file.
func Inline(svg string) template.HTML {
	before, rest, _ := strings.Cut(svg, "<style>")
	_, after, _ := strings.Cut(rest, "</style>")
	return template.HTML(before + after)
}

// stay is the time that a job spent in one state.
type stay struct {
	timeline.Stay
	Tone Tone
}

// staysOf makes the timeline of a history.
func staysOf(kinds Kinds, j *job.Job, history []job.Event, until timeline.Until) (all []stay) {
	stageOf := func(s lifecycle.State) lifecycle.Stage { return kinds.Stage(j.Kind, s) }
	for _, s := range timeline.Of(stageOf, history, until) {
		stage := stageOf(s.State)
		all = append(all, stay{s, ToneOf(&stage, s.Outcome, s.End, stage.Kind == lifecycle.Work && !s.Waits)})
	}
	return all
}

// viewJob makes the page.
func viewJob(kinds Kinds, in *jobInput) jobView {
	record := in.Job.Job // a past position replaces the present one
	j := &record
	v := jobView{Row: rowOf(kinds, in.Now, j), Progress: in.Job.Progress, Owners: strings.Join(nonEmpty(j.Group,
		j.Owner), ", "),
		Past: in.Entry > 0, At: in.Why.At, Entry: cmp.Or(in.Entry, j.Seq), First: 1, Queue: in.Why.Queue,
		Next: in.Why.Next, Chain: in.Why.Chain, Attempts: in.Why.Attempts, Not: in.Why.Not, Unknown: in.Why.Unknown,
		Diagram: in.Diagram,
		Spec:    markup.JSON(j.Spec), Data: markup.JSON(j.Data), Log: in.Log, Page: in.Job.Links["page"],
		Reorders: in.Reorders && !j.Ended && in.Entry == 0}
	if v.Past {
		j.Position, j.Entered, j.Message, v.Progress = in.Why.Position, in.Why.Entered, "", nil
		j.Worker, j.Retries = "", 0 // the explanation has the retries, and the history no claims
		stage := kinds.Stage(j.Kind, j.State)
		j.Ended = stage.Kind == lifecycle.End
		v.Tone = ToneOf(&stage, j.Outcome, j.Ended, false)
	} else {
		v.Exits = exitsFor(in.Why.Moves, in.By)
	}
	reasons := in.Why.Blockers
	if in.Plain != nil {
		reasons, j.Message = in.Plain.Blockers(j, reasons), in.Plain.Message(j)
		v.Plain, v.Not = true, nil
	}
	if len(reasons) > 0 && reasons[0].Sentence == j.Message {
		j.Message = "" // the reason below states it
	}
	v.omitRepeats(reasons)
	for i := range reasons {
		b := &reasons[i]
		one := blockerView{Blocker: *b}
		one.Remedies = slices.DeleteFunc(slices.Clone(b.Remedies), func(r job.Remedy) bool {
			return r.Command != "" && (in.By == lifecycle.Owner || slices.ContainsFunc(v.Exits, func(e exit) bool {
				return e.Command == r.Command
			}))
		})
		if in.By == lifecycle.Owner && b.Holder == j.Worker {
			one.Holder = "" // the name of a worker
		}
		if !b.Since.IsZero() {
			one.For = amount.Span(in.Why.At.Sub(b.Since))
		}
		if b.Until.After(in.Why.At) {
			one.Again = amount.Span(b.Until.Sub(in.Why.At))
		}
		v.Blockers = append(v.Blockers, one)
	}
	until := timeline.Until{At: in.Now, Claimed: j.Claimed(), Past: v.Past}
	entries := in.History
	if v.Past && len(entries) > 0 {
		until.At = in.Why.At
		entries = entries[:min(len(entries), int(in.Entry-entries[0].Seq)+1)]
	}
	v.Stays = staysOf(kinds, j, entries, until)
	v.AllTasks = len(in.Tasks.Tasks)
	for i := range min(v.AllTasks, jobTasks) {
		t := &in.Tasks.Tasks[i]
		stage := kinds.Stage(t.Kind, t.State)
		v.Tasks = append(v.Tasks, taskRow{*t, ToneOf(&stage, stage.Outcome, stage.Kind == lifecycle.End, false),
			amount.Percent(t.Done, t.Total), amount.Ago(in.Now, t.Changed), !v.Past &&
				slices.Contains(in.Tasks.Retry, t.Name)})
	}
	v.Children = childrenOf(kinds, in)
	v.setHistory(in)
	return v
}

// omitRepeats removes what a reason states already from the steps to the end and from the exits that are refused.
func (v *jobView) omitRepeats(reasons []job.Blocker) {
	v.Chain = slices.Clone(v.Chain)
	for i := range reasons {
		text := reasons[i].Sentence
		for k := range v.Chain {
			if strings.Contains(text, v.Chain[k].Note) {
				v.Chain[k].Note = ""
			}
		}
		for k := range v.Exits {
			v.Exits[k].Refused = strings.ReplaceAll(v.Exits[k].Refused, " ("+text+")", "")
		}
	}
}

// exitsFor lists what a person may do, in the order of the lifecycle.
func exitsFor(moves []api.Move, by lifecycle.Actor) (all []exit) {
	for _, m := range moves {
		if m.By&by == 0 || m.Event == lifecycle.Reprioritize {
			continue
		}
		e := exit{Event: m.Event, To: m.To, Doc: m.Doc, Refused: m.Refused}
		if m.Remedy != nil {
			if by != lifecycle.Owner { // owners have the pages
				e.Command = m.Remedy.Command
			}
			e.Confirm = strings.Contains(string(m.Remedy.Body), "confirm")
		}
		all = append(all, e)
	}
	return all
}

func childrenOf(kinds Kinds, in *jobInput) childrenView {
	c := in.Job.Children
	if c.Expected == 0 {
		return childrenView{}
	}
	v := childrenView{Rows: rowsOf(kinds, in.Now, &in.Children), Total: c.Expected}
	of := func(more url.Values) string {
		more.Set("parent", string(in.Job.ID))
		return With("/jobs", more)
	}
	v.All = of(url.Values{})
	if c.Failed+c.TimedOut > 0 {
		v.Bad = of(url.Values{"outcome": {string(lifecycle.Failed), string(lifecycle.TimedOut)}})
	}
	x := 0
	for _, p := range []part{
		{Name: "ok", Tone: Good, Jobs: c.OK, Where: of(url.Values{"outcome": {string(lifecycle.OK)}})},
		{Name: "failed", Tone: Bad, Jobs: c.Failed + c.TimedOut, Where: v.Bad},
		{Name: "cancelled", Tone: Quiet, Jobs: c.Cancelled,
			Where: of(url.Values{"outcome": {string(lifecycle.Cancelled)}})},
		{Name: "deleted", Tone: Quiet, Jobs: c.Deleted},
		{Name: "open", Tone: Working, Jobs: c.Open, Where: of(url.Values{"ended": {"false"}})},
	} {
		if p.Jobs == 0 {
			continue
		}
		p.X, p.W = x, max(1, amount.Percent(p.Jobs, c.Expected))
		x += p.W
		v.Parts = append(v.Parts, p)
	}
	return v
}

// setHistory makes the rows of the history, the newest first, and checks the chain of hashes.
func (v *jobView) setHistory(in *jobInput) {
	var prev job.Hash
	if len(in.History) > 0 {
		prev, v.First = in.History[0].Prev, in.History[0].Seq
		v.Older = v.First > 1
	}
	for i, e := range in.History {
		row := historyRow{Event: e, Moved: e.From != e.To, Who: whoOf(&e),
			Path: JobPath(in.Job.ID) + "?entry=" + strconv.FormatInt(e.Seq, 10)}
		if e.Event == job.Create && e.Cause != "" && e.Note == "" { // the cause is the digest of the request
			row.Note = "a request with an idempotency key"
		}
		if in.Plain != nil {
			row.Who, row.Note = in.Plain.Entry(in.Job.Kind, &row.Event, row.Who)
		}
		if i > 0 {
			row.After = amount.Span(e.At.Sub(in.History[i-1].At))
		}
		sealed := e
		sealed.Seal(prev)
		row.Bad = sealed.Hash != e.Hash
		if e.Address == job.Withheld || e.Newer { // the hash cannot be computed
			row.Bad = e.Prev != prev
		} else {
			row.Sent = e.Address
		}
		v.Broken, v.Newer = v.Broken || row.Bad, v.Newer || e.Newer
		prev = e.Hash
		v.History = append([]historyRow{row}, v.History...)
	}
	if n := len(in.History); n > 0 && in.History[n-1].Seq == in.Job.Seq && prev != in.Job.Head {
		v.Broken = true
	}
	v.Chained = numbered(len(in.History), "entry", "entries") + ", each with the hash of the one before"
}

// whoOf names who caused an entry.
func whoOf(e *job.Event) string {
	if e.Actor == "" {
		return e.By.String()
	}
	return e.By.String() + " " + e.Actor
}

// act causes an event.
func (h *handlers) act(r *http.Request, form *Form) (to, done string, err error) {
	a := api.Act{Note: form.Line("note"), Confirm: form.Checked("confirm"), Now: form.Checked("now")}
	if text := form.Text("version"); text != "" {
		if a.Version, err = strconv.ParseInt(text, 10, 64); err != nil {
			form.Wrong("version must be a number, not %.40q", text)
		}
	}
	if err := form.Err(); err != nil {
		return "", "", err
	}
	id, event := r.PathValue("id"), r.PathValue("event")
	_, err = h.Ask(r, http.MethodPost, "/api/v1/jobs/"+url.PathEscape(id)+"/events/"+url.PathEscape(event), a)
	return JobPath(job.ID(id)), "Done: " + event, err
}

// retryTask has a task tried again.
func (h *handlers) retryTask(r *http.Request, form *Form) (to, done string, err error) {
	a := api.TaskRetry{Task: form.Text("task"), Actor: form.Line("actor"), Note: form.Line("note")}
	if err := form.Err(); err != nil {
		return "", "", err
	}
	id := r.PathValue("id")
	_, err = h.Ask(r, http.MethodPost, "/api/v1/jobs/"+url.PathEscape(id)+"/tasks/retry", a)
	return JobPath(job.ID(id)), "The task is tried again: " + a.Task, err
}

// priority moves a job in its queue.
func (h *handlers) priority(r *http.Request, form *Form) (to, done string, err error) {
	text := form.Text("priority")
	p := api.Priority{Note: form.Line("note")}
	n, wrong := strconv.Atoi(text)
	if text != "" && wrong != nil {
		form.Wrong("priority must be a number from 0 to 99, not %.40q", text)
	}
	if err := form.Err(); err != nil {
		return "", "", err
	}
	if text != "" {
		p.Priority = &n
	}
	id := r.PathValue("id")
	if _, err := h.Ask(r, http.MethodGet, "/api/v1/jobs/"+url.PathEscape(id), nil); err != nil {
		return "", "", err // that there is none goes before a mistake in the form
	}
	_, err = h.Ask(r, http.MethodPut, "/api/v1/jobs/"+url.PathEscape(id)+"/priority", p)
	return JobPath(job.ID(id)), "The priority is now " + text, err
}
