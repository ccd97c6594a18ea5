package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"strings"
	"sync"
	"time"

	"github.com/stagepost/stagepost/engine/internal/lines"
	"github.com/stagepost/stagepost/engine/remote"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// Bounds of a report.
const (
	mostSpawned = 500     // children that it creates
	mostData    = 1 << 20 // bytes of the data of a job after it, and of the spec of a child
)

// mostClaims is how many claims of remote workers are remembered.
const mostClaims = 100_000

// changesRecord reports whether a report changes the record; a report that only logs or shows progress does not.
func changesRecord(r *remote.Report) bool {
	return !r.Keep || r.Data != nil || r.Merge != nil || r.Message != nil || r.Priority != nil || r.Tags != nil ||
		r.Words != nil || r.Bytes != nil || r.Deadline != nil || r.Advanced || r.Cause != "" ||
		len(r.Tasks)+len(r.Messages) > 0 || r.Spawn != nil
}

// expects returns the version that the record must still have, because data is merged into what was read. Zero: any.
func expects(r *remote.Report, j *job.Job) int64 {
	if r.Merge == nil {
		return 0
	}
	return j.Version
}

// apply sets on a run what the report has besides its outcome, and returns the children to create.
func (r *Run) apply(p *remote.Report) ([]job.Created, error) {
	if err := r.inRange(p); err != nil {
		return nil, err
	}
	r.wants.set.Data, r.wants.set.Message, r.wants.set.Bytes = p.Data, p.Message, p.Bytes
	if p.Cause != "" {
		r.SetCause(p.Cause)
	}
	if p.Merge != nil {
		merged, err := mergePatch(r.job.Data, p.Merge)
		if err != nil {
			return nil, job.Errorf(job.Invalid, "report", r.id, "merge: %w", err)
		}
		r.wants.set.Data = merged
	}
	if n := len(r.wants.set.Data); n > mostData {
		return nil, job.Errorf(job.Invalid, "report", r.id, "the data would have %d bytes, more than %d", n, mostData)
	}
	if p.Priority != nil {
		r.SetPriority(*p.Priority)
	}
	if p.Tags != nil {
		r.SetTags(p.Tags...)
	}
	if p.Words != nil {
		r.SetWords(p.Words...)
	}
	if p.Deadline != nil {
		r.SetDeadline(*p.Deadline)
	}
	if p.Advanced {
		r.Advanced()
	}
	for _, t := range p.Tasks {
		r.PutTask(t)
	}
	for _, m := range p.Messages {
		if err := r.post(m); err != nil {
			return nil, err
		}
	}
	if p.Spawn == nil {
		return nil, nil
	}
	return r.children(p.Spawn)
}

// inRange refuses a report with values that a job or a task cannot have.
func (r *Run) inRange(p *remote.Report) error {
	invalid := func(format string, args ...any) error {
		return job.Errorf(job.Invalid, "report", r.id, format, args...)
	}
	switch {
	case p.Data != nil && p.Merge != nil:
		return invalid("a report has data or merge, not both")
	case p.Bytes != nil && *p.Bytes < 0:
		return invalid("bytes must be 0 or more, not %d", *p.Bytes)
	}
	if p.Priority != nil {
		if err := checkPriority("report", *p.Priority); err != nil {
			return err
		}
	}
	if p.Deadline != nil {
		if err := checkTime("report", "deadline", *p.Deadline); err != nil {
			return err
		}
	}
	for i := range p.Tasks {
		t := &p.Tasks[i]
		life := r.engine.Life(t.Kind) // nil: the kind is only a name
		switch {
		case t.Name == "":
			return invalid("a task needs a name")
		case t.Done < 0 || t.Total < 0 || t.Attempts < 0:
			return invalid("task %.100q: done, total and attempts must be 0 or more", t.Name)
		case life != nil && life.Kind(t.State) == "":
			return invalid("task %.100q: %s has no state %.100q", t.Name, t.Kind, t.State)
		}
	}
	return nil
}

// post adds the message of a remote worker to the outbox, if the work allows its topic.
func (r *Run) post(m remote.Message) error {
	if !r.work.sends(m.Topic) {
		return job.Errorf(job.Refused, "report", r.id,
			"workers of %s may not send messages of the topic %.100q (allowed: %s)", r.job.Kind, m.Topic,
			cmp.Or(strings.Join(r.work.Topics, ", "), "none"))
	}
	if m.Key == "" {
		return job.Errorf(job.Invalid, "report", r.id, "a message needs a key")
	}
	prefix := string(r.id) + "/"
	return r.Send(m.Topic, prefix+strings.TrimPrefix(m.Key, prefix), m.Body)
}

// children prepares the jobs that a remote worker spawns. They have the owner of their parent, and are of kinds for
// remote workers.
func (r *Run) children(s *remote.Spawn) ([]job.Created, error) {
	was := r.job.Children.Expected
	switch {
	case s.Expected < was:
		return nil, job.Errorf(job.Refused, "spawn", r.id,
			"%d jobs were expected before, %d are fewer: the same work must give the same jobs", was, s.Expected)
	case len(s.Jobs) > mostSpawned:
		return nil, job.Errorf(job.Invalid, "spawn", r.id, "at most %d jobs in one report", mostSpawned)
	case len(s.Jobs) > 0 && (s.From < 1 || s.From+len(s.Jobs)-1 > s.Expected):
		return nil, job.Errorf(job.Invalid, "spawn", r.id, "jobs %d to %d are not within 1 to %d",
			s.From, s.From+len(s.Jobs)-1, s.Expected)
	}
	if was != s.Expected {
		r.wants.set.Expected = &s.Expected
		r.job.Children.Expected = s.Expected // for WaitChildren
	}
	var all []job.Created
	for i, one := range s.Jobs {
		if w := r.engine.workOf(one.Kind); w != nil && !w.Outside {
			return nil, job.Errorf(job.Refused, "spawn", r.id, "%s is not for workers outside the server", one.Kind)
		}
		if one.Owner != "" && one.Owner != r.job.Owner {
			return nil, job.Errorf(job.Refused, "spawn", r.id, "the job would belong to %s, its parent belongs to %s",
				one.Owner, r.job.Owner)
		}
		order := Order{
			Kind: one.Kind, Priority: one.Priority, Group: one.Group, Owner: r.job.Owner, Key: one.Key, Parent: r.id,
			Tags: one.Tags, Words: one.Words, Requires: one.Requires, Bytes: one.Bytes, Due: one.Due,
			Deadline: one.Deadline, Spec: one.Spec, Actor: one.Actor, Note: one.Note,
		}
		all = append(all, job.Created{})
		if err := r.engine.prepare(&all[i], &order, s.From+i, r.job.Created); err != nil {
			return nil, err
		}
		if n := len(all[i].Job.Spec); n > mostData {
			return nil, job.Errorf(job.Invalid, "spawn", r.id, "the spec of job %d has %d bytes, more than %d",
				s.From+i, n, mostData)
		}
	}
	return all, nil
}

// mergePatch applies a merge patch to a JSON text (RFC 7396).
func mergePatch(text, patch json.RawMessage) (json.RawMessage, error) {
	var to, by any
	if len(text) > 0 {
		if err := json.Unmarshal(text, &to); err != nil {
			return nil, err
		}
	}
	if err := json.Unmarshal(patch, &by); err != nil {
		return nil, err
	}
	return json.Marshal(patched(to, by))
}

func patched(to, by any) any {
	members, ok := by.(map[string]any)
	if !ok {
		return by
	}
	object, ok := to.(map[string]any)
	if !ok {
		object = map[string]any{}
	}
	for name, value := range members {
		if value == nil {
			delete(object, name)
		} else {
			object[name] = patched(object[name], value)
		}
	}
	return object
}

// repeated decides whether a report under a claim that is over repeats the report that ended the claim. Then it
// succeeds, with the current record, and with the claim by Again if that one stands. The answer to an earlier
// repetition may have been lost, too.
func (e *Engine) repeated(ctx context.Context, worker string, r *remote.Report, stale job.Result) job.Result {
	j, err := e.store.Get(ctx, r.Job)
	w := e.workOf(j.Kind)
	if err != nil || w == nil || r.Keep || j.Epoch < r.Epoch {
		return stale
	}
	const page = 100
	for after := max(j.Seq-page, 0); ; after = max(after-page, 0) {
		history, err := e.store.History(ctx, r.Job, after, page)
		if err != nil {
			return stale
		}
		for i := range history {
			if h := &history[i]; h.Epoch == r.Epoch && h.Actor == worker &&
				h.By&(lifecycle.Worker|lifecycle.Engine) != 0 && mayCause(r, w.Life, h) {
				if !e.grantedBy(r, h, &j) {
					j.Worker = "" // a later claim does not belong to this report
				}
				return job.Result{Job: j}
			}
		}
		if after == 0 || len(history) > 0 && history[0].Epoch < r.Epoch {
			return stale
		}
	}
}

// grantedBy reports whether the claim of a job is the one of a report that made an entry of the history. Such a claim
// ends a lease after the entry; one that was granted later, or renewed by a worker that knew of it, ends later.
func (e *Engine) grantedBy(r *remote.Report, h *job.Event, j *job.Job) bool {
	end := h.At.Add(cmp.Or(r.Lease, e.options.Lease))
	return r.Again && j.Worker == h.Actor && j.Epoch == r.Epoch+1 && j.Until.Sub(end).Abs() < time.Microsecond
}

// mayCause reports whether a report can have made an entry of the history.
func mayCause(r *remote.Report, life *lifecycle.Table, h *job.Event) bool {
	transition, _ := life.Transition(h.From, h.Event)
	switch {
	case r.Children && h.Event == lifecycle.Waiting:
		return true
	case r.Event != "":
		return h.Event == r.Event
	case r.Wait != nil:
		return h.Event == lifecycle.Waiting
	case r.Yield:
		return h.Event == lifecycle.Yield
	case r.Retry != "" || r.Fail != "":
		return h.Event == lifecycle.Backoff || transition.Class == lifecycle.Fail
	}
	return transition.Class == lifecycle.Pass
}

// lineNumbers has the number of the last log line of each claim. A missing number is read from the log.
type lineNumbers struct {
	mu   sync.Mutex
	last map[job.Lease]int64
}

// note writes the log lines of an accepted report and sets its progress.
func (e *Engine) note(j *job.Job, r *remote.Report) {
	switch {
	case !r.Keep:
		e.progress.drop(r.Job)
	case r.Progress != nil:
		p := *r.Progress
		p.State, p.At = j.State, e.clock.Now()
		e.progress.set(r.Job, p)
	}
	if logs := e.options.JobLogs; logs != nil && len(r.Log) > 0 {
		e.lines.write(logs, j, r)
	}
	if !r.Keep {
		lease := job.Lease{Job: r.Job, Epoch: r.Epoch}
		e.lines.drop(lease)
		e.claims.drop(lease)
	}
}

func (n *lineNumbers) write(logs JobLogs, j *job.Job, r *remote.Report) {
	lease := job.Lease{Job: r.Job, Epoch: r.Epoch}
	n.mu.Lock()
	defer n.mu.Unlock()
	last, known := n.last[lease]
	if numbered, ok := logs.(lines.Numbered); ok && !known {
		last = numbered.LastLine(r.Job, r.Epoch)
	}
	out := logs.Logger(r.Job, r.Epoch, j.State)
	for i := range r.Log {
		line := &r.Log[i]
		if line.Number != 0 && line.Number <= last {
			continue
		}
		last = max(last, line.Number)
		out.Log(context.Background(), line.Level, line.Text, attrs(line)...)
	}
	if n.last == nil || len(n.last) >= mostClaims {
		n.last = map[job.Lease]int64{}
	}
	n.last[lease] = last
}

func (n *lineNumbers) drop(l job.Lease) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.last, l)
}

// claimTimes has the beginnings of the claims of remote workers, for the entries that end them. That of a claim which
// another server granted, or this one before its last start, is not known.
type claimTimes struct {
	mu sync.Mutex
	at map[job.Lease]time.Time
}

// begin notes claims that were granted.
func (c *claimTimes) begin(at time.Time, jobs ...job.Job) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range jobs {
		if c.at == nil || len(c.at) >= mostClaims {
			c.at = map[job.Lease]time.Time{}
		}
		c.at[job.Lease{Job: jobs[i].ID, Epoch: jobs[i].Epoch}] = at
	}
}

// began returns when the claim of a report began; zero: it is not known.
func (c *claimTimes) began(r *remote.Report) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at[job.Lease{Job: r.Job, Epoch: r.Epoch}]
}

func (c *claimTimes) drop(l job.Lease) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.at, l)
}

// Report does in a step what a report of a remote worker does, and returns the error that the step must return. Spawned
// children are committed at once. Job, Epoch, Keep and Again of the report are not read.
func (r *Run) Report(ctx context.Context, p *remote.Report) error {
	if err := r.backend.adopt(ctx, r, p); err != nil {
		return err
	}
	for i := range p.Log {
		r.Log().Log(ctx, p.Log[i].Level, p.Log[i].Text, attrs(&p.Log[i])...)
	}
	if p.Children {
		if err := r.WaitChildren(); err != nil {
			return err
		}
	}
	if o := outcomeOf(p); o.verdict != passed {
		return o
	}
	return nil
}

// adopt sets what the report states besides its outcome, and creates its children.
func (r *Run) adopt(ctx context.Context, p *remote.Report) error {
	spawn, err := r.apply(p)
	if err != nil || p.Spawn == nil {
		return err
	}
	t := r.update()
	t.Spawn = spawn
	return r.commit(ctx, t)
}

// attrs returns the attributes of a line for its logger.
func attrs(l *remote.Line) []any {
	var all []any
	if l.Number != 0 {
		all = append(all, lines.Number, l.Number)
	}
	for name, value := range l.Attrs {
		all = append(all, name, value)
	}
	return all
}
