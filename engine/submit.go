package engine

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/stagepost/stagepost/engine/repeat"
	"github.com/stagepost/stagepost/internal/answers"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/job/words"
	"github.com/stagepost/stagepost/lifecycle"
)

// Order asks for a job to be created.
type Order struct {
	ID       job.ID // empty: made by the engine
	Kind     job.Kind
	Priority *int // 0..99, lower first: new(0) is the highest; nil: job.DefaultPriority
	Group    string
	Owner    string
	Key      string // idempotency key
	Parent   job.ID
	Number   int64    // from another system, higher than all numbers of the kind so far; zero: the next
	Tags     []string // that holds and limits can name, besides the group
	Words    []string // texts by whose words people find the job, such as a title and the name of a file
	Requires []string // labels that a worker must have to claim the job, besides those that its state requires
	Bytes    int64    // of the work, if known
	Due      time.Time
	Deadline time.Time
	// of a job that was created in another system, before now; zero: now. Its history begins now in any case
	Created time.Time
	Spec    any             // encoded as JSON
	By      lifecycle.Actor // who orders it; zero: Owner. What an Operator orders is entered in the audit list
	Actor   string          // the name of the person; required of an Operator
	Note    string          // why; part of the history's first entry
	Outbox  []job.Message

	fresh bool // the engine made the ID: no job has it yet
}

// Submit creates a job. A second submission with the same key returns the job of the first. Within a request to a
// server it is a Conflict if the first was another request; see [repeat].
func (e *Engine) Submit(ctx context.Context, n Order) (j job.Job, err error) {
	err = e.submitOne(ctx, &n, &j)
	return j, err
}

// submitOne is Submit. It puts the record into j: records and orders are large, and each of many callers has a stack.
func (e *Engine) submitOne(ctx context.Context, n *Order, j *job.Job) error {
	one := singles.Get().(*single)
	one.order[0] = *n
	jobs, err := e.submit(ctx, one.made[:], one.order[:])
	if err != nil {
		return err // the memory stays with the garbage collector
	}
	*one = single{}
	singles.Put(one)
	*j = jobs[0]
	answers.GiveRecords(jobs)
	return nil
}

// single is an order of one job, and what is made of it.
type single struct {
	order [1]Order
	made  [1]job.Created
}

// singles has the memory of orders of one job that were carried out.
var singles = sync.Pool{New: func() any { return new(single) }}

// SubmitAll creates jobs in one commit: all or none.
func (e *Engine) SubmitAll(ctx context.Context, all ...Order) ([]job.Job, error) {
	return e.submit(ctx, make([]job.Created, len(all)), all)
}

// submit creates jobs from orders. made has the same length.
func (e *Engine) submit(ctx context.Context, made []job.Created, all []Order) ([]job.Job, error) {
	e.defining.RLock()
	defer e.defining.RUnlock()
	for i := range all {
		if err := e.prepare(&made[i], &all[i], 0, time.Time{}); err != nil {
			return nil, err
		}
		sentFrom(&made[i], job.AddressOf(ctx))
		askedBy(&made[i], repeat.Of(ctx).Digest())
	}
	reserved := e.reserve(len(made))
	for i := range reserved {
		if w := e.workOf(made[i].Job.Kind); e.takes(w, made[i].Job.State) && w.Slots == 0 &&
			all[i].Created.IsZero() && (all[i].ID == "" || all[i].fresh) {
			made[i].Chain = &job.Chain{Worker: e.name, Labels: e.options.Labels, Lease: e.options.Lease,
				Limits: e.kindsNow().limits}
		}
	}
	jobs, err := e.store.Create(ctx, made...)
	e.postedWith(made)
	for i := range reserved {
		if err == nil && jobs[i].ID == made[i].Job.ID && jobs[i].Version == 1 && jobs[i].Worker == e.name {
			e.claimed(jobs[i:i+1], e.clock.Now())
			e.start(e.shared, &jobs[i])
		} else {
			e.unreserve(e.shared)
		}
	}
	for i := range jobs {
		if due := jobs[i].Due; !due.IsZero() && !jobs[i].Claimed() {
			e.alarm(due)
		}
	}
	for i := range jobs {
		if made[i].Job.ID == jobs[i].ID {
			continue
		}
		if err := repeat.Again(ctx, e.store, &jobs[i]); err != nil {
			return nil, err
		}
	}
	return jobs, err
}

// prepare makes the record of a new job, in c. nth is its number among its siblings; with 0 it gets a random id.
func (e *Engine) prepare(c *job.Created, n *Order, nth int, parentCreated time.Time) error {
	w := e.workOf(n.Kind)
	if w == nil {
		return job.Errorf(job.Invalid, "create", "", "there is no kind %q (known: %s)",
			n.Kind, e.kindNames())
	}
	priority := job.DefaultPriority
	if n.Priority != nil {
		priority = *n.Priority
	}
	if err := checkOrder(n, priority); err != nil {
		return err
	}
	spec, err := json.Marshal(n.Spec)
	if err != nil {
		return job.Errorf(job.Invalid, "create", "", "spec: %w", err)
	}
	required, err := job.Required(n.Requires...)
	if err != nil {
		return err
	}
	now := e.clock.Now()
	id := n.ID
	switch {
	case id != "":
	case nth > 0:
		id = childID(w.Prefix, n.Parent, nth, parentCreated)
	default:
		id = job.ID(w.Prefix + "_" + e.ulid(now))
	}
	start, by := w.Life.Start(), n.By
	if by == 0 {
		by = lifecycle.Owner
	}
	c.Job = job.Job{
		ID: id, Kind: n.Kind, Position: start, Priority: priority, Group: n.Group, Owner: n.Owner, Key: n.Key,
		Parent: n.Parent, Number: n.Number, Tags: job.Tagged(n.Tags...), Requires: required,
		Bytes: n.Bytes, Due: n.Due, Deadline: n.Deadline, Definition: w.Life.Hash(), Spec: spec,
		Words: words.Of(n.Words...),
	}
	c.Job.Expires = w.expires(&c.Job, start, now, n.Deadline)
	c.Job, c.Event = job.New(c.Job, by, n.Actor, now)
	c.Outbox = n.Outbox
	switch {
	case n.Created.After(now):
		return job.Errorf(job.Invalid, "create", "",
			"it cannot have been created at %s, which is in the future", n.Created.UTC().Format(time.RFC3339))
	case !n.Created.IsZero():
		c.Job.Created = n.Created
	}
	if n.Note != "" {
		c.Event.Note = n.Note
		seal(c)
	}
	return nil
}

// checkOrder refuses an order with values that a job cannot have.
func checkOrder(n *Order, priority int) error {
	if n.By&lifecycle.Operator != 0 && n.Actor == "" {
		return unnamed("create", n.ID)
	}
	if n.Bytes < 0 {
		return job.Errorf(job.Invalid, "create", "", "bytes must be 0 or more, not %d", n.Bytes)
	}
	return cmp.Or(checkPriority("create", priority), checkTime("create", "due", n.Due),
		checkTime("create", "deadline", n.Deadline))
}

func checkPriority(op string, priority int) error {
	if priority < job.FirstPriority || priority > job.LastPriority {
		return job.Errorf(job.Invalid, op, "", "priority %d is not within %d..%d", priority, job.FirstPriority,
			job.LastPriority)
	}
	return nil
}

// checkTime refuses a time that no clock of a server shows. The zero time is none.
func checkTime(op, name string, t time.Time) error {
	if year := t.UTC().Year(); !t.IsZero() && (year < 1970 || year > 9999) {
		return job.Errorf(job.Invalid, op, "", "the year of %s, %d, is not within 1970..9999", name, year)
	}
	return nil
}

// sentFrom enters the address of the sender in the first entry of a job's history.
func sentFrom(c *job.Created, address string) {
	if address != "" {
		c.Event.Address = address
		seal(c)
	}
}

// askedBy enters the digest of the request in the first entry of a job's history if its order has a key.
func askedBy(c *job.Created, digest string) {
	if digest != "" && c.Job.Key != "" {
		c.Event.Cause = digest
		seal(c)
	}
}

// seal seals the first entry of a history after a change.
func seal(c *job.Created) {
	c.Event.Seal(job.Hash{})
	c.Job.Head = c.Event.Hash
}

func (e *Engine) ulid(now time.Time) string {
	e.entropy.Lock()
	defer e.entropy.Unlock()
	return ulid.MustNew(ulid.Timestamp(now), e.entropy).String()
}

// childID returns the same id for the same parent and number in every attempt. The ids have the parent's time and sort
// by number.
func childID(prefix string, parent job.ID, nth int, created time.Time) job.ID {
	sum := sha256.Sum256(binary.BigEndian.AppendUint64([]byte(parent), uint64(nth)))
	var id ulid.ULID
	_ = id.SetTime(ulid.Timestamp(created)) // a time after 1970 and before 10889
	binary.BigEndian.PutUint32(id[6:10], uint32(nth))
	copy(id[10:], sum[:6])
	return job.ID(prefix + "_" + id.String())
}
