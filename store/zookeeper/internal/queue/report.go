package queue

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stagepost/stagepost/store/zookeeper/internal/layout"
)

// Level is how serious a finding is.
type Level string

// The levels: nodes that are older than an hour are no change that is being made.
const (
	Warn Level = "WARN"
	Fail Level = "FAIL"
)

// Finding is a node that does not fit the others.
type Finding struct {
	Rule      string // "1" to "9": those of the original report; further ones are words
	Path      string
	Made      time.Time // when the node was created
	Deletable string    // the node whose removal mends it; "" if none does
	Text      string
	Level     Level
}

// The ages after which a finding is a failure.
const (
	changing   = time.Hour
	lockLasts  = 2 * time.Minute
	stuckAfter = 24 * time.Hour
)

// report collects findings.
type report struct {
	t   *tree
	now time.Time
	all []Finding
}

func (r *report) add(rule, path string, made time.Time, deletable, text string, args ...any) {
	level := Warn
	if r.now.Sub(made) > changing {
		level = Fail
	}
	r.all = append(r.all, Finding{rule, path, made, deletable, fmt.Sprintf(text, args...), level})
}

// Report compares all nodes with each other. Besides the rules of the original report it finds what that does not:
// entries with a priority above 99, jobs without identifiers, malformed access requests, records that have been in a
// state of work for a day, and entries and references of other names. It reads the whole tree and changes nothing; what
// other clients change meanwhile may be found.
func (q *Queue) Report(ctx context.Context) ([]Finding, error) {
	t, err := q.scan(ctx)
	if err != nil {
		return nil, err
	}
	r := &report{t: t, now: q.now()}
	for uuid, n := range t.uuids {
		id := layout.BatchID(n.Data)
		if t.batches[id] == nil {
			r.add("1", layout.UUID(uuid), n.Stat.Created, layout.UUID(uuid), "batch %q does not exist", id)
		}
	}
	for id, b := range t.batches {
		r.batch(id, b)
	}
	for id, j := range t.jobs {
		r.job(id, j)
	}
	r.entries()
	for _, bad := range t.other {
		r.add("name", bad.Path, r.now, "", "the name is not one of the layout")
	}
	for _, in := range []layout.Queue{layout.Small, layout.Large} {
		if err := q.reportRequests(ctx, r, in); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(r.all, func(a, b Finding) int {
		return cmp.Or(strings.Compare(a.Rule, b.Rule), strings.Compare(a.Path, b.Path), strings.Compare(a.Text, b.Text))
	})
	return r.all, nil
}

func (r *report) batch(id layout.BatchID, b *scannedBatch) {
	if !b.readable {
		r.add("status", id.Path(), b.made, "", "the batch has no status that can be read")
	}
	if o, err := layout.ParseObject(b.submission.Data); err != nil {
		r.add("submission", id.Path(), b.made, "", "the batch has no submission that can be read")
	} else if uuid := o.Text(layout.KeyBatchID); uuid != "" {
		if _, found := r.t.uuids[uuid]; !found {
			r.add("2", id.Submission(), b.submission.Stat.Created, "", "%s does not exist", layout.UUID(uuid))
		}
	}
	for _, ref := range b.refs {
		if r.t.jobs[ref.job] == nil {
			r.add("3", ref.path, ref.made, ref.path, "job %s does not exist", ref.job)
		}
	}
	if b.states.exists && b.dirs == 0 {
		r.add("7", id.States(), b.states.Stat.Created, id.States(), "it has no children")
	}
	r.lock(id.Lock(), b.lock)
	if s := b.parsed.Status; b.readable && s != layout.Held && s != layout.Failed && !s.Deletable() {
		r.stuck(id.Status(), b.status, s)
	}
}

func (r *report) lock(path string, n node) {
	if n.exists && r.now.Sub(n.Stat.Created) > lockLasts {
		r.all = append(r.all, Finding{"8", path, n.Stat.Created, path, "the lock exists for more than 2 minutes", Fail})
	}
}

func (r *report) stuck(path string, status node, state layout.Status) {
	if age := r.now.Sub(status.Stat.Modified); age > stuckAfter {
		r.all = append(r.all, Finding{"stuck", path, status.Stat.Created, "",
			fmt.Sprintf("it has been %s for %s", state, age.Truncate(time.Hour)), Warn})
	}
}

func (r *report) job(id layout.JobID, j *scannedJob) {
	r.lock(id.Lock(), j.lock)
	if j.bid.exists {
		made := j.bid.Stat.Created
		if r.t.batches[j.batch] == nil {
			r.add("4", id.Batch(), made, "", "batch %q does not exist", j.bid.Data)
		}
		if !j.status.exists {
			r.add("4", id.Batch(), made, id.Path(), "the job has no status")
		}
		r.references(id, j)
	}
	if !j.status.exists {
		r.add("5", id.Path(), j.made, id.Path(), "the job has no status")
		return
	}
	if !j.readable {
		r.add("status", id.Status(), j.status.Stat.Created, "", "the status cannot be read")
		return
	}
	p, err := layout.ParseInt(j.priority.Data)
	if err != nil || p < layout.FirstPriority || p > layout.LastPriority {
		r.add("priority", id.Priority(), j.made, "", "the priority is not within 0..99: %.20q", j.priority.Data)
	}
	want := j.wanted(id)
	if !slices.ContainsFunc(r.t.of[id], func(e entry) bool { return e.path == want }) {
		r.add("5", id.Path(), j.made, "", "%s does not exist", want)
	}
	if _, err := layout.ParseIdentifiers(j.idents.Data); err != nil || !j.idents.exists {
		r.add("identifiers", id.Path(), j.made, "", "the job has no identifiers that can be read")
	}
	if j.parsed.Status.Active() {
		r.stuck(id.Status(), j.status, j.parsed.Status)
	}
}

// references compares the references of the batch to a job with its status.
func (r *report) references(id layout.JobID, j *scannedJob) {
	b := r.t.batches[j.batch]
	if b == nil || !j.readable {
		return
	}
	dir := j.parsed.Status.BatchDir()
	found := false
	for _, ref := range b.of[id] {
		switch {
		case ref.dir == dir:
			found = true
		default:
			r.add("4", id.Batch(), j.bid.Stat.Created, ref.path, "the job is %s and %s exists", j.parsed.Status,
				ref.path)
		}
	}
	if !found {
		r.add("4", id.Batch(), j.bid.Stat.Created, "", "%s does not exist", j.batch.Reference(dir, id))
	}
}

func (r *report) entries() {
	for _, e := range r.t.entries {
		j := r.t.jobs[e.job]
		switch {
		case !e.valid:
			r.add("name", e.path, e.made, e.path, "the name is not that of an entry")
		case j == nil:
			r.add("6", e.path, e.made, e.path, "job %s does not exist", e.job)
		case e.priority > layout.LastPriority:
			r.add("priority", e.path, e.made, e.path, "other programs cannot read a priority above 99")
		}
	}
	for id, entries := range r.t.of {
		for _, e := range entries {
			if j := r.t.jobs[id]; len(entries) > 1 && (j == nil || j.wanted(id) != e.path) {
				r.all = append(r.all, Finding{"9", e.path, e.made, e.path, "the job has another entry", Fail})
			}
		}
	}
}

func (q *Queue) reportRequests(ctx context.Context, r *report, in layout.Queue) error {
	ids, bad, err := q.Requests(ctx, in)
	if err != nil {
		return err
	}
	r.t.other = append(r.t.other, bad...)
	for _, id := range ids {
		all, err := q.nodes(ctx, in.Request(id), in.Status(id), in.Token(id), in.Lock(id))
		if err != nil {
			return err
		}
		if !all[0].exists {
			continue
		}
		made := all[0].Stat.Created
		s, err := layout.ParseBatchStatus(all[1].Data)
		if err != nil {
			r.add("access", in.Request(id), made, in.Request(id), "the request has no status that can be read")
		}
		if _, terr := layout.ParseToken(all[2].Data); terr != nil {
			r.add("access", in.Request(id), made, in.Request(id), "the request has no token that can be read")
		}
		if err == nil && (s.Status == layout.Pending || s.Status == layout.Processing) {
			r.stuck(in.Status(id), all[1], s.Status)
		}
		r.lock(in.Lock(id), all[3])
	}
	return nil
}
