package storetest

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

var boundsTests = []test{
	{"a job that is not there has no tasks and messages", boundsNoJob},
	{"no results, or fewer, are none", boundsNone},
	{"positions far beyond the last", boundsFar},
	{"more than there are", boundsMany},
	{"a new job with a number out of range, or an event of another, is Invalid", boundsOfNew},
	{"a change with a number out of range is Invalid, and the others of the call stay", boundsOfChange},
	{"a message with a number out of range is Invalid", boundsOfMessage},
	{"each time is read as it was written", boundsOfTimes},
	{"a text of the longest length is found, and a longer one is Invalid", boundsOfTexts},
}

func boundsNoJob(w *harness) {
	same(w, "tasks", len(w.tasks("tst_nobody")), 0)
	_, err := w.st.History(w.Context(), "tst_nobody", 0, 0)
	w.refused(err, job.NotFound)
	same(w, "messages", len(w.messages("tst_nobody")), 0)
}

func boundsNone(w *harness) {
	j := w.step()
	w.sends(j, "m", w.now())
	for _, n := range []int{0, -1, math.MinInt32} {
		named := did(w, "named", func() ([]job.Job, error) { return w.st.Named(w.Context(), "tst_", "", n) })
		same(w, "jobs by name", len(named), 0)
		same(w, "claimed jobs", len(w.claim("w1", n)), 0)
		same(w, "taken messages", len(w.take(n)), 0)
	}
	same(w, "taken messages", len(w.take(1)), 1)
	same(w, "claimed jobs", len(w.claim("w1", 1)), 1)
	w.sound()
}

func boundsFar(w *harness) {
	j := w.step()
	did(w, "note", func() (bool, error) {
		return true, w.st.Note(w.Context(), job.Audit{At: w.now(), Event: "test", Actor: "alice"})
	})
	const far = math.MaxInt64 / 2
	for _, n := range []int{1, -1} {
		entries := did(w, "audit", func() ([]job.Audit, error) { return w.st.Audit(w.Context(), far, n) })
		if n < 0 != (len(entries) == 1) {
			w.Errorf("audit of %d entries from %d: got %d", n, far, len(entries))
		}
	}
	later := did(w, "history", func() ([]job.Event, error) { return w.st.History(w.Context(), j.ID, far, 0) })
	same(w, "history", len(later), 0)
	found := did(w, "messages", func() ([]job.Message, error) {
		return w.st.Messages(w.Context(), job.MessageQuery{Job: j.ID, Limit: math.MaxInt32})
	})
	same(w, "messages", len(found), 0)
	overdue := func() ([]job.Job, error) {
		return w.st.Overdue(w.Context(), w.clock.Add(100*365*24*time.Hour), nil, math.MaxInt32)
	}
	same(w, "overdue", len(did(w, "overdue", overdue)), 0)
}

func boundsMany(w *harness) {
	for _, n := range []int{math.MaxInt, math.MaxInt - 1, math.MaxInt32} {
		free := w.step()
		w.sends(free, fmt.Sprint(n), w.now())
		same(w, "forecast", w.peek(w.asks("w1", n, nil), "").Next, []job.ID{free.ID})
		same(w, "claimed", ids(w.claim("w1", n)), []job.ID{free.ID})
		same(w, "taken", keys(w.take(n)), []string{fmt.Sprint(n)})
		w.settle(job.Message{Key: fmt.Sprint(n), Settled: job.Delivered})
	}
	j := w.moved(w.step(), lifecycle.Operator, "cancel")
	w.put(job.Scope{}, time.Time{})
	audits, events := len(w.audit(0, 9)), len(w.history(j.ID))
	for _, n := range []int{math.MaxInt, math.MaxInt - 1, math.MinInt, -math.MaxInt} {
		for _, seq := range []int64{0, 1, math.MaxInt64 - 1, math.MaxInt64} {
			want := 0
			switch {
			case n < 0 && seq != 1:
				want = audits
			case n > 0 && seq < 2:
				want = audits - int(seq)
			}
			same(w, fmt.Sprintf("audit of %d entries from %d", n, seq), len(w.audit(seq, n)), want)
			held := w.auditHolds(seq, n)
			if n > 0 && seq < 2 != (len(held) == 1) || n < 0 && len(held) > 0 {
				w.Errorf("audit of %d holds from %d: got %d", n, seq, len(held))
			}
		}
		if n > 0 {
			all := did(w, "history", func() ([]job.Event, error) { return w.st.History(w.Context(), j.ID, 0, n) })
			same(w, "history", len(all), events)
		}
	}
}

// tooMany are counts that are out of range.
var tooMany = []int{-1, math.MinInt32, job.MostCount + 1, math.MaxInt32, math.MaxInt32 + 1, math.MinInt, math.MaxInt}

// boundsOfNew creates each job beside one that could be created, alone and as a child.
func boundsOfNew(w *harness) {
	wrong := map[string]func(*job.Created){
		"a priority below the first": func(c *job.Created) { c.Job.Priority = job.FirstPriority - 1 },
		"a priority above the last":  func(c *job.Created) { c.Job.Priority = job.LastPriority + 1 },
		"a priority of 64 bits":      func(c *job.Created) { c.Job.Priority = math.MaxInt },
		"a negative size":            func(c *job.Created) { c.Job.Bytes = -1 },
		"a size above the largest":   func(c *job.Created) { c.Job.Bytes = job.MostBytes + 1 },
		"the event of another":       func(c *job.Created) { c.Event.Job = "tst_other" },
		"the event of none":          func(c *job.Created) { c.Event.Job = "" },
	}
	for _, n := range tooMany {
		wrong[fmt.Sprint("starts ", n)] = func(c *job.Created) { c.Job.Starts = n }
		wrong[fmt.Sprint("attempts ", n)] = func(c *job.Created) { c.Job.Attempts = n }
		wrong[fmt.Sprint("retries ", n)] = func(c *job.Created) { c.Job.Retries = n }
		wrong[fmt.Sprint("attempts of a message ", n)] = func(c *job.Created) { c.Outbox[0].Attempts = n }
	}
	batch := w.create(w.made(Batch, expecting(9)))[0]
	before := w.snapshot(batch.ID)
	bad := func(of job.ID, set func(*job.Created)) job.Created {
		c := w.made(Step, parent(of))
		c.Outbox = []job.Message{{Key: string(c.Job.ID), Job: c.Job.ID, Topic: "mail", Created: w.clock, Due: w.clock}}
		set(&c)
		return c
	}
	for name, set := range wrong {
		if _, err := w.st.Create(w.Context(), w.made(Step), bad("", set)); job.KindOf(err) != job.Invalid {
			w.Errorf("%s: %v", name, err)
		}
		_, err := w.commit(job.Change{Job: batch.ID, Version: batch.Version, At: w.now(),
			Spawn: []job.Created{bad(batch.ID, set)}})
		if job.KindOf(err) != job.Invalid {
			w.Errorf("a child, %s: %v", name, err)
		}
	}
	same(w, "jobs", ids(w.list(job.Query{})), []job.ID{batch.ID})
	w.unchanged(before)
	for _, n := range []int{job.FirstPriority, job.LastPriority} {
		got := w.step(priority(n), sized(job.MostBytes), func(j *job.Job) {
			j.Starts, j.Attempts, j.Retries = job.MostCount, job.MostCount, job.MostCount
		})
		same(w, "at the bounds", got.Priority, n)
		w.moved(got, lifecycle.Operator, "cancel")
	}
	w.sound()
}

// boundsOfChange makes each change in one call with another one.
func boundsOfChange(w *harness) {
	j, other := w.claimed(), w.step()
	before := w.snapshot(j.ID)
	for _, n := range tooMany {
		for name, f := range map[string]func(*job.Change){
			"attempts": sets(job.Fields{Attempts: &n}), "starts": sets(job.Fields{Starts: &n}),
			"retries": sets(job.Fields{Retries: &n}),
			"a task":  func(c *job.Change) { c.Tasks = []job.Task{{Name: "t", Attempts: n, Changed: c.At}} },
			"a message": func(c *job.Change) {
				c.Outbox = []job.Message{{Key: "m", Job: j.ID, Topic: "mail", Created: c.At, Due: c.At, Attempts: n}}
			},
		} {
			one := w.move(j, "begin", lifecycle.Worker, f)
			results := w.commitAll(one, job.Change{Job: other.ID, Version: other.Version, At: w.now(),
				Set: job.Fields{Message: &name}})
			if job.KindOf(results[0].Err) != job.Invalid || results[1].Err != nil {
				w.Errorf("%s, %d: %v, and %v of the other", name, n, results[0].Err, results[1].Err)
			}
			if results[1].Err == nil {
				other = results[1].Job
			}
		}
	}
	w.unchanged(before)
	most := job.MostCount
	got := w.must(w.move(j, "begin", lifecycle.Worker, sets(job.Fields{Attempts: &most, Starts: &most, Retries: &most}),
		func(c *job.Change) { c.Tasks = []job.Task{{Name: "t", Attempts: most, Changed: c.At}} }))
	w.restart()
	same(w, "at the bounds", w.get(j.ID), got)
	same(w, "a task at the bounds", w.tasks(j.ID)[0].Attempts, most)
	w.sound()
}

func boundsOfMessage(w *harness) {
	j := w.step()
	w.sends(j, "a", w.now())
	w.sends(j, "b", w.now())
	before := w.messages(j.ID)
	for _, n := range tooMany {
		err := w.st.Settle(w.Context(), job.Message{Key: "a", Settled: job.Delivered},
			job.Message{Key: "b", Attempts: n})
		if job.KindOf(err) != job.Invalid {
			w.Errorf("attempts %d: %v", n, err)
		}
		same(w, "the messages", w.messages(j.ID), before)
	}
	w.settle(job.Message{Key: "b", Attempts: job.MostCount, Due: w.now()})
	same(w, "at the bounds", w.messages(j.ID)[1].Attempts, job.MostCount)
}

// boundsOfTimes writes times that a number may stand for, or that are before the first number.
func boundsOfTimes(w *harness) {
	for _, at := range []time.Time{time.Unix(0, 0), time.UnixMicro(1), time.UnixMicro(-1),
		time.Date(1, 1, 2, 0, 0, 0, 0, time.UTC), time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)} {
		at = at.UTC()
		what := at.Format(time.RFC3339Nano)
		c := w.made(Step, func(j *job.Job) { j.Due, j.Deadline, j.Expires = at, at, at })
		c.Job, c.Event = job.New(c.Job, lifecycle.Owner, "alice", at)
		m := job.Message{Key: what, Job: c.Job.ID, Topic: what, Created: at, Due: at}
		c.Outbox = []job.Message{m}
		want := w.create(c)[0]
		same(w, "created "+what, want.Entered, at)
		now := w.now()
		want = w.must(job.Change{Job: want.ID, Version: want.Version, At: at,
			Tasks: []job.Task{{Name: "t", Changed: at}}})
		w.hold(job.Hold{Scope: job.Scope{Group: what}, Who: "olga", Since: at, Until: at})
		did(w, "note", func() (bool, error) {
			return true, w.st.Note(w.Context(), job.Audit{At: at, Event: "test", Actor: "alice"})
		})
		w.restart()
		same(w, "the job of "+what, w.get(want.ID), want)
		same(w, "its history", w.history(want.ID), []job.Event{c.Event})
		same(w, "its task", w.tasks(want.ID)[0].Changed, at)
		m.Number = w.messages(want.ID)[0].Number
		same(w, "its message", w.messages(want.ID), []job.Message{m})
		last := w.audit(0, -1)[0]
		same(w, "the entry of the audit log", last.At, at)
		for _, h := range w.holds() {
			if h.Group == what {
				same(w, "the hold", []time.Time{h.Since, h.Until}, []time.Time{at, at})
			}
		}
		past := !at.After(now)
		if got := w.taken(9, func(t *job.Taking) { t.Topics, t.Now = []string{what}, now }); len(got) == 1 != past {
			w.Errorf("the message of %s is taken: %v", what, got)
		}
		overdue := did(w, "overdue", func() ([]job.Job, error) { return w.st.Overdue(w.Context(), now, nil, 9) })
		if len(overdue) == 1 != past {
			w.Errorf("the job of %s is overdue: %v", what, ids(overdue))
		}
		if got := w.claim("w1", 1); len(got) == 1 != past {
			w.Errorf("the job of %s is claimed: %v", what, ids(got))
		}
		w.moved(w.get(want.ID), lifecycle.Operator, "cancel")
	}
	w.sound()
}

// long returns a text of n bytes that no store can make shorter.
func long(n int) string {
	var b strings.Builder
	for i := 0; b.Len() < n; i++ {
		sum := sha256.Sum256([]byte(strconv.Itoa(i)))
		b.WriteString(base64.RawURLEncoding.EncodeToString(sum[:]))
	}
	return b.String()[:n]
}

// boundsOfTexts has texts at their bounds, which each query finds, and refuses those that are longer by a byte.
func boundsOfTexts(w *harness) {
	longest, name := long(job.MostText), long(job.MostName)
	labels := make([]string, job.MostRequired)
	for i := range labels {
		labels[i] = strconv.Itoa(i) + long(99) + "=" + long(100)
	}
	full := func(j *job.Job) {
		j.ID, j.Kind, j.State, j.Key, j.Owner = job.ID(longest), job.Kind(name), lifecycle.State(name), longest, longest
		j.Group, j.Cause, j.Tags, j.Requires = longest, longest, []string{longest}, labels
	}
	one := w.made(Step, full)
	one.Outbox = []job.Message{{Key: longest, Job: one.Job.ID, Topic: longest, Created: w.clock, Due: w.clock}}
	j := w.create(one)[0]
	claim := w.asks(longest, 1, nil)
	claim.From, claim.Labels = []job.KindState{{Kind: j.Kind, State: j.State}}, labels
	j = did(w, "claim", func() ([]job.Job, error) { return w.st.Claim(w.Context(), claim) })[0]
	j = w.must(job.Change{Job: j.ID, Epoch: j.Epoch, Keep: true, At: w.now(),
		Tasks: []job.Task{{Name: longest, Changed: w.clock}}})
	scope := job.Scope{Group: longest, Owner: longest, Tag: longest}
	w.put(scope, time.Time{})
	w.restart()
	for _, q := range []job.Query{{Kinds: []job.Kind{j.Kind}, States: []lifecycle.State{j.State}}, {Group: longest},
		{Owner: longest}, {Key: longest}, {Tag: longest}, {Causes: []string{longest}}, {Worker: longest}} {
		same(w, fmt.Sprintf("the jobs of %.40v", q), w.list(q), []job.Job{j})
	}
	same(w, "its tasks", len(w.tasks(j.ID)), 1)
	same(w, "its messages", keys(w.messages(j.ID)), []string{longest})
	same(w, "the hold", w.holds()[0].Scope, scope)
	more, before := longest+"x", w.snapshot(j.ID)
	w.refusesLonger(more, name+"x", j)
	claim.Worker = more
	_, err := w.st.Claim(w.Context(), claim)
	w.refused(err, job.Invalid)
	for _, s := range []job.Scope{{Group: more}, {Kind: "k", Group: longest, Owner: longest, Tag: longest}} {
		_, err := w.st.Hold(w.Context(), job.Hold{Scope: s, Who: "olga", Since: w.now()})
		w.refused(err, job.Invalid)
	}
	w.unchanged(before)
	same(w, "holds", len(w.holds()), 1)
	same(w, "jobs", len(w.list(job.Query{})), 2)
}

// refusesLonger creates and changes jobs with a text that is too long. Of what is beside it, everything is written:
// another operation, or another change of the call.
func (w *harness) refusesLonger(more, name string, j job.Job) {
	w.Helper()
	for what, set := range map[string]func(*job.Created){
		"id":     func(c *job.Created) { c.Job.ID, c.Event.Job = job.ID(more), job.ID(more) },
		"kind":   func(c *job.Created) { c.Job.Kind = job.Kind(name) },
		"state":  func(c *job.Created) { c.Job.State = lifecycle.State(name) },
		"key":    func(c *job.Created) { c.Job.Key = more },
		"owner":  func(c *job.Created) { c.Job.Owner = more },
		"group":  func(c *job.Created) { c.Job.Group = more },
		"cause":  func(c *job.Created) { c.Job.Cause = more },
		"tag":    func(c *job.Created) { c.Job.Tags = []string{"a", more} },
		"worker": func(c *job.Created) { c.Chain = &job.Chain{Worker: more} },
		"key of a message": func(c *job.Created) {
			c.Outbox = []job.Message{{Key: more, Job: c.Job.ID, Topic: "mail", Created: w.clock, Due: w.clock}}
		},
		"topic of a message": func(c *job.Created) {
			c.Outbox = []job.Message{{Key: "m", Job: c.Job.ID, Topic: more, Created: w.clock, Due: w.clock}}
		},
	} {
		c := w.made(Step)
		set(&c)
		_, err := w.st.Create(w.Context(), w.made(Step), c)
		if job.KindOf(err) != job.Invalid {
			w.Errorf("a new job with a longer %s: %v", what, err)
		}
	}
	other := w.step()
	for what, set := range map[string]func(*job.Change){
		"group": sets(job.Fields{Group: &more}), "cause": sets(job.Fields{Cause: &more}),
		"tag":   sets(job.Fields{Tags: []string{more}}),
		"state": func(c *job.Change) { c.Event, c.To.State = "go", lifecycle.State(name) },
		"task":  func(c *job.Change) { c.Tasks = []job.Task{{Name: more, Changed: c.At}} },
		"key of a message": func(c *job.Change) {
			c.Outbox = []job.Message{{Key: more, Job: j.ID, Topic: "mail", Created: c.At, Due: c.At}}
		},
		"worker": func(c *job.Change) { c.Chain = &job.Chain{Worker: more} },
	} {
		bad := job.Change{Job: j.ID, Epoch: j.Epoch, Keep: true, At: w.now()}
		set(&bad)
		results := w.commitAll(bad, job.Change{Job: other.ID, Version: other.Version, At: w.now(),
			Set: job.Fields{Message: &what}})
		if job.KindOf(results[0].Err) != job.Invalid || results[1].Err != nil {
			w.Errorf("a change with a longer %s: %v, and %v of the other", what, results[0].Err, results[1].Err)
		}
		other = results[1].Job
	}
}

func (w *harness) audit(seq int64, n int) []job.Audit {
	w.Helper()
	return did(w, "audit", func() ([]job.Audit, error) { return w.st.Audit(w.Context(), seq, n) })
}
