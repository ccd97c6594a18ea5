package merritt

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/zookeeper"
	"github.com/stagepost/stagepost/store/zookeeper/internal/layout"
	"github.com/stagepost/stagepost/store/zookeeper/internal/queue"
	"github.com/stagepost/stagepost/store/zookeeper/internal/session"
)

// showing is one call of Show.
type showing struct {
	l     *Link
	q     *queue.Queue
	s     *session.Session
	plan  *queue.Plan
	again bool
	fresh map[job.ID]string // nodes of batches that this change creates
}

// Show is part of zookeeper.Mirror.
func (l *Link) Show(ctx context.Context, c *zookeeper.Changes, again bool) ([]session.Op, error) {
	s, q := l.now()
	w := &showing{l: l, q: q, s: s, plan: q.Plan(), again: again, fresh: map[job.ID]string{}}
	for _, one := range c.Records {
		if err := w.record(ctx, one); err != nil {
			return nil, err
		}
	}
	if err := w.holds(ctx, c); err != nil {
		return nil, err
	}
	return w.plan.Ops(), nil
}

func kindOf(c *zookeeper.Changed) job.Kind {
	if c.Job != nil {
		return c.Job.Kind
	}
	return c.Before.Kind
}

// record shows the change of one record.
func (w *showing) record(ctx context.Context, c *zookeeper.Changed) error {
	switch kind := kindOf(c); {
	case c.Before == nil:
		return w.created(ctx, c)
	case c.Node == "":
		return nil
	case c.Job == nil:
		return w.removed(ctx, c)
	case w.adopted(c) || !visible(c):
		return nil
	case kind == w.l.m.Batch:
		return w.batch(ctx, c)
	case kind == w.l.m.Job:
		return w.job(ctx, c)
	case kind == w.l.m.Access:
		return w.request(ctx, c)
	}
	return nil
}

// adopted reports whether a change follows what a program of Merritt did: the nodes have it. The work on a job that
// such a program has begun is continued by Merritt's programs, until the job returns to Pending, a phase succeeds here,
// or a person returns the job from its end to a phase before Storing: such a phase begins again with the payload.
func (w *showing) adopted(c *zookeeper.Changed) bool {
	at := state(c.Job.State)
	succeeded := c.Actor != Actor && c.Job.LastOK != c.Before.LastOK
	returned := c.Actor != Actor && c.Before.Ended && beforeStoring(at)
	if c.Event != "" && (succeeded || returned || at == layout.Pending) {
		c.Elsewhere = false
	}
	if c.Actor != Actor || c.Event == "" {
		return false
	}
	if c.By&lifecycle.Worker != 0 && kindOf(c) == w.l.m.Job && c.Job.State != c.Before.State && !c.Job.Ended {
		c.Elsewhere = true
	}
	return true
}

// beforeStoring reports whether a job in a state has nothing in storage, and works with its payload.
func beforeStoring(s layout.Status) bool {
	switch s {
	case layout.Estimating, layout.Provisioning, layout.Downloading, layout.Processing:
		return true
	}
	return false
}

// visible reports whether nodes show the difference.
func visible(c *zookeeper.Changed) bool {
	a, b := c.Before, c.Job
	return a.State != b.State || a.Claimed() != b.Claimed() || a.Claimed() && a.Epoch != b.Epoch ||
		a.Priority != b.Priority || a.Children.Expected != b.Children.Expected
}

// created creates the nodes of a new record, unless it is made of nodes.
func (w *showing) created(ctx context.Context, c *zookeeper.Changed) (err error) {
	if node, made := strings.CutPrefix(c.Job.Key, keyPrefix); made && w.l.adopts(node) {
		c.Node = node
		return nil
	}
	switch c.Job.Kind {
	case w.l.m.Batch:
		err = w.newBatch(ctx, c)
	case w.l.m.Job:
		err = w.newJob(ctx, c)
	case w.l.m.Access:
		err = w.newRequest(ctx, c)
	}
	return err
}

// removed removes the nodes of a purged record. Nodes that other programs have removed, or use for something else by
// now, are no obstacle.
func (w *showing) removed(ctx context.Context, c *zookeeper.Changed) error {
	locked := func(is bool) error {
		if is {
			return job.Errorf(job.Conflict, "purge", c.Before.ID, "a program of Merritt has locked %s", c.Node)
		}
		return nil
	}
	switch c.Before.Kind {
	case w.l.m.Job:
		j, err := w.q.Job(ctx, layout.JobID(c.Node))
		if err != nil {
			return usable(err)
		}
		return errors.Join(locked(j.Locked), w.plan.RemoveJob(ctx, j))
	case w.l.m.Batch:
		b, err := w.q.Batch(ctx, layout.BatchID(c.Node))
		if err != nil {
			return usable(err)
		}
		return errors.Join(locked(b.Locked), w.plan.RemoveBatch(ctx, b))
	}
	in, id := requestOf(c.Node)
	r, err := w.q.Request(ctx, in, id)
	if err != nil {
		return usable(err)
	}
	return errors.Join(locked(r.Locked), w.plan.RemoveRequest(ctx, r))
}

// usable drops the error of nodes that do not exist or cannot be read: the record has no nodes then.
func usable(err error) error {
	if errors.Is(err, queue.ErrNotFound) || errors.Is(err, queue.ErrMalformed) {
		return nil
	}
	return err
}

// outdated is the refusal of a change of a record that a program of Merritt has changed.
func outdated(c *zookeeper.Changed, format string, args ...any) error {
	kind := job.Conflict
	if c.Before.Claimed() {
		kind = job.Stale
	}
	return job.Errorf(kind, "commit", c.Before.ID, "%s: %s", c.Node, fmt.Sprintf(format, args...))
}

// hold returns what a change does with the lock of its record. holder is the session that has the lock, 0 for none.
func (w *showing) hold(c *zookeeper.Changed, holder int64) (queue.Hold, error) {
	own, free := holder == w.s.ID(), holder == 0
	was, is := c.Before.Claimed(), c.Job.Claimed()
	switch {
	case is && own:
		return queue.Kept, nil
	case is && free && !was:
		return queue.Taken, nil
	case is && !was:
		return 0, outdated(c, "a worker of Merritt has locked it")
	case is: // a transition under a claim whose lock is gone
		return 0, outdated(c, "the lock of this worker is gone")
	case own:
		return queue.Given, nil
	case w.stops(c):
		return queue.Broken, nil
	case free && (!was || c.By&lifecycle.Worker == 0):
		return queue.Free, nil
	case free:
		return 0, outdated(c, "the lock of this worker is gone")
	}
	return 0, outdated(c, "a worker of Merritt has locked it")
}

// stops reports whether an operator ends a phase of work of a job, whichever program works on it.
func (w *showing) stops(c *zookeeper.Changed) bool {
	return c.By&lifecycle.Operator != 0 && c.Job.State == lifecycle.State(layout.Failed) &&
		kindOf(c) == w.l.m.Job
}

// state returns the state of nodes for that of a record.
func state(s lifecycle.State) layout.Status { return layout.Status(s) }

// message returns the text of a status for a change, as the original programs write it.
func message(c *zookeeper.Changed) string {
	switch {
	case c.Job.State == lifecycle.State(layout.Failed):
		return cmp.Or(c.Job.Message, c.Note)
	case c.Job.LastOK != c.Before.LastOK:
		return layout.MessageSuccess
	}
	return ""
}
