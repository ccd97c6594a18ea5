package explain

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// Bounds of what is read for the position in a queue at a past moment.
const (
	mostQueued    = 2000 // records, the newest of the kind
	mostHistories = 300  // histories of jobs that have moved since
)

// queueThen returns how many jobs of its kind were before job j in the queue state s at a past moment; nil: s is no
// queue. No store has the queues of the past: the number follows from the records and the histories, by the order of
// [job.Claim] within an owner.
func (e *Explainer) queueThen(
	ctx context.Context, w *engine.Work, j *job.Job, s lifecycle.State, since []job.Event, at time.Time,
) (*api.QueuePosition, error) {
	if stage, _ := w.Life.Stage(s); stage.Kind != lifecycle.Queue {
		return nil, nil
	}
	if slices.ContainsFunc(since, func(one job.Event) bool { return one.Event == lifecycle.Reprioritize }) {
		return unknownPosition("its priority was changed later, and the history does not have the one before"), nil
	}
	c := &positioning{store: e.store, job: j, state: s, at: at}
	if err := c.count(ctx); err != nil {
		return nil, err
	}
	return c.position(), nil
}

// unknownPosition is a position that the data does not have.
func unknownPosition(why string) *api.QueuePosition {
	return &api.QueuePosition{Unknown: why, Sentence: "how many jobs were before it in the queue is not known: " + why}
}

// positioning counts the jobs before a job in a queue at a past moment.
type positioning struct {
	store job.Store
	job   *job.Job
	state lifecycle.State
	at    time.Time

	ahead     int64
	seen      int64 // jobs of the kind that were created by then
	highest   int64 // number of these
	histories int
	partial   bool // not everything was read
}

// count reads the records of the kind, the newest first.
func (c *positioning) count(ctx context.Context) error {
	q := job.Query{Kinds: []job.Kind{c.job.Kind}, Limit: 1000}
	for read := 0; ; {
		page, err := c.store.List(ctx, q)
		if err != nil {
			return err
		}
		for i := range page.Jobs {
			if err := c.examine(ctx, &page.Jobs[i]); err != nil {
				return err
			}
		}
		if q.After = page.Next; q.After == "" {
			return nil
		}
		if read += len(page.Jobs); read >= mostQueued {
			c.partial = true
			return nil
		}
	}
}

// examine counts a job if it was before the other.
func (c *positioning) examine(ctx context.Context, k *job.Job) error {
	if micro(k.Created).After(c.at) {
		return nil
	}
	c.seen, c.highest = c.seen+1, max(c.highest, k.Number)
	if k.Priority > c.job.Priority || k.Priority == c.job.Priority && k.Number >= c.job.Number {
		return nil
	}
	switch {
	case k.State == c.state && !micro(k.Entered).After(c.at): // it is there since
		c.ahead++
		return nil
	case k.Changed.Before(c.at): // it had left
		return nil
	case c.histories == mostHistories:
		c.partial = true
		return nil
	}
	c.histories++
	history, err := c.store.History(ctx, k.ID, 0, 0)
	if err != nil {
		return err
	}
	for _, one := range slices.Backward(history) {
		if !one.At.After(c.at) {
			if one.To == c.state {
				c.ahead++
			}
			break
		}
	}
	return nil
}

// micro is a time as histories have it.
func micro(t time.Time) time.Time { return t.Truncate(time.Microsecond) }

// position states the result, and what it rests on.
func (c *positioning) position() *api.QueuePosition {
	if c.seen == 0 {
		return unknownPosition(fmt.Sprintf("%d or more jobs of its kind were created since", mostQueued))
	}
	p := &api.QueuePosition{Ahead: c.ahead, More: c.partial || c.seen < c.highest}
	switch {
	case p.More:
		p.Sentence = fmt.Sprintf("at least %s before it in the queue; others were removed since, or are not among the "+
			"newest %d", jobsWere(p.Ahead), mostQueued)
	case p.Ahead == 0:
		p.Sentence = "it was the first in the queue"
	default:
		p.Sentence = jobsWere(p.Ahead) + " before it in the queue"
	}
	p.Sentence += ": an estimate by numbers and by the priorities of today, because owners take turns and holds and " +
		"limits let others pass"
	return p
}

func jobsWere(n int64) string { return counted(int(n), "job was", "jobs were") }

// counted writes a number with its noun.
func counted(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
