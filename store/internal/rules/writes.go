package rules

import (
	"time"

	"github.com/stagepost/stagepost/job"
)

// Writes are what the operations of one transaction write. A store makes them in the order of the fields, and the
// elements of each in order. Call [Writes.Reset] first.
type Writes struct {
	Jobs     []*JobWrite
	Messages []job.Message // added, or replaced by key
	Audits   []job.Audit   // appended to the audit log
	Put      []job.Hold    // added, or replaced by scope
	Released []job.Scope

	// Afterwards.
	Counters Counters
	Holds    []job.Hold // as Known.Holds

	known   *Known
	ids     index[job.ID] // of Jobs
	keys    index[Key]    // that were given to a job or became free
	keyed   []*job.Job    // of each of keys, the job; nil: it became free
	texts   index[string] // of Messages
	numbers []KindNumber
	pool    []*JobWrite // those in use first
	used    int
	answer  []*job.Job // of the last operation
}

// JobWrite is the change of a record with what belongs to it. A job may have several; each begins where the one before
// ended.
type JobWrite struct {
	Before *job.Job   // nil: the job is new
	After  *job.Job   // nil: it is purged, with its history, tasks and messages
	Event  *job.Event // appended to the history; nil: none
	Tasks  []job.Task // replaced by name
	// The claim of the next state that was requested, nil: none. If the store grants it, it calls Grant before it makes
	// the writes and before the next operation.
	Chain *job.Chain
	At    time.Time // of the change

	after job.Job
	event job.Event
}

// KindNumber is the highest number of a kind.
type KindNumber struct {
	Kind   job.Kind
	Number int64
}

// Reset empties the writes, for operations on what is known. Their memory is used again: answers and records of
// before are no longer valid.
func (w *Writes) Reset(k *Known) {
	for _, j := range w.pool[:w.used] {
		*j = JobWrite{}
	}
	if len(w.pool) > mostPooled {
		clear(w.pool[mostPooled:])
		w.pool = w.pool[:mostPooled]
	}
	w.ids.cut(0)
	w.keys.cut(0)
	w.texts.cut(0)
	clear(w.Jobs)
	clear(w.answer)
	clear(w.Messages)
	clear(w.Audits)
	clear(w.keyed)
	*w = Writes{known: k, Jobs: w.Jobs[:0], Messages: w.Messages[:0], Audits: w.Audits[:0], Put: w.Put[:0],
		Released: w.Released[:0], Counters: k.Counters, Holds: k.Holds, ids: w.ids, keys: w.keys, keyed: w.keyed[:0],
		texts: w.texts, numbers: w.numbers[:0], pool: w.pool, answer: w.answer[:0]}
}

// mostPooled is the number of job writes whose memory is used again.
const mostPooled = 512

// Grant claims the job of a write for the worker that requested it.
func (j *JobWrite) Grant() { take(j.After, j.Chain.Worker, j.At.Add(j.Chain.Lease)) }

// Numbers returns the highest numbers of the kinds of which jobs were created.
func (w *Writes) Numbers() []KindNumber { return w.numbers }

// Number returns the highest number of a kind.
func (w *Writes) Number(kind job.Kind) int64 {
	for i := len(w.numbers) - 1; i >= 0; i-- {
		if w.numbers[i].Kind == kind {
			return w.numbers[i].Number
		}
	}
	return w.known.Numbers[kind]
}

// mark is a state of the writes to which a refused operation returns.
type mark struct {
	jobs, messages, audits, keys, numbers, used int

	counters Counters
}

func (w *Writes) mark() mark {
	return mark{len(w.Jobs), len(w.Messages), len(w.Audits), len(w.keyed), len(w.numbers), w.used, w.Counters}
}

// back removes what was added after the mark.
func (w *Writes) back(m mark) {
	for _, j := range w.pool[m.used:w.used] {
		*j = JobWrite{}
	}
	w.ids.cut(m.jobs)
	w.keys.cut(m.keys)
	w.texts.cut(m.messages)
	w.Jobs, w.Messages, w.Audits = w.Jobs[:m.jobs], w.Messages[:m.messages], w.Audits[:m.audits]
	w.keyed, w.numbers, w.used, w.Counters = w.keyed[:m.keys], w.numbers[:m.numbers], m.used, m.counters
}

// job returns a record as it is after the writes, or kind NotFound.
func (w *Writes) job(id job.ID) (j *job.Job, err error) {
	if i := w.ids.find(id); i >= 0 {
		j = w.Jobs[i].After
	} else {
		j, err = w.known.job(id)
	}
	if j == nil && err == nil {
		err = job.Errorf(job.NotFound, "get", id, "there is no such job")
	}
	return j, err
}

// existing returns the job that has the key or the id of j, nil if there is none.
func (w *Writes) existing(j *job.Job) (old *job.Job, err error) {
	if key, ok := keyOf(j); ok {
		if i := w.keys.find(key); i >= 0 {
			old = w.keyed[i]
		} else {
			old, err = w.known.keyed(key)
		}
		if old != nil || err != nil {
			return w.newest(old), err
		}
	}
	if i := w.ids.find(j.ID); i >= 0 {
		return w.Jobs[i].After, nil
	}
	return w.known.job(j.ID)
}

// newest returns a record as it is after the writes.
func (w *Writes) newest(j *job.Job) *job.Job {
	if j != nil {
		if i := w.ids.find(j.ID); i >= 0 {
			return w.Jobs[i].After
		}
	}
	return j
}

// draft returns the write of a change of a job, which is not one of the writes yet. before is nil for a new job.
func (w *Writes) draft(before *job.Job, at time.Time) *JobWrite {
	if w.used == len(w.pool) {
		w.pool = append(w.pool, new(JobWrite))
	}
	j := w.pool[w.used]
	w.used++
	j.Before, j.After, j.At = before, &j.after, at
	if before != nil {
		j.after = *before
	}
	return j
}

// add adds a draft, which is complete except for counts.
func (w *Writes) add(j *JobWrite) {
	w.Jobs = append(w.Jobs, j)
	if j.After == nil {
		w.ids.add(j.Before.ID)
		if key, ok := keyOf(j.Before); ok {
			w.key(key, nil)
		}
		return
	}
	w.ids.add(j.After.ID)
	if key, ok := keyOf(j.After); ok && j.Before == nil {
		w.key(key, j.After)
	}
}

func (w *Writes) key(key Key, j *job.Job) {
	w.keys.add(key)
	w.keyed = append(w.keyed, j)
}

// message returns a message as it is after the writes, nil if there is none.
func (w *Writes) message(key string) *job.Message {
	if i := w.texts.find(key); i >= 0 {
		return &w.Messages[i]
	}
	m := w.known.message(key)
	if m != nil {
		if i := w.ids.find(m.Job); i >= 0 && w.Jobs[i].After == nil {
			return nil // it was purged
		}
	}
	return m
}

func (w *Writes) put(m job.Message) {
	w.texts.add(m.Key)
	w.Messages = append(w.Messages, m)
}
