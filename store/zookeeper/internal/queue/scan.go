package queue

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/stagepost/stagepost/store/zookeeper/internal/layout"
)

// tree is everything below the parents of batches, jobs and entries, as it was read. Other clients change it meanwhile.
type tree struct {
	uuids   map[string]node
	batches map[layout.BatchID]*scannedBatch
	names   map[layout.JobID]bool // of all jobs
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
	t, err := q.lists(ctx)
	if err == nil {
		err = q.scanJobs(ctx, t, slices.Collect(maps.Keys(t.names)))
	}
	if err == nil {
		err = q.dates(ctx, t, func(layout.JobID) bool { return true })
	}
	return t, err
}

// scanDoubtful reads the tree, and of its jobs those only that do not fit their entry and reference: see doubtful.
func (q *Queue) scanDoubtful(ctx context.Context) (*tree, error) {
	t, err := q.lists(ctx)
	if err != nil {
		return nil, err
	}
	ids, err := q.doubtful(ctx, t)
	if err == nil {
		err = q.scanJobs(ctx, t, ids)
	}
	if err == nil {
		err = q.dates(ctx, t, func(id layout.JobID) bool { return !t.names[id] })
	}
	return t, err
}

// doubtful returns the jobs that do not have one entry and one reference that fit together, and those in a state before
// Completed whose entry does not fit their status and priority, or that lack a node. It reads four nodes of each job of
// the latter states.
func (q *Queue) doubtful(ctx context.Context, t *tree) ([]layout.JobID, error) {
	refs := map[layout.JobID][]reference{}
	for _, b := range t.batches {
		for _, ref := range b.refs {
			refs[ref.job] = append(refs[ref.job], ref)
		}
	}
	var found, open []layout.JobID
	for id := range t.names {
		entries, refs := t.of[id], refs[id]
		switch {
		case len(entries) != 1 || len(refs) != 1 || refs[0].dir != entries[0].state.BatchDir():
			found = append(found, id)
		case !entries[0].state.Deletable():
			open = append(open, id)
		}
	}
	fits := make([]bool, len(open))
	err := each(len(open), func(i int) error {
		all, err := q.nodes(ctx, open[i].Status(), open[i].Priority(), open[i].Space(), open[i].Identifiers())
		if err != nil {
			return err
		}
		missing := slices.ContainsFunc(all, func(n node) bool { return !n.exists })
		j := &scannedJob{priority: all[1]}
		p, bad := layout.ParseInt(all[1].Data)
		within := bad == nil && p == int64(layout.ClampPriority(int(p)))
		j.parsed, bad = layout.ParseJobStatus(all[0].Data)
		fits[i] = !missing && within && bad == nil && j.wanted(open[i]) == t.of[open[i]][0].path
		return nil
	})
	for i, id := range open {
		if !fits[i] {
			found = append(found, id)
		}
	}
	return found, err
}

// lists reads the tree without its jobs, of which it has the names.
func (q *Queue) lists(ctx context.Context) (*tree, error) {
	t := &tree{uuids: map[string]node{}, batches: map[layout.BatchID]*scannedBatch{}, names: map[layout.JobID]bool{},
		jobs: map[layout.JobID]*scannedJob{}}
	for _, f := range []func(context.Context, *tree) error{q.listEntries, q.scanBatches, q.listJobs, q.scanUUIDs} {
		if err := f(ctx, t); err != nil {
			return nil, err
		}
	}
	t.index()
	return t, nil
}

// dates reads when the entries of some jobs, and the references to them, were made.
func (q *Queue) dates(ctx context.Context, t *tree, of func(layout.JobID) bool) error {
	made := map[string]*time.Time{}
	for i := range t.entries {
		if e := &t.entries[i]; of(e.job) {
			made[e.path] = &e.made
		}
	}
	for _, b := range t.batches {
		for i := range b.refs {
			if ref := &b.refs[i]; of(ref.job) {
				made[ref.path] = &ref.made
			}
		}
	}
	paths := slices.Collect(maps.Keys(made))
	err := each(len(paths), func(i int) error {
		st, err := q.s.Stat(ctx, paths[i])
		if isMissing(err) {
			return nil
		}
		*made[paths[i]] = st.Created
		return err
	})
	t.index()
	return err
}

// index finds entries and references by job.
func (t *tree) index() {
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
}

func (q *Queue) listEntries(ctx context.Context, t *tree) error {
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
	return nil
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
			b.refs = append(b.refs, reference{dir: d, job: layout.JobID(name), path: id.Dir(d) + "/" + name})
		}
	}
	return b, nil
}

func (q *Queue) listJobs(ctx context.Context, t *tree) error {
	names, _, err := q.children(ctx, layout.Jobs)
	for _, name := range names {
		id := layout.JobID(name)
		switch {
		case id.Valid():
			t.names[id] = true
		case id.Path() != layout.JobStates:
			t.other = append(t.other, Bad{id.Path(), ErrMalformed})
		}
	}
	return err
}

// scanJobs reads jobs.
func (q *Queue) scanJobs(ctx context.Context, t *tree, ids []layout.JobID) error {
	all := make([]*scannedJob, len(ids))
	err := each(len(ids), func(i int) (err error) {
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
