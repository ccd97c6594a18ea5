package ledger

import (
	"time"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/store/internal/rules"
)

// begin begins an operation. What it needs is added to the result; read then reads it.
func (l *Ledger) begin() *rules.Needs {
	l.needs.Reset()
	l.known.Forget()
	l.writes.Reset(&l.known)
	return &l.needs
}

func (l *Ledger) read(r Records) error { return r.Read(&l.needs, &l.known) }

// schedule makes the queue follow the writes from number n on, and grants the claims that they request if that is
// allowed. A new job waits its turn; a chained one is only preceded by jobs of better priority.
func (l *Ledger) schedule(n int) {
	for _, w := range l.writes.Jobs[n:] {
		if w.After == nil {
			l.queue.Drop(w.Before)
			continue
		}
		if w.Chain == nil || w.After.Ended {
			l.queue.Put(w.Before, w.After)
		} else if l.queue.Chain(w.Before, w.After, w.Chain, w.At) {
			w.Grant()
			l.queue.Granted(w.After)
		}
	}
}

// write ends an operation.
func (l *Ledger) write(r Records) error {
	w, k := &l.writes, &l.known
	if err := r.Write(w); err != nil {
		return err
	}
	for _, j := range w.Jobs {
		if j.After != nil {
			l.touched = append(l.touched, *j.After)
		}
	}
	for _, n := range w.Numbers() {
		k.Numbers[n.Kind] = n.Number
	}
	if len(w.Put)+len(w.Released) > 0 {
		k.Holds = w.Holds
		l.queue.SetHolds(k.Holds)
	}
	k.Counters = w.Counters
	return nil
}

// Create is part of job.Store. It appends the records to created, which it returns.
func (l *Ledger) Create(r Records, jobs []job.Created, created []job.Job) ([]job.Job, error) {
	l.begin().Create(jobs)
	if err := l.read(r); err != nil {
		return nil, err
	}
	all, err := rules.Create(&l.writes, jobs)
	if err != nil {
		return nil, err
	}
	l.schedule(0)
	for _, j := range all {
		created = append(created, *j)
	}
	return created, l.write(r)
}

// Commit is part of job.Store. It puts the result of each change into results.
func (l *Ledger) Commit(r Records, changes []job.Change, results []job.Result) error {
	l.begin().Commit(changes)
	if err := l.read(r); err != nil {
		return err
	}
	if l.needs.Second(&l.known, changes) {
		if err := l.read(r); err != nil {
			return err
		}
	}
	for i := range changes {
		n := len(l.writes.Jobs)
		j, err := rules.Commit(&l.writes, &changes[i])
		l.schedule(n)
		if j != nil {
			results[i].Job = *j
		}
		results[i].Err = err
	}
	return l.write(r)
}

// partOfClaim is how many records a claim reads at once, as job.Store defines.
const partOfClaim = 50

// Claim is part of job.Store.
func (l *Ledger) Claim(r Records, c *job.Claim) ([]job.Job, error) {
	if err := rules.CheckClaim(c); err != nil {
		return nil, err
	}
	return rules.InParts(c, partOfClaim, func(part *job.Claim) ([]job.Job, error) { return l.claim(r, part) })
}

// claim claims jobs at once.
func (l *Ledger) claim(r Records, c *job.Claim) ([]job.Job, error) {
	granted := l.queue.Claim(c)
	l.begin().Claim(granted)
	if err := l.read(r); err != nil {
		return nil, err
	}
	claimed, err := rules.Claim(&l.writes, c, granted)
	if err != nil {
		return nil, err
	}
	l.schedule(0)
	return values(claimed), l.write(r)
}

// Renew is part of job.Store.
func (l *Ledger) Renew(r Records, c *job.Renewal) ([]job.Lease, error) {
	l.begin().Renew(c)
	if err := l.read(r); err != nil {
		return nil, err
	}
	lost := rules.Renew(&l.writes, c)
	l.schedule(0)
	return lost, l.write(r)
}

// Hold is part of job.Store.
func (l *Ledger) Hold(r Records, h job.Hold) ([]job.Hold, error) {
	l.begin().Hold()
	if err := rules.PutHold(&l.writes, h); err != nil {
		return nil, err
	}
	err := l.write(r)
	return l.Holds(), err
}

// Release is part of job.Store.
func (l *Ledger) Release(r Records, h job.Hold) ([]job.Hold, error) {
	l.begin().Hold()
	if err := rules.Release(&l.writes, h); err != nil {
		return nil, err
	}
	err := l.write(r)
	return l.Holds(), err
}

// Note is part of job.Store.
func (l *Ledger) Note(r Records, a job.Audit) error {
	l.begin().Note()
	if err := rules.Note(&l.writes, a); err != nil {
		return err
	}
	return l.write(r)
}

// Take is part of job.Store.
func (l *Ledger) Take(r Records, t *job.Taking) ([]job.Message, error) {
	l.begin()
	if t.N <= 0 {
		return nil, nil
	}
	due, err := r.Due(t)
	if err != nil {
		return nil, err
	}
	rules.Take(&l.writes, t, due)
	return due, l.write(r)
}

// Settle is part of job.Store.
func (l *Ledger) Settle(r Records, messages []job.Message) error {
	l.begin().Settle(messages)
	if err := l.read(r); err != nil {
		return err
	}
	if err := rules.Settle(&l.writes, messages); err != nil {
		return err
	}
	return l.write(r)
}

// Replay is part of job.Store.
func (l *Ledger) Replay(r Records, now time.Time, keys []string) ([]job.Message, error) {
	l.begin().Replay(keys)
	if err := l.read(r); err != nil {
		return nil, err
	}
	again, err := rules.Replay(&l.writes, now, keys)
	if err != nil {
		return nil, err
	}
	return again, l.write(r)
}

// values copies records.
func values(of []*job.Job) []job.Job {
	if len(of) == 0 {
		return nil
	}
	jobs := make([]job.Job, len(of))
	for i, j := range of {
		jobs[i] = *j
	}
	return jobs
}

// Owned makes records of an answer the caller's own: they share no memory with the store.
func Owned(jobs []job.Job, err error) ([]job.Job, error) {
	for i := range jobs {
		jobs[i].Own()
	}
	return jobs, err
}

// OwnedMessages is [Owned] for messages.
func OwnedMessages(messages []job.Message, err error) ([]job.Message, error) {
	for i := range messages {
		messages[i].Own()
	}
	return messages, err
}
