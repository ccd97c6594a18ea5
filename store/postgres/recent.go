package postgres

import (
	"bytes"
	"cmp"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/stagepost/stagepost/internal/pg"
	"github.com/stagepost/stagepost/job"
)

// recent remembers the records that this server wrote last. A record is never changed. The writer uses it alone.
type recent struct{ newer, older map[job.ID]*record }

const (
	mostRecent  = 1 << 12 // records of each of the two maps
	mostContent = 4 << 10 // bytes of Spec and Data of a record
)

func (r *recent) put(one *record) {
	if r.newer == nil || len(r.newer) >= mostRecent {
		r.newer, r.older = map[job.ID]*record{}, r.newer
	}
	delete(r.older, one.job.ID)
	r.newer[one.job.ID] = one
}

// get returns a record, nil for one that is not remembered.
func (r *recent) get(id job.ID) *record {
	if one := r.newer[id]; one != nil {
		return one
	}
	return r.older[id]
}

func (r *recent) drop(id job.ID) {
	delete(r.newer, id)
	delete(r.older, id)
}

// forget drops all of them: after the loss of a connection the database may be another one, which took over.
func (r *recent) forget() { *r = recent{} }

// written replaces what is remembered by what a transaction has written.
func (r *recent) written(o *outcome) {
	for _, one := range o.purged {
		r.drop(one.job.ID)
	}
	for id, f := range o.jobs {
		if len(f.after.job.Spec)+len(f.after.job.Data) > mostContent {
			r.drop(id)
			continue
		}
		r.put(f.kept())
	}
}

// kept returns the record that a transaction has written, as it would be read, and with memory of its own.
func (f *final) kept() *record {
	r := f.after
	j := &r.job
	if f.before != nil { // most contents stay
		j.Spec = f.before.job.Spec
	} else {
		j.Spec = bytes.Clone(j.Spec)
	}
	if f.before != nil && bytes.Equal(j.Data, f.before.job.Data) {
		j.Data = f.before.job.Data
	} else {
		j.Data = bytes.Clone(j.Data)
	}
	j.Tags, j.Requires = slices.Clone(j.Tags), slices.Clone(j.Requires)
	j.Created, j.Until, j.Due, j.Deadline = stored(j.Created), stored(j.Until), stored(j.Due), stored(j.Deadline)
	j.Expires, j.Entered, j.Changed = stored(j.Expires), stored(j.Entered), stored(j.Changed)
	return &r
}

const (
	// lockRecent locks records in the given order and reads what shows whether they are those that are remembered.
	lockRecent = `SELECT j.n, j.version, j.waits FROM unnest($1::bigint[]) WITH ORDINALITY AS v (n, i)
JOIN job_now j ON j.n = v.n ORDER BY v.i FOR UPDATE OF j`
	selectTaken = "SELECT id FROM job_made WHERE id = ANY ($1)"
)

// recall locks the records that the operations need, and reads only their versions, if the store remembers all of them.
// Otherwise it does nothing and returns false. Records that were changed elsewhere are read by [batch.readStale]. With
// trusts, jobs that workers have claimed are neither locked nor read, and new jobs are not searched for: the statements
// that write them fail if that was wrong; see [batch.checkTrusted].
func (b *batch) recall(p *pgx.Batch, ops []*operation) bool {
	list, created, all := b.s.recent.needed(b.needs.Jobs, ops)
	if !all || len(b.needs.Keys) > 0 {
		return false
	}
	if b.trusts {
		created = nil
		list = slices.DeleteFunc(list, func(r *record) bool {
			trusted := r.job.Claimed() && r.job.Children == job.Children{}
			if trusted {
				b.trusted = append(b.trusted, r)
				b.setRead(r)
			}
			return trusted
		})
	}
	if len(created) > 0 {
		p.Queue(selectTaken, storedAll(created)).Query(func(rows pgx.Rows) error {
			ids, err := pgx.CollectRows(rows, pgx.RowTo[string])
			for _, id := range ids {
				b.stale = append(b.stale, job.ID(pg.Original(id)))
			}
			return err
		})
	}
	if len(list) > 0 {
		p.Queue(lockRecent, values(list, func(r **record) int64 { return (*r).n })).Query(func(rows pgx.Rows) error {
			return b.setRecent(rows, list)
		})
	}
	return true
}

// lockSame locks records and fails with [pg.DivisionByZero] if one does not have its version.
const lockSame = `SELECT 1 / (count(*) = cardinality($1))::int FROM
 (SELECT FROM unnest($1::bigint[], $2::bigint[]) AS v (n, was) JOIN job_now j ON j.n = v.n AND j.version = v.was
  ORDER BY v.n FOR UPDATE OF j) same`

// checkTrusted checks the trusted records that the transaction does not update, which checks the others.
func (b *batch) checkTrusted(p *pgx.Batch, o *outcome) {
	rest := slices.DeleteFunc(b.trusted, func(r *record) bool { return o.jobs[r.job.ID] != nil })
	if len(rest) == 0 {
		return
	}
	slices.SortFunc(rest, func(a, b *record) int { return cmp.Compare(a.n, b.n) })
	p.Queue(lockSame, values(rest, func(r **record) int64 { return (*r).n }), versions(rest))
}

// versions are the versions of records.
func versions(of []*record) []int64 {
	return values(of, func(r **record) int64 { return (*r).job.Version })
}

// needed returns the remembered records of those that operations need, in the order of their ids, and the ids of new
// jobs. all is false if one is missing.
func (r *recent) needed(ids []job.ID, ops []*operation) (list []*record, created []job.ID, all bool) {
	fresh := map[job.ID]bool{}
	for _, o := range ops {
		for i := range o.created {
			created = append(created, o.created[i].Job.ID)
			fresh[o.created[i].Job.ID] = true
		}
	}
	add := func(id job.ID) bool {
		one := r.get(id)
		if one != nil {
			list = append(list, one)
		}
		return one != nil || fresh[id]
	}
	for _, id := range ids {
		if !add(id) {
			return nil, nil, false
		}
	}
	for _, o := range ops {
		for i := range o.changes {
			c := &o.changes[i]
			before, class := r.get(c.Job), classAfter(c)
			if before == nil || class == "" || before.job.Parent == "" || class == classOf(&before.job) {
				continue
			}
			if !add(before.job.Parent) {
				return nil, nil, false
			}
		}
	}
	slices.SortFunc(list, func(a, b *record) int { return strings.Compare(string(a.job.ID), string(b.job.ID)) })
	return slices.Compact(list), created, true
}

// setRecent makes the transaction use remembered records of which the database has the same version.
func (b *batch) setRecent(rows pgx.Rows, list []*record) error {
	var n, version, waits pgtype.Int8
	found := 0
	_, err := pgx.ForEachRow(rows, []any{&n, &version, &waits}, func() error {
		for list[found].n != n.Int64 {
			b.stale = append(b.stale, list[found].job.ID)
			found++
		}
		one := list[found]
		found++
		if one.job.Version != version.Int64 {
			b.stale = append(b.stale, one.job.ID)
			return nil
		}
		if one.waits != waits.Int64 { // it became due
			c := *one
			c.waits, one = waits.Int64, &c
		}
		b.setRead(one)
		return nil
	})
	for ; found < len(list); found++ {
		b.stale = append(b.stale, list[found].job.ID)
	}
	return err
}

// readStale reads what was changed since it was remembered, and jobs that exist although they were to be new.
func (b *batch) readStale() error {
	if len(b.stale) == 0 {
		return nil
	}
	rows, err := b.q.Query(b.ctx, lockRecords, storedAll(b.stale))
	if err != nil {
		return err
	}
	list, err := collect(b.s, rows, scanRecord)
	for _, r := range list {
		b.setRead(r)
	}
	return err
}
