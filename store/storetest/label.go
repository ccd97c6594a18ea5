package storetest

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

var labelTests = []test{
	{"kept as they are, whatever becomes of the job", labelKept},
	{"what is no label, too many and another order are invalid", labelInvalid},
	{"a worker gets the jobs whose labels it has", labelClaim},
	{"one order for jobs of all labels", labelOrder},
	{"the eldest of those whose labels the worker has", labelAge},
	{"a peek forecasts with the labels of the claim", labelPeek},
	{"suspects too", labelSuspects},
	{"limits count all, holds block all", labelLimits},
	{"a chain needs the labels", labelChain},
	{"a chain passes better jobs of other labels", labelChainPriority},
	{"a new job is claimed with its labels only", labelCreated},
	{"random sets of labels", labelRandom},
}

func requires(labels ...string) func(*job.Job) {
	return func(j *job.Job) { j.Requires = job.Tagged(labels...) }
}

// claimBy claims up to n waiting jobs for a worker with labels.
func (w *harness) claimBy(n int, labels ...string) []job.Job {
	w.Helper()
	ask := w.asks("w1", n, nil)
	ask.Labels = labels
	return did(w, "claim", func() ([]job.Job, error) { return w.st.Claim(w.Context(), ask) })
}

func labelKept(w *harness) {
	many := []string{"a", "a=1", "a-1", "a.1", "a_1", "gpu", "zone=b", strings.Repeat("x", 100)}
	j := w.step(requires(many...), key("k"))
	plain := w.step()
	for range 2 {
		same(w, "labels", w.get(j.ID).Requires, job.Tagged(many...))
		same(w, "a job without labels", w.get(plain.ID).Requires, nil)
		same(w, "in a list", w.list(job.Query{Key: "k"})[0].Requires, job.Tagged(many...))
		w.restart()
	}
	got := w.claimBy(1, many...)
	if len(got) != 1 || got[0].ID != j.ID {
		w.Fatalf("the claim gave %v", ids(got))
	}
	got[0] = w.must(w.move(got[0], "begin", lifecycle.Worker))
	w.restart()
	same(w, "labels of a job that moved", w.must(w.move(got[0], "fail", lifecycle.Operator)).Requires,
		job.Tagged(many...))
	w.sound()
}

func labelInvalid(w *harness) {
	nine := make([]string, job.MostRequired+1)
	for i := range nine {
		nine[i] = fmt.Sprint("l", i)
	}
	for _, bad := range [][]string{{""}, {"two words"}, {"a,b"}, {"=b"}, {"a="}, {"a=b=c"}, {"\u00fc"}, {"a\n"},
		{strings.Repeat("x", 101)}, {"b", "a"}, {"a", "a"}, nine} {
		_, err := w.st.Create(w.Context(), w.made(Step, func(j *job.Job) { j.Requires = bad }))
		if job.KindOf(err) != job.Invalid {
			w.Errorf("required %q: %v", bad, err)
		}
	}
	same(w, "jobs", len(w.list(job.Query{})), 0)
	batch := w.create(w.made(Batch, expecting(1)))[0]
	_, err := w.commit(w.move(batch, "begin", lifecycle.Worker, func(c *job.Change) {
		c.Spawn = []job.Created{w.made(Step, parent(batch.ID), func(j *job.Job) { j.Requires = []string{"no label"} })}
	}))
	w.refused(err, job.Invalid)
	w.sound()
}

func labelClaim(w *harness) {
	free, gpu, zone := w.step(), w.step(requires("gpu")), w.step(requires("zone=b"))
	both, other := w.step(requires("gpu", "zone=b")), w.step(requires("gpu=2"))
	for _, c := range []struct {
		labels []string
		want   []job.Job
	}{
		{nil, []job.Job{free}},
		{[]string{"gpu=3", "gp", "gpus", "zone", "a", "zz"}, []job.Job{free}},
		{[]string{"gpu\nzone=b", "gpu\n", "\x00", "", "gpu,zone=b"}, []job.Job{free}},
		{[]string{"gpu"}, []job.Job{free, gpu}},
		{[]string{"zone=b"}, []job.Job{free, zone}},
		{[]string{"zone=b", "gpu", "gpu", "a"}, []job.Job{free, gpu, zone, both}},
		{[]string{"zone=b", "gpu=2"}, []job.Job{free, zone, other}},
	} {
		got := w.claimBy(9, c.labels...)
		same(w, fmt.Sprintf("a worker with %q", c.labels), ids(got), ids(c.want))
		for _, j := range got {
			w.must(job.Change{Job: j.ID, Epoch: j.Epoch, At: w.now()})
		}
		w.restart()
	}
	w.sound()
}

func labelOrder(w *harness) {
	late := w.step(priority(60))
	gpu := w.step(priority(50), requires("gpu"), owner("ann"))
	ann := w.step(priority(50), owner("ann"))
	bob := w.step(priority(50), requires("zone=b"), owner("bob"))
	first := w.step(priority(1), requires("gpu", "zone=b"), owner("bob"))
	want := []job.ID{first.ID, gpu.ID, bob.ID, ann.ID, late.ID}
	same(w, "one order", ids(w.claimBy(9, "gpu", "zone=b")), want)
	w.sound()
}

func labelAge(w *harness) {
	old := w.step(priority(90), requires("gpu"))
	w.step(priority(90), requires("tape"))
	w.pass(time.Minute)
	for range 6 {
		w.step(priority(1))
	}
	ask := w.asks("w1", 4, nil)
	ask.Labels, ask.Ageing = []string{"gpu"}, job.Ageing{Share: 3, Patience: time.Second}
	got := did(w, "claim", func() ([]job.Job, error) { return w.st.Claim(w.Context(), ask) })
	if len(got) != 4 || got[2].ID != old.ID {
		w.Errorf("the claim gave %v; the third is %s", ids(got), old.ID)
	}
}

func labelPeek(w *harness) {
	free, gpu := w.step(), w.step(requires("gpu"))
	ask := w.asks("w1", 9, nil)
	same(w, "without labels", w.peek(ask, gpu.ID).Next, []job.ID{free.ID})
	ask.Labels = []string{"gpu"}
	same(w, "with labels", w.peek(ask, gpu.ID).Next, []job.ID{free.ID, gpu.ID})
	same(w, "nothing is claimed", len(w.claimBy(9, "gpu")), 2)
}

func labelSuspects(w *harness) {
	free, gpu := w.step(), w.step(requires("gpu"))
	for range job.SuspectStarts {
		for _, j := range w.claimBy(9, "gpu") {
			w.must(w.move(j, lifecycle.Lost, lifecycle.Timer))
		}
	}
	for _, c := range []struct {
		labels []string
		want   []job.ID
	}{{nil, []job.ID{free.ID}}, {[]string{"gpu"}, []job.ID{free.ID, gpu.ID}}} {
		ask := w.asks("w1", 9, nil)
		ask.Labels, ask.Suspects = c.labels, job.OnlySuspects
		same(w, fmt.Sprintf("suspects for %q", c.labels), w.peek(ask, "").Next, c.want)
		ask.Suspects = job.NoSuspects
		same(w, "no suspects", w.peek(ask, "").Next, nil)
	}
}

func labelLimits(w *harness) {
	gpu, free := w.step(requires("gpu"), group("maps")), w.step(group("maps"))
	ask := w.asks("w1", 9, steps(1))
	ask.Labels = []string{"gpu"}
	same(w, "under a limit of one", w.peek(ask, "").Next, []job.ID{gpu.ID})
	got := did(w, "claim", func() ([]job.Job, error) { return w.st.Claim(w.Context(), ask) })
	ask.Labels = nil
	same(w, "the limit is reached by a job with labels", w.peek(ask, free.ID).Next, nil)
	w.must(job.Change{Job: got[0].ID, Epoch: got[0].Epoch, At: w.now()})
	w.put(job.Scope{Group: "maps"}, time.Time{})
	same(w, "held", len(w.claimBy(9, "gpu")), 0)
	late := w.step(requires("gpu", "zone=b"), group("maps"))
	same(w, "with labels that are new", len(w.claimBy(9, "gpu", "zone=b")), 0)
	w.release(job.Scope{Group: "maps"})
	same(w, "released", ids(w.claimBy(9, "gpu", "zone=b")), []job.ID{gpu.ID, free.ID, late.ID})
	w.sound()
}

// labelled asks for the claim of the next state by a worker with labels.
func (w *harness) labelled(j job.Job, labels ...string) job.Change {
	w.Helper()
	c := w.chained(j, "begin")
	c.Chain.Labels = labels
	return c
}

func labelChain(w *harness) {
	for _, c := range []struct {
		labels []string
		want   bool
	}{{[]string{"gpu"}, false}, {nil, false}, {[]string{"zone=b", "gpu"}, true}} {
		w.step(requires("gpu", "zone=b"))
		j := w.claimBy(1, "gpu", "zone=b")[0]
		j = w.goesOn(w.labelled(j, c.labels...), c.want)
		w.must(w.move(j, "fail", lifecycle.Operator, func(c *job.Change) { c.Epoch, c.Version = 0, j.Version }))
	}
	w.sound()
}

func labelChainPriority(w *harness) {
	w.moved(w.step(priority(1), requires("gpu")), lifecycle.Worker, "begin")
	j := w.claimed(priority(50))
	w.goesOn(w.labelled(j, "zone=b"), true) // the better one is for other workers
	j = w.claimed(priority(50))
	w.goesOn(w.labelled(j, "gpu"), false)
	w.sound()
}

func labelCreated(w *harness) {
	c := w.born(nil, requires("gpu"))
	same(w, "without the label", w.create(c)[0].Claimed(), false)
	c = w.born(nil, requires("gpu"), priority(1))
	c.Chain.Labels = []string{"gpu"}
	same(w, "with the label", w.create(c)[0].Claimed(), true)
	w.sound()
}

// labelRandom makes jobs that require random labels, and lets workers with random labels claim, in one order.
func labelRandom(w *harness) {
	labels := []string{"a", "a=1", "b", "c", "d"}
	random := rand.New(rand.NewPCG(11, 7))
	some := func(one int) (set []string) {
		for _, l := range labels {
			if random.IntN(one) == 0 {
				set = append(set, l)
			}
		}
		return job.Tagged(set...)
	}
	waits := map[job.ID]job.Job{}
	for range w.scale(60, 15) {
		var list []job.Created
		for range 4 {
			list = append(list, w.made(Step, requires(some(3)...), priority(random.IntN(3))))
		}
		for _, j := range w.create(list...) {
			waits[j.ID] = j
		}
		has, n := some(2), random.IntN(6)
		var fit []job.Job
		for _, j := range waits {
			if len(job.Lacking(j.Requires, has)) == 0 {
				fit = append(fit, j)
			}
		}
		slices.SortFunc(fit, func(a, b job.Job) int {
			return cmp.Or(cmp.Compare(a.Priority, b.Priority), cmp.Compare(a.Number, b.Number))
		})
		got := w.claimBy(n, has...)
		same(w, fmt.Sprintf("a claim with %q", has), ids(got), ids(fit[:min(n, len(fit))]))
		for _, j := range got {
			delete(waits, j.ID)
			if random.IntN(4) == 0 {
				waits[j.ID] = w.must(job.Change{Job: j.ID, Epoch: j.Epoch, At: w.now()})
			}
		}
	}
	w.sound()
}
