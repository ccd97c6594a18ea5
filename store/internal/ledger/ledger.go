// Package ledger implements create, claim and commit for stores that keep their queue in memory: which records they
// read, what they check, and what they write. The stores differ in how they keep records ([Records]) and in how they
// make a commit atomic and durable.
//
// A ledger checks everything before it writes, so a refused operation has written nothing. It is not safe for
// concurrent use: it belongs to the store's commit loop.
package ledger

import (
	"time"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/internal/scheduler"
)

// Ledger holds the derived state: queue, counts, holds, numbers.
type Ledger struct {
	queue   *scheduler.Queue
	holds   []job.Hold // by Since
	revised int64      // version of the holds
	numbers map[job.Kind]int64
	posted  int64    // number of the last message
	audits  int64    // number of the last entry of the audit log
	sealed  job.Hash // its hash
	touched []job.Job
	before  job.Job // the record of the current commit
	after   job.Job
	event   job.Event
}

// New returns an empty ledger.
func New() *Ledger {
	return &Ledger{queue: scheduler.New(), numbers: map[job.Kind]int64{}}
}

// Load adds the record of a job that has not ended at the start, batches before their jobs. Loaded ends the loading.
func (l *Ledger) Load(j *job.Job) { l.queue.Load(j) }

// Loaded is called after the last Load.
func (l *Ledger) Loaded() { l.queue.Loaded() }

// Follow applies a change of a record that was made by another ledger. before is nil for a new job, after for one that
// was purged.
func (l *Ledger) Follow(before, after *job.Job) {
	switch {
	case after != nil:
		l.LoadNumber(after.Kind, after.Number)
		l.queue.Put(before, after)
	case before != nil:
		ended := *before
		ended.Ended = true
		l.queue.Put(before, &ended)
		l.queue.Drop(&ended)
	}
}

// LoadTally adds ended jobs that are only counted.
func (l *Ledger) LoadTally(t job.Tally) { l.queue.AddEnded(t) }

// LoadNumber records that a number of the kind was assigned, to a job that may have been purged.
func (l *Ledger) LoadNumber(kind job.Kind, number int64) {
	l.numbers[kind] = max(l.numbers[kind], number)
}

// LoadPosted records that a message had the number.
func (l *Ledger) LoadPosted(number int64) { l.posted = max(l.posted, number) }

// LoadAudit sets the last entry of the audit log.
func (l *Ledger) LoadAudit(seq int64, hash job.Hash) { l.audits, l.sealed = seq, hash }

// LastAudit returns the number and the hash of the last entry of the audit log.
func (l *Ledger) LastAudit() (seq int64, hash job.Hash) { return l.audits, l.sealed }

// LoadHold adds a hold at the start.
func (l *Ledger) LoadHold(h job.Hold) {
	l.revised = max(l.revised, h.Version)
	l.holds = append(l.holds, h)
	l.sortHolds()
	l.queue.SetHolds(l.holds)
}

// Tally counts all jobs.
func (l *Ledger) Tally() []job.Tally { return l.queue.Tally() }

// Overdue returns up to n jobs of the kinds (none: of all) whose claim or Expires had ended at a time.
func (l *Ledger) Overdue(now time.Time, kinds []job.Kind, n int) []job.ID {
	return l.queue.Overdue(now, kinds, n)
}

// Visits returns how many parts of the queue were visited so far.
func (l *Ledger) Visits() int64 { return l.queue.Visits() }

// ClaimedBy returns the jobs that are claimed by workers whose names begin with worker, in any order.
func (l *Ledger) ClaimedBy(worker string) []job.ID { return l.queue.ClaimedBy(worker) }

// Touched returns the records that changed since the last call. The slice is valid until the next operation.
func (l *Ledger) Touched() []job.Job {
	t := l.touched
	l.touched = l.touched[:0]
	return t
}

// insert writes a record that is in the queue already; update writes one and enqueues it.
func (l *Ledger) insert(r Records, j *job.Job, e *job.Event) error {
	if err := r.Insert(j); err != nil {
		return err
	}
	if err := r.Append(e); err != nil {
		return err
	}
	l.touched = append(l.touched, *j)
	return nil
}

// enter enqueues a new or moved record and claims it at once if that was requested and is allowed. A new job waits
// its turn; a chained one is only preceded by jobs of better priority.
func (l *Ledger) enter(before, after *job.Job, c *job.Chain, now time.Time) {
	l.queue.Put(before, after)
	if c != nil && !after.Ended && l.queue.CanChain(after.ID, before == nil, c.Limits, now) {
		waiting := *after
		take(after, c.Worker, now.Add(c.Lease))
		l.queue.Put(&waiting, after)
	}
}

func (l *Ledger) update(r Records, before, after *job.Job) error {
	if err := r.Update(before, after); err != nil {
		return err
	}
	l.queue.Put(before, after)
	l.touched = append(l.touched, *after)
	return nil
}

// Create implements job.Store.
func (l *Ledger) Create(r Records, jobs []job.Created) ([]job.Job, error) {
	parents := map[job.ID]*family{}
	p, err := l.plan(r, jobs, parents)
	if err != nil {
		return nil, err
	}
	for _, f := range parents {
		if err := f.check(); err != nil {
			return nil, err
		}
	}
	if err := l.carryOut(r, p); err != nil {
		return nil, err
	}
	for _, f := range parents {
		if f.after.Children != f.before.Children {
			if err := l.update(r, &f.before, &f.after); err != nil {
				return nil, err
			}
		}
	}
	return p.answer, nil
}

// family is a parent whose counts change by a creation or by a child's transition.
type family struct{ before, after job.Job }

func (f *family) check() error {
	if c := f.after.Children; c != f.before.Children && c.Created() > c.Expected {
		return tooMany(f.after.ID, c)
	}
	return nil
}

func tooMany(id job.ID, c job.Children) error {
	return job.Errorf(job.Refused, "create", id, "it expects %d jobs, %d would be too many", c.Expected, c.Created())
}

// plan of a creation: which jobs are new, and the result for each.
type plan struct {
	fresh  []*job.Created // of the request, unchanged; their records are in answer
	answer []job.Job
	places []int // index in answer of each fresh one

	last []lastNumber // of each kind of fresh ones
}

// lastNumber is the highest number of a kind, including those that a plan gives.
type lastNumber struct {
	kind job.Kind
	n    int64
}

// lastOf returns the highest number that the plan gives to a job of the kind; known is the highest one before.
func (p *plan) lastOf(kind job.Kind, known int64) *lastNumber {
	for i := range p.last {
		if p.last[i].kind == kind {
			return &p.last[i]
		}
	}
	p.last = append(p.last, lastNumber{kind, known})
	return &p.last[len(p.last)-1]
}

// plan decides which jobs exist. parents collects the parents of new ones with their new counts.
func (l *Ledger) plan(r Records, jobs []job.Created, parents map[job.ID]*family) (*plan, error) {
	type key struct {
		kind       job.Kind
		owner, key string
	}
	p := &plan{}
	ids, keys := map[job.ID]int{}, map[key]int{}
	for i := range jobs {
		j := &jobs[i].Job
		k := key{j.Kind, j.Owner, j.Key}
		at, twice := ids[j.ID]
		if !twice && j.Key != "" {
			at, twice = keys[k]
		}
		if twice {
			p.answer = append(p.answer, p.answer[at])
			continue
		}
		ids[j.ID] = len(p.answer)
		if j.Key != "" {
			keys[k] = len(p.answer)
		}
		old, found, err := existing(r, j)
		if err != nil {
			return nil, err
		}
		if found && j.Parent != "" && old.Parent != j.Parent {
			return nil, job.Errorf(job.Invalid, "create", j.ID, "its id or key belongs to %s, which is not of batch %s",
				old.ID, j.Parent)
		}
		if found {
			p.answer = append(p.answer, old)
			continue
		}
		if err := p.join(r, j, ids, parents); err != nil {
			return nil, err
		}
		number, err := l.number(p, j)
		if err != nil {
			return nil, err
		}
		p.places = append(p.places, len(p.answer))
		p.fresh = append(p.fresh, &jobs[i])
		p.answer = append(p.answer, *j)
		born := &p.answer[len(p.answer)-1]
		born.Number = number
		born.Own()
	}
	return p, nil
}

// born returns the record of a job that the same plan creates, or nil.
func (p *plan) born(id job.ID) *job.Job {
	for i := range p.fresh {
		if p.fresh[i].Job.ID == id {
			return &p.answer[p.places[i]]
		}
	}
	return nil
}

// existing returns the job that has the ID or the key; found is false if there is none.
func existing(r Records, j *job.Job) (old job.Job, found bool, err error) {
	id := j.ID
	if j.Key != "" {
		keyed, err := r.Keyed(j.Kind, j.Owner, j.Key)
		if err != nil {
			return old, false, err
		}
		if keyed != "" {
			id = keyed
		}
	}
	old, err = r.Job(id)
	if job.KindOf(err) == job.NotFound {
		return old, false, nil
	}
	return old, err == nil, err
}

// join counts a new child with its parent, which the same plan may create. ids are the jobs of the request so far.
func (p *plan) join(r Records, j *job.Job, ids map[job.ID]int, parents map[job.ID]*family) error {
	if j.Parent == "" {
		return nil
	}
	if _, asked := ids[j.Parent]; asked {
		if parent := p.born(j.Parent); parent != nil {
			parent.Children.Add(j, 1)
			if c := parent.Children; c.Created() > c.Expected {
				return tooMany(parent.ID, c)
			}
			return nil
		}
	}
	f := parents[j.Parent]
	if f == nil {
		parent, err := r.Job(j.Parent)
		if err != nil {
			return err
		}
		if parent.Ended {
			return job.Errorf(job.Refused, "create", j.Parent, "it has ended (%s) and takes no more jobs", parent.State)
		}
		f = &family{before: parent, after: parent}
		f.after.Version++
		parents[j.Parent] = f
	}
	f.after.Children.Add(j, 1)
	return nil
}

// number returns the number of a new job: its own, which must be higher than all earlier ones of its kind, including
// those of this plan, or the next. Lists find jobs by number because rows and numbers increase together.
func (l *Ledger) number(p *plan, j *job.Job) (int64, error) {
	highest := p.lastOf(j.Kind, l.numbers[j.Kind])
	last, n := highest.n, j.Number
	switch {
	case n < 0 || n > job.LastNumber:
		return 0, job.Errorf(job.Invalid, "create", j.ID, "number %d is not within 1..%d", n, job.LastNumber)
	case n == 0 && last >= job.LastNumber:
		return 0, job.Errorf(job.Refused, "create", j.ID, "no number of kind %s is left after %d", j.Kind, last)
	case n == 0:
		n = last + 1
	case n <= last:
		return 0, job.Errorf(job.Conflict, "create",
			j.ID, "number %d of kind %s is not free: it must be higher than %d, the last that was given", n, j.Kind,
			last)
	}
	highest.n = n
	return n, nil
}

func (l *Ledger) carryOut(r Records, p *plan) error {
	for i := range p.fresh {
		c, j := p.fresh[i], &p.answer[p.places[i]]
		l.numbers[j.Kind] = j.Number
		l.enter(nil, j, c.Chain, j.Created)
		if err := l.insert(r, j, &c.Event); err != nil {
			return err
		}
		if err := l.post(r, c.Outbox); err != nil {
			return err
		}
		if c.Event.By&lifecycle.Operator != 0 {
			if err := l.note(r, job.AuditedCreate(c)); err != nil {
				return err
			}
		}
	}
	return nil
}
