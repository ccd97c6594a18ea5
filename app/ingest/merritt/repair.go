package merritt

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/stagepost/stagepost/app/ingest/access"
	"github.com/stagepost/stagepost/app/ingest/record"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/store/zookeeper/merritt"
)

// repairs is the number of intervals of readings between two repairs, which read more than a reading.
const repairs = 20

// repair repairs nodes until ctx ends. Records that share the nodes of another one end first: none is made any more.
func (f *Follower) repair(ctx context.Context) {
	if err := f.endDoubles(ctx); err != nil && ctx.Err() == nil {
		f.o.Log.Warn("records that share the nodes of others", "error", err)
	}
	tick := time.NewTicker(repairs * f.o.Every)
	defer tick.Stop()
	for {
		f.mend(ctx)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// mend repairs what programs of Merritt left when they ended between two of their writes.
func (f *Follower) mend(ctx context.Context) {
	done, err := f.link.Mend(ctx, f.o.Settle)
	for _, one := range done {
		f.o.Log.Warn("half-written nodes of Merritt were repaired", "node", one.Node, "done", one.Text)
	}
	if err != nil && ctx.Err() == nil {
		f.o.Log.Warn("repair of Merritt's nodes", "error", err)
	}
}

// endDoubles ends records that were made of nodes which are those of another record: nothing would move them. Jobs end
// before their batches.
func (f *Follower) endDoubles(ctx context.Context) error {
	known, err := f.store.Nodes(ctx)
	if err != nil {
		return err
	}
	open := false
	for _, kind := range []job.Kind{record.JobKind, record.BatchKind, access.Kind} {
		q := job.Query{Kinds: []job.Kind{kind}, Ended: &open, Oldest: true, Limit: 1000}
		for {
			page, err := f.store.List(ctx, q)
			if err != nil {
				return err
			}
			for i := range page.Jobs {
				j := &page.Jobs[i]
				node, made := strings.CutPrefix(j.Key, merritt.KeyOf(""))
				shown, found := known[node]
				if !made || !found || shown.Job.ID == j.ID {
					continue
				}
				if err := f.endDouble(ctx, j, node, shown.Job.ID); err != nil {
					return err
				}
			}
			if q.After = page.Next; q.After == "" {
				break
			}
		}
	}
	return nil
}

func (f *Follower) endDouble(ctx context.Context, j *job.Job, node string, other job.ID) error {
	note := fmt.Sprintf("its nodes %s are those of %s", node, other)
	f.o.Log.Warn("a record ends", "job", j.ID, "cause", note)
	return f.commit(ctx, j, path(f.engine.Life(j.Kind), j.Position, record.Deleted), note)
}
