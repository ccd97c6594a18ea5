package compute

import (
	"context"
	"slices"
	"time"

	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// Several servers of one store each count what they know of an owner, so that uploads that arrive at once at several
// could all find the last space free. There a new job is first a promise: it has the tag promised and is not due. The
// server that made it then reads the owner's jobs. Numbers increase in the order in which jobs become visible, so the
// jobs with lower numbers are all there. Each server decides about a promise by these alone, and comes to the same
// result: the promises that fit are kept in the order of their numbers, and the others are refused.

// promised is the tag of a job whose bytes are not yet known to be within the quota of its owner.
const promised = "quota=promised"

// promiseWithin is the time after which a promise is decided by the step that claims the job: the server that made it
// may have crashed.
const promiseWithin = time.Minute

// promises reports whether new jobs are promises.
func (a *App) promises() bool {
	return a.options.UserBytes > 0 && !a.engine.Store().Properties().Exclusive
}

// promise makes an order that of a promise, where there are any. Jobs of another system are taken over in any case.
func (a *App) promise(o *engine.Order, imported bool) {
	if a.promises() && !imported {
		o.Tags, o.Due = []string{promised}, a.engine.Clock().Now().Add(promiseWithin)
	}
}

func isPromised(j *job.Job) bool { return slices.Contains(j.Tags, promised) }

// besides returns what the owner of a job has besides the job and those with higher numbers, without the promises that
// are not kept.
func (a *App) besides(ctx context.Context, of *job.Job) (bytes int64, err error) {
	for q := (job.Query{Kinds: []job.Kind{JobKind}, Owner: of.Owner, Oldest: true, Limit: 1000}); ; {
		page, err := a.engine.Store().List(ctx, q)
		if err != nil {
			return 0, err
		}
		for i := range page.Jobs {
			switch j := &page.Jobs[i]; {
			case j.Number >= of.Number:
				return bytes, nil
			case j.State == Cleaned, isPromised(j) && (j.Ended || bytes+j.Bytes > a.options.UserBytes):
			default:
				bytes += j.Bytes
			}
		}
		if q.After = page.Next; q.After == "" {
			return bytes, nil
		}
	}
}

// keep decides about the promise of an upload. Refused: it is not kept, and the files of the job are removed. After
// another error it is decided later.
func (u *Upload) keep(ctx context.Context, j *job.Job) error {
	if !isPromised(j) {
		return nil
	}
	a := u.app
	has, err := a.besides(ctx, j)
	if err != nil {
		return job.Errorf(job.Unavailable, "upload", j.ID, "the files of %s cannot be counted: %w", j.Owner, err)
	}
	if has+j.Bytes <= a.options.UserBytes {
		*j, err = a.engine.Admit(ctx, j.ID)
		return err
	}
	refusal := (&loan{usage: a.usage, owner: j.Owner, whole: true}).full(has, j.Bytes)
	if err := a.breakPromise(ctx, j); err != nil {
		a.log.Warn("compute: a job beyond the quota of its owner was not removed; its step refuses it", "job", j.ID,
			"error", err)
	}
	return refusal
}

// breakPromise ends a job and removes its files.
func (a *App) breakPromise(ctx context.Context, j *job.Job) error {
	w := Request{By: lifecycle.Owner, Actor: j.Owner, Note: "refused: several uploads at once exceed the quota"}
	if _, err := a.Cancel(ctx, j.ID, w); err != nil {
		return err
	}
	_, err := a.Clean(ctx, j.ID, w)
	return err
}

// brokenBefore refuses an order that is sent again under its key after its promise was not kept.
func (u *Upload) brokenBefore(j *job.Job) error {
	if !isPromised(j) || !j.Ended {
		return nil
	}
	return job.Errorf(job.Refused, "upload", j.ID,
		"this order was refused, because several uploads at once exceeded the quota of %s: send it again with "+
			"another idempotency key", j.Owner)
}

// promiseKept decides about a promise in the step of a job: the server that made it has not.
func (a *App) promiseKept(ctx context.Context, j *job.Job) (why string, err error) {
	if !isPromised(j) {
		return "", nil
	}
	has, err := a.besides(ctx, j)
	if err == nil && has+j.Bytes > a.options.UserBytes && a.options.UserBytes > 0 {
		why = job.Reason((&loan{usage: a.usage, owner: j.Owner, whole: true}).full(has, j.Bytes))
	}
	return why, err
}
