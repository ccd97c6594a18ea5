package durable

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync/atomic"
	"time"

	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/engine/cause"
	"github.com/stagepost/stagepost/flow"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// storage is the [flow.Storage] of a session: it passes commits to the goroutine of the step. Its fields belong to the
// goroutine that runs the flow.
type storage struct {
	session   *session
	snap      flow.Snapshot
	requests  chan request
	err       error // why a commit failed
	ended     bool  // the claim has ended with a commit
	advancing bool  // the runner is in Advance

	states  map[string]lifecycle.State // of atoms
	counts  map[lifecycle.State]int    // of states
	sizes   map[string]int             // of their data, in bytes
	total   atomic.Int64               // of sizes; tasks examine it
	was     map[string][]string        // earlier names of atoms
	atoms   map[string]bool            // names of the flow's atoms
	outline []byte                     // to be stored with the next commit; nil: it is
}

// always is the size in bytes of values that no total keeps out: what reverts give must find its position.
const always = 256

// request is a commit on its way to the goroutine of the step.
type request struct {
	commit *flow.Commit
	tasks  []job.Task
	counts map[lifecycle.State]int
	reply  chan reply
}

// reply reports what became of a commit.
type reply struct {
	err   error
	ended bool
}

// newStorage decodes what is stored. Errors are of kind Internal if that cannot be read; those of Blobs.
func newStorage(ctx context.Context, s *session, item flow.Item, tasks []job.Task) (*storage, error) {
	j := s.run.Job()
	m := &storage{
		session: s, requests: make(chan request), states: map[string]lifecycle.State{},
		counts: map[lifecycle.State]int{}, sizes: map[string]int{},
		was: map[string][]string{}, atoms: map[string]bool{},
	}
	m.snap = flow.Snapshot{State: j.State, Injected: s.spec.Inject, Live: j.Starts <= 1}
	if s.data.Again != "" && j.State == flow.Running { // a person ran it: the runner takes the step from there itself
		m.snap.State = s.data.Again
	}
	s.suspend.Store(j.State == flow.Suspending)
	outline, err := flow.OutlineOf(item)
	if err != nil {
		return nil, err
	}
	if m.outline, err = json.Marshal(outline); err != nil {
		return nil, err
	}
	m.named(item)
	for i := range tasks {
		t := &tasks[i]
		switch {
		case isAtom(t):
			rec, err := s.flows.recordOf(ctx, s.id, t)
			if err != nil {
				return nil, err
			}
			m.snap.Atoms = append(m.snap.Atoms, rec)
			m.sized(t)
		case t.Kind == kindOutline:
			if string(t.Data) == string(m.outline) {
				m.outline = nil
			}
			if err := json.Unmarshal(t.Data, &m.snap.Outline); err != nil {
				return nil, job.Errorf(job.Internal, "decode", s.id, "the outline: %w", err)
			}
		}
	}
	m.snap.Signals, err = s.flows.signals(ctx, s.id, tasks)
	return m, err
}

// named notes the names of all atoms of an item, and their earlier ones.
func (m *storage) named(item flow.Item) {
	switch item := item.(type) {
	case *flow.Task:
		m.atoms[item.Name], m.was[item.Name] = true, item.Was
	case *flow.Flow:
		if r := item.Retry; r != nil {
			name := r.Name
			if name == "" {
				name = item.Name + "_retry"
			}
			m.atoms[name], m.was[name] = true, r.Was
		}
		for _, inner := range item.Items() {
			m.named(inner)
		}
	}
}

// sized notes how an atom is stored.
func (m *storage) sized(t *job.Task) {
	m.total.Add(int64(len(t.Data) - m.sizes[t.Name]))
	m.sizes[t.Name] = len(t.Data)
	if was, there := m.states[t.Name]; there {
		if m.counts[was]--; m.counts[was] == 0 {
			delete(m.counts, was)
		}
		delete(m.states, t.Name)
	}
	if isAtom(t) {
		m.states[t.Name] = t.State
		m.counts[t.State]++
	}
}

// Load is part of [flow.Storage].
func (m *storage) Load(context.Context) (*flow.Snapshot, error) { return &m.snap, nil }

// Save is part of [flow.Storage].
func (m *storage) Save(ctx context.Context, c *flow.Commit) error {
	m.err = m.save(ctx, c)
	switch s := m.session; {
	case m.err != nil || !m.advancing:
	case s.suspend.Load():
		s.runner.Suspend() // at once, before it begins anything
	case s.stopping.Load():
		s.runner.Stop() // it was reported before it ran, when it had no ear for it
	}
	return m.err
}

func (m *storage) save(ctx context.Context, c *flow.Commit) error {
	q := request{commit: c, tasks: make([]job.Task, 0, len(c.Atoms)+1), reply: make(chan reply, 1)}
	if m.outline != nil && len(c.Atoms) > 0 {
		q.tasks = append(q.tasks, job.Task{Name: outlineName, Kind: kindOutline, State: kept, Data: m.outline})
	}
	for i := range c.Atoms {
		t, err := m.session.flows.taskOf(ctx, m.session.id, &c.Atoms[i])
		if err != nil {
			return err
		}
		m.sized(&t)
		q.tasks = append(q.tasks, t)
		for _, old := range m.was[t.Name] {
			if _, there := m.states[old]; there && !m.atoms[old] {
				gone := job.Task{Name: old, Kind: kindRenamed, State: renamed, Message: "it is " + t.Name + " now"}
				m.sized(&gone)
				q.tasks = append(q.tasks, gone)
			}
		}
	}
	for _, id := range c.Taken {
		q.tasks = append(q.tasks, receipt(id))
	}
	q.counts = maps.Clone(m.counts)
	m.requests <- q
	r := <-q.reply
	if r.err == nil && len(c.Atoms) > 0 {
		m.outline = nil
	}
	m.ended = m.ended || r.ended
	return r.err
}

// Encode is part of [flow.Encoder]: what the tasks of a flow give becomes JSON at once, so that those that follow see
// the same whether there was a crash in between or not.
func (m *storage) Encode(v flow.Value) (flow.Value, error) {
	text, err := encode(v)
	if err != nil {
		return v, err
	}
	f, s := m.session.flows, m.session
	if err := f.check(len(text)); err != nil {
		return v, err
	}
	if len(text) > f.o.Limits.Inline {
		// already here, beside other tasks; the commit does it again if it failed
		_, _ = f.keep(context.Background(), s.id, text)
	} else if has := m.total.Load(); len(text) > always && has+int64(len(text)) > int64(f.o.Limits.Total) {
		return v, &flow.Error{Kind: flow.ErrUnstored,
			Text: fmt.Sprintf("the records of the flow have %d bytes; %d more are over the limit of %d", has, len(text),
				f.o.Limits.Total)}
	}
	return valueOf(text), nil
}

// commit stores a commit of the flow by one commit of the job, in the goroutine of the step.
func (s *session) commit(ctx context.Context, q request) reply {
	if s.over {
		return reply{err: job.Errorf(job.Stale, "save", s.id, "the claim has ended")}
	}
	for i := range q.tasks {
		s.run.PutTask(q.tasks[i])
		if came(q.tasks[i].State) {
			s.run.Advanced()
		}
	}
	for try := 1; ; try++ {
		err := s.last(ctx, q)
		if err == nil {
			err = s.prepare(q)
		}
		if err == nil {
			err = s.write(ctx, q.commit)
		}
		switch kind := job.KindOf(err); {
		case err == nil:
			return s.committed(q)
		case errors.Is(err, errSuperseded):
			return reply{err: s.keepOnly(ctx, q)}
		case kind == job.Conflict && try < 10:
			if err := errors.Join(s.fresh(ctx), s.rows(ctx)); err != nil {
				return reply{err: err}
			}
		case kind == job.Unavailable && try < 4 && isJobError(err) && ctx.Err() == nil:
			pause := time.NewTimer(engine.Backoff{First: 50 * time.Millisecond}.Pause(try, 0.5))
			<-pause.C
		default:
			return reply{err: err}
		}
	}
}

// came reports whether an atom has executed or reverted, with or without success.
func came(s lifecycle.State) bool {
	return s == flow.Success || s == flow.FailureState || s == flow.Reverted || s == flow.RevertFailure
}

// prepare sets what goes with a commit.
func (s *session) prepare(q request) error {
	d, j := s.data, s.run.Job()
	d.Counts = q.counts
	if m := q.commit.Move; m != nil {
		switch {
		case m.To == flow.Running:
			d.Again, d.Suspend = "", nil
		case m.To == flow.Resuming && j.State == flow.Suspending && d.Suspend == nil:
			d.Suspend = &Suspension{} // from here on nothing else states that
		case flow.Life.Ended(m.To):
			d.Again, d.Suspend = "", nil
			if err := q.commit.Err; err != nil {
				s.run.SetCause(s.causeOf(m.To, err))
				s.run.SetMessage(sentence(err))
			}
		}
	}
	if (j.Cause == BlockSignal || j.Cause == BlockTime || j.Cause == BlockFactory) && j.Message != "" &&
		q.commit.Move == nil {
		s.run.SetMessage("") // it waits no more
	}
	text, err := json.Marshal(&d)
	if err != nil || string(text) == string(j.Data) {
		return err
	}
	return s.run.SetData(json.RawMessage(text))
}

// write makes the commit: a transition of the record if the flow takes one that the record has not taken.
func (s *session) write(ctx context.Context, c *flow.Commit) error {
	at := s.run.Job().State
	switch {
	case c.Move == nil || c.Move.To == at:
		return s.run.Save(context.WithoutCancel(ctx))
	case c.Move.To == flow.Suspending:
		return job.Errorf(job.Internal, "save", s.id, "the flow is being suspended without a request")
	case c.Move.To == flow.Suspended && s.end == nil && (at == flow.Suspending || s.data.Suspend != nil):
		return s.run.Rest(ctx, c.Move.Event, job.Blocker{Code: BlockSuspended, Sentence: s.data.Suspend.sentence()})
	}
	if flow.Life.Ended(c.Move.To) {
		s.run.Unchanged()
	}
	return s.run.Move(ctx, c.Move.Event)
}

// last takes in, before a commit that ends the flow or lets it pause, what others stored meanwhile. It gives
// errSuperseded if that is a request to end which the run does not know.
func (s *session) last(ctx context.Context, q request) error {
	m := q.commit.Move
	if m == nil || m.To != flow.Suspended && !flow.Life.Ended(m.To) {
		return nil
	}
	select {
	case <-s.changed:
		if err := errors.Join(s.fresh(ctx), s.rows(ctx)); err != nil {
			return err
		}
	default:
	}
	if known := q.commit.Ending; s.end != nil && m.To != flow.Suspended && (known == nil || *known != s.end.request()) {
		return errSuperseded
	}
	return nil
}

// keepOnly stores what a commit that was to end the flow states of its atoms.
func (s *session) keepOnly(ctx context.Context, q request) error {
	q.commit.Move = nil
	if err := s.prepare(q); err != nil {
		return err
	}
	if err := s.run.Save(context.WithoutCancel(ctx)); err != nil {
		return err
	}
	return errSuperseded
}

// committed notes where the record stands after a commit.
func (s *session) committed(q request) reply {
	j := s.run.Job()
	if d, err := DataOf(&j); err == nil {
		s.data = d
	}
	s.over = j.Ended || !j.Claimed()
	s.suspend.Store(j.State == flow.Suspending)
	all := 0
	for _, n := range q.counts {
		all += n
	}
	if !s.over {
		s.run.Progress(int64(q.counts[flow.Success]+q.counts[flow.Ignore]), int64(all), "atoms")
	}
	return reply{ended: s.over}
}

// longestSentence bounds why a flow ended, in bytes, and mostNamed the atoms that it names: it is in the record, in
// the history and in every list.
const (
	longestSentence = 16 << 10
	mostNamed       = 8
)

// sentence states why a flow ended.
func sentence(err error) string {
	more := ""
	if many := (*flow.Failures)(nil); errors.As(err, &many) && len(many.All) > mostNamed {
		more = fmt.Sprintf("; %d more failed", len(many.All)-mostNamed)
		err = &flow.Failures{Atoms: many.Atoms[:mostNamed], All: many.All[:mostNamed]}
	}
	text := err.Error()
	if len(text) > longestSentence {
		text = strings.ToValidUTF8(text[:longestSentence], "") + " ..."
	}
	return text + more
}

// causeOf gives one word for why a flow ended.
func (s *session) causeOf(to lifecycle.State, err error) string {
	if s.end != nil {
		return s.end.Cause
	}
	if to == flow.Reverted {
		return CauseReverted
	}
	var many *flow.Failures
	var one flow.Typed
	switch {
	case errors.As(err, &many) && len(many.All) > 0:
		return strings.ToLower(many.All[0].Type)
	case errors.As(err, &one):
		return strings.ToLower(one.FailureType())
	}
	return cause.Error
}
