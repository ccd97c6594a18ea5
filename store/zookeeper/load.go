package zookeeper

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/store/internal/sizes"
	"github.com/stagepost/stagepost/store/zookeeper/internal/session"
)

// atOnce bounds the requests that a load has open.
const atOnce = 64

// loader reads all nodes of a store.
type loader struct {
	root
	s *session.Session
	r *replica
}

// load reads the whole store.
func load(ctx context.Context, s *session.Session, at root) (*replica, error) {
	l := &loader{at, s, newReplica()}
	for _, f := range []func(context.Context) error{l.single, l.loadNumbers, l.loadHolds, l.loadAudit, l.loadJobs,
		l.loadMessages} {
		if err := f(ctx); err != nil {
			return nil, err
		}
	}
	return l.r, nil
}

// damaged returns the error of a node that cannot be read.
func damaged(path string, err error) error {
	return job.Errorf(job.Internal, "open", "", "%s is damaged: %w", path, err)
}

// children calls f with the path and data of each child of a node, in order of their names.
func (l *loader) children(ctx context.Context, path string, f func(name string, data []byte) error) error {
	names, _, err := l.s.Children(ctx, path)
	if err != nil {
		return err
	}
	slices.Sort(names)
	data := make([][]byte, len(names))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(atOnce)
	for i, name := range names {
		g.Go(func() error {
			n, err := l.s.Get(ctx, path+"/"+name)
			data[i] = n.Data
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	for i, name := range names {
		if err := f(name, data[i]); err != nil {
			return damaged(path+"/"+name, err)
		}
	}
	return nil
}

func (l *loader) single(ctx context.Context) error {
	n, err := l.s.Get(ctx, l.counters())
	if err != nil {
		return err
	}
	if err := json.Unmarshal(n.Data, &l.r.counters); err != nil {
		return damaged(l.counters(), err)
	}
	l.r.ledger.LoadPosted(l.r.counters.Posted)
	n, err = l.s.Get(ctx, l.clock())
	if session.KindOf(err) == session.NoNode {
		return nil
	}
	if err != nil {
		return err
	}
	if err := json.Unmarshal(n.Data, &l.r.clock); err != nil {
		return damaged(l.clock(), err)
	}
	l.r.clocked = true
	return nil
}

func (l *loader) loadNumbers(ctx context.Context) error {
	return l.children(ctx, l.numbers(), func(name string, data []byte) error {
		kind, err := unescape(name)
		if err != nil {
			return err
		}
		n, err := strconv.ParseInt(string(data), 10, 64)
		l.r.kinds[job.Kind(kind)] = true
		l.r.ledger.LoadNumber(job.Kind(kind), n)
		return err
	})
}

func (l *loader) loadHolds(ctx context.Context) error {
	return l.children(ctx, l.holds(), func(_ string, data []byte) error {
		var h job.Hold
		err := json.Unmarshal(data, &h)
		l.r.ledger.LoadHold(h)
		return err
	})
}

func (l *loader) loadAudit(ctx context.Context) error {
	err := l.children(ctx, l.audit(), func(_ string, data []byte) error {
		a, err := decodeAudit(data)
		l.r.enter(a)
		return err
	})
	if n := len(l.r.audit); n > 0 {
		l.r.ledger.LoadAudit(l.r.audit[n-1].Seq, l.r.audit[n-1].Hash)
	}
	return err
}

func (l *loader) loadJobs(ctx context.Context) error {
	var ids []string
	err := l.children(ctx, l.jobs(), func(name string, data []byte) error {
		one, err := decodeJob(data)
		if err != nil {
			return err
		}
		l.r.insert(one)
		ids = append(ids, name)
		return nil
	})
	if err != nil {
		return err
	}
	slices.SortFunc(l.r.rows, func(a, b *record) int { return cmp.Compare(a.row, b.row) })
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(atOnce)
	for _, one := range l.r.rows {
		g.Go(func() error { return l.parts(ctx, one) })
	}
	if err := g.Wait(); err != nil {
		return err
	}
	for _, one := range l.r.rows {
		l.loadJob(&one.job)
	}
	l.r.ledger.Loaded()
	return nil
}

// loadJob adds a job to the queue, or counts it. Rows are in order of creation, so that batches are before their jobs.
func (l *loader) loadJob(j *job.Job) {
	if !j.Ended {
		l.r.ledger.Load(j)
		return
	}
	var bytes sizes.Sum
	bytes.Add(j.Bytes)
	l.r.ledger.LoadEnded(job.KindState{Kind: j.Kind, State: j.State}, j.Group, 1, bytes)
}

// parts reads the history and the tasks of a job.
func (l *loader) parts(ctx context.Context, one *record) error {
	return l.children(ctx, l.job(one.job.ID), func(name string, data []byte) error {
		switch {
		case strings.HasPrefix(name, historyPrefix):
			return decodeEvents(data, one)
		case strings.HasPrefix(name, taskPrefix):
			t, err := decodeTask(data)
			one.tasks[t.Name] = t
			return err
		}
		return errors.New("not a part of a job")
	})
}

func (l *loader) loadMessages(ctx context.Context) error {
	return l.children(ctx, l.messages(), func(_ string, data []byte) error {
		m, err := decodeMessage(data)
		if err != nil {
			return err
		}
		if l.r.messages[m.Key] != nil {
			return fmt.Errorf("a second message has the key %q", m.Key)
		}
		l.r.putMessage(m)
		return nil
	})
}
