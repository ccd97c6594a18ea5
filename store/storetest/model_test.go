package storetest_test

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/storetest"
)

// The contract is defined by its sentences and tests, not by the code that mem and sqlite share.
func TestModel(t *testing.T) {
	storetest.Run(t, func(*testing.T) (job.Store, func() job.Store) { return newModel(), nil })
}

// model is a store that follows the sentences of job.Store in the most obvious way: one mutex, maps of records, and
// each query reads all of them. It shares no code with the other stores.
type model struct {
	mu       sync.Mutex // guards all below
	jobs     map[job.ID]job.Job
	live     map[job.ID]bool  // the jobs that have not ended
	made     map[job.ID]int64 // order of creation
	lastMade int64
	numbers  map[job.Kind]int64 // the highest of each kind
	history  map[job.ID][]job.Event
	tasks    map[job.ID][]job.Task
	messages map[string]job.Message // by key
	posted   int64                  // the highest number of a message
	audit    []job.Audit
	holds    []job.Hold

	turn  int64
	turns map[string]int64      // by owner: the turn of the last grant
	given map[job.KindState]int // grants since the last one by age

	watchers map[*func([]job.Hint)]bool
	touched  []job.ID // that the current operation changed
	undo     []func() // what rolls the current operation back, the last first
}

var _ job.Store = (*model)(nil)

func newModel() *model {
	return &model{
		jobs: map[job.ID]job.Job{}, live: map[job.ID]bool{}, made: map[job.ID]int64{}, numbers: map[job.Kind]int64{},
		history: map[job.ID][]job.Event{}, tasks: map[job.ID][]job.Task{}, messages: map[string]job.Message{},
		turns: map[string]int64{}, given: map[job.KindState]int{}, watchers: map[*func([]job.Hint)]bool{},
	}
}

// do runs an operation alone, all or nothing, and notifies the watchers.
func do[T any](m *model, ctx context.Context, op func() (T, error)) (T, error) {
	if err := ctx.Err(); err != nil {
		var none T
		return none, &job.Error{Op: "store", Kind: job.Unavailable, Err: err}
	}
	m.mu.Lock()
	m.undo, m.touched = nil, nil
	answer, err := op()
	if err != nil {
		m.rollBack(0)
	}
	var hints []job.Hint
	for _, id := range m.touched {
		if j, ok := m.jobs[id]; ok {
			j = copied(j)
			hints = append(hints, job.HintOf(&j))
		}
	}
	var wake []func([]job.Hint)
	for w := range m.watchers {
		wake = append(wake, *w)
	}
	m.mu.Unlock()
	for _, w := range wake {
		if len(hints) > 0 {
			w(slices.Clone(hints))
		}
	}
	return answer, err
}

// rollBack undoes all but the first n writes of the current operation.
func (m *model) rollBack(n int) {
	for _, f := range slices.Backward(m.undo[n:]) {
		f()
	}
	m.undo = m.undo[:n]
}

// set writes a value, and assign a value of a map, so that it can be rolled back.
func set[T any](m *model, at *T, v T) {
	old := *at
	m.undo = append(m.undo, func() { *at = old })
	*at = v
}

func assign[K comparable, V any](m *model, in map[K]V, k K, v V) {
	old, had := in[k]
	m.undo = append(m.undo, func() {
		if in[k] = old; !had {
			delete(in, k)
		}
	})
	in[k] = v
}

func remove[K comparable, V any](m *model, in map[K]V, k K) {
	if old, had := in[k]; had {
		m.undo = append(m.undo, func() { in[k] = old })
		delete(in, k)
	}
}

// put writes a record.
func (m *model) put(j job.Job) {
	assign(m, m.jobs, j.ID, copied(j))
	if j.Ended {
		remove(m, m.live, j.ID)
	} else {
		assign(m, m.live, j.ID, true)
	}
	set(m, &m.touched, append(m.touched, j.ID))
}

// get reads a record.
func (m *model) get(id job.ID) (job.Job, error) {
	j, ok := m.jobs[id]
	if !ok {
		return j, job.Errorf(job.NotFound, "get", id, "there is no such job")
	}
	return copied(j), nil
}

// Copies share no memory with the original.
func copied(j job.Job) job.Job {
	j.Tags, j.Spec, j.Data = slices.Clone(j.Tags), bytes.Clone(j.Spec), bytes.Clone(j.Data)
	j.Requires = slices.Clone(j.Requires)
	return j
}

func copiedMessage(m job.Message) job.Message {
	m.Body, m.Tried = bytes.Clone(m.Body), slices.Clone(m.Tried)
	return m
}

func copiedTask(t job.Task) job.Task {
	t.Data = bytes.Clone(t.Data)
	return t
}

func (m *model) Watch(ctx context.Context, wake func([]job.Hint)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.watchers[&wake] = true
	context.AfterFunc(ctx, func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.watchers, &wake)
	})
}

func (m *model) Properties() job.Properties {
	return job.Properties{Name: "model", Exclusive: true, Words: true}
}

func (m *model) Create(ctx context.Context, jobs ...job.Created) ([]job.Job, error) {
	return do(m, ctx, func() ([]job.Job, error) {
		answer := make([]job.Job, len(jobs))
		ids, err := m.createAll(jobs)
		for i, id := range ids {
			answer[i] = copied(m.jobs[id])
		}
		return answer, err
	})
}

func (m *model) createAll(jobs []job.Created) (ids []job.ID, err error) {
	for i := range jobs {
		id, err := m.create(&jobs[i])
		if err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, nil
}

// create adds a job or finds the one that exists.
func (m *model) create(c *job.Created) (job.ID, error) {
	j := c.Job
	if old, ok := m.existing(&j); ok {
		if j.Parent != "" && j.Parent != old.Parent {
			return "", job.Errorf(job.Invalid, "create", j.ID, "%s is not of batch %s", old.ID, j.Parent)
		}
		return old.ID, nil
	}
	if !inOrder(j.Requires) {
		return "", job.Errorf(job.Invalid, "create", j.ID, "it requires %q", j.Requires)
	}
	if err := job.CheckWords(j.Words); err != nil {
		return "", job.Errorf(job.Invalid, "create", j.ID, "%w", err)
	}
	switch {
	case j.Priority < 0, j.Priority > 99, j.Bytes < 0, j.Bytes > 1<<50, !areCounts(j.Starts, j.Attempts, j.Retries):
		return "", job.Errorf(job.Invalid, "create", j.ID, "a number is out of range")
	case c.Event.Job != j.ID:
		return "", job.Errorf(job.Invalid, "create", j.ID, "the event is one of %s", c.Event.Job)
	}
	if err := attemptsOf(c.Outbox, nil); err != nil {
		return "", err
	}
	if !short(800, string(j.ID), string(j.Parent), j.Key, j.Owner, j.Group, j.Cause, j.Worker) ||
		!short(800, j.Tags...) || !short(255, string(j.Kind), string(j.State)) || !shortMessages(c.Outbox) ||
		!shortChain(c.Chain) {
		return "", job.Errorf(job.Invalid, "create", "", "a text is too long")
	}
	if err := m.number(&j); err != nil {
		return "", err
	}
	if j.Parent != "" {
		if err := m.join(&j); err != nil {
			return "", err
		}
	}
	set(m, &m.lastMade, m.lastMade+1)
	assign(m, m.made, j.ID, m.lastMade)
	m.put(j)
	assign(m, m.history, j.ID, []job.Event{c.Event})
	m.post(c.Outbox)
	if c.Event.By&lifecycle.Operator != 0 {
		m.note(job.AuditedCreate(c))
	}
	m.chain(j.ID, c.Chain, j.Created, true)
	return j.ID, nil
}

// short reports whether no text has more bytes than that.
func short(most int, texts ...string) bool {
	return !slices.ContainsFunc(texts, func(t string) bool { return len(t) > most })
}

func shortMessages(all []job.Message) bool {
	return !slices.ContainsFunc(all, func(m job.Message) bool { return !short(800, m.Key, m.Topic, string(m.Job)) })
}

func shortChain(c *job.Chain) bool { return c == nil || short(800, c.Worker) }

// shortChange reports whether a change sets no text that is too long.
func shortChange(c *job.Change) bool {
	texts := slices.Clone(c.Set.Tags)
	for _, t := range []*string{c.Set.Group, c.Set.Cause} {
		if t != nil {
			texts = append(texts, *t)
		}
	}
	for _, t := range c.Tasks {
		texts = append(texts, t.Name)
	}
	return short(800, texts...) && short(255, string(c.To.State)) && shortMessages(c.Outbox) && shortChain(c.Chain)
}

// shortScope reports whether the texts of a scope are not too long, each and together.
func shortScope(s job.Scope) bool {
	all := []string{string(s.Kind), string(s.State), s.Group, s.Owner, s.Tag, string(s.Job)}
	return short(800, all...) && short(2400, strings.Join(all, ""))
}

func areCounts(all ...int) bool {
	return !slices.ContainsFunc(all, func(n int) bool { return n < 0 || n > 1_000_000_000 })
}

// attemptsOf checks the attempts of messages and tasks.
func attemptsOf(messages []job.Message, tasks []job.Task) error {
	for _, one := range messages {
		if !areCounts(one.Attempts) {
			return job.Errorf(job.Invalid, "write", one.Job, "attempts of message %q", one.Key)
		}
	}
	for _, one := range tasks {
		if !areCounts(one.Attempts) {
			return job.Errorf(job.Invalid, "write", "", "attempts of task %q", one.Name)
		}
	}
	return nil
}

// existing finds the job that has the key or the id.
func (m *model) existing(j *job.Job) (job.Job, bool) {
	if j.Key != "" {
		for _, old := range m.jobs {
			if old.Kind == j.Kind && old.Owner == j.Owner && old.Key == j.Key {
				return old, true
			}
		}
	}
	old, ok := m.jobs[j.ID]
	return old, ok
}

// number gives a new job its number.
func (m *model) number(j *job.Job) error {
	last := m.numbers[j.Kind]
	switch {
	case j.Number < 0 || j.Number > job.LastNumber:
		return job.Errorf(job.Invalid, "create", j.ID, "number %d", j.Number)
	case j.Number == 0 && last == job.LastNumber:
		return job.Errorf(job.Refused, "create", j.ID, "no number is left")
	case j.Number == 0:
		j.Number = last + 1
	case j.Number <= last:
		return job.Errorf(job.Conflict, "create", j.ID, "number %d is not higher than %d", j.Number, last)
	}
	assign(m, m.numbers, j.Kind, j.Number)
	return nil
}

// join counts a new child in the record of its parent.
func (m *model) join(j *job.Job) error {
	parent, err := m.get(j.Parent)
	if err != nil {
		return err
	}
	parent.Children.Add(j, 1)
	parent.Version++
	switch {
	case parent.Ended:
		return job.Errorf(job.Refused, "create", j.ID, "its batch has ended")
	case parent.Children.Created() > parent.Children.Expected:
		return job.Errorf(job.Refused, "create", j.ID, "its batch expects no more jobs")
	}
	m.put(parent)
	return nil
}

func (m *model) Commit(ctx context.Context, changes ...job.Change) ([]job.Result, error) {
	return do(m, ctx, func() ([]job.Result, error) {
		results := make([]job.Result, len(changes))
		for i := range changes {
			r, mark := &results[i], len(m.undo)
			if changes[i].Purge {
				r.Job, r.Err = m.purge(&changes[i])
			} else {
				r.Job, r.Err = m.commit(&changes[i])
			}
			if r.Err != nil {
				m.rollBack(mark)
			}
		}
		return results, nil
	})
}

func (m *model) commit(c *job.Change) (job.Job, error) {
	before, err := m.get(c.Job)
	if err != nil {
		return before, err
	}
	after, event, err := job.Apply(before, c)
	if err != nil {
		return before, err
	}
	if !shortChange(c) {
		return before, job.Errorf(job.Invalid, "commit", c.Job, "a text is too long")
	}
	if err := attemptsOf(c.Outbox, c.Tasks); err != nil {
		return before, err
	}
	if err := c.Require.Hold(&before, &after, m.holds, c.At); err != nil {
		return before, err
	}
	if err := m.countInParent(&before, &after, c); err != nil {
		return before, err
	}
	m.put(after)
	if event != nil {
		assign(m, m.history, c.Job, append(slices.Clip(m.history[c.Job]), *event))
	}
	for _, t := range c.Tasks {
		others := slices.DeleteFunc(slices.Clone(m.tasks[c.Job]), func(o job.Task) bool { return o.Name == t.Name })
		assign(m, m.tasks, c.Job, append(others, copiedTask(t)))
	}
	m.post(c.Outbox)
	if c.Person() {
		m.note(job.Audited(c, &before))
	}
	for i := range c.Spawn {
		if c.Spawn[i].Job.Parent != c.Job {
			return before, job.Errorf(job.Invalid, "commit", c.Job, "it spawns a job of %q", c.Spawn[i].Job.Parent)
		}
		if _, err := m.create(&c.Spawn[i]); err != nil {
			return before, err
		}
	}
	m.chain(c.Job, c.Chain, c.At, false)
	return m.get(c.Job)
}

// countInParent checks what the change requires, and counts the job in its parent where it is now.
func (m *model) countInParent(before, after *job.Job, c *job.Change) error {
	p, ok := m.jobs[before.Parent]
	if !ok {
		return c.Require.Holds(before, nil)
	}
	if err := c.Require.Holds(before, &p); err != nil {
		return err
	}
	counts := p.Children
	counts.Add(before, -1)
	counts.Add(after, 1)
	if counts == p.Children {
		return nil
	}
	p.Children = counts
	p.Version++
	p.Changed = c.At
	if counts.Settled() && !p.Ended {
		p.Due = time.Time{}
	}
	m.put(p)
	return nil
}

// purge removes the record of a tombstone. It returns the record.
func (m *model) purge(c *job.Change) (job.Job, error) {
	j, err := m.get(c.Job)
	refuse := func(kind job.ErrorKind, why string) (job.Job, error) {
		return j, job.Errorf(kind, "purge", c.Job, "%s", why)
	}
	switch {
	case err != nil:
		return j, err
	case c.Event != "" || c.Chain != nil || len(c.Spawn)+len(c.Tasks)+len(c.Outbox) > 0 || c.Version == 0:
		return refuse(job.Invalid, "a purge is one alone, at a version")
	case c.Version != j.Version || c.From != "" && c.From != j.State:
		return refuse(job.Conflict, "it is another")
	case !j.Gone:
		return refuse(job.Refused, "it is no tombstone")
	}
	for _, child := range m.jobs {
		if child.Parent == j.ID {
			return refuse(job.Refused, "it has jobs")
		}
	}
	for key, message := range m.messages {
		switch {
		case message.Job != j.ID:
		case message.Settled == job.Pending:
			return refuse(job.Refused, "a message is pending")
		default:
			remove(m, m.messages, key)
		}
	}
	remove(m, m.jobs, j.ID)
	remove(m, m.made, j.ID)
	remove(m, m.history, j.ID)
	remove(m, m.tasks, j.ID)
	if c.Person() {
		m.note(job.Audited(c, &j))
	}
	return j, nil
}
