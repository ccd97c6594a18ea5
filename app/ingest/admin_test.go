package ingest

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stagepost/stagepost/app/ingest/record"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/engine/operator"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/mem"
)

// adminEvents is everything that a person can ask for somewhere, and what only machines may do.
var adminEvents = []lifecycle.Event{
	"hold", "release", "retry", "requeue", "update", "cancel", "stop", "delete", // people's
	"begin", "next", "report", "finish", "fail", "wait", "backoff", "yield", "lost", "unheard-of", // not by people
}

// legal is what a person may do in one state, written down from the tables of the specification: event and where it
// leads.
type legal map[lifecycle.Event]lifecycle.State

// adminMatrix lists for each kind and state what operator and owner may do. Everything else must be refused. "origin"
// is the phase it failed in.
var adminMatrix = map[job.Kind]map[lifecycle.State]struct{ operator, owner legal }{
	"ingest.batch": {
		"Pending":         {legal{"hold": "Held", "cancel": "Deleted"}, legal{"cancel": "Deleted"}},
		"Held":            {legal{"release": "Pending", "delete": "Deleted"}, nil},
		"Processing":      {nil, nil},
		"Reporting":       {nil, nil},
		"UpdateReporting": {nil, nil},
		"Completed":       {legal{"delete": "Deleted"}, nil},
		"Failed":          {legal{"update": "UpdateReporting", "delete": "Deleted"}, nil},
		"Deleted":         {nil, nil},
	},
	"ingest.job": {
		"Pending":      {legal{"hold": "Held"}, nil},
		"Held":         {legal{"release": "Pending", "delete": "Deleted"}, nil},
		"Estimating":   {legal{"stop": "Failed"}, nil},
		"Provisioning": {legal{"stop": "Failed"}, nil},
		"Downloading":  {legal{"stop": "Failed"}, nil},
		"Processing":   {legal{"stop": "Failed"}, nil},
		"Storing":      {legal{"stop": "Failed"}, nil},
		"Recording":    {legal{"stop": "Failed"}, nil},
		"Notify":       {legal{"stop": "Failed"}, nil},
		"Completed":    {legal{"delete": "Deleted"}, nil},
		"Failed":       {legal{"retry": "origin", "delete": "Deleted"}, legal{"retry": "origin"}},
		"Deleted":      {nil, nil},
	},
	"ingest.access": {
		"Pending":    {nil, nil},
		"Processing": {nil, nil},
		"Completed":  {legal{"delete": "Deleted"}, nil},
		"Failed": {legal{"retry": "Processing", "requeue": "Pending", "delete": "Deleted"},
			legal{"retry": "Processing"}},
		"Deleted": {nil, nil},
	},
}

// outcomes of the states that have one.
var adminOutcomes = map[lifecycle.State]lifecycle.Outcome{"Completed": "ok", "Failed": "failed", "Deleted": "cancelled",
	"Reporting": ""}

// office is the application with an engine that does not run: nothing moves but what a person moves.
type office struct{ *harness }

func openOffice(t *testing.T) *office {
	t.Helper()
	store := mem.New()
	a, err := New(options(t, t.TempDir()))
	if err != nil {
		t.Fatal(err)
	}
	works := a.Works()
	if !slices.ContainsFunc(works, func(w engine.Work) bool { return w.Life == record.AccessLife }) {
		works = append(works, engine.Work{Life: record.AccessLife, Prefix: "acc", Outside: true})
	}
	e, err := engine.New(store, works, engine.Options{})
	if err != nil {
		t.Fatal(err)
	}
	a.Bind(e)
	t.Cleanup(func() {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	})
	return &office{harness: &harness{App: a, t: t, store: store, e: e}}
}

// file puts a record into the store as it stands in some state, as if it had come there.
func (o *office) file(j job.Job) job.Job {
	o.t.Helper()
	life := o.e.Life(j.Kind)
	j.Ended, j.Gone, j.Definition = life.Ended(j.State), life.Tombstone(j.State), life.Hash()
	if j.Ended || j.Gone {
		j.Outcome = adminOutcomes[j.State]
	}
	if j.Priority == 0 {
		j.Priority = 50
	}
	j.Spec = []byte(`{"type":"file","profile":"test"}`)
	made, event := job.New(j, lifecycle.Engine, "test", time.Now())
	all, err := o.store.Create(o.t.Context(), job.Created{Job: made, Event: event})
	if err != nil {
		o.t.Fatal(err)
	}
	return all[0]
}

// at files a job of a kind in a state; a job of ingest comes with its batch in a state of its own.
func (o *office) at(name string, kind job.Kind, s, origin, batch lifecycle.State) job.Job {
	o.t.Helper()
	j := job.Job{ID: job.ID("x_" + name), Kind: kind, Position: lifecycle.Position{State: s, Origin: origin},
		Group: "maps", Owner: "ann"}
	if kind != record.JobKind {
		return o.file(j)
	}
	b := job.Job{ID: job.ID("b_" + name), Kind: record.BatchKind, Position: lifecycle.Position{State: "Processing"},
		Group: "maps", Owner: "ann"}
	b.Children.Expected = 1
	b = o.file(b)
	j.Parent = b.ID
	j = o.file(j)
	if batch != "Processing" { // a batch takes no children once it has ended
		o.set(b.ID, batch)
	}
	return j
}

// set moves a record to a state, past its lifecycle.
func (o *office) set(id job.ID, s lifecycle.State) {
	o.t.Helper()
	j, err := o.store.Get(o.t.Context(), id)
	if err != nil {
		o.t.Fatal(err)
	}
	life := o.e.Life(j.Kind)
	r, err := o.store.Commit(o.t.Context(), job.Change{
		Job: id, Version: j.Version, Event: "placed", To: lifecycle.Position{State: s, Origin: j.State,
			Outcome: adminOutcomes[s]},
		Ended: life.Ended(s), Gone: life.Tombstone(s), By: lifecycle.Engine, At: time.Now(),
	})
	if err != nil || r[0].Err != nil {
		o.t.Fatal(r, err)
	}
}

func (o *office) audits() []job.Audit {
	o.t.Helper()
	all, err := o.store.Audit(o.t.Context(), 0, 100_000)
	if err != nil {
		o.t.Fatal(err)
	}
	return all
}

func (o *office) now(id job.ID) job.Job {
	o.t.Helper()
	j, err := o.store.Get(o.t.Context(), id)
	if err != nil {
		o.t.Fatal(err)
	}
	return j
}

// TestEveryAdminActionInEveryState asks for every event in every state of every kind, as operator and as owner. What
// the matrix has is done, once, and entered with who and why in the history and in the audit list; everything else is
// refused with the legal moves, and changes nothing.
func TestEveryAdminActionInEveryState(t *testing.T) {
	for kind, states := range adminMatrix {
		for _, s := range everyLife(t, kind).Stages() {
			if _, ok := states[s.State]; !ok {
				t.Errorf("%s: the matrix lacks %s", kind, s.State)
			}
		}
		for s, may := range states {
			t.Run(string(kind)+"/"+string(s), func(t *testing.T) {
				o := openOffice(t)
				for _, e := range adminEvents {
					o.ask(kind, s, e, lifecycle.Operator, may.operator)
					o.ask(kind, s, e, lifecycle.Owner, may.owner)
				}
				if err := job.VerifyAudit(nil, o.audits()); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

func everyLife(t *testing.T, kind job.Kind) *lifecycle.Table {
	t.Helper()
	for _, l := range []*lifecycle.Table{record.BatchLife, record.JobLife, record.AccessLife} {
		if l.Name() == string(kind) {
			return l
		}
	}
	t.Fatalf("there is no kind %s", kind)
	return nil
}

// ask has a person ask for an event on a fresh job in the state, from every phase that it can have failed in.
func (o *office) ask(kind job.Kind, s lifecycle.State, e lifecycle.Event, by lifecycle.Actor, may legal) {
	o.t.Helper()
	origins := []lifecycle.State{"Downloading"}
	if kind == record.JobKind && s == "Failed" && e == "retry" {
		origins = []lifecycle.State{"Pending", "Estimating", "Provisioning", "Downloading", "Processing", "Storing",
			"Recording", "Notify"}
	}
	for _, origin := range origins {
		batch := lifecycle.State("Failed")
		j := o.at(strings.Join([]string{string(s), string(e), by.String(), string(origin)}, "-"), kind, s, origin,
			batch)
		to, ok := may[e]
		if to == "origin" {
			to = origin
		}
		if ok {
			o.allowed(j, e, by, to)
		} else {
			o.refused(j, e, by, may)
		}
	}
}

// allowed does it with a version that is stale, then with the right one, then once more.
func (o *office) allowed(j job.Job, e lifecycle.Event, by lifecycle.Actor, to lifecycle.State) {
	o.t.Helper()
	act := operator.Act{Job: j.ID, Event: e, By: by, Actor: "olga", Note: "because of " + string(e),
		Version: j.Version + 7, Confirm: true}
	before := len(o.audits())
	if _, err := o.e.Do(o.t.Context(), act); job.KindOf(err) != job.Conflict {
		o.t.Errorf("%s %s while %s at a stale version: got %v, want a conflict", by, e, j.State, err)
	}
	if diff := cmp.Diff(j, o.now(j.ID)); diff != "" || len(o.audits()) != before {
		o.t.Errorf("%s %s while %s at a stale version changed something (%d audit entries):\n%s", by, e, j.State,
			len(o.audits())-before, diff)
	}
	act.Version = j.Version
	after, err := o.e.Do(o.t.Context(), act)
	if err != nil || after.State != to || after.Version <= j.Version {
		o.t.Errorf("%s %s while %s: got %s, %v, want %s", by, e, j.State, after.State, err, to)
		return
	}
	history, err := o.store.History(o.t.Context(), j.ID, j.Seq, 0)
	if err != nil || len(history) != 1 {
		o.t.Fatalf("%s %s while %s: %d entries, %v", by, e, j.State, len(history), err)
	}
	if h := history[0]; h.Event != e || h.From != j.State || h.To != to || h.By != by || h.Actor != "olga" ||
		h.Note != act.Note {
		o.t.Errorf("%s %s while %s: the history has %+v", by, e, j.State, h)
	}
	audits := o.audits()
	if len(audits) != before+1 {
		o.t.Errorf("%s %s while %s: %d audit entries, want 1", by, e, j.State, len(audits)-before)
		return
	}
	got := audits[before]
	want := job.Audit{
		Seq: got.Seq, At: got.At, By: by, Actor: "olga", Event: e, Job: j.ID, Kind: j.Kind, From: j.State, To: to,
		Note: act.Note, Seen: j.Version,
		Prev: got.Prev, Hash: got.Hash,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		o.t.Errorf("%s %s while %s: the audit list (-want +got):\n%s", by, e, j.State, diff)
	}
	if _, err := o.e.Do(o.t.Context(), act); job.KindOf(err) != job.Conflict {
		o.t.Errorf("%s %s while %s, a second time: got %v, want a conflict", by, e, j.State, err)
	}
}

// refused requires a refusal that lists the legal moves and leaves everything as it was.
func (o *office) refused(j job.Job, e lifecycle.Event, by lifecycle.Actor, may legal) {
	o.t.Helper()
	before := len(o.audits())
	_, err := o.e.Do(o.t.Context(), operator.Act{Job: j.ID, Event: e, By: by, Actor: "olga", Note: "why not",
		Version: j.Version, Confirm: true})
	var illegal *lifecycle.Illegal
	if job.KindOf(err) != job.Refused || !errors.As(err, &illegal) {
		o.t.Errorf("%s %s while %s: got %v, want a refusal", by, e, j.State, err)
		return
	}
	want := []lifecycle.Event{}
	for e := range may {
		want = append(want, e)
	}
	got := append([]lifecycle.Event{}, illegal.Can...)
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		o.t.Errorf("%s %s while %s: the legal moves (-want +got):\n%s", by, e, j.State, diff)
	}
	for _, e := range want {
		if !strings.Contains(err.Error(), string(e)) {
			o.t.Errorf("%q does not offer %s", err, e)
		}
	}
	if diff := cmp.Diff(j, o.now(j.ID)); diff != "" || len(o.audits()) != before {
		o.t.Errorf("the refusal of %s %s while %s changed something (%d audit entries):\n%s", by, e, j.State,
			len(o.audits())-before, diff)
	}
}

// TestPriorityInEveryState: it can be changed until a job has ended, with the current version of the record.
func TestPriorityInEveryState(t *testing.T) {
	ends := []lifecycle.State{"Completed", "Failed", "Deleted"}
	for kind, states := range adminMatrix {
		o := openOffice(t)
		for s := range states {
			j, before := o.at(string(s), kind, s, "", "Failed"), len(o.audits())
			if _, err := o.e.Operator().SetPriority(t.Context(), j.ID, j.Version+1, 7, "olga",
				"stale"); job.KindOf(err) != job.Conflict && !slices.Contains(ends, s) {
				t.Errorf("%s while %s at a stale version: got %v", kind, s, err)
			}
			after, err := o.e.Operator().SetPriority(t.Context(), j.ID, j.Version, 7, "olga", "exhibition")
			audits := o.audits()
			if slices.Contains(ends, s) {
				if job.KindOf(err) != job.Refused || len(audits) != before || o.now(j.ID).Priority != 50 {
					t.Errorf("%s while %s: got %v, want a refusal", kind, s, err)
				}
				continue
			}
			if err != nil || after.Priority != 7 || after.State != s || len(audits) != before+1 {
				t.Errorf("%s while %s: got priority %d in %s, %d audit entries, %v", kind, s, after.Priority,
					after.State, len(audits)-before, err)
				continue
			}
			if a := audits[before]; a.Event != "priority" || a.Actor != "olga" || a.Note != "exhibition" ||
				a.Object != "priority 50 to 7" || a.Job != j.ID || a.Seen != j.Version {
				t.Errorf("%s while %s: the audit list has %+v", kind, s, a)
			}
		}
	}
}

// TestRetryByCause: what was wrong in what was handed in cannot be retried; everything else can.
func TestRetryByCause(t *testing.T) {
	o := openOffice(t)
	for cause, again := range map[string]bool{
		"payload-digest": false, "corrupt-manifest": false, "payload-missing": false, "wrong-type": false,
		"bad-row": false,
		"network": true, "server": true, "not-found": true, "bad-digest": true, "too-large": true, "storage": true,
		"minter": true, "callback": true,
		"identifier-conflict": true, "poison": true, "timeout": true, "": true,
	} {
		j := o.at("cause-"+cause, record.JobKind, "Failed", "Downloading", "Failed")
		r, err := o.store.Commit(t.Context(),
			job.Change{Job: j.ID, Version: j.Version, At: time.Now(), Set: job.Fields{Cause: &cause}})
		if err != nil || r[0].Err != nil {
			t.Fatal(r, err)
		}
		for _, by := range []lifecycle.Actor{lifecycle.Owner, lifecycle.Operator} {
			_, err := o.e.Do(t.Context(), operator.Act{Job: j.ID, Event: "retry", By: by, Actor: "olga"})
			switch {
			case !again && (job.KindOf(err) != job.Refused || !strings.Contains(err.Error(), "new submission")):
				t.Errorf("%s by %s: got %v, want a refusal", cause, by, err)
			case again && by == lifecycle.Owner && err != nil:
				t.Errorf("%s by %s: got %v", cause, by, err)
			}
		}
	}
}

// TestJobsAndTheirBatch: what a person may do to a job depends on where its batch stands.
func TestJobsAndTheirBatch(t *testing.T) {
	o := openOffice(t)
	const freely, confirmed, later = "freely", "when confirmed", "not now"
	for batch, may := range map[lifecycle.State]struct {
		retry  bool
		remove string
	}{
		"Processing": {true, confirmed}, "Failed": {true, freely}, "Completed": {false, freely}, "Deleted": {false,
			freely},
		"Reporting": {false, later}, "UpdateReporting": {false, later}, // the report would be out of date
	} {
		j := o.at(string(batch)+"-retry", record.JobKind, "Failed", "Storing", batch)
		if _, err := o.e.Do(t.Context(), operator.Act{Job: j.ID, Event: "retry",
			By: lifecycle.Operator, Actor: "ann"}); (err == nil) != may.retry ||
			err != nil && job.KindOf(err) != job.Refused {
			t.Errorf("retry in a batch that is %s: got %v", batch, err)
		}
		for _, s := range []lifecycle.State{"Failed", "Completed", "Held"} {
			j := o.at(string(batch)+"-"+string(s), record.JobKind, s, "Downloading", batch)
			act := operator.Act{Job: j.ID, Event: "delete", By: lifecycle.Operator, Actor: "olga"}
			_, err := o.e.Do(t.Context(), act)
			if (err == nil) != (may.remove == freely) || err != nil && job.KindOf(err) != job.Refused {
				t.Errorf("delete while %s in a batch that is %s: got %v, want it done %s", s, batch, err, may.remove)
			}
			if err == nil {
				continue
			}
			if may.remove == confirmed && !strings.Contains(err.Error(), "confirm") {
				t.Errorf("%q does not name the confirmation", err)
			}
			act.Confirm = true
			if _, err = o.e.Do(t.Context(), act); (err == nil) != (may.remove == confirmed) ||
				(o.now(j.ID).State == "Deleted") != (may.remove == confirmed) {
				t.Errorf("delete while %s in a batch that is %s, confirmed: got %v", s, batch, err)
			}
		}
	}
}

// TestBatchesAndTheirJobs: neither update nor deletion while a job of the batch is open.
func TestBatchesAndTheirJobs(t *testing.T) {
	o := openOffice(t)
	for _, e := range []lifecycle.Event{"update", "delete"} {
		j := o.at("open-"+string(e), record.JobKind, "Storing", "", "Failed")
		act := operator.Act{Job: j.Parent, Event: e, By: lifecycle.Operator, Actor: "olga", Confirm: true}
		if _, err := o.e.Do(t.Context(), act); job.KindOf(err) != job.Refused ||
			!strings.Contains(err.Error(), "1 of its jobs") {
			t.Errorf("%s: got %v", e, err)
		}
		if _, err := o.e.Do(t.Context(),
			operator.Act{Job: j.ID, Event: "stop", By: lifecycle.Operator, Actor: "olga"}); err != nil {
			t.Fatal(err)
		}
		if _, err := o.e.Do(t.Context(), act); err != nil { // the control
			t.Errorf("%s with all jobs ended: got %v", e, err)
		}
	}
}

// TestReleaseIntoAHold: whatever the scope of a hold that still concerns it, a held batch or job is not released; the
// refusal names the hold.
func TestReleaseIntoAHold(t *testing.T) {
	for _, kind := range []job.Kind{record.BatchKind, record.JobKind} {
		for name, scope := range map[string]func(j *job.Job) job.Scope{
			"group":          func(*job.Job) job.Scope { return job.Scope{Group: "maps"} },
			"owner":          func(*job.Job) job.Scope { return job.Scope{Owner: "ann"} },
			"kind":           func(j *job.Job) job.Scope { return job.Scope{Kind: j.Kind} },
			"everything":     func(*job.Job) job.Scope { return job.Scope{} },
			"itself":         func(j *job.Job) job.Scope { return job.Scope{Job: j.ID} },
			"Pending":        func(*job.Job) job.Scope { return job.Scope{State: "Pending"} },
			"group and kind": func(j *job.Job) job.Scope { return job.Scope{Group: "maps", Kind: j.Kind} },
		} {
			o := openOffice(t)
			j := o.at("held", kind, "Held", "", "Processing")
			of := scope(&j)
			if _, err := o.e.Operator().Hold(t.Context(), of, "otto", "flood", never); err != nil {
				t.Fatal(err)
			}
			act := operator.Act{Job: j.ID, Event: "release", By: lifecycle.Operator, Actor: "olga", Note: "dry again",
				Confirm: true}
			if _, err := o.e.Do(t.Context(), act); job.KindOf(err) != job.Refused ||
				!strings.Contains(err.Error(), "flood") || !strings.Contains(err.Error(), "otto") {
				t.Errorf("%s under a hold on %s: got %v", kind, name, err)
			}
			if _, err := o.e.Operator().Release(t.Context(), of, "otto", "dry"); err != nil {
				t.Fatal(err)
			}
			if _, err := o.e.Operator().Hold(t.Context(), job.Scope{Group: "maps2"}, "otto",
				"another", never); err != nil {
				t.Fatal(err)
			}
			if got, err := o.e.Do(t.Context(), act); err != nil || got.State != "Pending" {
				t.Errorf("%s with the hold on %s gone: got %s, %v", kind, name, got.State, err)
			}
			var events []string
			for _, a := range o.audits() {
				events = append(events, a.Actor+" "+string(a.Event)+" "+a.Object+string(a.Job))
			}
			want := []string{
				"otto hold " + of.String() + string(of.Job), "otto release " + of.String() +
					string(of.Job), "otto hold group=maps2",
				"olga release " + string(j.ID),
			}
			if diff := cmp.Diff(want, events); diff != "" {
				t.Errorf("the audit list (-want +got):\n%s", diff)
			}
		}
	}
}
