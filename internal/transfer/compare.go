package transfer

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"iter"
	"maps"
	"slices"

	"github.com/stagepost/stagepost/job"
)

// Table is what two stores have alike of one kind of content.
type Table struct {
	Name   string `json:"name"`
	Rows   int64  `json:"rows"`
	Digest string `json:"digest"` // SHA-256 over all rows in their order, which is that of both stores
}

// Compare compares two stores row by row. It returns what both have, or kind Internal with the first difference. done
// is called after each page with the number of its rows.
func Compare(ctx context.Context, from, to Source, done func(rows int64)) ([]Table, error) {
	sums := newSums()
	next, stop := iter.Pull2(rowsOf(ctx, to))
	defer stop()
	err := eachPart(ctx, from, func(p *Part) error {
		for _, want := range p.list() {
			got, err, _ := next()
			if err != nil {
				return err
			}
			if got == nil || *got != want {
				return different(&want, got)
			}
			sums.add(&want)
		}
		done(p.rows())
		return nil
	})
	if err == nil {
		var more *row
		if more, err, _ = next(); more != nil {
			err = different(nil, more)
		}
	}
	if err == nil {
		err = sums.once(ctx, from, to)
	}
	if err != nil {
		return nil, err
	}
	return sums.tables, nil
}

func different(want, got *row) error {
	if want == nil {
		return job.Errorf(job.Internal, "compare", "", "the source has nothing where the target has %s %s",
			got.table, got.id)
	}
	where := "ends"
	if got != nil {
		where = "has " + got.table + " " + got.id
		if got.table == want.table && got.id == want.id {
			where = "has other content of it"
		}
	}
	return job.Errorf(job.Internal, "compare", "", "the target differs from the source at %s %s: it %s",
		want.table, want.id, where)
}

// rowsOf are all rows of a store, until an error.
func rowsOf(ctx context.Context, s Source) iter.Seq2[*row, error] {
	return func(yield func(*row, error) bool) {
		enough := errors.New("enough")
		err := eachPart(ctx, s, func(p *Part) error {
			for _, r := range p.list() {
				if !yield(&r, nil) {
					return enough
				}
			}
			return nil
		})
		if err != nil && !errors.Is(err, enough) {
			yield(nil, err)
		}
	}
}

// row is a row as text. Two rows with the same text have the same content.
type row struct{ table, id, text string }

// list is a part as rows.
func (p *Part) list() (all []row) {
	add := func(table, id string, content any) { all = append(all, row{table, id, fmt.Sprintf("%#v", content)}) }
	for i := range p.Jobs {
		j := &p.Jobs[i]
		r := j.Record
		r.Tags, r.Spec, r.Data = some(r.Tags), some(r.Spec), some(r.Data)
		add("jobs", string(r.ID), r)
		for _, e := range j.History {
			add("history", fmt.Sprintf("%s, entry %d", r.ID, e.Seq), e)
		}
		slices.SortFunc(j.Tasks, func(a, b job.Task) int { return cmp.Compare(a.Name, b.Name) })
		for _, t := range j.Tasks {
			t.Data = some(t.Data)
			add("tasks", fmt.Sprintf("%s of %s", t.Name, r.ID), t)
		}
	}
	for _, m := range p.Messages {
		m.Body, m.Tried = some(m.Body), some(m.Tried)
		add("outbox", m.Key, m)
	}
	for _, a := range p.Audit {
		add("audit log", fmt.Sprintf("entry %d", a.Seq), a)
	}
	slices.SortFunc(p.Holds, func(a, b job.Hold) int { return cmp.Compare(a.Scope.String(), b.Scope.String()) })
	for _, h := range p.Holds {
		add("holds", h.Scope.String(), h)
	}
	return all
}

// some is a list without the difference between none and an empty one.
func some[L ~[]E, E any](list L) L {
	if len(list) == 0 {
		return nil
	}
	return list
}

// sums are the digests of tables, in a fixed order.
type sums struct {
	tables []Table
	digest map[string]hash.Hash
}

func newSums() *sums {
	s := &sums{digest: map[string]hash.Hash{}}
	for _, name := range []string{"jobs", "history", "tasks", "outbox", "audit log", "holds", NumbersAndClock} {
		s.tables = append(s.tables, Table{Name: name})
		s.digest[name] = sha256.New()
	}
	return s
}

func (s *sums) add(r *row) {
	fmt.Fprintf(s.digest[r.table], "%q %s\n", r.id, r.text)
	i := slices.IndexFunc(s.tables, func(t Table) bool { return t.Name == r.table })
	s.tables[i].Rows++
}

func (s *sums) finish() {
	for i := range s.tables {
		t := &s.tables[i]
		t.Digest = hex.EncodeToString(s.digest[t.Name].Sum(nil))
	}
}

// once compares what stores have once, and ends the digests.
func (s *sums) once(ctx context.Context, from, to Source) error {
	a, err := from.Once(ctx)
	if err != nil {
		return err
	}
	b, err := to.Once(ctx)
	if err != nil {
		return err
	}
	want, got := a.list(), b.list()
	for i := range want {
		if i >= len(got) || want[i] != got[i] {
			return different(&want[i], &got[min(i, len(got)-1)])
		}
		s.add(&want[i])
	}
	if len(got) > len(want) {
		return different(nil, &got[len(want)])
	}
	s.finish()
	return nil
}

// NumbersAndClock is the name of the table of what a store has once.
const NumbersAndClock = "numbers and clock"

// Rows is the number of rows of what a store has once, as [Compare] counts them.
func (o *Once) Rows() int64 { return int64(len(o.list())) }

// list is what a store has once, as rows.
func (o *Once) list() (all []row) {
	add := func(id string, content any) {
		all = append(all, row{NumbersAndClock, id, fmt.Sprintf("%#v", content)})
	}
	add("installation", o.Installation)
	add("messages", o.Posted)
	add("audit log", o.Audits)
	add("hash of the audit log", o.Sealed)
	add("clock", o.Clock)
	numbers := o.numbers()
	for _, kind := range slices.Sorted(maps.Keys(numbers)) {
		add("number of "+string(kind), numbers[kind])
	}
	return all
}
