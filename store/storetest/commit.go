package storetest

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

var commitTests = []test{
	{"a move under a claim", commitMove},
	{"when the work began that an entry ends", commitBegan},
	{"every field can be set", commitFields},
	{"news without a move gives the claim back, or keeps it", commitNews},
	{"news without a claim leaves the claim alone", commitAside},
	{"a person's loop that keeps leaves the worker alone", commitBeside},
	{"what belongs to a state ends with it", commitEnters},
	{"an operator's move fences the worker off", commitFences},
	{"an expected version that is over", commitVersion},
	{"an expected state that is another", commitFrom},
	{"neither epoch nor version", commitNeither},
	{"a job that is not there", commitUnclaimed},
	{"a priority out of bounds", commitPriority},
	{"a refused change leaves nothing of its own, its neighbours pass", commitNeighbours},
	{"two changes of one job in one call", commitTwice},
	{"each change of a call sees what those before it left", commitList},
	{"many versions at once: one wins", commitRace},
	{"no changes", func(w *harness) { same(w, "results", len(w.commitAll()), 0) }},
}

// commitMove compares the stored record with the result of job.Apply.
func commitMove(w *harness) {
	j := w.claimed(owner("bob"))
	c := w.move(j, "begin", lifecycle.Worker, note("fine"), sets(job.Fields{Message: ptr("working")}))
	want, event, err := job.Apply(j, &c)
	if err != nil {
		w.Fatal(err)
	}
	got := w.must(c)
	same(w, "result", got, want)
	same(w, "record", w.get(j.ID), want)
	same(w, "last entry", w.history(j.ID)[1], *event)
	if got.Claimed() || got.Starts != 0 || got.LastOK != waiting {
		w.Errorf("after the move: %+v", got)
	}
	w.sound()
}

// commitBegan has entries with and without a beginning, with and without an address, and a beginning after the entry,
// which is left out.
func commitBegan(w *harness) {
	j := w.claimed()
	began := []time.Time{w.now().Add(-90 * time.Minute), {}, w.now().Add(-time.Microsecond), w.now(),
		time.Date(1, 1, 2, 0, 0, 0, 0, time.UTC)} // longer ago than a time.Duration
	at := func(i int, address string) func(*job.Change) {
		return func(c *job.Change) { c.Began, c.Address, c.Keep = began[i], address, true }
	}
	j = w.must(w.move(j, lifecycle.Backoff, lifecycle.Worker, at(0, "192.0.2.7")))
	j = w.must(w.move(j, lifecycle.Backoff, lifecycle.Worker, at(1, "192.0.2.7")))
	j = w.must(w.move(j, lifecycle.Backoff, lifecycle.Worker, at(2, "")))
	j = w.must(w.move(j, lifecycle.Backoff, lifecycle.Worker, at(3, "")))
	j = w.must(w.move(j, lifecycle.Backoff, lifecycle.Worker, at(4, "")))
	j = w.must(w.move(j, "begin", lifecycle.Worker, func(c *job.Change) { c.Began = c.At.Add(time.Second) }))
	for range 2 {
		var got []time.Time
		history := w.history(j.ID)
		for _, e := range history {
			got = append(got, e.Began)
		}
		same(w, "beginnings", got, slices.Concat([]time.Time{{}}, began, []time.Time{{}}))
		if err := job.Verify(w.get(j.ID), history, Step); err != nil {
			w.Error(err)
		}
		if w.reopen != nil {
			w.restart()
		}
	}
}

func commitFields(w *harness) {
	at := w.now().Add(time.Hour)
	for name, f := range everyField(at) {
		j := w.claimed()
		c := job.Change{Job: j.ID, Epoch: j.Epoch, Keep: true, At: w.now(), Set: f}
		want, _, err := job.Apply(j, &c)
		if err != nil {
			w.Fatal(err)
		}
		same(w, name, w.must(c), want)
		same(w, name+" read back", w.get(j.ID), want)
		w.must(w.move(want, "begin", lifecycle.Worker))
	}
	j := w.claimed(func(j *job.Job) { j.Data, j.Message = []byte(`{"a":1}`), "hello" })
	got := w.must(job.Change{Job: j.ID, Epoch: j.Epoch, Keep: true, At: w.now(), Set: job.Fields{Message: ptr("")}})
	if got.Message != "" || string(got.Data) != `{"a":1}` {
		w.Errorf("an empty message and no data: %q, %s", got.Message, got.Data)
	}
	w.sound()
}

// everyField gives a change of each field alone.
func everyField(at time.Time) map[string]job.Fields {
	return map[string]job.Fields{
		"data": {Data: []byte(`{"b":2}`)}, "message": {Message: ptr("news")}, "cause": {Cause: ptr("network")},
		"priority": {Priority: ptr(3)}, "due": {Due: &at}, "deadline": {Deadline: &at}, "expires": {Expires: &at},
		"attempts": {Attempts: ptr(2)}, "retries": {Retries: ptr(4)}, "expected": {Expected: ptr(9)},
		"group": {Group: ptr("maps")},
		"tags":  {Tags: job.Tagged("queue=b", "place=main")}, "no tags": {Tags: []string{}},
		"bytes": {Bytes: ptr[int64](1 << 50)},
	}
}

func commitNews(w *harness) {
	j := w.claimed()
	kept := w.must(job.Change{Job: j.ID, Epoch: j.Epoch, Keep: true, At: w.now(),
		Set: job.Fields{Message: ptr("half done")}})
	if !kept.Claimed() || kept.Epoch != j.Epoch || kept.Seq != j.Seq || kept.Starts != 1 {
		w.Errorf("kept: %+v", kept)
	}
	looped := w.must(w.move(kept, lifecycle.Waiting, lifecycle.Worker, func(c *job.Change) { c.Keep = true }))
	if !looped.Claimed() || looped.Epoch != j.Epoch || looped.Seq != j.Seq+1 {
		w.Errorf("a loop that keeps the claim: %+v", looped)
	}
	back := w.must(job.Change{Job: j.ID, Epoch: j.Epoch, At: w.now()})
	if back.Claimed() || back.Starts != 0 || !back.Until.IsZero() {
		w.Errorf("given back: %+v", back)
	}
	_, err := w.commit(job.Change{Job: j.ID, Epoch: j.Epoch, At: w.now()})
	w.refused(err, job.Stale)
	same(w, "another takes it", ids(w.claim("w2", 1)), []job.ID{j.ID})
	w.sound()
}

func commitAside(w *harness) {
	j := w.claimed()
	got := w.must(job.Change{Job: j.ID, Version: j.Version, At: w.now(), Set: job.Fields{Priority: ptr(1)}})
	if got.Epoch != j.Epoch || got.Worker != "w1" || !got.Until.Equal(j.Until) {
		w.Errorf("an operator's news touched the claim: %+v", got)
	}
	w.must(w.move(j, "begin", lifecycle.Worker)) // by the worker, unaware of it
}

// commitBeside has an operator change the priority of a job that is being worked on; the worker commits afterwards,
// under its old epoch.
func commitBeside(w *harness) {
	for _, starts := range []int{1, 2} {
		j := w.claimed()
		if starts == 2 {
			w.must(w.move(j, lifecycle.Lost, lifecycle.Timer))
			j = w.claim("w1", 1)[0]
		}
		c := w.move(j, lifecycle.Reprioritize, lifecycle.Operator, sets(job.Fields{Priority: ptr(3)}), without)
		c.Version, c.Keep = j.Version, true
		got := w.must(c)
		want := j
		want.Priority, want.Version, want.Changed, want.Seq, want.Head = 3, j.Version+1, c.At, j.Seq+1, got.Head
		same(w, "the job", got, want)
		same(w, "its starts", got.Starts, starts)
		same(w, "no other worker gets it", ids(w.claim("w2", 9)), nil)
		lost, err := w.st.Renew(w.Context(),
			job.Renewal{Worker: "w1", Leases: []job.Lease{{Job: j.ID, Epoch: j.Epoch}}, Lease: time.Hour, Now: w.now()})
		if err != nil || len(lost) > 0 {
			w.Errorf("the worker's renewal: lost %v, %v", lost, err)
		}
		w.must(w.move(j, "begin", lifecycle.Worker)) // by the worker, unaware of it

		fenced := w.claimed() // the control: without Keep the worker is fenced off
		c = w.move(fenced, lifecycle.Reprioritize, lifecycle.Operator, without)
		c.Version = fenced.Version
		w.must(c)
		_, err = w.commit(w.move(fenced, "begin", lifecycle.Worker))
		w.refused(err, job.Stale)
		w.must(w.move(w.claim("w2", 1)[0], "begin", lifecycle.Worker))
	}
	w.sound()
}

// commitEnters moves a job that has a due time, a timer and attempts: a loop keeps them, another state starts anew.
func commitEnters(w *harness) {
	at := w.now().Add(time.Hour)
	j := w.claimed()
	j = w.must(job.Change{Job: j.ID, Epoch: j.Epoch, Keep: true, At: w.now(),
		Set: job.Fields{Attempts: ptr(3), Expires: &at, Deadline: &at, Retries: ptr(1)}})
	entered := j.Entered
	j = w.must(w.move(j, lifecycle.Backoff, lifecycle.Worker, sets(job.Fields{Due: &at})))
	if j.Attempts != 3 || !j.Expires.Equal(at) || !j.Due.Equal(at) || !j.Entered.Equal(entered) {
		w.Errorf("after a loop: %+v", j)
	}
	c := w.move(j, "begin", lifecycle.Worker, without)
	c.Version = j.Version
	got := w.must(c)
	if got.Attempts != 0 || !got.Expires.IsZero() || !got.Due.IsZero() || !got.Entered.Equal(c.At) {
		w.Errorf("in another state: %+v", got)
	}
	if got.Retries != 1 || !got.Deadline.Equal(at) {
		w.Errorf("what belongs to the job is gone: %+v", got)
	}
	same(w, "record", w.get(j.ID), got)
}

func commitFences(w *harness) {
	j := w.claimed()
	got := w.must(w.move(j, "cancel", lifecycle.Operator))
	if got.Epoch <= j.Epoch || got.Claimed() || got.Outcome != lifecycle.Cancelled || !got.Ended {
		w.Errorf("cancelled: %+v", got)
	}
	before := w.snapshot(j.ID)
	_, err := w.commit(w.move(j, "begin", lifecycle.Worker))
	w.refused(err, job.Stale)
	w.unchanged(before)
	w.sound()
}

func commitVersion(w *harness) {
	j := w.step()
	w.must(job.Change{Job: j.ID, Version: j.Version, At: w.now(), Set: job.Fields{Message: ptr("x")}})
	before := w.snapshot(j.ID)
	_, err := w.commit(w.move(j, "cancel", lifecycle.Operator))
	w.refused(err, job.Conflict)
	claimed := w.claim("w1", 1)[0]
	_, err = w.commit(w.move(claimed, "begin", lifecycle.Worker,
		func(c *job.Change) { c.Version = before.Job.Version }))
	w.refused(err, job.Conflict)
	w.must(w.move(claimed, "begin", lifecycle.Worker, func(c *job.Change) { c.Version = claimed.Version }))
}

func commitFrom(w *harness) {
	j := w.step()
	before := w.snapshot(j.ID)
	_, err := w.commit(w.move(j, "cancel", lifecycle.Operator, func(c *job.Change) { c.From = running }))
	w.refused(err, job.Conflict)
	w.unchanged(before)
	w.must(w.move(j, "cancel", lifecycle.Operator, func(c *job.Change) { c.From = "" }))
}

func commitNeither(w *harness) {
	j := w.step()
	before := w.snapshot(j.ID)
	_, err := w.commit(w.move(j, "cancel", lifecycle.Operator, func(c *job.Change) { c.Version = 0 }))
	w.refused(err, job.Invalid)
	w.unchanged(before)
}

func commitUnclaimed(w *harness) {
	_, err := w.commit(job.Change{Job: "tst_nobody", Version: 1, At: w.now()})
	w.refused(err, job.NotFound)
}

func commitPriority(w *harness) {
	j := w.step()
	before := w.snapshot(j.ID)
	for _, p := range []int{-1, 100} {
		_, err := w.commit(job.Change{Job: j.ID, Version: j.Version, At: w.now(), Set: job.Fields{Priority: &p}})
		w.refused(err, job.Invalid)
	}
	w.unchanged(before)
}

// loaded is a move that brings everything a change can carry.
func (w *harness) loaded(j job.Job, e lifecycle.Event) job.Change {
	w.Helper()
	return w.move(j, e, lifecycle.Worker, func(c *job.Change) {
		c.Tasks = []job.Task{{Name: "t-" + string(j.ID), Kind: "download", State: running, Changed: w.now()}}
		c.Outbox = []job.Message{{Key: "m-" + string(j.ID), Job: j.ID, Topic: "mail", Created: w.now(), Due: w.now()}}
		c.Spawn = []job.Created{w.made(Step, parent(j.ID), priority(job.LastPriority),
			func(child *job.Job) { child.ID = "tst_child_of_" + j.ID })}
	})
}

func commitNeighbours(w *harness) {
	for _, spoil := range []struct {
		name string
		with func(*job.Change)
		want job.ErrorKind
	}{
		{"epoch", func(c *job.Change) { c.Epoch += 7 }, job.Stale},
		{"version", func(c *job.Change) { c.Version = 99 }, job.Conflict},
		{"state", func(c *job.Change) { c.From = done }, job.Conflict},
		{"priority", func(c *job.Change) { c.Set.Priority = ptr(100) }, job.Invalid},
		{"settled", func(c *job.Change) { c.Set.Expected, c.Spawn, c.Require.Settled = nil, nil, true }, job.Refused},
	} {
		var jobs []job.Job
		var changes []job.Change
		for i := range 3 {
			j := w.claimed(expecting(1))
			jobs = append(jobs, j)
			changes = append(changes, w.loaded(j, "begin"))
			if i == 1 {
				spoil.with(&changes[1])
			}
		}
		before := w.snapshot(jobs[1].ID)
		results := w.commitAll(changes...)
		w.refused(results[1].Err, spoil.want)
		w.unchanged(before)
		for _, i := range []int{0, 2} {
			after := w.snapshot(jobs[i].ID)
			if results[i].Err != nil ||
				after.Job.State != running || len(after.Tasks) != 1 || len(after.Messages) != 1 ||
				len(after.Children) != 1 {
				w.Errorf("%s: neighbour %d: %v, %+v", spoil.name, i, results[i].Err, after)
			}
			same(w, "result", results[i].Job, after.Job)
		}
		_, err := w.st.Get(w.Context(), "tst_child_of_"+jobs[1].ID)
		w.refused(err, job.NotFound)
		w.sound()
	}
}

// commitTwice puts a chain of changes into one call: each sees what the one before left.
func commitTwice(w *harness) {
	j := w.claimed()
	begin := w.move(j, "begin", lifecycle.Worker)
	news := job.Change{Job: j.ID, Epoch: j.Epoch, Keep: true, At: w.now(), Set: job.Fields{Message: ptr("on")}}
	results := w.commitAll(news, begin, begin)
	if results[0].Err != nil || results[1].Err != nil {
		w.Errorf("news and move: %v, %v", results[0].Err, results[1].Err)
	}
	w.refused(results[2].Err, job.Stale)
	got := w.get(j.ID)
	if got.State != running || got.Message != "on" || got.Seq != 2 {
		w.Errorf("after both: %+v", got)
	}
	w.sound()
}

// commitList spawns two jobs, ends both, purges one, and reports the batch, in one call.
func commitList(w *harness) {
	w.moved(w.create(w.made(Batch, expecting(2)))[0], lifecycle.Worker, "begin")
	claimed, err := w.st.Claim(w.Context(), job.Claim{Worker: "w1", N: 1, Now: w.now(), Lease: time.Hour,
		From: []job.KindState{{Kind: batchKind, State: gathering}}})
	if err != nil || len(claimed) != 1 {
		w.Fatalf("claim gave %v, %v", ids(claimed), err)
	}
	batch := claimed[0]
	a, b := w.made(Step, parent(batch.ID)), w.made(Step, parent(batch.ID))
	message := func(of job.ID) []job.Message {
		return []job.Message{{Key: "once", Job: of, Topic: "mail", Created: w.now(), Due: w.now()}}
	}
	at := func(j job.Job, version int64, e lifecycle.Event, by lifecycle.Actor) job.Change {
		return w.move(j, e, by, func(c *job.Change) { c.Epoch, c.Version = 0, version })
	}
	cancel := at(a.Job, 1, "cancel", lifecycle.Operator)
	ended := a.Job
	ended.Position = cancel.To
	last := at(b.Job, 1, "cancel", lifecycle.Operator)
	last.Outbox = message(b.Job.ID) // the key is taken
	report := at(batch, 0, "report", lifecycle.Engine)
	report.Epoch, report.Require.Settled = batch.Epoch, true
	changes := []job.Change{
		{Job: batch.ID, Epoch: batch.Epoch, Keep: true, At: w.now(), Spawn: []job.Created{a, b},
			Outbox: message(batch.ID)},
		cancel, at(ended, 2, "delete", lifecycle.Timer), {Job: a.Job.ID, Version: 3, Purge: true, At: w.now()},
		last, report,
	}
	for i, r := range w.commitAll(changes...) {
		if r.Err != nil {
			w.Errorf("change %d: %v", i, r.Err)
		}
	}
	got := w.get(batch.ID)
	same(w, "state", got.State, reported)
	same(w, "children", got.Children, job.Children{Expected: 2, Cancelled: 1, Deleted: 1})
	same(w, "jobs", ids(w.list(job.Query{Parent: batch.ID})), []job.ID{b.Job.ID})
	same(w, "messages", len(w.messages(batch.ID))-len(w.messages(b.Job.ID)), 1)
	w.sound()
}

func commitRace(w *harness) {
	j := w.step()
	const n = 16
	c := w.move(j, "hold", lifecycle.Operator)
	won := make(chan string, n)
	finished := make(chan bool, n)
	for i := range n {
		mine := c
		mine.Actor = fmt.Sprint("operator ", i)
		go func() {
			defer func() { finished <- true }()
			results, err := w.st.Commit(w.Context(), mine)
			switch {
			case err != nil:
				w.Errorf("commit as a whole: %v", err)
			case results[0].Err == nil:
				won <- mine.Actor
			case job.KindOf(results[0].Err) != job.Conflict:
				w.Errorf("lost the race with %v, want kind conflict", results[0].Err)
			}
		}()
	}
	for range n {
		<-finished
	}
	if len(won) != 1 {
		w.Fatalf("%d operators won with the same version", len(won))
	}
	same(w, "who is in the history", w.history(j.ID)[1].Actor, <-won)
	w.sound()
}

var staleTests = []test{
	{"every kind of change is refused to an old epoch", staleEvery},
	{"an epoch that is not yet", staleFuture},
	{"a stale holder races with the one after it", staleRace},
}

// staleEvery claims a job, loses it to another worker and tries every kind of change under the old epoch.
func staleEvery(w *harness) {
	old := w.claimed()
	w.must(w.move(old, lifecycle.Lost, lifecycle.Timer))
	taken := w.claim("w2", 1)[0]
	if taken.ID != old.ID {
		w.Fatalf("claim gave %s", taken.ID)
	}
	before := w.snapshot(old.ID)
	try := map[string]job.Change{}
	for name, f := range everyField(w.now()) {
		try["set "+name] = job.Change{Set: f, Keep: true}
		try["set "+name+" and give back"] = job.Change{Set: f}
	}
	for _, e := range []lifecycle.Event{"begin", lifecycle.Waiting, lifecycle.Backoff, lifecycle.Yield} {
		try["event "+string(e)] = w.move(old, e, lifecycle.Worker)
		try["event "+string(e)+", keeping the claim"] = w.move(old, e, lifecycle.Worker,
			func(c *job.Change) { c.Keep = true })
	}
	all := w.loaded(old, "begin")
	try["tasks"] = job.Change{Tasks: all.Tasks, Keep: true}
	try["outbox"] = job.Change{Outbox: all.Outbox, Keep: true}
	try["children"] = job.Change{Spawn: all.Spawn, Keep: true}
	try["chain"] = w.move(old, "begin", lifecycle.Worker, func(c *job.Change) {
		c.Chain = &job.Chain{Worker: "w1", Lease: time.Hour}
	})
	try["the right version"] = job.Change{Version: taken.Version, Keep: true}
	try["giving back"] = job.Change{}
	try["everything"] = all
	for name, c := range try {
		c.Job, c.Epoch, c.At = old.ID, old.Epoch, w.now()
		if _, err := w.commit(c); job.KindOf(err) != job.Stale {
			w.Errorf("%s: %v, want kind stale", name, err)
		}
		w.unchanged(before)
	}
	if _, err := w.st.Get(w.Context(), all.Spawn[0].Job.ID); job.KindOf(err) != job.NotFound {
		w.Errorf("a stale change created a child: %v", err)
	}
	w.must(w.move(taken, "begin", lifecycle.Worker))
	w.sound()
}

func staleFuture(w *harness) {
	j := w.claimed()
	before := w.snapshot(j.ID)
	_, err := w.commit(w.move(j, "begin", lifecycle.Worker, func(c *job.Change) { c.Epoch++ }))
	w.refused(err, job.Stale)
	_, err = w.commit(w.move(j, "begin", lifecycle.Worker, func(c *job.Change) { c.Epoch = -1 }))
	w.refused(err, job.Stale)
	w.unchanged(before)
}

// staleRace has a worker end its work while its claim is taken away and given to another: one of the two moves
// happens, and the loser gets an error.
func staleRace(w *harness) {
	for range w.scale(10_000, 100) {
		j := w.claimed()
		work, lose := w.move(j, "begin", lifecycle.Worker), w.move(j, lifecycle.Lost, lifecycle.Timer)
		var kinds [2]job.ErrorKind
		var all sync.WaitGroup
		for i, c := range []job.Change{work, lose} {
			all.Go(func() {
				r, err := w.st.Commit(w.Context(), c)
				if err != nil {
					w.Errorf("commit: %v", err)
					return
				}
				kinds[i] = job.KindOf(r[0].Err)
			})
		}
		all.Wait()
		now := w.get(j.ID)
		switch {
		case kinds == [2]job.ErrorKind{"", job.Conflict} && now.State == running && now.Seq == 2:
		case kinds == [2]job.ErrorKind{job.Stale, ""} && now.State == waiting && now.Seq == 2 && now.Epoch > j.Epoch:
		default:
			w.Fatalf("worker: %q, sweep: %q, record: %+v", kinds[0], kinds[1], now)
		}
		w.moved(now, lifecycle.Operator, pickEvent(now.State == running, "fail", "cancel"))
	}
}

func pickEvent(first bool, a, b lifecycle.Event) lifecycle.Event {
	if first {
		return a
	}
	return b
}
