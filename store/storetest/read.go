package storetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

var getTests = []test{
	{"a job that is not there", func(w *harness) {
		_, err := w.st.Get(w.Context(), "tst_nobody")
		w.refused(err, job.NotFound)
	}},
}

var listTests = []test{
	{"every filter", listFilters},
	{"by the beginning or end of the id", listNamed},
	{"overdue", listOverdue},
	{"overdue, past a page of others", listOverdueOther},
	{"overdue, after many that were", listOverduePast},
	{"ended jobs by age", listEnded},
	{"by worker", listWorker},
	{"the jobs of workers in pages", listWorkerPages},
	{"newest and oldest first", listOrder},
	{"the page size has bounds", listLimit},
	{"a cursor stays valid while jobs come and go", listCursor},
	{"a cursor that is none", listBadCursor},
	{"every page together is the whole list", listPages},
	{"pages of large jobs end early", listLarge},
}

// zoo creates jobs that differ in what queries ask for.
func zoo(w *harness) map[string]job.Job {
	w.Helper()
	batch := w.create(w.made(Batch, owner("bob"), expecting(2)))[0]
	jobs := map[string]job.Job{
		"batch":   batch,
		"waiting": w.step(owner("bob"), group("maps"), key("k1"), tagged("queue=a", "place=main"), sized(7)),
		"child":   w.step(owner("carol"), parent(batch.ID), key("k1")),
		"running": w.moved(w.step(group("maps")), lifecycle.Worker, "begin"),
		"done": w.moved(w.step(owner("bob"), parent(batch.ID), tagged("queue=a"), sized(100)), lifecycle.Worker,
			"begin", "next", "finish"),
		"failed": w.moved(w.step(), lifecycle.Worker, "begin", "fail"),
	}
	return jobs
}

func listNamed(w *harness) {
	create := func(id job.ID, owner string) job.ID {
		return w.create(w.made(Step, func(j *job.Job) { j.ID, j.Owner = id, owner }))[0].ID
	}
	named := func(part, owner string, n int) []job.ID {
		w.Helper()
		all := did(w, "named", func() ([]job.Job, error) { return w.st.Named(w.Context(), part, owner, n) })
		for _, j := range all {
			same(w, "found by its id", j, w.get(j.ID))
		}
		return ids(all)
	}
	first, second, other := create("abc_1X", "ann"), create("abc_2Y", "bob"), create("xyz_2X", "ann")
	w.moved(w.step(), lifecycle.Operator, "cancel")
	for part, want := range map[string][]job.ID{
		"abc_": {second, first}, "abc_1": {first}, string(second): {second}, "X": {other, first}, "2X": {other},
		"bc_": {}, "_": {}, "abc_1X9": {}, "%": {},
	} {
		same(w, part, named(part, "", 9), want)
	}
	same(w, "one", named("X", "", 1), []job.ID{other})
	same(w, "none", named("X", "", 0), nil)
	same(w, "of an owner", named("abc_", "ann", 9), []job.ID{first})
	same(w, "of an unknown owner", named("abc_", "eve", 9), nil)
	earlier := create("abc_0Z", "ann") // ids need not have the order of creation
	same(w, "the newest", named("abc_", "", 1), []job.ID{earlier})
	same(w, "newest first", named("abc_", "", 2), []job.ID{earlier, second})
}

// overdue gives the ids of overdue jobs, sorted.
func (w *harness) overdue(at time.Time, n int, kinds ...job.Kind) []job.ID {
	w.Helper()
	all := did(w, "overdue", func() ([]job.Job, error) { return w.st.Overdue(w.Context(), at, kinds, n) })
	for _, j := range all {
		same(w, "an overdue job", j, w.get(j.ID))
	}
	list := ids(all)
	slices.Sort(list)
	return list
}

func listFilters(w *harness) {
	jobs := zoo(w)
	middle := w.now()
	jobs["stopped"] = w.moved(w.step(), lifecycle.Operator, "cancel")
	jobs["deleted"] = w.moved(w.moved(w.step(), lifecycle.Operator, "cancel"), lifecycle.Operator, "delete")
	cases := []struct {
		q    job.Query
		want []string
	}{
		{job.Query{}, []string{"batch", "waiting", "child", "running", "done", "failed", "stopped", "deleted"}},
		{job.Query{Kinds: []job.Kind{batchKind}}, []string{"batch"}},
		{job.Query{Kinds: []job.Kind{batchKind, stepKind}, States: []lifecycle.State{waiting}},
			[]string{"batch", "waiting", "child"}},
		{job.Query{Kinds: []job.Kind{"nothing"}}, nil},
		{job.Query{States: []lifecycle.State{running, done}}, []string{"running", "done"}},
		{job.Query{Outcomes: []lifecycle.Outcome{lifecycle.OK}}, []string{"done"}},
		{job.Query{Outcomes: []lifecycle.Outcome{lifecycle.Cancelled, lifecycle.Failed}},
			[]string{"failed", "stopped", "deleted"}},
		{job.Query{Group: "maps"}, []string{"waiting", "running"}},
		{job.Query{Owner: "bob"}, []string{"batch", "waiting", "done"}},
		{job.Query{Owner: "bob", Group: "maps"}, []string{"waiting"}},
		{job.Query{Parent: jobs["batch"].ID}, []string{"child", "done"}},
		{job.Query{Parent: jobs["batch"].ID, Ended: ptr(false)}, []string{"child"}},
		{job.Query{Key: "k1"}, []string{"waiting", "child"}},
		{job.Query{Key: "k1", Owner: "carol", Kinds: []job.Kind{stepKind}}, []string{"child"}},
		{job.Query{Tag: "queue=a"}, []string{"waiting", "done"}},
		{job.Query{Tag: "queue=a", Owner: "bob", Ended: ptr(true)}, []string{"done"}},
		{job.Query{Tag: "place=main"}, []string{"waiting"}},
		{job.Query{Tag: "queue"}, nil},
		{job.Query{Ended: ptr(true)}, []string{"done", "failed", "stopped", "deleted"}},
		{job.Query{Ended: ptr(false)}, []string{"batch", "waiting", "child", "running"}},
		{job.Query{Before: middle}, []string{"batch", "waiting", "child", "running", "done", "failed"}},
		{job.Query{Before: jobs["done"].Changed, Ended: ptr(true)}, nil},
		{job.Query{Before: jobs["done"].Changed.Add(time.Millisecond), Ended: ptr(true)}, []string{"done"}},
	}
	for _, c := range cases {
		c.q.Oldest = true
		want := make([]job.ID, len(c.want))
		for i, name := range c.want {
			want[i] = jobs[name].ID
		}
		if diff := cmp.Diff(want, ids(w.list(c.q))); diff != "" {
			w.Errorf("%+v (-want +got):\n%s", c.q, diff)
		}
	}
	for _, j := range w.list(job.Query{}) {
		same(w, "listed job", j, w.get(j.ID))
	}
}

// ended gives the ids of the ended jobs that a query finds in all of its pages, sorted. between is called after each.
func (w *harness) ended(q job.EndedQuery, between func()) []job.ID {
	w.Helper()
	found := []job.ID{}
	for range 100 {
		page := did(w, "list ended", func() (job.Page, error) { return w.st.ListEnded(w.Context(), q) })
		for _, j := range page.Jobs {
			same(w, "an ended job", j, w.get(j.ID))
		}
		found = append(found, ids(page.Jobs)...)
		if q.After = page.Next; page.Next == "" {
			slices.Sort(found)
			return found
		}
		between()
	}
	w.Fatalf("pages without an end: %v", found)
	return nil
}

// listEnded asks for ended jobs that have not changed since a time: of a kind, in one or more states, in pages between
// which jobs come and go.
func listEnded(w *harness) {
	end := func(events ...lifecycle.Event) job.Job { return w.moved(w.step(), lifecycle.Operator, events...) }
	w.step()
	a, b, c := end("cancel"), end("cancel"), end("cancel", "delete")
	other := w.moved(w.create(w.made(Batch))[0], lifecycle.Worker, "fail")
	late := end("cancel")
	query := func(before time.Time, states ...lifecycle.State) job.EndedQuery {
		return job.EndedQuery{Kind: stepKind, States: states, Before: before, Limit: 1}
	}
	nothing := func() {}
	for name, q := range map[string]struct {
		job.EndedQuery
		want []job.ID
	}{
		"one state":  {query(late.Changed, stopped), []job.ID{a.ID, b.ID}},
		"two states": {query(late.Changed, deleted, stopped, deleted), []job.ID{a.ID, b.ID, c.ID}},
		"another kind": {job.EndedQuery{Kind: batchKind, States: []lifecycle.State{failed}, Before: late.Changed},
			[]job.ID{other.ID}},
		"changed at the time": {query(a.Changed, stopped), []job.ID{}},
		"just before":         {query(a.Changed.Add(time.Microsecond), stopped), []job.ID{a.ID}},
		"not ended":           {query(late.Changed, waiting), []job.ID{}},
		"no state":            {query(late.Changed), []job.ID{}},
		"no time":             {query(time.Time{}, stopped), []job.ID{}},
		"all":                 {query(late.Changed.Add(time.Hour), stopped), []job.ID{a.ID, b.ID, late.ID}},
	} {
		want := slices.Clone(q.want)
		slices.Sort(want)
		same(w, name, w.ended(q.EndedQuery, nothing), want)
	}
	for range 8 {
		end("cancel")
	}
	now, n := w.now(), 0
	seen := w.ended(query(now, stopped), func() { // a page is gone, as retention leaves it, and another job ends
		page := did(w, "list ended", func() (job.Page, error) {
			return w.st.ListEnded(w.Context(), query(now, stopped))
		})
		w.moved(page.Jobs[0], lifecycle.Timer, "delete")
		end("cancel")
		n++
	})
	same(w, "pages while jobs come and go", []int{len(seen), n}, []int{11, 10})
	q := query(now, stopped)
	q.After = "x"
	_, err := w.st.ListEnded(w.Context(), q)
	w.refused(err, job.Invalid)
}

func listOverdue(w *harness) {
	at := w.now().Add(time.Hour)
	early, later := at.Add(-time.Minute), at.Add(time.Minute)
	expires := func(t time.Time) func(*job.Job) { return func(j *job.Job) { j.Expires = t } }
	want := []job.ID{w.step(expires(early)).ID}
	w.step(expires(later))
	w.step()
	w.step(due(early))
	w.step(func(j *job.Job) { j.Deadline = early }) // the engine makes Expires of it
	w.must(w.move(w.step(expires(early)), "cancel", lifecycle.Operator, sets(job.Fields{Expires: &early})))
	claims := []job.Job{w.moved(w.step(), lifecycle.Worker, "begin"), w.moved(w.step(), lifecycle.Worker, "begin")}
	for i, until := range []time.Time{early, later} {
		ask := w.asks(fmt.Sprint("w", i), 1, nil, running)
		ask.Lease = until.Sub(ask.Now)
		got, err := w.st.Claim(w.Context(), ask)
		if err != nil || len(got) != 1 || got[0].ID != claims[i].ID {
			w.Fatalf("claim gave %v, %v", ids(got), err)
		}
		claims[i] = got[0]
	}
	want = append(want, claims[0].ID)
	same(w, "overdue jobs", w.overdue(at, 9), want)
	same(w, "of a kind", w.overdue(at, 9, batchKind, stepKind), want)
	same(w, "of another kind", w.overdue(at, 9, batchKind), nil)
	same(w, "at most", len(w.overdue(at, 1)), 1)
	same(w, "none yet", w.overdue(early.Add(-time.Second), 9), nil)
	w.must(job.Change{Job: claims[0].ID, Epoch: claims[0].Epoch, At: w.now()})
	same(w, "after a claim was given back", w.overdue(at, 9), want[:1])
	lost, err := w.st.Renew(w.Context(), job.Renewal{Worker: "w1", Now: later, Lease: time.Hour,
		Leases: []job.Lease{{Job: claims[1].ID, Epoch: claims[1].Epoch}}})
	if err != nil || len(lost) > 0 {
		w.Fatalf("renew: lost %v, %v", lost, err)
	}
	renewed := func(by time.Time) bool { return !slices.Contains(w.overdue(by, 9), claims[1].ID) }
	same(w, "a renewed claim", renewed(later.Add(time.Second)), true)
	same(w, "when it ran out too", renewed(later.Add(time.Hour)), false)
	w.must(job.Change{Job: want[0], Version: w.get(want[0]).Version, At: w.now(), Set: job.Fields{Expires: &later}})
	same(w, "after its time was prolonged", w.overdue(at, 9), nil)
}

// listOverdueOther asks for the overdue jobs of one kind when more than a page of another kind has been overdue for
// longer.
func listOverdueOther(w *harness) {
	early := w.now()
	var list []job.Created
	for range 300 {
		list = append(list, w.made(Step, func(j *job.Job) { j.Expires = early }))
	}
	w.create(list...)
	want := w.create(w.made(Batch, func(j *job.Job) { j.Expires = early.Add(time.Second) }))[0]
	same(w, "overdue batches", w.overdue(early.Add(time.Hour), 1, batchKind), []job.ID{want.ID})
	same(w, "claimed", len(w.claim("w1", 999)), 300)
	w.must(w.move(w.step(priority(0)), "begin", lifecycle.Worker, without))
	other := w.claim("w1", 1, running)[0]
	got := w.list(job.Query{Worker: "w1", States: []lifecycle.State{running}})
	same(w, "claimed by the worker in one state", ids(got), []job.ID{other.ID})
}

// listOverduePast has many jobs go that were overdue, or were given back; those that are left fit a small page.
func listOverduePast(w *harness) {
	early := w.now()
	var list []job.Created
	for range 60 {
		list = append(list, w.made(Step, func(j *job.Job) { j.Expires = early }))
	}
	w.create(list...)
	var changes []job.Change
	for i, j := range w.claim("w1", 60) {
		if i%2 == 0 {
			changes = append(changes, w.move(j, "cancel", lifecycle.Owner))
		} else {
			changes = append(changes, w.move(j, "begin", lifecycle.Worker))
		}
	}
	for _, r := range w.commitAll(changes...) {
		if r.Err != nil {
			w.Fatal(r.Err)
		}
	}
	want := []job.ID{w.claimed().ID, w.step(func(j *job.Job) { j.Expires = early }).ID}
	same(w, "overdue", w.overdue(w.pass(time.Hour), 2), want)
	same(w, "claimed", ids(w.list(job.Query{Worker: "w", Limit: 1})), want[:1])
}

// listWorker asks for what the workers of one process hold: their names start with the same words.
func listWorker(w *harness) {
	for range 4 {
		w.step()
	}
	a, b := w.claim("host-1/a", 1)[0], w.claim("host-1/b", 1)[0]
	c := w.claim("host-2/a", 1)[0]
	held := func(by string) []job.ID {
		var list []job.ID
		for q := (job.Query{Worker: by, Oldest: true, Limit: 1}); ; {
			page, err := w.st.List(w.Context(), q)
			if err != nil {
				w.Fatal(err)
			}
			list = append(list, ids(page.Jobs)...)
			if q.After = page.Next; q.After == "" {
				return list
			}
		}
	}
	same(w, "of a process", held("host-1/"), []job.ID{a.ID, b.ID})
	same(w, "newest first", ids(w.list(job.Query{Worker: "host-"})), []job.ID{c.ID, b.ID, a.ID})
	same(w, "of an owner", ids(w.list(job.Query{Worker: "host-", Owner: "nobody"})), nil)
	same(w, "of a worker", held("host-2/a"), []job.ID{c.ID})
	same(w, "of another", held("host-3/"), nil)
	w.must(w.move(a, lifecycle.Yield, lifecycle.Worker))
	w.must(w.move(b, "cancel", lifecycle.Operator))
	same(w, "after they were released", held("host-1/"), nil)
}

func listOrder(w *harness) {
	var want []job.ID
	for range 5 {
		want = append(want, w.step().ID)
	}
	w.moved(w.get(want[1]), lifecycle.Operator, "cancel") // a change moves nothing in the order of creation
	same(w, "oldest first", ids(w.list(job.Query{Oldest: true})), want)
	slices.Reverse(want)
	same(w, "newest first", ids(w.list(job.Query{})), want)
}

func listLimit(w *harness) {
	var list []job.Created
	for range 1010 {
		list = append(list, w.made(Step))
	}
	w.create(list...)
	for limit, want := range map[int]int{0: 50, 1: 1, 7: 7, 1000: 1000} {
		page, err := w.st.List(w.Context(), job.Query{Limit: limit})
		if err != nil || len(page.Jobs) != want || page.Next == "" {
			w.Errorf("limit %d: %d jobs, next %q, %v; want %d and a cursor", limit, len(page.Jobs), page.Next,
				err, want)
		}
	}
	if page, err := w.st.List(w.Context(), job.Query{Limit: 5000}); err == nil && len(page.Jobs) > 1000 {
		w.Errorf("limit 5000 gives %d jobs; a page has at most 1000", len(page.Jobs))
	}
	page, err := w.st.List(w.Context(), job.Query{Limit: 3, States: []lifecycle.State{done}})
	if err != nil || len(page.Jobs) != 0 || page.Next != "" {
		w.Errorf("an empty list: %d jobs, next %q, %v", len(page.Jobs), page.Next, err)
	}
}

// listCursor pages through a list while its jobs leave it and new ones come: those that stay are seen once each.
func listCursor(w *harness) {
	for _, oldest := range []bool{true, false} {
		var stay []job.ID
		for range 12 {
			stay = append(stay, w.step(group(fmt.Sprint(oldest))).ID)
		}
		q := job.Query{Group: fmt.Sprint(oldest), States: []lifecycle.State{waiting}, Oldest: oldest, Limit: 3}
		var seen []job.ID
		for page, n := (job.Page{}), 0; n == 0 || page.Next != ""; n++ {
			q.After = page.Next
			var err error
			if page, err = w.st.List(w.Context(), q); err != nil {
				w.Fatal(err)
			}
			seen = append(seen, ids(page.Jobs)...)
			if n == 1 { // the last seen leaves the list, and the next one
				gone := []job.ID{seen[len(seen)-1], stay[6]}
				if !oldest {
					gone[1] = stay[5]
				}
				for _, id := range gone {
					w.moved(w.get(id), lifecycle.Operator, "cancel")
				}
				w.step(group("another"))
			}
			if n > 10 {
				w.Fatalf("paging does not end: %v", seen)
			}
		}
		want := slices.Clone(stay)
		if oldest {
			want = slices.Delete(want, 6, 7)
		} else {
			want = slices.Delete(want, 5, 6)
			slices.Reverse(want)
		}
		same(w, fmt.Sprintf("pages, oldest=%v", oldest), seen, want)
	}
}

// listBadCursor pages on from what no page has given: cursors come back from users.
func listBadCursor(w *harness) {
	zoo(w)
	for _, after := range []string{"x", "-1", "-9223372036854775808", "9223372036854775807", "18446744073709551616",
		"' or 1=1 --", "\x00", "\xff"} {
		for _, oldest := range []bool{true, false} {
			page, err := w.st.List(w.Context(), job.Query{After: after, Oldest: oldest, Limit: 3})
			if err != nil {
				w.refused(err, job.Invalid)
			} else if len(page.Jobs) > 3 {
				w.Errorf("after %q: %d jobs", after, len(page.Jobs))
			}
		}
	}
}

func listPages(w *harness) {
	zoo(w)
	for _, limit := range []int{1, 2, 3, 6, 7} {
		var got []job.ID
		q := job.Query{Oldest: true, Limit: limit}
		for {
			page, err := w.st.List(w.Context(), q)
			if err != nil {
				w.Fatal(err)
			}
			got = append(got, ids(page.Jobs)...)
			if page.Next != "" && page.Next == q.After {
				w.Fatalf("pages of %d do not go on after cursor %q", limit, q.After)
			}
			if q.After = page.Next; q.After == "" {
				break
			}
		}
		same(w, fmt.Sprintf("pages of %d", limit), got, ids(w.list(job.Query{Oldest: true})))
	}
}

var countTests = []test{
	{"by kind, state and group", countTallies},
	{"bytes follow the jobs, ended or not", countBytes},
	{"more bytes than a number can have", countHuge},
	{"random calls, each compared with the list", countRandom},
}

func countTallies(w *harness) {
	zoo(w)
	tally := func(k job.Kind, s lifecycle.State, g string, n, claimed int64) job.Tally {
		return job.Tally{Kind: k, State: s, Group: g, Jobs: n, Claimed: claimed}
	}
	with := func(t job.Tally, bytes int64) job.Tally { t.Bytes = bytes; return t }
	want := []job.Tally{
		tally(batchKind, waiting, "", 1, 0), with(tally(stepKind, done, "", 1, 0), 100),
		tally(stepKind, failed, "", 1, 0),
		tally(stepKind, running, "maps", 1, 0), tally(stepKind, waiting, "", 1, 0),
		with(tally(stepKind, waiting, "maps", 1, 0), 7),
	}
	same(w, "tallies", w.count(), want)
	got := w.claim("w1", 5, running, waiting)
	for i := 3; i < 6; i++ {
		want[i].Claimed = 1
	}
	same(w, "with claims", w.count(), want)
	for _, j := range got {
		if j.State == running {
			w.must(w.move(j, "next", lifecycle.Worker, sets(job.Fields{Group: ptr("moved")})))
		}
	}
	after := w.count()
	if want := tally(stepKind, checking, "moved", 1, 0); !slices.Contains(after, want) {
		w.Errorf("after a move to another state and group: %+v, want %+v among them", after, want)
	}
	if slices.ContainsFunc(after, func(t job.Tally) bool { return t.State == running }) {
		w.Errorf("the job is still counted where it was: %+v", after)
	}
	w.sound()
}

// countBytes changes what is known of a job's bytes, moves it, and opens the store again when it has ended.
func countBytes(w *harness) {
	bytes := func(what string, want map[lifecycle.State]int64) {
		w.Helper()
		got := map[lifecycle.State]int64{}
		for _, t := range w.count() {
			if t.Bytes != 0 {
				got[t.State] += t.Bytes
			}
		}
		same(w, what, got, want)
		w.sound()
	}
	w.step(sized(1))
	w.moved(w.step(sized(1<<40)), lifecycle.Operator, "cancel")
	j := w.step()
	bytes("created", map[lifecycle.State]int64{waiting: 1, stopped: 1 << 40})
	j = w.must(job.Change{Job: j.ID, Version: j.Version, At: w.now(), Set: job.Fields{Bytes: ptr[int64](20)}})
	bytes("known", map[lifecycle.State]int64{waiting: 21, stopped: 1 << 40})
	j = w.moved(j, lifecycle.Worker, "begin")
	bytes("moved", map[lifecycle.State]int64{waiting: 1, running: 20, stopped: 1 << 40})
	j = w.must(w.move(j, "fail", lifecycle.Operator, sets(job.Fields{Bytes: ptr[int64](30)})))
	w.restart()
	bytes("ended and opened again", map[lifecycle.State]int64{waiting: 1, failed: 30, stopped: 1 << 40})
	w.must(w.move(j, "retry", lifecycle.Operator, sets(job.Fields{Bytes: ptr[int64](0)})))
	bytes("on its way again, with none", map[lifecycle.State]int64{waiting: 1, stopped: 1 << 40})
}

// count gives the tallies that are not zero in the order of kind, state and group.
func (w *harness) count() []job.Tally {
	w.Helper()
	tallies, err := w.st.Count(w.Context())
	if err != nil {
		w.Fatalf("count: %v", err)
	}
	return sorted(tallies)
}

var historyTests = []test{
	{"pages and chain", historyPages},
	{"tasks are kept by name", tasksByName},
}

func historyPages(w *harness) {
	j := w.moved(w.step(), lifecycle.Operator, "hold", "release", "hold", "release", "cancel", "delete")
	all := w.history(j.ID)
	if len(all) != 7 {
		w.Fatalf("%d entries, want 7", len(all))
	}
	if err := job.Verify(j, all, Step); err != nil {
		w.Errorf("verify: %v", err)
	}
	for _, c := range []struct {
		seq  int64
		n    int
		want []job.Event
	}{{0, 0, all}, {0, 3, all[:3]}, {3, 2, all[3:5]}, {5, 100, all[5:]}, {6, 0, all[6:]}, {7, 0, nil}, {99, 5, nil}} {
		got, err := w.st.History(w.Context(), j.ID, c.seq, c.n)
		if err != nil {
			w.Errorf("after %d, %d: %v", c.seq, c.n, err)
		}
		same(w, fmt.Sprintf("up to %d after %d", c.n, c.seq), got, c.want)
	}
	all[2].Note = "somebody changed it"
	if job.Verify(j, all, Step) == nil {
		w.Error("a changed entry passes the check of the chain")
	}
}

func tasksByName(w *harness) {
	j := w.claimed()
	task := func(name string, done int64) job.Task {
		return job.Task{Name: name, Kind: "download", State: running, Epoch: j.Epoch, Attempts: 1, Done: done, Total: 9,
			Message: "at " + name, Data: []byte(`{"url":"x"}`), Changed: w.now()}
	}
	a, b, c := task("a", 1), task("b", 2), task("c", 3)
	w.must(job.Change{Job: j.ID, Epoch: j.Epoch, Keep: true, At: w.now(), Tasks: []job.Task{c, a}})
	same(w, "two tasks", w.tasks(j.ID), []job.Task{a, c})
	a2 := task("a", 9)
	w.must(job.Change{Job: j.ID, Epoch: j.Epoch, Keep: true, At: w.now(), Tasks: []job.Task{b, a2}})
	same(w, "one added and one replaced", w.tasks(j.ID), []job.Task{a2, b, c})
	same(w, "another job's tasks", w.tasks(w.step().ID), []job.Task(nil))
}
