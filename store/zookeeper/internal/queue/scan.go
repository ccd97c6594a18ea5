package queue

import (
	"context"
	"slices"
	"time"

	"github.com/stagepost/stagepost/store/zookeeper/internal/layout"
)

// tree is everything below the parents of batches, jobs and entries, as it was read. Other clients change it meanwhile.
type tree struct {
	uuids   map[string]node
	batches map[layout.BatchID]*scannedBatch
	jobs    map[layout.JobID]*scannedJob
	entries []entry
	of      map[layout.JobID][]entry // the valid entries, by job
	other   []Bad                    // names that are not of the layout
}

type scannedBatch struct {
	made               time.Time
	status, submission node
	parsed             layout.BatchStatus
	readable           bool // the status
	states, lock       node
	refs               []reference
	of                 map[layout.JobID][]reference
	dirs               int // children of states
}

// reference is a child of a directory of a batch.
type reference struct {
	dir  layout.BatchDir
	job  layout.JobID
	path string
	made time.Time
}

type scannedJob struct {
	made             time.Time
	status, bid      node
	priority, idents node
	space, lock      node
	parsed           layout.JobStatus
	readable         bool // the status
	batch            layout.BatchID
}

// wanted returns the queue entry that the status and the priority of a job have. A priority outside of the range has
// the nearest one.
func (j *scannedJob) wanted(id layout.JobID) string {
	p, err := layout.ParseInt(j.priority.Data)
	if err != nil {
		p = defaultPriority
	}
	return j.parsed.Status.Entry(int(min(max(p, layout.FirstPriority), layout.LastPriority)), id)
}

// entry is a child of a queue directory.
type entry struct {
	state    layout.Status
	priority int
	job      layout.JobID
	path     string
	made     time.Time
	valid    bool // the name
}

// scan reads the tree.
func (q *Queue) scan(ctx context.Context) (*tree, error) {
	t := &tree{uuids: map[string]node{}, batches: map[layout.BatchID]*scannedBatch{},
		jobs: map[layout.JobID]*scannedJob{}}
	for _, f := range []func(context.Context, *tree) error{q.scanEntries, q.scanBatches, q.scanJobs, q.scanUUIDs} {
		if err := f(ctx, t); err != nil {
			return nil, err
		}
	}
	t.of = map[layout.JobID][]entry{}
	for _, e := range t.entries {
		if e.valid {
			t.of[e.job] = append(t.of[e.job], e)
		}
	}
	for _, b := range t.batches {
		b.of = map[layout.JobID][]reference{}
		for _, ref := range b.refs {
			b.of[ref.job] = append(b.of[ref.job], ref)
		}
	}
	return t, nil
}

func (q *Queue) scanEntries(ctx context.Context, t *tree) error {
	dirs, _, err := q.children(ctx, layout.JobStates)
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		state, ok := layout.ParseStatus(dir)
		path := layout.JobStates + "/" + dir
		if !ok || !slices.Contains(layout.JobStatuses, state) {
			t.other = append(t.other, Bad{path, ErrMalformed})
			continue
		}
		names, _, err := q.children(ctx, path)
		if err != nil {
			return err
		}
		for _, name := range names {
			p, id, valid := layout.ParseEntry(name)
			t.entries = append(t.entries, entry{state, p, id, path + "/" + name, time.Time{}, valid})
		}
	}
	return each(len(t.entries), func(i int) error {
		st, err := q.s.Stat(ctx, t.entries[i].path)
		if isMissing(err) {
			return nil
		}
		t.entries[i].made = st.Created
		return err
	})
}

func (q *Queue) scanBatches(ctx context.Context, t *tree) error {
	ids, bad, err := q.BatchIDs(ctx)
	if err != nil {
		return err
	}
	t.other = append(t.other, bad...)
	all := make([]*scannedBatch, len(ids))
	err = each(len(ids), func(i int) (err error) {
		all[i], err = q.scanBatch(ctx, ids[i])
		return err
	})
	for i, b := range all {
		if b != nil {
			t.batches[ids[i]] = b
		}
	}
	return err
}

func (q *Queue) scanBatch(ctx context.Context, id layout.BatchID) (*scannedBatch, error) {
	all, err := q.nodes(ctx, id.Path(), id.Status(), id.Submission(), id.States(), id.Lock())
	if err != nil || !all[0].exists {
		return nil, err
	}
	b := &scannedBatch{made: all[0].Stat.Created, status: all[1], submission: all[2], states: all[3], lock: all[4]}
	b.parsed, err = layout.ParseBatchStatus(b.status.Data)
	b.readable = err == nil
	dirs, _, err := q.children(ctx, id.States())
	if err != nil {
		return nil, err
	}
	b.dirs = len(dirs)
	for _, dir := range dirs {
		d := layout.BatchDir(dir)
		names, _, err := q.children(ctx, id.Dir(d))
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			ref := reference{dir: d, job: layout.JobID(name), path: id.Dir(d) + "/" + name}
			st, err := q.s.Stat(ctx, ref.path)
			if err != nil && !isMissing(err) {
				return nil, err
			}
			ref.made = st.Created
			b.refs = append(b.refs, ref)
		}
	}
	return b, nil
}

func (q *Queue) scanJobs(ctx context.Context, t *tree) error {
	names, _, err := q.children(ctx, layout.Jobs)
	if err != nil {
		return err
	}
	var ids []layout.JobID
	for _, name := range names {
		id := layout.JobID(name)
		switch {
		case id.Valid():
			ids = append(ids, id)
		case id.Path() != layout.JobStates:
			t.other = append(t.other, Bad{id.Path(), ErrMalformed})
		}
	}
	all := make([]*scannedJob, len(ids))
	err = each(len(ids), func(i int) (err error) {
		all[i], err = q.scanJob(ctx, ids[i])
		return err
	})
	for i, j := range all {
		if j != nil {
			t.jobs[ids[i]] = j
		}
	}
	return err
}

func (q *Queue) scanJob(ctx context.Context, id layout.JobID) (*scannedJob, error) {
	all, err := q.nodes(ctx, id.Path(), id.Status(), id.Batch(), id.Priority(), id.Identifiers(), id.Space(), id.Lock())
	if err != nil || !all[0].exists {
		return nil, err
	}
	j := &scannedJob{made: all[0].Stat.Created, status: all[1], bid: all[2], priority: all[3], idents: all[4],
		space: all[5], lock: all[6]}
	j.parsed, err = layout.ParseJobStatus(j.status.Data)
	j.readable = err == nil
	j.batch, _ = layout.ParseID[layout.BatchID](j.bid.Data)
	return j, nil
}

func (q *Queue) scanUUIDs(ctx context.Context, t *tree) error {
	names, _, err := q.children(ctx, layout.BatchUUIDs)
	if err != nil {
		return err
	}
	paths := make([]string, len(names))
	for i, name := range names {
		paths[i] = layout.UUID(name)
	}
	all, err := q.nodes(ctx, paths...)
	for i, n := range all {
		if n.exists {
			t.uuids[names[i]] = n
		}
	}
	return err
}
