package rules

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// rows are the rows of a store, without an order.
type rows struct {
	jobs     map[job.ID]job.Job
	messages map[string]job.Message
	numbers  map[job.Kind]int64
	counters Counters
	holds    []job.Hold
}

func newRows() *rows {
	return &rows{jobs: map[job.ID]job.Job{}, messages: map[string]job.Message{}, numbers: map[job.Kind]int64{}}
}

// read reads what is needed, and no more.
func (s *rows) read(n *Needs, k *Known) {
	for _, id := range n.Jobs {
		if j, found := s.jobs[id]; found {
			k.Add(&j)
		}
	}
	for _, j := range s.jobs {
		if key, ok := keyOf(&j); ok && slices.Contains(n.Keys, key) {
			k.Add(&j)
		}
	}
	for _, key := range n.Messages {
		if m, found := s.messages[key]; found {
			k.AddMessage(m)
		}
	}
	for _, of := range n.Unsent {
		if key := s.unsent(of); key != "" {
			k.AddUnsent(of, key)
		}
	}
	for _, of := range n.Children {
		k.AddChildren(of, min(s.children(of), n.Most))
	}
	for _, kind := range n.Numbers {
		k.Numbers[kind] = s.numbers[kind]
	}
	if n.Posted {
		k.Posted = s.counters.Posted
	}
	if n.Audited {
		k.Audits, k.Sealed = s.counters.Audits, s.counters.Sealed
	}
	if n.Holds {
		k.Holds = s.holds
	}
}

// all reads everything.
func (s *rows) all() *Known {
	n := &Needs{Jobs: slices.Sorted(maps.Keys(s.jobs)), Messages: slices.Sorted(maps.Keys(s.messages)), Most: 1 << 30,
		Numbers: slices.Sorted(maps.Keys(s.numbers)), Posted: true, Audited: true, Holds: true}
	n.Unsent, n.Children = n.Jobs, n.Jobs
	k := &Known{Numbers: map[job.Kind]int64{}}
	s.read(n, k)
	return k
}

func (s *rows) unsent(of job.ID) (key string) {
	for _, m := range s.messages {
		if m.Job == of && m.Settled == job.Pending && (key == "" || m.Key < key) {
			key = m.Key
		}
	}
	return key
}

func (s *rows) children(of job.ID) (n int) {
	for _, j := range s.jobs {
		if j.Parent == of {
			n++
		}
	}
	return n
}

// write makes the writes.
func (s *rows) write(w *Writes) {
	for _, j := range w.Jobs {
		if j.After != nil {
			s.jobs[j.After.ID] = *j.After
			continue
		}
		delete(s.jobs, j.Before.ID)
		maps.DeleteFunc(s.messages, func(_ string, m job.Message) bool { return m.Job == j.Before.ID })
	}
	for _, m := range w.Messages {
		s.messages[m.Key] = m
	}
	for _, n := range w.Numbers() {
		s.numbers[n.Kind] = n.Number
	}
	s.counters = w.Counters
	s.holds = w.Holds
}

// operation is one operation of a store: what it needs in its rounds, and its rule.
type operation struct {
	text   string
	rounds []func(*Needs, *Known)
	rule   func(*Writes) []error
}

// fuzz makes operations at random, many of which are refused.
type fuzz struct {
	*rand.Rand
	s   *rows
	now time.Time
}

func (f *fuzz) operation() operation {
	f.now = f.now.Add(time.Second)
	switch f.IntN(10) {
	case 0, 1:
		jobs := f.created(1+f.IntN(12), "")
		return operation{fmt.Sprintf("create %d", len(jobs)),
			[]func(*Needs, *Known){func(n *Needs, _ *Known) { n.Create(jobs) }},
			func(w *Writes) []error {
				_, err := Create(w, jobs)
				return []error{err}
			}}
	case 2:
		ids := []job.ID{f.some(), f.some()}
		c := job.Claim{Worker: "w", Now: f.now, Lease: time.Minute}
		return operation{"claim", []func(*Needs, *Known){func(n *Needs, _ *Known) { n.Claim(ids) }},
			func(w *Writes) []error {
				_, err := Claim(w, &c, ids)
				return []error{err}
			}}
	case 3:
		r := job.Renewal{Worker: "w", Now: f.now, Lease: time.Hour}
		for range 3 {
			id := f.some()
			r.Leases = append(r.Leases, job.Lease{Job: id, Epoch: f.s.jobs[id].Epoch})
		}
		return operation{"renew", []func(*Needs, *Known){func(n *Needs, _ *Known) { n.Renew(&r) }},
			func(w *Writes) []error { Renew(w, &r); return nil }}
	case 4:
		return f.messages()
	case 5:
		h := job.Hold{Scope: job.Scope{Group: fmt.Sprint(f.IntN(3))}, Who: "olga", Since: f.now}
		release := f.IntN(2) > 0
		return operation{"hold", []func(*Needs, *Known){func(n *Needs, _ *Known) { n.Hold() }},
			func(w *Writes) []error {
				if release {
					return []error{Release(w, h)}
				}
				return []error{PutHold(w, h)}
			}}
	}
	return f.commit()
}

func (f *fuzz) messages() operation {
	keys := []string{f.key(), f.key()}
	if f.IntN(3) == 0 {
		return operation{"replay", []func(*Needs, *Known){func(n *Needs, _ *Known) { n.Replay(keys) }},
			func(w *Writes) []error {
				_, err := Replay(w, f.now, keys)
				return []error{err}
			}}
	}
	results := []job.Message{{Key: keys[0], Settled: job.Delivered}, {Key: keys[1], Settled: job.Abandoned}}
	return operation{"settle", []func(*Needs, *Known){func(n *Needs, _ *Known) { n.Settle(results) }},
		func(w *Writes) []error { return []error{Settle(w, results)} }}
}

func (f *fuzz) commit() operation {
	changes := make([]job.Change, 1+f.IntN(4))
	for i := range changes {
		changes[i] = f.change()
		if i > 0 && f.IntN(3) == 0 {
			changes[i].Job = changes[i-1].Job // at the version that the change before leaves
			changes[i].Version = changes[i-1].Version + 1
		}
	}
	return operation{fmt.Sprintf("commit %d", len(changes)),
		[]func(*Needs, *Known){func(n *Needs, _ *Known) { n.Commit(changes) },
			func(n *Needs, k *Known) { n.Second(k, changes) }},
		func(w *Writes) (errs []error) {
			for i := range changes {
				_, err := Commit(w, &changes[i])
				errs = append(errs, err)
			}
			return errs
		}}
}

func (f *fuzz) change() job.Change {
	id := f.some()
	c := job.Change{Job: id, Version: f.s.jobs[id].Version, At: f.now, Actor: "olga"}
	switch f.IntN(4) {
	case 0:
		c.Purge = true
		c.By = lifecycle.Operator
		return c
	case 1:
		c.Keep = true
		c.Spawn = f.created(1+f.IntN(3), id)
	default:
		positions := []job.Change{
			{To: lifecycle.Position{State: "Waiting"}},
			{To: lifecycle.Position{State: "Done", Outcome: lifecycle.OK}, Ended: true},
			{To: lifecycle.Position{State: "Failed", Outcome: lifecycle.Failed}, Ended: true},
			{To: lifecycle.Position{State: "Deleted", Outcome: lifecycle.OK}, Ended: true, Gone: true},
		}
		to := positions[f.IntN(len(positions))]
		c.Event, c.To, c.Ended, c.Gone, c.By = "move", to.To, to.Ended, to.Gone, lifecycle.Operator
		if f.IntN(4) == 0 {
			c.Spawn = f.created(1, id)
		}
	}
	c.Set.Expected = new(f.s.jobs[id].Children.Created() + f.IntN(3))
	switch f.IntN(8) {
	case 0:
		c.Require.ParentIn = []lifecycle.State{"Waiting"}
	case 1:
		c.Require.Free = true
	case 2:
		c.Require.Settled = true
	}
	if f.IntN(3) == 0 {
		c.Outbox = []job.Message{{Key: f.key(), Job: id, Due: f.now}}
	}
	return c
}

// created are jobs, some of which exist, some twice; of a parent, or of a random one.
func (f *fuzz) created(n int, parent job.ID) []job.Created {
	list := make([]job.Created, n)
	for i := range list {
		j := job.Job{ID: f.id(), Kind: job.Kind(fmt.Sprint("k", f.IntN(2))),
			Position: lifecycle.Position{State: "Waiting"}, Parent: parent, Group: fmt.Sprint(f.IntN(3)),
			Children: job.Children{Expected: f.IntN(4)}}
		if parent == "" && f.IntN(3) == 0 {
			j.Parent = f.some()
		}
		if f.IntN(3) == 0 {
			j.Key = fmt.Sprint("key", f.IntN(20))
		}
		j, e := job.New(j, lifecycle.Operator, "olga", f.now)
		list[i] = job.Created{Job: j, Event: e}
		if f.IntN(4) == 0 {
			list[i].Outbox = []job.Message{{Key: f.key(), Job: j.ID, Due: f.now}}
		}
	}
	return list
}

// some returns the id of a job, which most often exists.
func (f *fuzz) some() job.ID {
	if ids := slices.Sorted(maps.Keys(f.s.jobs)); len(ids) > 0 && f.IntN(10) > 0 {
		return ids[f.IntN(len(ids))]
	}
	return f.id()
}

func (f *fuzz) id() job.ID  { return job.ID(fmt.Sprint("j", f.IntN(30))) }
func (f *fuzz) key() string { return fmt.Sprint("m", f.IntN(20)) }
