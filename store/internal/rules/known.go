package rules

import "github.com/stagepost/stagepost/job"

// Known has what a store has read for the operations of one transaction. The rules read it and do not change it. The
// zero Known is empty.
type Known struct {
	Counters
	Numbers map[job.Kind]int64 // the highest number of each kind
	Holds   []job.Hold         // oldest first

	ids      index[job.ID]
	keys     index[Key]
	jobs     []record
	texts    index[string] // keys of messages
	messages []job.Message
	unsent   []unsent
	children []children
}

// Counters are the ends of what a store numbers.
type Counters struct {
	Posted int64    // highest number of a message
	Audits int64    // number of the last entry of the audit log
	Sealed job.Hash // its hash
}

// record is a job that was read, or why it cannot be.
type record struct {
	job *job.Job
	err error
}

type unsent struct {
	of  job.ID
	key string
}

type children struct {
	of job.ID
	n  int
}

// Forget removes the records, and keeps Counters, Numbers and Holds.
func (k *Known) Forget() {
	k.ids.cut(0)
	k.keys.cut(0)
	k.texts.cut(0)
	clear(k.jobs)
	clear(k.messages)
	*k = Known{Counters: k.Counters, Numbers: k.Numbers, Holds: k.Holds, ids: k.ids, keys: k.keys, jobs: k.jobs[:0],
		texts: k.texts, messages: k.messages[:0], unsent: k.unsent[:0], children: k.children[:0]}
}

// Has reports whether the record of a job was added.
func (k *Known) Has(id job.ID) bool { return k.ids.find(id) >= 0 }

// Add adds a record, which is not copied: it must not change before the writes of the transaction are made.
func (k *Known) Add(j *job.Job) {
	key, _ := keyOf(j)
	k.add(j.ID, key, record{job: j})
}

// AddUnreadable adds a job whose record exists and cannot be read: an operation that needs it returns err. key is the
// one that it was searched by, or zero.
func (k *Known) AddUnreadable(id job.ID, key Key, err error) { k.add(id, key, record{err: err}) }

func (k *Known) add(id job.ID, key Key, r record) {
	k.ids.add(id)
	k.keys.add(key)
	k.jobs = append(k.jobs, r)
}

// AddMessage adds a message.
func (k *Known) AddMessage(m job.Message) {
	k.texts.add(m.Key)
	k.messages = append(k.messages, m)
}

// AddUnsent adds that a job has a pending message, with its key.
func (k *Known) AddUnsent(of job.ID, key string) { k.unsent = append(k.unsent, unsent{of, key}) }

// AddChildren adds the number of jobs whose parent is a job.
func (k *Known) AddChildren(of job.ID, n int) { k.children = append(k.children, children{of, n}) }

// job returns a record, nil if there is none.
func (k *Known) job(id job.ID) (*job.Job, error) {
	if i := k.ids.find(id); i >= 0 {
		return k.jobs[i].job, k.jobs[i].err
	}
	return nil, nil
}

// keyed returns the job with the key, nil if there is none.
func (k *Known) keyed(key Key) (*job.Job, error) {
	if i := k.keys.find(key); i >= 0 {
		return k.jobs[i].job, k.jobs[i].err
	}
	return nil, nil
}

// message returns a message, nil if there is none.
func (k *Known) message(key string) *job.Message {
	if i := k.texts.find(key); i >= 0 {
		return &k.messages[i]
	}
	return nil
}
