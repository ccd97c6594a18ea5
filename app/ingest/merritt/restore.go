package merritt

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/stagepost/stagepost/app/ingest/record"
	"github.com/stagepost/stagepost/engine/operator"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/zookeeper/merritt"
)

// reenters reports whether a state is one of those to which a retry may return a failed job. Merritt's table has a
// transition from Failed to each of them, and the lifecycle only the one to the phase in which the job failed.
func reenters(life *lifecycle.Table, j *job.Job, to lifecycle.State) bool {
	retry, ok := life.Transition(j.State, record.Retry)
	return ok && slices.Contains(retry.States, to)
}

// retry retries a job that a program of Merritt has moved from Failed to a phase before the one in which it failed. The
// phases between have succeeded: record and nodes are in the phase of the failure afterwards.
func (p *pass) retry(ctx context.Context, s *merritt.Seen, j *job.Job) error {
	if s.Locked {
		p.find(s.Node, "it became %s in Merritt after it had failed in %s: it is retried when the worker that has it "+
			"ends", s.State, j.Origin)
		return nil
	}
	note := fmt.Sprintf("%s %s became %s", noted, j.State, s.State)
	if s.Message != "" {
		note += ": " + s.Message
	}
	err := p.walk(ctx, s, j, []step{{record.Retry, lifecycle.Operator}}, note)
	if err != nil || j.State == record.Failed || j.State == s.State {
		return err
	}
	done, err := p.give(ctx, s, j)
	p.again = p.again || !done
	return err
}

// temporary reports whether the refusal of an event ends by itself: a batch waits for its jobs, and a job waits for the
// report of its batch, which this server writes.
func (p *pass) temporary(ctx context.Context, j *job.Job) (bool, error) {
	if j.Kind == record.BatchKind {
		return j.Children.Open > 0, nil
	}
	if j.Parent == "" {
		return false, nil
	}
	b, err := p.store.Get(ctx, j.Parent)
	if job.KindOf(err) == job.NotFound {
		return false, nil
	}
	reports := b.State == record.Reporting || b.State == record.UpdateReporting
	return reports && p.o.workable(&b) == "", err
}

// restore gives the nodes the state of the record, after a change by a program of Merritt that the record cannot
// follow, with the reason.
func (p *pass) restore(ctx context.Context, s *merritt.Seen, j *job.Job, why string) error {
	if s.Locked {
		p.find(s.Node, "it became %s in Merritt, %s; a worker has it", s.State, why)
		return nil
	}
	done, err := p.give(ctx, s, j)
	if err != nil || !done {
		return err
	}
	p.o.Log.Warn("a change in Merritt that the record cannot follow was undone", "node", s.Node, "job", j.ID,
		"from", j.State, "to", s.State, "cause", why)
	return p.engine.Operator().Audit(ctx, operator.Entry{Actor: merritt.Actor, Event: "restore", Object: string(j.ID),
		Note: fmt.Sprintf("%s became %s in Merritt, %s: it is %s again", s.Node, s.State, why, j.State)})
}

// give gives the nodes the state of the record, and the message that they had in it. It reports false if they have
// been locked or written since they were read.
func (p *pass) give(ctx context.Context, s *merritt.Seen, j *job.Job) (bool, error) {
	message, err := p.message(ctx, j)
	if err != nil {
		return false, err
	}
	return p.link.Restore(ctx, j, s, message)
}

// message returns the message of the status of nodes whose record is in its state: why it failed, or that the phase
// before succeeded.
func (p *pass) message(ctx context.Context, j *job.Job) (string, error) {
	history, err := p.store.History(ctx, j.ID, 0, 0)
	if err != nil {
		return "", err
	}
	for _, e := range slices.Backward(history) {
		if e.To != j.State || e.From == e.To {
			continue // it stayed in the state
		}
		if j.State == record.Failed {
			return cmp.Or(j.Message, strings.TrimSpace(strings.TrimPrefix(e.Note, noted))), nil
		}
		if taken, _ := p.engine.Life(j.Kind).Transition(e.From, e.Event); taken.Class == lifecycle.Pass {
			return merritt.Success, nil
		}
		return "", nil
	}
	return "", nil
}
