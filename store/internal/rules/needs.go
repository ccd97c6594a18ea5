package rules

import (
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// Key is an idempotency key. It is unique: at most one job has it.
type Key struct {
	Kind       job.Kind
	Owner, Key string
}

// keyOf returns the key of a job; ok is false if it has none.
func keyOf(j *job.Job) (k Key, ok bool) { return Key{j.Kind, j.Owner, j.Key}, j.Key != "" }

// Needs are the records that operations read. Lists may have an element twice, and what they name need not exist. The
// zero Needs are empty.
type Needs struct {
	Jobs     []job.ID // records
	Keys     []Key    // records of the jobs that have these keys
	Messages []string // by key
	Unsent   []job.ID // of each, a pending message
	// of each, the number of jobs whose parent it is, counted up to Most
	Children []job.ID
	Most     int

	// What a store of one process has in memory.
	Numbers []job.Kind // the highest number of each kind
	Posted  bool       // the highest number of a message
	Audited bool       // the last entry of the audit log
	Holds   bool       // all holds
}

// Reset empties the needs. Their memory is used again.
func (n *Needs) Reset() {
	*n = Needs{Jobs: n.Jobs[:0], Keys: n.Keys[:0], Messages: n.Messages[:0], Unsent: n.Unsent[:0],
		Children: n.Children[:0], Numbers: n.Numbers[:0]}
}

// Create adds what [Create] reads.
func (n *Needs) Create(jobs []job.Created) {
	for i := range jobs {
		c := &jobs[i]
		n.Jobs = append(n.Jobs, c.Job.ID)
		if k, ok := keyOf(&c.Job); ok {
			n.Keys = append(n.Keys, k)
		}
		if c.Job.Parent != "" && (i == 0 || c.Job.Parent != jobs[i-1].Job.Parent) {
			n.Jobs = append(n.Jobs, c.Job.Parent)
		}
		if i == 0 || c.Job.Kind != jobs[i-1].Job.Kind {
			n.Numbers = append(n.Numbers, c.Job.Kind)
		}
		n.post(c.Outbox)
		n.Audited = n.Audited || c.Event.By&lifecycle.Operator != 0
	}
}

// Commit adds what [Commit] reads in the first round.
func (n *Needs) Commit(changes []job.Change) {
	for i := range changes {
		c := &changes[i]
		n.Jobs = append(n.Jobs, c.Job)
		n.Create(c.Spawn)
		n.post(c.Outbox)
		n.Audited = n.Audited || c.Person()
		n.Holds = n.Holds || c.Require.Held || c.Require.Free || c.Require.Unheld
		if c.Purge {
			n.Unsent = append(n.Unsent, c.Job)
			n.Posted = true
		}
	}
}

// Second replaces the needs by what [Commit] reads besides, which follows from the records of the first round: the
// parents whose counts may change, and of batches that are purged whether they have jobs. It reports whether that is
// anything.
func (n *Needs) Second(k *Known, changes []job.Change) bool {
	n.Reset()
	n.Most = 1
	for i := range changes {
		c := &changes[i]
		j, err := k.job(c.Job)
		if j == nil || err != nil {
			continue
		}
		if c.Purge {
			n.Most++
			n.Numbers = append(n.Numbers, j.Kind)
			if j.Children.Created() > 0 {
				n.Children = append(n.Children, j.ID)
			}
			continue
		}
		if j.Parent != "" && (len(c.Require.ParentIn) > 0 || mayCount(j, c)) {
			n.Jobs = append(n.Jobs, j.Parent)
		}
	}
	return len(n.Jobs)+len(n.Children)+len(n.Numbers) > 0
}

// mayCount reports whether a change moves the job to another count of its parent. If no change of a list does, compared
// with the record before the first, then none does, compared with the record before it.
func mayCount(before *job.Job, c *job.Change) bool {
	return c.Event != "" &&
		recount(before, &job.Job{Position: c.To, Ended: c.Ended, Gone: c.Gone}, job.Children{}) != job.Children{}
}

// recount returns the counts of a parent after a change of a job of it.
func recount(before, after *job.Job, c job.Children) job.Children {
	c.Add(before, -1)
	c.Add(after, 1)
	return c
}

// Claim adds what [Claim] reads.
func (n *Needs) Claim(ids []job.ID) { n.Jobs = append(n.Jobs, ids...) }

// Renew adds what [Renew] reads.
func (n *Needs) Renew(r *job.Renewal) {
	for _, lease := range r.Leases {
		n.Jobs = append(n.Jobs, lease.Job)
	}
}

// Hold adds what [PutHold] and [Release] read.
func (n *Needs) Hold() { n.Holds, n.Audited = true, true }

// Note adds what [Note] reads.
func (n *Needs) Note() { n.Audited = true }

// Settle adds what [Settle] reads.
func (n *Needs) Settle(messages []job.Message) {
	for i := range messages {
		n.Messages = append(n.Messages, messages[i].Key)
	}
}

// Replay adds what [Replay] reads.
func (n *Needs) Replay(keys []string) { n.Messages = append(n.Messages, keys...) }

func (n *Needs) post(messages []job.Message) {
	n.Posted = n.Posted || len(messages) > 0
	n.Settle(messages)
}
