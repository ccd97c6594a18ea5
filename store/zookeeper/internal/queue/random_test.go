package queue_test

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/google/go-cmp/cmp"

	"github.com/stagepost/stagepost/store/zookeeper/internal/layout"
	"github.com/stagepost/stagepost/store/zookeeper/internal/queue"
)

var actions = flag.Int("actions", 150, "random actions of each seed")

// facts are what a tree states, as another program reads it: by id, "state" of a batch, and "batch dir state priority
// last retries" of a job.
type facts map[string]string

// reader reads a tree with the client library alone. It shares no code with the packages under test, and reports what
// other programs cannot read.
type reader struct {
	*testing.T
	c *zk.Conn
}

func (r reader) children(path string) []string {
	names, _, err := r.c.Children(path)
	if err != nil && err != zk.ErrNoNode {
		r.Fatal(path, err)
	}
	slices.Sort(names)
	return names
}

func (r reader) text(path string) string {
	data, _, err := r.c.Get(path)
	if err != nil {
		r.Errorf("%s: %v", path, err)
	}
	return string(data)
}

func (r reader) object(path string) map[string]any {
	var o map[string]any
	if err := json.Unmarshal([]byte(r.text(path)), &o); err != nil {
		r.Errorf("%s: %v", path, err)
	}
	return o
}

// status reads a status node, with the keys that other programs require.
func (r reader) status(path string, keys ...string) map[string]any {
	o := r.object(path)
	for _, key := range append(keys, "status", "last_modified", "message") {
		if _, ok := o[key]; !ok {
			r.Errorf("%s has no %s", path, key)
		}
	}
	if _, ok := o["message"].(string); !ok {
		r.Errorf("%s: the message is %v", path, o["message"])
	}
	return o
}

func (r reader) read() facts {
	f := facts{}
	queued := map[string][]string{}
	for _, state := range r.children("/jobs/states") {
		for _, entry := range r.children("/jobs/states/" + state) {
			if len(entry) != 16 || entry[2] != '-' {
				r.Errorf("entry %s of %s cannot be read", entry, state)
				continue
			}
			queued[entry[3:]] = append(queued[entry[3:]], state+" "+entry[:2])
		}
	}
	listed := map[string][]string{}
	for _, b := range r.children("/batches") {
		s := r.status("/batches/" + b + "/status")
		f[b] = fmt.Sprint(s["status"])
		uuid := fmt.Sprint(r.object("/batches/" + b + "/submission")["batchID"])
		if got := r.text("/batch-uuids/" + uuid); got != b {
			r.Errorf("%s leads to %s, want %s", uuid, got, b)
		}
		for _, dir := range r.children("/batches/" + b + "/states") {
			for _, j := range r.children("/batches/" + b + "/states/" + dir) {
				listed[j] = append(listed[j], b+" "+dir)
			}
		}
	}
	if got, want := len(r.children("/batch-uuids")), len(r.children("/batches")); got != want {
		r.Errorf("%d uuids of %d batches", got, want)
	}
	for _, j := range r.children("/jobs") {
		if j == "states" {
			continue
		}
		f[j] = r.job("/jobs/"+j, queued[j], listed[j])
		delete(queued, j)
		delete(listed, j)
	}
	if len(queued)+len(listed) > 0 {
		r.Errorf("entries and references without a job: %v, %v", queued, listed)
	}
	for _, size := range []string{"small", "large"} {
		for _, q := range r.children("/access/" + size) {
			path := "/access/" + size + "/" + q
			if _, ok := r.object(path + "/token")["status"].(float64); !ok {
				r.Errorf("%s: the token has no status", path)
			}
			f[size+" "+q] = fmt.Sprint(r.status(path + "/status")["status"])
		}
	}
	return f
}

func (r reader) job(path string, queued, listed []string) string {
	s := r.status(path+"/status", "last_successful_status", "retry_count")
	state, priority, batch := fmt.Sprint(s["status"]), r.text(path+"/priority"), r.text(path+"/bid")
	p, err := strconv.Atoi(priority)
	if err != nil {
		r.Errorf("%s: priority %q", path, priority)
	}
	if want := []string{fmt.Sprintf("%s %02d", strings.ToLower(state), p)}; !slices.Equal(queued, want) {
		r.Errorf("%s is queued as %q, want %q", path, queued, want)
	}
	dir := map[string]string{"Failed": "batch-failed", "Completed": "batch-completed",
		"Deleted": "batch-deleted"}[state]
	if dir == "" {
		dir = "batch-processing"
	}
	if want := []string{batch + " " + dir}; !slices.Equal(listed, want) {
		r.Errorf("%s is listed as %q, want %q", path, listed, want)
	}
	if _, ok := r.object(path + "/identifiers")["local_id"].([]any); !ok {
		r.Errorf("%s has no identifiers", path)
	}
	return fmt.Sprint(batch, " ", state, " ", p, " ", s["last_successful_status"], " ", s["retry_count"])
}

// model is what the tree must state.
type model struct {
	batches  map[layout.BatchID]layout.Status
	jobs     map[layout.JobID]*modelJob
	requests map[string]layout.Status
	paused   bool
	locked   bool // the collection
}

type modelJob struct {
	batch    layout.BatchID
	state    layout.Status
	last     layout.Status
	priority int
	retries  int
}

func (m *model) facts() facts {
	f := facts{}
	for id, s := range m.batches {
		f[string(id)] = string(s)
	}
	for id, j := range m.jobs {
		last := string(j.last)
		if last == "" {
			last = "<nil>"
		}
		f[string(id)] = fmt.Sprint(j.batch, " ", j.state, " ", j.priority, " ", last, " ", j.retries)
	}
	for name, s := range m.requests {
		f[name] = string(s)
	}
	return f
}

// player makes random actions on a queue and on the model.
type player struct {
	*harness
	*rand.Rand
	m *model
	n int
}

// next returns the id of the job that a state gives next, "" if it has none.
func (m *model) next(state layout.Status) (next layout.JobID) {
	for id, j := range m.jobs {
		if j.state == state && (next == "" || j.priority < m.jobs[next].priority ||
			j.priority == m.jobs[next].priority && id < next) {
			next = id
		}
	}
	return next
}

func (p *player) anyJob() (layout.JobID, *modelJob) {
	ids := make([]layout.JobID, 0, len(p.m.jobs))
	for id := range p.m.jobs {
		ids = append(ids, id)
	}
	if len(ids) == 0 {
		return "jid0000009999", &modelJob{state: "none"}
	}
	slices.Sort(ids)
	id := ids[p.IntN(len(ids))]
	return id, p.m.jobs[id]
}

func (p *player) anyBatch() layout.BatchID {
	ids := make([]layout.BatchID, 0, len(p.m.batches))
	for id := range p.m.batches {
		ids = append(ids, id)
	}
	if len(ids) == 0 {
		return "bid0000009999"
	}
	slices.Sort(ids)
	return ids[p.IntN(len(ids))]
}

// refusal checks that an operation succeeds exactly if the model allows it.
func (p *player) refusal(what string, err error, allowed bool) bool {
	if (err == nil) != allowed {
		p.Fatalf("step %d: %s: error %v, allowed by the model: %v", p.n, what, err, allowed)
	}
	return allowed
}

func (p *player) createBatch() {
	b, err := p.q.CreateBatch(p.Context(), submission(fmt.Sprint("bid-", 1000000+p.n)))
	p.refusal("create", err, true)
	p.m.batches[b.ID] = layout.Pending
}

// acquireBatch acquires the oldest pending batch and creates jobs, or fails it.
func (p *player) acquireBatch() {
	var want layout.BatchID
	for id, s := range p.m.batches {
		if s == layout.Pending && (want == "" || id < want) {
			want = id
		}
	}
	b, bad, err := p.q.AcquireBatch(p.Context())
	if p.m.paused && want != "" {
		p.refusal("acquire a batch", err, false)
		return
	}
	if err != nil || len(bad) > 0 || b == nil && want != "" || b != nil && b.ID != want {
		p.Fatalf("step %d: acquired %v, want %s, %v, %v", p.n, b, want, bad, err)
	}
	if b == nil {
		return
	}
	p.m.batches[want] = layout.Processing
	n := p.IntN(4)
	if n == 0 {
		_, err := p.q.FailBatch(p.Context(), b, "no entries")
		p.refusal("fail", err, true)
		p.m.batches[want] = layout.Failed
		return
	}
	jobs := make([]queue.NewJob, n)
	for i := range jobs {
		jobs[i] = newJob("job", p.IntN(100))
	}
	b, ids, err := p.q.CreateJobs(p.Context(), b, n, jobs...)
	p.refusal("create jobs", err, true)
	for i, id := range ids {
		p.m.jobs[id] = &modelJob{batch: want, state: layout.Pending, priority: jobs[i].Priority}
	}
	p.ok(p.q.ReleaseBatch(p.Context(), b))
}

func (p *player) work() {
	states := []layout.Status{"Pending", "Estimating", "Provisioning", "Downloading", "Processing", "Storing",
		"Recording", "Notify"}
	i := p.IntN(len(states))
	state := states[i]
	want := p.m.next(state)
	j, bad, err := p.q.AcquireJob(p.Context(), state)
	if p.m.paused && want != "" && state != layout.Recording {
		p.refusal("acquire", err, false)
		return
	}
	if state == layout.Pending && p.m.locked {
		for id := p.m.next(state); id != ""; id = p.m.next(state) {
			p.m.jobs[id].state = layout.Held
		}
		want = ""
	}
	if err != nil || len(bad) > 0 || j == nil && want != "" || j != nil && j.ID != want {
		p.Fatalf("step %d: acquired %v in %s, want %s, %v, %v", p.n, j, state, want, bad, err)
	}
	if j == nil {
		return
	}
	m := p.m.jobs[want]
	switch p.IntN(6) {
	case 0:
		_, err = p.q.FailJob(p.Context(), j, "broken")
		m.state = layout.Failed
	case 1:
		err = p.q.ReleaseJob(p.Context(), j)
	default:
		r := queue.Results{Identifiers: &layout.Identifiers{Primary: "ark:/1/" + string(want)}}
		if p.IntN(2) == 0 {
			priority := p.IntN(120)
			m.priority, r.Priority = min(priority, 99), &priority
		}
		_, err = p.q.SucceedJob(p.Context(), j, r)
		m.last = state
		m.state = append(states, "Completed")[i+1]
	}
	p.refusal("work in "+string(state), err, true)
}

func (p *player) administer() {
	id, m := p.anyJob()
	var err error
	switch p.IntN(7) {
	case 0:
		if _, err = p.q.HoldJob(p.Context(), id); p.refusal("hold", err, m.state == layout.Pending) {
			m.state = layout.Held
		}
	case 1:
		if _, err = p.q.ReleaseHeldJob(p.Context(), id); p.refusal("release", err, m.state == layout.Held) {
			m.state = layout.Pending
		}
	case 2:
		if _, err = p.q.RequeueJob(p.Context(), id); p.refusal("requeue", err, m.state == layout.Failed) {
			m.retries++
			m.state = map[layout.Status]layout.Status{"Estimating": "Provisioning", "Provisioning": "Downloading",
				"Downloading": "Processing", "Processing": "Storing", "Storing": "Recording",
				"Recording": "Notify"}[m.last]
			if m.state == "" {
				m.state = layout.Estimating
			}
		}
	case 3:
		ended := m.state == layout.Failed || m.state == layout.Held || m.state == layout.Completed
		if _, err = p.q.DeleteJob(p.Context(), id); p.refusal("delete "+string(m.state), err, ended) {
			m.state = layout.Deleted
		}
	case 4:
		active := !slices.Contains([]layout.Status{"none", "Held", "Failed", "Completed", "Deleted"}, m.state)
		if _, err = p.q.StopJob(p.Context(), id, "stopped"); p.refusal("stop", err, active) {
			m.state = layout.Failed
		}
	case 5:
		priority := p.IntN(130) - 10
		if err = p.q.SetPriority(p.Context(), id, priority); p.refusal("priority", err, m.state != "none") {
			m.priority = max(0, min(priority, 99))
		}
	case 6:
		ended := m.state == layout.Completed || m.state == layout.Deleted
		if err = p.q.PurgeJob(p.Context(), id); p.refusal("purge", err, ended) {
			delete(p.m.jobs, id)
		}
	}
}

func (p *player) administerBatch() {
	id := p.anyBatch()
	s := p.m.batches[id]
	jobs := 0
	open := 0
	for _, j := range p.m.jobs {
		if j.batch == id {
			jobs++
			if j.state != "Completed" && j.state != "Failed" && j.state != "Deleted" && j.state != "Held" {
				open++
			}
		}
	}
	switch p.IntN(5) {
	case 0:
		if _, err := p.q.HoldBatch(p.Context(), id); p.refusal("hold batch", err, s == "Pending") {
			p.m.batches[id] = "Held"
		}
	case 1:
		if _, err := p.q.ReleaseHeldBatch(p.Context(), id); p.refusal("release batch", err, s == "Held") {
			p.m.batches[id] = "Pending"
		}
	case 2:
		if _, err := p.q.UpdateBatch(p.Context(), id); p.refusal("update batch", err, s == "Failed") {
			p.m.batches[id] = "UpdateReporting"
		}
	case 3:
		_, err := p.q.DeleteBatch(p.Context(), id)
		if p.refusal("delete batch", err, s == "Failed" || s == "Completed" || s == "Held") {
			p.m.batches[id] = "Deleted"
		}
	case 4:
		p.purgeBatch(id, s)
	}
}

// purgeBatch removes a batch. Jobs that may be removed are, even if the batch then is not.
func (p *player) purgeBatch(id layout.BatchID, s layout.Status) {
	deletable := s == "Completed" || s == "Deleted"
	err := p.q.PurgeBatch(p.Context(), id)
	if !deletable {
		p.refusal("purge batch", err, false)
		return
	}
	left := 0
	for j, m := range p.m.jobs {
		switch {
		case m.batch != id:
		case m.state == "Completed" || m.state == "Deleted" || s == "Deleted" && (m.state == "Failed" ||
			m.state == "Held"):
			delete(p.m.jobs, j)
		default:
			left++
		}
	}
	if left > 0 && !errors.Is(err, queue.ErrUnfinished) {
		p.Fatalf("step %d: purged a batch with %d jobs: %v", p.n, left, err)
	}
	if p.refusal("purge batch", err, left == 0) {
		delete(p.m.batches, id)
	}
}

// report reports the batches whose jobs have ended.
func (p *player) report() {
	f := p.q.AcquireForReporting
	if p.IntN(2) == 0 {
		f = p.q.AcquireForUpdate
	}
	b, bad, err := f(p.Context())
	if errors.Is(err, queue.ErrPaused) && p.m.paused {
		return
	}
	if err != nil || len(bad) > 0 {
		p.Fatalf("step %d: %v, %v", p.n, bad, err)
	}
	if b == nil {
		return
	}
	failed := false
	for id, j := range p.m.jobs {
		if j.batch != b.ID {
			continue
		}
		if !slices.Contains([]layout.Status{"Completed", "Failed", "Deleted"}, j.state) {
			p.Fatalf("step %d: %s is reported while %s is %s", p.n, b.ID, id, j.state)
		}
		failed = failed || j.state == "Failed"
	}
	if s := p.m.batches[b.ID]; s != "Processing" && s != "UpdateReporting" {
		p.Fatalf("step %d: %s was acquired in %s", p.n, b.ID, s)
	}
	_, err = p.q.FinishBatch(p.Context(), b)
	p.refusal("finish", err, true)
	p.m.batches[b.ID] = map[bool]layout.Status{true: "Failed", false: "Completed"}[failed]
}

func (p *player) locks() {
	switch p.IntN(4) {
	case 0:
		p.ok(p.q.PauseIngest(p.Context()))
		p.m.paused = true
	case 1:
		p.ok(p.q.LockCollection(p.Context(), "maps_content"))
		p.m.locked = true
	default:
		p.ok(p.q.ResumeIngest(p.Context()))
		p.ok(p.q.UnlockCollection(p.Context(), "maps_content"))
		p.m.paused, p.m.locked = false, false
	}
}

func (p *player) access() {
	in := []layout.Queue{layout.Small, layout.Large}[p.IntN(2)]
	if p.IntN(3) == 0 {
		r, err := p.q.CreateRequest(p.Context(), in, layout.Token{Status: 201, Token: "t"})
		p.refusal("request", err, true)
		p.m.requests[string(in)+" "+string(r.ID)] = "Pending"
		return
	}
	r, bad, err := p.q.AcquireRequest(p.Context(), in)
	if err != nil || len(bad) > 0 {
		p.Fatal(bad, err)
	}
	if r != nil {
		name := string(in) + " " + string(r.ID)
		p.m.requests[name] = "Failed"
		if p.IntN(2) == 0 {
			_, err = p.q.FailRequest(p.Context(), r, "broken", r.Token)
		} else {
			_, err = p.q.FinishRequest(p.Context(), r, r.Token)
			p.m.requests[name] = "Completed"
		}
		p.refusal("end request", err, true)
	}
	for name, s := range p.m.requests {
		q, id, _ := strings.Cut(name, " ")
		switch p.IntN(8) {
		case 0:
			_, err := p.q.RequeueRequest(p.Context(), layout.Queue(q), layout.AccessID(id))
			if p.refusal("requeue request", err, s == "Failed") {
				p.m.requests[name] = "Pending"
			}
		case 1:
			_, err := p.q.DeleteRequest(p.Context(), layout.Queue(q), layout.AccessID(id))
			if p.refusal("delete request", err, s == "Failed" || s == "Completed") {
				p.m.requests[name] = "Deleted"
			}
		case 2:
			err := p.q.PurgeRequest(p.Context(), layout.Queue(q), layout.AccessID(id))
			if p.refusal("purge request", err, s == "Completed" || s == "Deleted") {
				delete(p.m.requests, name)
			}
		}
		return
	}
}

// TestRandom makes random actions. After each, a reader that shares no code with the queue agrees with the model, and
// the orphan report is empty.
func TestRandom(t *testing.T) {
	for seed := range uint64(2) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			p := &player{harness: newHarness(t), Rand: rand.New(rand.NewPCG(seed, 7)), m: &model{
				batches: map[layout.BatchID]layout.Status{}, jobs: map[layout.JobID]*modelJob{},
				requests: map[string]layout.Status{}}}
			moves := []func(){p.createBatch, p.acquireBatch, p.work, p.work, p.work, p.work, p.work, p.work,
				p.administer, p.administer, p.administerBatch, p.report, p.report, p.locks, p.access}
			for p.n = range *actions {
				moves[p.IntN(len(moves))]()
				if diff := cmp.Diff(p.m.facts(), reader{t, p.raw}.read()); diff != "" {
					t.Fatalf("step %d: the tree differs from the model (-want +got):\n%s", p.n, diff)
				}
				p.sound()
				if t.Failed() {
					t.Fatalf("at step %d", p.n)
				}
			}
		})
	}
}
