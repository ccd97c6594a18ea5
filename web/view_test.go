package web

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/internal/printable"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/server"
)

// letters is the catalog of one kind.
type letters struct{}

var stages = []lifecycle.Stage{
	{State: "Queued", Kind: lifecycle.Queue}, {State: "Writing", Kind: lifecycle.Work}, {State: "Held",
		Kind: lifecycle.Wait},
	{State: "Sent", Kind: lifecycle.End, Outcome: lifecycle.OK}, {State: "Lost", Kind: lifecycle.End,
		Outcome: lifecycle.Failed},
}

func (letters) NameOf(job.Kind) server.Named {
	return server.Named{One: "letter", Many: "letters", Application: "Post"}
}
func (letters) KindsOf() []job.Kind               { return []job.Kind{"letter"} }
func (letters) Stages(job.Kind) []lifecycle.Stage { return stages }
func (letters) Stage(_ job.Kind, s lifecycle.State) lifecycle.Stage {
	for _, one := range stages {
		if one.State == s {
			return one
		}
	}
	return lifecycle.Stage{State: s}
}

var noon = time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)

// TestStrangersTexts: logs are as they are spelled, and what hides or turns a text is visible in them.
func TestStrangersTexts(t *testing.T) {
	spelled := "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645 \U0001f468\u200d\U0001f469"
	if got := printable.Lines(spelled + "\n\tad\u200cmin\u202e\x1b"); got != spelled+"\n\tad\ufffdmin\ufffd\ufffd" {
		t.Errorf("a log: got %+q", got)
	}
}

func TestTones(t *testing.T) {
	for _, c := range []struct {
		kind           lifecycle.Kind
		outcome        lifecycle.Outcome
		ended, claimed bool
		want           Tone
	}{
		{lifecycle.Queue, lifecycle.None, false, false, Waiting}, {lifecycle.Queue, lifecycle.None, false, true,
			Working},
		{lifecycle.Work, lifecycle.None, false, false, Working}, {lifecycle.Wait, lifecycle.None, false, false, Held},
		{lifecycle.End, lifecycle.OK, true, false, Good}, {lifecycle.End, lifecycle.Failed, true, false, Bad},
		{lifecycle.Wait, lifecycle.Failed, false, false, Bad}, {lifecycle.End, lifecycle.TimedOut, true, false, Bad},
		{lifecycle.End, lifecycle.Cancelled, true, false, Quiet},
	} {
		if got := ToneOf(&lifecycle.Stage{Kind: c.kind}, c.outcome, c.ended, c.claimed); got != c.want {
			t.Errorf("%+v: got %s", c, got)
		}
	}
	elsewhere := lifecycle.OnWait("Running", "x", lifecycle.OnPass("finish", "Done", lifecycle.Worker, "x"))
	if got := ToneOf(&elsewhere, lifecycle.None, false, false); got != Working {
		t.Errorf("a state that waits for a worker elsewhere: got %s", got)
	}
}

// TestOverview: what needs attention comes first, the worst first, and the jobs are summed up by what they do.
func TestOverview(t *testing.T) {
	in := &overviewInput{
		Health:  api.Health{Status: "storage full", Warnings: []string{"the clock is ahead"}},
		Workers: api.Workers{Workers: []api.WorkerInfo{{Name: "a", Expired: 1}, {Name: "b"}}},
		Holds:   api.QueueHolds{Holds: []api.QueueHold{{Jobs: 3}}},
		Attention: attention{At: noon, Stuck: api.Stuck{Found: 9, Stuck: []api.StuckJob{{Job: "let_1",
			Kind: "letter", State: "Writing",
			Reasons: []api.StuckReason{{Sentence: "in Writing for 2h"}}}}, Messages: make([]job.Message, 2)}},
		Queue: api.Queue{At: noon, Total: api.QueueTotal{Jobs: 10}, States: []api.QueueTotal{
			{Kind: "letter", State: "Queued", Jobs: 3, Claimed: 1}, {Kind: "letter", State: "Writing", Jobs: 2,
				Claimed: 2},
			{Kind: "letter", State: "Held", Jobs: 1}, {Kind: "letter", State: "Sent", Jobs: 3}, {Kind: "letter",
				State: "Lost", Jobs: 1},
		}},
	}
	in.Attention.Throughput = api.Throughput{Since: noon, Hours: []api.ThroughputHour{{Start: noon},
		{Start: noon.Add(time.Hour), Kinds: []api.ThroughputKind{
			{Kind: "letter", Jobs: 4, OK: 1, Failed: 2, TimedOut: 1}, {Kind: "card", Jobs: 4}}}}}
	v := viewOverview(letters{}, in)
	var texts []string
	for _, a := range v.Alerts {
		texts = append(texts, fmt.Sprintf("%s %s %s", a.Tone, a.Text, a.Link))
	}
	want := []string{
		"bad The server is not well: storage full /healthz",
		"bad 1 worker has jobs whose lease has expired /workers",
		"held the clock is ahead ",
		"bad 2 messages were abandoned after the last attempt /outbox?status=abandoned",
		"bad 1 job failed /jobs?outcome=failed&outcome=timed-out&kind=letter&state=Lost",
		"held 1 hold keeps 3 jobs from being worked on /holds", "held 9 jobs do not move as usual #stuck",
	}
	if diff := cmp.Diff(want, texts); diff != "" {
		t.Error(diff)
	}
	row := applicationRow{Application: "Post", Many: "letters", Kind: "letter", Queued: 2, Working: 3, Waiting: 1,
		Failed: 1,
		Done:   3, AllFailed: "/jobs?outcome=failed&outcome=timed-out&kind=letter&state=Lost"}
	row.Hours = v.Applications[0].Hours
	if diff := cmp.Diff([]applicationRow{row}, v.Applications); diff != "" {
		t.Error(diff)
	}
	if v.StuckMore != 8 || v.Hours.Jobs != 8 || v.Hours.Bars[0].Height != 0 || v.Hours.Bars[1].Height != 40 {
		t.Errorf("got %+v", v)
	}
	if h := row.Hours; h.Jobs != 4 || h.Failed != 3 || h.Bars[1].Text != "13:00 UTC: 4 jobs ended, of which 3 failed" {
		t.Errorf("the throughput of letters: got %+v", h)
	}
	calm := viewOverview(letters{}, &overviewInput{Health: api.Health{Status: "ok"}})
	if len(calm.Alerts) != 0 || !calm.Empty {
		t.Errorf("nothing to do: got %+v", calm)
	}
}

// pages is the catalog of letters and of their parts.
type pages struct{ letters }

func (p pages) NameOf(k job.Kind) server.Named {
	return server.Named{One: string(k), Many: string(k), Application: "Post", Part: k == "page"}
}

// TestFailedJobs: the overview counts the failed jobs that are there and no parts of others, and its links list them.
func TestFailedJobs(t *testing.T) {
	in := &overviewInput{Health: api.Health{Status: "ok"}, Queue: api.Queue{Total: api.QueueTotal{Jobs: 9},
		States: []api.QueueTotal{{Kind: "letter", State: "Lost", Jobs: 2}, {Kind: "page", State: "Lost", Jobs: 3},
			{Kind: "card", State: "Lost", Jobs: 1}, {Kind: "card", State: "Sent", Jobs: 3}}}}
	v := viewOverview(pages{}, in)
	const list = "/jobs?outcome=failed&outcome=timed-out&kind=letter&kind=card&state=Lost"
	if len(v.Alerts) != 1 || v.Alerts[0].Text != "3 jobs failed" || v.Alerts[0].Link != list || v.AllFailed != list {
		t.Errorf("got %+v, %s", v.Alerts, v.AllFailed)
	}
	failed := int64(0)
	for _, row := range v.Applications {
		if !row.Part {
			failed += row.Failed
		}
	}
	if len(v.Applications) != 3 || failed != 3 {
		t.Errorf("the table: %+v", v.Applications)
	}
}

// TestHoldWithoutJobs: a hold for which no job waits keeps none.
func TestHoldWithoutJobs(t *testing.T) {
	v := viewOverview(letters{}, &overviewInput{Health: api.Health{Status: "ok"},
		Holds: api.QueueHolds{Holds: make([]api.QueueHold, 2)}})
	if len(v.Alerts) != 1 || v.Alerts[0].Text != "2 holds, for which no job waits" {
		t.Errorf("got %+v", v.Alerts)
	}
}

// TestJobsOfAgent: the jobs of an agent are found by its tag, because its server has claimed them.
func TestJobsOfAgent(t *testing.T) {
	v := viewWorkers(letters{}, &api.Workers{Workers: []api.WorkerInfo{{Name: "w", Jobs: 1}, {Name: "a", Jobs: 1,
		Tag: "agent=a"}}})
	if got, want := v.Workers[0].Path, "/jobs?ended=false&worker=w"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got, want := v.Workers[1].Path, "/jobs?ended=false&tag=agent%3Da"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestReasonOnce: what a reason states is not repeated by the steps to the end and by a refused exit, a command has its
// form alone, and owners get neither commands nor the names of workers.
func TestReasonOnce(t *testing.T) {
	retry := job.Causing("retry", "let_1", false, "It is tried again.")
	blocker := job.Blocker{Sentence: "no such digest", Holder: "engine/x", Remedies: []job.Remedy{retry,
		job.Running("logs let_1", "shows what the attempts did"), {Doc: "ask your archive"}}}
	both := lifecycle.Operator | lifecycle.Owner
	for by, want := range map[lifecycle.Actor]string{
		lifecycle.Operator: "engine/x [shows what the attempts did ask your archive] stagepost retry let_1",
		lifecycle.Owner:    " [ask your archive] ",
	} {
		in := &jobInput{By: by, Why: api.Explanation{Blockers: []job.Blocker{blocker},
			Chain: []job.Event{{Event: "fail", Note: "no such digest"}, {Event: "hold", Note: "another"}},
			Moves: []api.Move{{Event: "retry", By: both, Remedy: &retry},
				{Event: "reset", By: both, Refused: "it is wrong (no such digest): hand it in again"}}}}
		in.Job.Kind, in.Job.Worker = "letter", "engine/x"
		v := viewJob(letters{}, in)
		var docs []string
		for _, r := range v.Blockers[0].Remedies {
			docs = append(docs, r.Doc)
		}
		if got := fmt.Sprintf("%s %s %s", v.Blockers[0].Holder, docs, v.Exits[0].Command); got != want {
			t.Errorf("%s: got %q, want %q", by, got, want)
		}
		if v.Chain[0].Note != "" || v.Chain[1].Note != "another" ||
			v.Exits[1].Refused != "it is wrong: hand it in again" || in.Why.Chain[0].Note == "" {
			t.Errorf("%s: %+v, %+v", by, v.Chain, v.Exits)
		}
	}
}

// TestChain: an entry that was changed is found.
func TestChain(t *testing.T) {
	first, second := job.Event{Job: "let_1", Seq: 1, To: "Queued", At: noon}, job.Event{Job: "let_1", Seq: 2,
		Event: "go", At: noon}
	first.Seal(job.Hash{})
	second.Seal(first.Hash)
	in := &jobInput{History: []job.Event{first, second}}
	in.Job.ID, in.Job.Seq, in.Job.Head = "let_1", 2, second.Hash
	v := jobView{}
	v.setHistory(in)
	if v.Broken || len(v.History) != 2 || v.History[0].Seq != 2 {
		t.Errorf("the control: %+v", v)
	}
	for name, change := range map[string]func(){
		"an edited note": func() { in.History[0].Note = "edited" },
		"another head":   func() { in.Job.Head = first.Hash },
		"an address":     func() { in.History[0].Address = "192.0.2.7" },
		"an entry before one with a withheld address": func() {
			in.History[0].Note, in.History[1].Address = "edited", job.Withheld
			in.History[0].Seal(job.Hash{})
		},
	} {
		in.History, in.Job.Head = []job.Event{first, second}, second.Hash
		change()
		v := jobView{}
		if v.setHistory(in); !v.Broken {
			t.Errorf("%s is not found", name)
		}
	}
	second.Address = "192.0.2.7"
	second.Seal(first.Hash)
	in.History, in.Job.Head = []job.Event{first, second}, second.Hash
	v = jobView{}
	if v.setHistory(in); v.Broken || v.History[0].Sent != second.Address {
		t.Errorf("the address is not shown: %+v", v)
	}
	in.History[0].Note, in.History[0].Newer = "with a field that is not known", true
	v = jobView{}
	if v.setHistory(in); v.Broken || !v.Newer {
		t.Errorf("an entry of a newer version: %+v", v)
	}
	in.History[0] = first
	in.History[1].Address = job.Withheld
	v = jobView{}
	if v.setHistory(in); v.Broken || v.History[0].Sent != "" {
		t.Errorf("a withheld address: %+v", v)
	}
}

// TestExits: the events of the reader's role, with those that a rule refuses and those that lose something.
func TestExits(t *testing.T) {
	confirmed := job.Causing("delete", "let_1", true, "deletes it")
	moves := []api.Move{
		{Event: "retry", By: lifecycle.Operator | lifecycle.Owner, To: "Queued"},
		{Event: "delete", By: lifecycle.Operator, To: "Lost", Remedy: &confirmed},
		{Event: "cancel", By: lifecycle.Owner, Refused: "it is stored"}, {Event: "done", By: lifecycle.Worker},
		{Event: lifecycle.Reprioritize, By: lifecycle.Operator},
	}
	words := func(by lifecycle.Actor) (all []string) {
		for _, e := range exitsFor(moves, by) {
			all = append(all, fmt.Sprint(e.Event, e.Confirm, e.Refused != ""))
		}
		return all
	}
	if diff := cmp.Diff([]string{"retryfalse false", "deletetrue false"}, words(lifecycle.Operator)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"retryfalse false", "cancelfalse true"}, words(lifecycle.Owner)); diff != "" {
		t.Error(diff)
	}
}

// TestJobsFilters: the address of the next page keeps the filters, the total comes from the tallies as far as they have
// it, and nothing acts on all jobs without a filter.
func TestJobsFilters(t *testing.T) {
	q := map[string][]string{"kind": {"letter"}, "ended": {"false"}, "after": {"x"}}
	v := viewJobs(letters{}, noon, q, &api.Page{Next: "y", Jobs: []job.Job{{ID: "let_1", Kind: "letter",
		Title: "A letter"}}})
	if v.Next != "/jobs?after=y&ended=false&kind=letter" || v.First != "/jobs?ended=false&kind=letter" ||
		v.Rows[0].Name != "A letter" || !v.Kinds[0].Chosen {
		t.Errorf("got %+v", v)
	}
	rows := []job.Tally{{Kind: "letter", State: "Queued", Jobs: 2}, {Kind: "letter", State: "Sent", Jobs: 5}}
	if got := totalOf(letters{}, q, rows); got != "2 jobs" {
		t.Errorf("got %q", got)
	}
	if got := totalOf(letters{}, map[string][]string{"owner": {"ann"}}, rows); got != "" {
		t.Errorf("the tallies have no owners: got %q", got)
	}
	pages := []server.Link{{Path: "/bulk"}}
	if all := actsOn(pages, nil); len(all) != 0 {
		t.Errorf("without a filter: got %+v", all)
	}
	for query, want := range map[string]string{
		"kind=letter&ended=false&order=oldest&limit=7": "/bulk?ended=false&kind=letter",
		"worker=w&ended=false":                         "/bulk?ended=false&worker=w",
		"words=maps+of&state=Sent":                     "/bulk?state=Sent&words=maps+of",
		"ended=false":                                  "", // it is too little of a filter
		"kind=letter&key=k":                            "", // the page does not take it
		"kind=letter&floor=2":                          "",
	} {
		filter, err := url.ParseQuery(query)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if all := actsOn(pages, filter); len(all) > 0 {
			got = all[0].Path
		}
		if got != want {
			t.Errorf("%s: got %q, want %q", query, got, want)
		}
	}
}

// TestInline removes the style sheet of a drawing, which the policy of the pages forbids.
func TestInline(t *testing.T) {
	if got := string(Inline("<svg><style>x{}</style><g/></svg>")); got != "<svg><g/></svg>" || strings.Contains(got,
		"style") {
		t.Errorf("got %s", got)
	}
}

// TestFitting: a state that only other kinds have is removed from the filters when another kind is chosen; one that no
// kind has stays.
func TestFitting(t *testing.T) {
	for query, want := range map[string]string{
		"kind=letter&state=Sent":               "kind=letter&state=Sent",
		"kind=parcel&state=Sent":               "kind=parcel",
		"kind=parcel&state=Sent,Packed":        "kind=parcel&state=Packed",
		"kind=letter,parcel&state=Sent":        "kind=letter%2Cparcel&state=Sent",
		"kind=parcel&state=Stamped":            "kind=parcel&state=Stamped",
		"kind=telegram&state=Sent":             "kind=telegram&state=Sent",
		"state=Sent&group=maps&outcome=failed": "group=maps&outcome=failed&state=Sent",
	} {
		q, err := url.ParseQuery(query)
		if err != nil {
			t.Fatal(err)
		}
		if got := fitting(parcels{}, q).Encode(); got != want {
			t.Errorf("%s: got %s", query, got)
		}
	}
}

// parcels is the catalog of two kinds.
type parcels struct{ letters }

func (parcels) KindsOf() []job.Kind { return []job.Kind{"letter", "parcel"} }
func (parcels) Stages(k job.Kind) []lifecycle.Stage {
	if k == "letter" {
		return stages
	}
	return []lifecycle.Stage{{State: "Packed", Kind: lifecycle.Queue}}
}

// TestStuckNames: a job that does not move has the name that lists have; without it, its kind and the end of its id.
func TestStuckNames(t *testing.T) {
	stuck := api.Stuck{Found: 2, Stuck: []api.StuckJob{{Job: "let_00000001", Kind: "letter"}, {Job: "let_00000002",
		Kind: "letter"}}}
	v := viewOverview(letters{}, &overviewInput{Health: api.Health{Status: "ok"}, Attention: attention{At: noon,
		Stuck: stuck, Names: map[job.ID]string{"let_00000001": "Letter to Anna"}}})
	if v.Stuck[0].Name != "Letter to Anna" || v.Stuck[1].Name != "letter …00000002" {
		t.Errorf("got %+v", v.Stuck)
	}
}

// TestManyTasks: a page shows some of many tasks, and how many there are.
func TestManyTasks(t *testing.T) {
	in := jobInput{Job: api.Job{Job: job.Job{ID: "let_1"}}, Tasks: api.Tasks{Tasks: make([]job.Task, jobTasks+1)}}
	if v := viewJob(letters{}, &in); len(v.Tasks) != jobTasks || v.AllTasks != jobTasks+1 {
		t.Errorf("%d of %d tasks", len(v.Tasks), v.AllTasks)
	}
}

// TestHistoryOfAKeyedRequest: the digest of a request is for programs; people read what it means. A note of a person
// stays.
func TestHistoryOfAKeyedRequest(t *testing.T) {
	for _, c := range []struct{ cause, note, want string }{
		{"request=01234567", "", "a request with an idempotency key"},
		{"request=01234567", "the second try", "the second try"},
		{"", "", ""},
	} {
		first := job.Event{Job: "let_1", Seq: 1, Event: job.Create, To: "Queued", At: noon, Cause: c.cause,
			Note: c.note}
		first.Seal(job.Hash{})
		in := &jobInput{History: []job.Event{first}}
		in.Job.ID, in.Job.Seq, in.Job.Head = "let_1", 1, first.Hash
		v := jobView{}
		if v.setHistory(in); v.Broken || v.History[0].Note != c.want {
			t.Errorf("%+v: got %+v", c, v.History[0])
		}
	}
}
