package queue

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/stagepost/stagepost/store/zookeeper/internal/layout"
)

// Filter selects jobs. Empty fields do not restrict.
type Filter struct {
	Batch   layout.BatchID
	Profile string
	States  []layout.Status
}

// Jobs returns the jobs that a filter selects, by batch and id, and those that cannot be read. It reads the jobs of one
// batch or of the states, if the filter names them, and all jobs otherwise.
func (q *Queue) Jobs(ctx context.Context, f Filter) (jobs []*Job, bad []Bad, err error) {
	ids, err := q.candidates(ctx, f)
	if err != nil {
		return nil, nil, err
	}
	all := make([]*Job, len(ids))
	faults := make([]error, len(ids))
	err = each(len(ids), func(i int) error {
		if all[i], faults[i] = q.Job(ctx, ids[i]); unusable(faults[i]) {
			return nil
		}
		return faults[i]
	})
	if err != nil {
		return nil, nil, err
	}
	for i, j := range all {
		switch {
		case errors.Is(faults[i], ErrMalformed):
			bad = append(bad, Bad{ids[i].Path(), faults[i]})
		case j == nil: // removed meanwhile
		case f.Batch != "" && j.Batch != f.Batch, f.Profile != "" && j.Profile() != f.Profile:
		case len(f.States) > 0 && !slices.Contains(f.States, j.Status.Status):
		default:
			jobs = append(jobs, j)
		}
	}
	slices.SortFunc(jobs, func(a, b *Job) int {
		return cmp.Or(strings.Compare(string(a.Batch), string(b.Batch)), strings.Compare(string(a.ID), string(b.ID)))
	})
	return jobs, bad, nil
}

// candidates returns the ids of the jobs that a filter may select.
func (q *Queue) candidates(ctx context.Context, f Filter) (ids []layout.JobID, err error) {
	add := func(names []string) {
		for _, name := range names {
			if id := layout.JobID(name); id.Valid() {
				ids = append(ids, id)
			}
		}
	}
	switch {
	case f.Batch != "":
		for _, d := range layout.BatchDirs {
			names, _, err := q.children(ctx, f.Batch.Dir(d))
			if err != nil {
				return nil, err
			}
			add(names)
		}
	case len(f.States) > 0:
		for _, s := range f.States {
			names, _, err := q.children(ctx, s.Queue())
			if err != nil {
				return nil, err
			}
			for _, name := range names {
				if _, id, ok := layout.ParseEntry(name); ok {
					ids = append(ids, id)
				}
			}
		}
	default:
		names, _, err := q.children(ctx, layout.Jobs)
		if err != nil {
			return nil, err
		}
		add(names)
	}
	slices.Sort(ids)
	return slices.Compact(ids), nil
}

// Tally counts the jobs of a profile, of a batch of it if the batch is set, in one state.
type Tally struct {
	Profile string
	Batch   layout.BatchID
	State   layout.Status
	Jobs    int
	Bytes   int64 // sum of the working space that is known
}

// Tallies counts jobs by profile and state, and by batch if byBatch is set, in order of these.
func Tallies(jobs []*Job, byBatch bool) []Tally {
	counts := map[Tally]Tally{}
	for _, j := range jobs {
		key := Tally{Profile: j.Profile(), State: j.Status.Status}
		if byBatch {
			key.Batch = j.Batch
		}
		t := counts[key]
		t.Profile, t.Batch, t.State = key.Profile, key.Batch, key.State
		t.Jobs++
		t.Bytes += j.Space
		counts[key] = t
	}
	all := make([]Tally, 0, len(counts))
	for _, t := range counts {
		all = append(all, t)
	}
	slices.SortFunc(all, func(a, b Tally) int {
		return cmp.Or(strings.Compare(a.Profile, b.Profile), strings.Compare(string(a.Batch), string(b.Batch)),
			strings.Compare(string(a.State), string(b.State)))
	})
	return all
}

// Length is the number of entries of a queue of jobs.
type Length struct {
	State   layout.Status
	Entries int
	Near    bool // so many that clients in Java soon cannot list them
}

// nearEntries is the number of entries from which Length.Near is set. Java clients fail above about 52,000, because
// they accept answers of 1 MiB only.
const nearEntries = 40_000

// Lengths returns the number of entries of each queue of jobs.
func (q *Queue) Lengths(ctx context.Context) ([]Length, error) {
	all := make([]Length, len(layout.JobStatuses))
	err := each(len(all), func(i int) (err error) {
		all[i], err = q.Length(ctx, layout.JobStatuses[i])
		return err
	})
	return all, err
}

// Length returns the number of entries of the queue of a state.
func (q *Queue) Length(ctx context.Context, s layout.Status) (Length, error) {
	st, err := q.s.Stat(ctx, s.Queue())
	if isMissing(err) {
		err = nil
	}
	return Length{s, st.Children, st.Children >= nearEntries}, err
}

// Found is a node that was looked for.
type Found struct {
	Exists bool
	Status layout.Status // of a status node that can be read
}

// Found looks for nodes at once.
func (q *Queue) Found(ctx context.Context, paths ...string) ([]Found, error) {
	nodes, err := q.nodes(ctx, paths...)
	all := make([]Found, len(nodes))
	for i, n := range nodes {
		all[i].Exists = n.exists
		if s, err := layout.ParseBatchStatus(n.Data); err == nil {
			all[i].Status = s.Status
		}
	}
	return all, err
}

// Locks returns the paths of the locks of queues and collections that exist.
func (q *Queue) Locks(ctx context.Context) (all []string, err error) {
	for _, parent := range []string{layout.QueueLocks, layout.CollectionLocks} {
		names, _, err := q.children(ctx, parent)
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			all = append(all, parent+"/"+name)
		}
	}
	return all, nil
}

// Entry is a queue entry of a job.
type Entry struct {
	Job      layout.JobID
	State    layout.Status
	Priority int
}

// Entries returns the queue entries of all jobs, and the names that are none.
func (q *Queue) Entries(ctx context.Context) (all []Entry, bad []Bad, err error) {
	names := make([][]string, len(layout.JobStatuses))
	err = each(len(names), func(i int) (err error) {
		names[i], _, err = q.children(ctx, layout.JobStatuses[i].Queue())
		return err
	})
	for i, s := range layout.JobStatuses {
		for _, name := range names[i] {
			p, id, ok := layout.ParseEntry(name)
			if !ok {
				bad = append(bad, Bad{s.Queue() + "/" + name, ErrMalformed})
				continue
			}
			all = append(all, Entry{id, s, p})
		}
	}
	return all, bad, err
}
