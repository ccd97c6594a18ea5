package merritt

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stagepost/stagepost/app/ingest/record"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

var actions = flag.Int("actions", 60, "random actions of both sides")

// player makes random actions of Stagepost and of a program of Merritt on the jobs of one batch.
type player struct {
	*harness
	r      *rand.Rand
	batch  job.ID
	jobs   []job.ID
	nodes  map[job.ID]string
	locked map[string]bool   // nodes that the program has locked
	handed map[job.ID]string // manifests of the files that Stagepost handed over
}

// TestRandom reads Merritt's nodes after each of many random actions of both sides, by a reader that shares no code
// with the packages, and compares them with the records.
func TestRandom(t *testing.T) {
	h := openHarness(t, true)
	b, one := h.pending()
	const others = 3
	expected := 1 + others
	results, err := h.store.Commit(t.Context(), job.Change{Job: b.ID, Version: h.get(b.ID).Version,
		Set: job.Fields{Expected: &expected}})
	h.ok(err)
	h.ok(results[0].Err)
	p := &player{harness: h, r: rand.New(rand.NewPCG(1, 2)), batch: b.ID, jobs: []job.ID{one.ID},
		nodes: map[job.ID]string{}, locked: map[string]bool{}, handed: map[job.ID]string{}}
	for range others {
		j, err := h.engine.Submit(t.Context(), order(b.ID))
		h.ok(err)
		p.jobs = append(p.jobs, j.ID)
	}
	for _, id := range p.jobs {
		p.nodes[id] = h.node(id)
	}
	counts := map[string]int{}
	for n := range *actions {
		id := p.jobs[p.r.IntN(len(p.jobs))]
		what := p.act(id)
		counts[strings.Fields(what)[0]]++
		h.pass()
		if wrong := p.compare(); wrong != "" {
			t.Fatalf("after action %d, %s on %s: %s; findings %v", n, what, p.nodes[id], wrong, h.f.Findings())
		}
	}
	t.Log(counts)
	if *actions >= 60 && len(counts) < 6 {
		t.Errorf("only these actions were made: %v", counts)
	}
	if *actions >= 1000 && len(p.handed) == 0 {
		t.Error("no files were handed over")
	}
}

// act makes a random action on a job, if the job is in a state for it.
func (p *player) act(id job.ID) string {
	j, node := p.get(id), p.nodes[id]
	theirs := func(name string, err error) string {
		p.ok(err)
		return name
	}
	switch n := p.r.IntN(10); {
	case p.locked[node] && n < 6:
		to := nextOf(j.State)
		if n == 0 || to == "" {
			p.locked[node] = false
			return theirs("unlock", p.program.Unlock("/jobs/"+node))
		}
		if to == record.Storing {
			p.handed[id] = "http://files/theirs/" + string(id)
			p.ok(p.program.Hand(node, p.handed[id], "add/9/ark%3A%2F99999%2Ffk4a", handedStored))
		}
		return theirs("work in Merritt", p.program.Move(node, string(to), "Success"))
	case p.locked[node]:
		return "nothing"
	case j.Claimed() && n < 7:
		return p.finish(&j, n < 5)
	case j.Claimed() && n == 7 && j.State != record.Pending:
		p.do(id, record.Stop, lifecycle.Operator)
		return "stop"
	case j.Claimed():
		return "nothing"
	case j.State == record.Deleted, j.State == record.Completed:
		return "nothing"
	case j.State == record.Failed && n < 4:
		p.do(id, record.Retry, lifecycle.Operator)
		return "retry"
	case j.State == record.Failed && n < 8:
		return theirs("requeue in Merritt", p.program.Requeue(node, string(j.Origin)))
	case j.State == record.Failed && n == 8:
		return theirs("pending in Merritt", p.program.Move(node, "Pending", ""))
	case j.State == record.Held && n < 5:
		p.do(id, record.Release, lifecycle.Operator)
		return "release"
	case j.State == record.Held:
		return theirs("release in Merritt", p.program.Move(node, "Pending", ""))
	case j.State == record.Pending && n == 0:
		p.do(id, record.Hold, lifecycle.Operator)
		return "hold"
	case j.State == record.Pending && n == 1:
		return theirs("hold in Merritt", p.program.Move(node, "Held", ""))
	case j.State != record.Failed && n == 2:
		_, err := p.engine.Operator().SetPriority(p.Context(), id, 0, p.r.IntN(100), "op", "test")
		return theirs("priority", err)
	case j.State != record.Failed && n == 3:
		return theirs("priority in Merritt", p.program.Priority(node, p.r.IntN(100)))
	case j.State != record.Failed && n < 7:
		p.claims(j.State)
		return "claim"
	case j.State != record.Failed:
		p.locked[node] = true
		return theirs("lock in Merritt", p.program.Lock("/jobs/"+node))
	}
	return "nothing"
}

// nextOf returns the state after the success of a state of work, "" if there is none.
func nextOf(s lifecycle.State) lifecycle.State {
	for _, e := range []lifecycle.Event{record.Begin, record.Next, record.Finish} {
		if at, err := record.JobLife.Next(lifecycle.Position{State: s}, e, lifecycle.Worker); err == nil {
			return at.State
		}
	}
	return ""
}

// finish ends the claim of a job by the success or the failure of its work.
func (p *player) finish(j *job.Job, success bool) string {
	class, name := lifecycle.Pass, "succeed"
	if !success {
		class, name = lifecycle.Fail, "fail"
	}
	e, ok := record.JobLife.Choose(j.Position, class, lifecycle.Worker)
	if !ok {
		return "nothing"
	}
	to, err := record.JobLife.Next(j.Position, e, lifecycle.Worker)
	p.ok(err)
	c := job.Change{Job: j.ID, Epoch: j.Epoch, From: j.State, Event: e, To: to,
		Ended: record.JobLife.Ended(to.State), By: lifecycle.Worker, Actor: "w", At: p.engine.Clock().Now()}
	if j.State == record.Processing && success {
		p.handed[j.ID] = fmt.Sprintf("http://files/%s/%d", j.ID, j.Epoch)
		c.Set.Data = fmt.Appendf(nil, `{"identity":{"ark":"ark:/99999/fk4a"},"handed":{"manifest":%q}}`, p.handed[j.ID])
	}
	results, err := p.store.Commit(p.Context(), c)
	p.ok(err)
	p.ok(results[0].Err)
	return name
}

// line has what is compared of a job: state, priority, queue entries, references, lock, and what storage and inventory
// read.
const line = "%s %s %v %v locked=%t store=%s inventory=%s"

// handedStored is where the stored object of a handed job is listed.
const handedStored = "http://storage.example:35121/manifest/9/ark%3A%2F99999%2Ffk4a"

// compare reads the nodes of all jobs and returns what differs from the records.
func (p *player) compare() string {
	entries := map[string][]string{}
	for _, s := range p.program.Names("/jobs/states") {
		for _, name := range p.program.Names("/jobs/states/" + s) {
			entries[name[3:]] = append(entries[name[3:]], s+"/"+name)
		}
	}
	refs := map[string][]string{}
	path := "/batches/" + p.node(p.batch) + "/states"
	for _, dir := range p.program.Names(path) {
		for _, name := range p.program.Names(path + "/" + dir) {
			refs[name] = append(refs[name], dir)
		}
	}
	for _, id := range p.jobs {
		j, node := p.get(id), p.nodes[id]
		dir := map[lifecycle.State]string{record.Failed: "batch-failed", record.Completed: "batch-completed",
			record.Deleted: "batch-deleted"}[j.State]
		if dir == "" {
			dir = "batch-processing"
		}
		manifest, _, _ := p.program.Storing(node)
		listed := ""
		if p.handed[id] != "" {
			listed = handedStored
		}
		lock := slices.Contains(p.program.Names("/jobs/"+node), "lock")
		got := fmt.Sprintf(line, p.program.Status("/jobs/"+node), p.program.Text("/jobs/"+node+"/priority"),
			entries[node], refs[node], lock, manifest, p.program.Recording(node))
		want := fmt.Sprintf(line, j.State, strconv.Itoa(j.Priority),
			[]string{fmt.Sprintf("%s/%02d-%s", strings.ToLower(string(j.State)), j.Priority, node)}, []string{dir},
			j.Claimed() || p.locked[node], p.handed[id], listed)
		if got != want {
			return fmt.Sprintf("%s has %s, the record %s", node, got, want)
		}
	}
	return ""
}
