package zookeeper

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/store/internal/ledger"
	"github.com/stagepost/stagepost/store/internal/rules"
)

// replica has all records in memory. Nothing in it changes before it is written.
type replica struct {
	ledger   *ledger.Ledger
	jobs     map[job.ID]*record
	rows     []*record // by creation; those of purged jobs are left out
	keys     map[rules.Key]job.ID
	numbers  map[kindNumber]job.ID
	kinds    map[job.Kind]bool // that have a node for their highest number
	family   map[job.ID]int    // jobs by parent
	ends     rules.Ends
	messages map[string]*job.Message
	posted   []string // keys of messages, oldest first
	letters  map[job.ID][]string
	audit    []job.Audit
	held     []job.Audit // those of holds
	clock    job.KeptClock
	counters countersNode
	clocked  bool              // the node clock exists
	nodes    map[string]job.ID // by the node of another system that shows the job
}

type kindNumber struct {
	kind job.Kind
	n    int64
}

// record is a job with its history and tasks.
type record struct {
	job     job.Job
	row     int64
	history []job.Event
	tasks   map[string]job.Task

	node      string // of another system, that shows the job
	elsewhere bool   // see Shown
}

func newReplica() *replica {
	return &replica{ledger: ledger.New(), jobs: map[job.ID]*record{}, keys: map[rules.Key]job.ID{},
		numbers: map[kindNumber]job.ID{}, kinds: map[job.Kind]bool{}, family: map[job.ID]int{},
		messages: map[string]*job.Message{}, letters: map[job.ID][]string{},
		nodes: map[string]job.ID{}, ends: rules.Ends{}}
}

// read adds what is needed to what is known.
func (r *replica) read(n *rules.Needs, k *rules.Known) {
	add := func(id job.ID) {
		if one := r.jobs[id]; one != nil && !k.Has(id) {
			j := one.job
			k.Add(&j)
		}
	}
	for _, id := range n.Jobs {
		add(id)
	}
	for _, key := range n.Keys {
		if id, found := r.keys[key]; found {
			add(id)
		}
	}
	for _, key := range n.Messages {
		if m := r.messages[key]; m != nil {
			k.AddMessage(*m)
		}
	}
	for _, of := range n.Unsent {
		for _, key := range r.letters[of] {
			if r.messages[key].Settled == job.Pending {
				k.AddUnsent(of, key)
				break
			}
		}
	}
	for _, of := range n.Children {
		k.AddChildren(of, min(r.family[of], n.Most))
	}
}

// apply makes writes that are in the servers.
func (r *replica) apply(w *rules.Writes) {
	for _, jw := range w.Jobs {
		switch {
		case jw.After == nil:
			r.remove(r.jobs[jw.Before.ID])
			continue
		case jw.Before == nil:
			r.counters.Rows++
			r.insert(&record{job: *jw.After, row: r.counters.Rows, tasks: map[string]job.Task{}})
		}
		one := r.jobs[jw.After.ID]
		r.ends.Replace(&one.job, jw.After, one.row)
		one.job = *jw.After
		if jw.Event != nil {
			one.history = append(one.history, *jw.Event)
		}
		for _, t := range jw.Tasks {
			t.Data = slices.Clone(t.Data)
			one.tasks[t.Name] = t
		}
	}
	for _, m := range w.Messages {
		r.putMessage(m)
	}
	for _, n := range w.Numbers() {
		r.kinds[n.Kind] = true
	}
	r.enter(w.Audits...)
	r.counters.Posted = w.Counters.Posted
}

// enter adds entries to the audit log.
func (r *replica) enter(entries ...job.Audit) {
	r.audit = append(r.audit, entries...)
	for i := range entries {
		if entries[i].OfHold() {
			r.held = append(r.held, entries[i])
		}
	}
}

// insert adds a record. Its row is higher than all others, or the caller sorts rows afterwards.
func (r *replica) insert(one *record) {
	j := &one.job
	r.jobs[j.ID] = one
	r.rows = append(r.rows, one)
	r.ends.Replace(nil, &one.job, one.row)
	r.numbers[kindNumber{j.Kind, j.Number}] = j.ID
	if j.Key != "" {
		r.keys[rules.Key{Kind: j.Kind, Owner: j.Owner, Key: j.Key}] = j.ID
	}
	if j.Parent != "" {
		r.family[j.Parent]++
	}
	r.show(one, one.node)
}

// show notes the node that shows a record, "" for none. Of two records with one node, it shows the one that was created
// first, and none shows the other.
func (r *replica) show(one *record, node string) {
	if r.nodes[one.node] == one.job.ID {
		delete(r.nodes, one.node)
	}
	if one.node = ""; node == "" {
		return
	}
	if other := r.jobs[r.nodes[node]]; other != nil {
		if other.row < one.row {
			return
		}
		other.node = ""
	}
	one.node, r.nodes[node] = node, one.job.ID
}

// remove removes a record with its messages.
func (r *replica) remove(one *record) {
	j := &one.job
	delete(r.jobs, j.ID)
	at, _ := slices.BinarySearchFunc(r.rows, one.row, func(o *record, row int64) int { return cmp.Compare(o.row, row) })
	r.rows = slices.Delete(r.rows, at, at+1)
	r.ends.Replace(&one.job, nil, one.row)
	delete(r.numbers, kindNumber{j.Kind, j.Number})
	delete(r.nodes, one.node)
	if j.Key != "" {
		delete(r.keys, rules.Key{Kind: j.Kind, Owner: j.Owner, Key: j.Key})
	}
	if r.family[j.Parent]--; r.family[j.Parent] <= 0 {
		delete(r.family, j.Parent)
	}
	for _, key := range r.letters[j.ID] {
		delete(r.messages, key)
		if i := slices.Index(r.posted, key); i >= 0 {
			r.posted = slices.Delete(r.posted, i, i+1)
		}
	}
	delete(r.letters, j.ID)
}

func (r *replica) putMessage(m job.Message) {
	if r.messages[m.Key] == nil {
		r.posted = append(r.posted, m.Key)
		r.letters[m.Job] = append(r.letters[m.Job], m.Key)
	}
	m.Own()
	r.messages[m.Key] = &m
}

// due returns the pending messages that are taken, in order of Due.
func (r *replica) due(t *job.Taking) (found []job.Message) {
	for _, m := range r.messages {
		if m.Settled == job.Pending && !m.Due.After(t.Now) && t.Selects(m.Topic) {
			found = append(found, *m)
		}
	}
	slices.SortFunc(found, func(a, b job.Message) int {
		return cmp.Or(a.Due.Compare(b.Due), cmp.Compare(a.Number, b.Number))
	})
	return found[:min(len(found), max(t.N, 0))]
}

// list returns a page of jobs.
func (r *replica) list(q *job.Query) (job.Page, error) {
	after := int64(-1)
	if q.After != "" {
		var err error
		if after, err = strconv.ParseInt(q.After, 10, 64); err != nil {
			return job.Page{}, job.Errorf(job.Invalid, "list", "", "bad cursor %q", q.After)
		}
	}
	page, next := rules.NewPage(q), ""
	var last int64
	for i := range r.rows {
		one := r.rows[i]
		if !q.Oldest {
			one = r.rows[len(r.rows)-1-i]
		}
		if q.After != "" && (q.Oldest && one.row <= after || !q.Oldest && one.row >= after) || !q.Matches(&one.job) {
			continue
		}
		j := one.job
		j.Own()
		if !page.Add(&j) {
			next = strconv.FormatInt(last, 10)
			break
		}
		last = one.row
	}
	return job.Page{Jobs: page.Jobs, Next: next}, nil
}

// listEnded returns a page of ended jobs.
func (r *replica) listEnded(q *job.EndedQuery) (job.Page, error) {
	page, _, err := r.ends.Page(q, func(row int64) job.Job {
		at, _ := slices.BinarySearchFunc(r.rows, row, func(o *record, row int64) int { return cmp.Compare(o.row, row) })
		return r.rows[at].job
	})
	return page, err
}

// named returns jobs by a part of their ids, as job.Jobs defines.
func (r *replica) named(part, owner string, n int) (found []job.Job) {
	const newest = 10_000
	for i := len(r.rows) - 1; i >= 0 && len(found) < n; i-- {
		j := r.rows[i].job
		id := string(j.ID)
		ends := len(r.rows)-i <= newest && strings.HasSuffix(id, part)
		if (strings.HasPrefix(id, part) || ends) && (owner == "" || owner == j.Owner) {
			j.Own()
			found = append(found, j)
		}
	}
	return found
}

// tasks returns the tasks of a job by name.
func (r *replica) tasks(id job.ID) (tasks []job.Task) {
	one := r.jobs[id]
	if one == nil {
		return nil
	}
	tasks = slices.SortedFunc(maps.Values(one.tasks), func(a, b job.Task) int {
		return strings.Compare(a.Name,
			b.Name)
	})
	for i := range tasks {
		tasks[i].Data = slices.Clone(tasks[i].Data)
	}
	return tasks
}
