package merritt

import (
	"context"
	"errors"
	"strings"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/store/zookeeper"
	"github.com/stagepost/stagepost/store/zookeeper/internal/layout"
	"github.com/stagepost/stagepost/store/zookeeper/internal/queue"
)

// requestNode names the nodes of an access request: "small/qid0000000000".
func requestNode(in layout.Queue, id layout.AccessID) string { return string(in) + "/" + string(id) }

func requestOf(node string) (layout.Queue, layout.AccessID) {
	in, id, _ := strings.Cut(node, "/")
	return layout.Queue(in), layout.AccessID(id)
}

// newRequest creates the nodes of an access request.
func (w *showing) newRequest(ctx context.Context, c *zookeeper.Changed) error {
	in := layout.Small
	if w.l.m.Large(c.Job) {
		in = layout.Large
	}
	id, err := w.plan.NewRequest(ctx, in, w.token(c.Job, layout.Token{}), c.Job.Claimed())
	c.Node = requestNode(in, id)
	return err
}

func (w *showing) token(j *job.Job, t layout.Token) layout.Token {
	now := w.l.m.Token(j)
	t.Status, t.Token, t.Bytes, t.Message, t.URL = now.Status, now.Token, now.Bytes, now.Message, now.URL
	return t
}

// request shows the change of an access request.
func (w *showing) request(ctx context.Context, c *zookeeper.Changed) error {
	in, id := requestOf(c.Node)
	r, err := w.q.Request(ctx, in, id)
	was, is := state(c.Before.State), state(c.Job.State)
	switch {
	case errors.Is(err, queue.ErrNotFound) && c.Before.Ended:
		return nil
	case errors.Is(err, queue.ErrNotFound), errors.Is(err, queue.ErrMalformed):
		return outdated(c, "%v", err)
	case err != nil:
		return err
	case r.Status.Status != was:
		return outdated(c, "it is %s in Merritt, not %s", r.Status.Status, was)
	}
	hold, err := w.hold(c, r.Holder)
	if err != nil {
		return err
	}
	if hold == queue.Taken {
		w.plan.Absent(in.Paused())
	}
	next := r.Status
	if was == is {
		w.plan.Request(r, next, nil, hold)
		return nil
	}
	next.Status, next.Message = is, message(c)
	if is == layout.Deleted {
		w.plan.Request(r, next, nil, hold)
		return nil
	}
	token := w.token(c.Job, r.Token)
	w.plan.Request(r, next, &token, hold)
	return nil
}
