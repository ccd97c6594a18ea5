package storetest

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

var tagTests = []test{
	{"kept as they are, whatever stands in them", tagKept},
	{"lists by tag and cause agree with the records", tagLists},
	{"lists of claimed and overdue jobs too, past a page of others", tagClaimed},
}

// oddTags are tags that a store may stumble over.
var oddTags = []string{`quoted"\`, "two words", "a,b", "queue=ümlaut", "new\nline", "\x00", strings.Repeat("long", 40),
	"[]", "'"}

func tagKept(w *harness) {
	var made []job.Job
	for i := range oddTags {
		made = append(made, w.step(tagged(oddTags[:i+1]...)))
	}
	twin := w.step(tagged("queue=a"))
	for range 2 {
		for i, j := range made {
			same(w, fmt.Sprintf("job %d", i), w.get(j.ID), j)
			same(w, "with "+oddTags[i], len(w.list(job.Query{Tag: oddTags[i]})), len(oddTags)-i)
		}
		w.restart()
	}
	got := w.claim("w1", 99)
	same(w, "all can be claimed", len(got), len(made)+1)
	for _, j := range got {
		c := w.move(j, "begin", lifecycle.Worker)
		if j.ID == twin.ID {
			c.Set.Tags = job.Tagged(oddTags...)
		}
		w.must(c)
	}
	same(w, "moved, and tagged on the way", w.get(twin.ID).Tags, job.Tagged(oddTags...))
	w.sound()
}

func tagLists(w *harness) {
	tags := append([]string{"queue=a", "queue=b", "place=main"}, oddTags[:3]...)
	causes := []string{"", "network", "space", strings.Repeat("a very long cause ", 10)}
	random := rand.New(rand.NewPCG(7, 7))
	some := func() (set []string) {
		for _, t := range tags {
			if random.IntN(3) == 0 {
				set = append(set, t)
			}
		}
		return job.Tagged(set...)
	}
	var list []job.Created
	for range 60 {
		list = append(list, w.made(Step, tagged(some()...),
			func(j *job.Job) { j.Cause = causes[random.IntN(len(causes))] }))
	}
	jobs := w.create(list...)
	for i := range 30 {
		j := w.get(jobs[random.IntN(len(jobs))].ID)
		f := job.Fields{Tags: some(), Cause: &causes[random.IntN(len(causes))]}
		if i%3 == 0 && j.State == waiting {
			w.must(w.move(j, "hold", lifecycle.Operator, sets(f)))
		} else {
			w.must(job.Change{Job: j.ID, Version: j.Version, At: w.now(), Set: f})
		}
	}
	for range 2 {
		all := w.list(job.Query{Oldest: true, Limit: 1000})
		for _, q := range tagQueries(tags, causes) {
			var want []job.ID
			for i := range all {
				if q.Matches(&all[i]) {
					want = append(want, all[i].ID)
				}
			}
			q.Oldest, q.Limit = true, 7
			var got []job.ID
			for {
				page, err := w.st.List(w.Context(), q)
				if err != nil {
					w.Fatal(err)
				}
				got = append(got, ids(page.Jobs)...)
				if q.After = page.Next; q.After == "" {
					break
				}
			}
			same(w, fmt.Sprintf("%+v", q), got, want)
		}
		w.restart()
	}
}

func tagQueries(tags, causes []string) []job.Query {
	list := []job.Query{{Tag: "unused"}, {Causes: []string{"unused"}}, {Causes: causes}}
	for i, t := range tags {
		list = append(list, job.Query{Tag: t}, job.Query{Tag: t, States: []lifecycle.State{parked}},
			job.Query{Tag: t, Causes: []string{causes[i%len(causes)], "space"}})
	}
	for _, c := range causes {
		list = append(list, job.Query{Causes: []string{c}}, job.Query{Causes: []string{c}, Ended: ptr(false)})
	}
	return list
}

// tagClaimed lists the jobs of a worker by other conditions, with more others than fit on the page.
func tagClaimed(w *harness) {
	var list []job.Created
	for i := range 60 {
		list = append(list, w.made(Step, func(j *job.Job) { j.Cause = "network" }, tagged(fmt.Sprint("queue=", i%2))))
	}
	list = append(list, w.made(Step, func(j *job.Job) { j.Cause = "space" }, tagged("queue=one", "place=main")))
	want := []job.ID{w.create(list...)[60].ID}
	same(w, "claimed", len(w.claim("w1", 999)), 61)
	for _, q := range []job.Query{{Tag: "place=main"}, {Causes: []string{"space"}}} {
		q.Worker, q.Limit = "w", 3
		same(w, fmt.Sprintf("%+v", q), ids(w.list(q)), want)
	}
	same(w, "a page of the others", len(w.list(job.Query{Worker: "w", Tag: "queue=0", Limit: 3})), 3)
}

var textTests = []test{
	{"of any bytes are read as they were written, or refused as Invalid", textsKept},
	{"tasks are listed in the order of their names", textsOrdered},
}

// oddTexts are texts that JSON or a database may change: bytes that are not UTF-8, half surrogates, noncharacters,
// control characters, and texts in the form of escapes.
var oddTexts = []string{"a\xffb", "\xed\xa0\x80", "a\xc3", "\x00", "a\u2028\u2029b", "<&>\x7f\"\\", `\ufffd\xff`,
	"\ufffd",
	"\U0010fffe__\U0010fffeff", `["/w=="]`}

// textsKept writes each odd text as each text of a job, an event, a task, a message, a hold and an entry of the audit
// log, one at a time, so that a refusal concerns this text.
func textsKept(w *harness) {
	var again []func()
	for n, text := range oddTexts {
		for name, set := range textsOfCreation {
			one := w.made(Step)
			one.Outbox = []job.Message{{Key: string(one.Job.ID), Job: one.Job.ID, Topic: "mail", Body: []byte(`1`),
				Created: w.clock, Due: w.clock}}
			set(&one, text)
			w.text(fmt.Sprintf("%s %q", name, text), &again, func() error {
				_, err := w.st.Create(w.Context(), one)
				return err
			}, func() {
				j := w.get(one.Job.ID)
				want := one.Job
				want.Number = j.Number
				same(w, name, j, want)
				same(w, "the event with the "+name, w.history(j.ID), []job.Event{one.Event})
				m := w.messages(j.ID)[0]
				same(w, name, []string{m.Key, m.Topic, string(m.Body)},
					[]string{one.Outbox[0].Key, one.Outbox[0].Topic, string(one.Outbox[0].Body)})
			})
		}
		for name, set := range textsOfChange {
			j := w.step()
			c := w.move(j, "hold", lifecycle.Operator, func(c *job.Change) { set(c, text) })
			w.text(fmt.Sprintf("%s of a change %q", name, text), &again, func() error {
				results, err := w.st.Commit(w.Context(), c)
				if err == nil {
					err = results[0].Err
				}
				return err
			}, func() { w.changed(name, c) })
		}
		w.textsOfHold(n, text, &again)
		w.textsOfAudit(text, &again)
	}
	w.restart()
	for _, check := range again {
		check()
	}
	w.sound()
}

// textsOfHold is textsKept for the texts of a hold.
func (w *harness) textsOfHold(n int, text string, again *[]func()) {
	for name, set := range textsOfHold {
		h := job.Hold{Scope: job.Scope{Group: fmt.Sprint(name, n)}, Who: "olga", Why: "why", Since: w.now()}
		set(&h, text)
		w.text(fmt.Sprintf("%s of a hold %q", name, text), again, func() error {
			_, err := w.st.Hold(w.Context(), h)
			return err
		}, func() {
			all := w.holds()
			i := slices.IndexFunc(all, func(o job.Hold) bool { return o.Scope == h.Scope && o.Why == h.Why })
			if i < 0 {
				w.Errorf("the hold %+v is not among %+v", h, all)
				return
			}
			same(w, name, all[i].Who, h.Who)
		})
	}
}

// textsOfAudit is textsKept for the texts of an entry of the audit log.
func (w *harness) textsOfAudit(text string, again *[]func()) {
	for name, set := range textsOfAudit {
		a := job.Audit{At: w.now(), By: lifecycle.Operator, Actor: "olga", Event: "test", Note: name + text}
		set(&a, text)
		w.text(fmt.Sprintf("%s of an entry %q", name, text), again, func() error {
			return w.st.Note(w.Context(), a)
		}, func() {
			all := did(w, "audit", func() ([]job.Audit, error) { return w.st.Audit(w.Context(), 0, 10_000) })
			i := slices.IndexFunc(all, func(o job.Audit) bool { return o.Note == a.Note && o.Event == "test" })
			if i < 0 {
				w.Errorf("no entry has the note %q", a.Note)
				return
			}
			a.Seq, a.Prev, a.Hash = all[i].Seq, all[i].Prev, all[i].Hash
			same(w, name, all[i], a)
		})
	}
}

// text writes a text and reads it, now and again at the end, unless it is refused.
func (w *harness) text(name string, again *[]func(), write func() error, read func()) {
	w.Helper()
	if err := write(); err != nil {
		if job.KindOf(err) != job.Invalid {
			w.Errorf("%s: %v; want no error, or kind invalid", name, err)
		}
		return
	}
	*again = append(*again, read)
	read()
}

// changed checks the texts of a change that was committed.
func (w *harness) changed(name string, c job.Change) {
	w.Helper()
	j := w.get(c.Job)
	if c.Set.Cause != nil {
		same(w, name, j.Cause, *c.Set.Cause)
	}
	if c.Set.Message != nil {
		same(w, name, j.Message, *c.Set.Message)
	}
	same(w, name, j.Tags, c.Set.Tags)
	tasks := w.tasks(c.Job)
	same(w, name, len(tasks), len(c.Tasks))
	for i := range tasks {
		same(w, name, []string{tasks[i].Name, tasks[i].Message, string(tasks[i].Data)},
			[]string{c.Tasks[i].Name, c.Tasks[i].Message, string(c.Tasks[i].Data)})
	}
	h := w.history(c.Job)
	last := h[len(h)-1]
	same(w, name, []string{last.Note, last.Actor, last.Address, last.Cause},
		[]string{c.Note, c.Actor, c.Address, j.Cause})
	if !slices.Contains([]string{"note", "actor", "address"}, name) {
		return
	}
	all := did(w, "audit", func() ([]job.Audit, error) { return w.st.Audit(w.Context(), 0, 10_000) })
	i := slices.IndexFunc(all, func(a job.Audit) bool { return a.Job == c.Job })
	if i < 0 {
		w.Errorf("no entry of the audit log is of %s", c.Job)
		return
	}
	same(w, name, []string{all[i].Note, all[i].Actor, all[i].Address}, []string{c.Note, c.Actor, c.Address})
}

var textsOfCreation = map[string]func(*job.Created, string){
	"owner":           func(c *job.Created, t string) { c.Job.Owner = t },
	"group":           func(c *job.Created, t string) { c.Job.Group = t },
	"key":             func(c *job.Created, t string) { c.Job.Key = t },
	"tag":             func(c *job.Created, t string) { c.Job.Tags = job.Tagged("a", t) },
	"cause":           func(c *job.Created, t string) { c.Job.Cause = t },
	"message":         func(c *job.Created, t string) { c.Job.Message = t },
	"spec":            func(c *job.Created, t string) { c.Job.Spec = json.RawMessage(`"` + t + `"`) },
	"data":            func(c *job.Created, t string) { c.Job.Data = json.RawMessage(`"` + t + `"`) },
	"key of a letter": func(c *job.Created, t string) { c.Outbox[0].Key += t },
	"topic":           func(c *job.Created, t string) { c.Outbox[0].Topic = t },
	"body":            func(c *job.Created, t string) { c.Outbox[0].Body = json.RawMessage(`"` + t + `"`) },
}

var textsOfChange = map[string]func(*job.Change, string){
	"note":              func(c *job.Change, t string) { c.Note = t },
	"actor":             func(c *job.Change, t string) { c.Actor = t },
	"address":           func(c *job.Change, t string) { c.Address = t },
	"cause":             func(c *job.Change, t string) { c.Set.Cause = &t },
	"message":           func(c *job.Change, t string) { c.Set.Message = &t },
	"tag":               func(c *job.Change, t string) { c.Set.Tags = job.Tagged("a", t) },
	"task":              func(c *job.Change, t string) { c.Tasks = []job.Task{{Name: t, Message: "m"}} },
	"message of a task": func(c *job.Change, t string) { c.Tasks = []job.Task{{Name: "n", Message: t}} },
	"data of a task": func(c *job.Change, t string) {
		c.Tasks = []job.Task{{Name: "n", Data: json.RawMessage(`"` + t + `"`)}}
	},
}

var textsOfHold = map[string]func(*job.Hold, string){
	"group": func(h *job.Hold, t string) { h.Group = t },
	"owner": func(h *job.Hold, t string) { h.Group, h.Owner = "", t },
	"tag":   func(h *job.Hold, t string) { h.Group, h.Tag = "", t },
	"who":   func(h *job.Hold, t string) { h.Who = t },
	"why":   func(h *job.Hold, t string) { h.Why = t },
}

var textsOfAudit = map[string]func(*job.Audit, string){
	"actor":   func(a *job.Audit, t string) { a.Actor = t },
	"object":  func(a *job.Audit, t string) { a.Object = t },
	"address": func(a *job.Audit, t string) { a.Address = t },
	"note":    func(*job.Audit, string) {},
}

// textsOrdered has names whose order as bytes is not that of their characters, or of a form that a database accepts.
func textsOrdered(w *harness) {
	j := w.claimed()
	names := slices.Concat(oddTexts,
		[]string{"a", "B", "b", "a\U0010ffff", "a\uffff", "\xff", "\u00e9", "e", "f", "a b", "a\x01", "\x7f"})
	var want []string
	for i, name := range names {
		c := job.Change{Job: j.ID, Version: w.get(j.ID).Version, At: w.now(), Keep: true,
			Tasks: []job.Task{{Name: name, Total: int64(i)}}}
		results, err := w.st.Commit(w.Context(), c)
		if err == nil {
			err = results[0].Err
		}
		switch job.KindOf(err) {
		case "":
			want = append(want, name)
		case job.Invalid: // a store may refuse what is not UTF-8
		default:
			w.Errorf("%q: %v", name, err)
		}
	}
	slices.Sort(want)
	w.restart()
	var got []string
	for _, t := range w.tasks(j.ID) {
		got = append(got, t.Name)
	}
	same(w, "names", got, want)
}
