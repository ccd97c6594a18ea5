package sqlite

import (
	"context"
	"fmt"
	"sort"

	"github.com/stagepost/stagepost/internal/conn"
	"github.com/stagepost/stagepost/job"
)

// fsck is one check of the tables.
type fsck struct {
	ctx    context.Context
	c      *conn.Conn
	names  *names
	lives  Lives
	repair bool
	report Report

	rows    []rowFacts // in order of rows, without those that were purged
	numbers map[kindNumber]job.ID
	highest map[job.Kind]int64 // number so far
	fixes   []fix              // repairs that are executed after all reads
	unsound map[int64]job.ID   // rows whose record does not match its checksum
}

// rowFacts are the facts about a job that the check keeps.
type rowFacts struct {
	n         int64 // row
	there     bool
	counts    *job.Children // by the record, nil for none
	real      *job.Children // by its children, nil for none
	seq, last int64         // by the record
	gotSeq    int64         // by the history
	gotLast   int64
}

type kindNumber struct {
	kind   job.Kind
	number int64
}

// of returns the facts of a row, nil if there is no such job or its record is unreadable.
func (f *fsck) of(n int64) *rowFacts {
	if len(f.rows) == 0 || n < f.rows[0].n {
		return nil
	}
	most := int(min(n-f.rows[0].n, int64(len(f.rows)-1))) // rows increase: it is there or before
	at := most
	if f.rows[most].n != n {
		at = sort.Search(most, func(i int) bool { return f.rows[i].n >= n })
	}
	if facts := &f.rows[at]; facts.n == n && facts.there {
		return facts
	}
	return nil
}

func newFsck(ctx context.Context, c *conn.Conn, n *names, lives Lives, repair bool) *fsck {
	return &fsck{ctx: ctx, c: c, names: n,
		lives: lives, repair: repair, numbers: map[kindNumber]job.ID{}, highest: map[job.Kind]int64{},
		unsound: map[int64]job.ID{}}
}

func (f *fsck) fault(id job.ID, repaired bool, format string, args ...any) {
	if len(f.report.Faults) >= mostFaults {
		f.report.More++
		return
	}
	f.report.Faults = append(f.report.Faults, Fault{Job: id, Repaired: repaired, Text: fmt.Sprintf(format, args...)})
}

// derived records a fault in derived data, and its repair.
func (f *fsck) derived(id job.ID, x fix, format string, args ...any) {
	x.fault = -1
	if len(f.report.Faults) < mostFaults {
		x.fault = len(f.report.Faults)
	}
	f.fault(id, f.repair, format, args...)
	if f.repair {
		f.fixes = append(f.fixes, x)
	}
}

// check reads all tables.
func (f *fsck) check() error {
	for _, part := range []func() error{
		f.integrity, f.dictionaries, f.halves, f.records, f.children, f.events, f.keys, f.words, f.orphans, f.holds,
	} {
		if err := f.ctx.Err(); err != nil {
			return &job.Error{Op: "fsck", Kind: job.Unavailable, Err: err}
		}
		if err := part(); err != nil {
			return err
		}
	}
	return nil
}

// integrity checks the file with SQLite: pages, indexes, unique keys, types.
func (f *fsck) integrity() error {
	return each(f.c, "PRAGMA integrity_check(100)", func(s *conn.Stmt) error {
		if text := s.GetText(0); text != "ok" {
			f.fault("", false, "file: %s", text)
		}
		return nil
	})
}

func (f *fsck) dictionaries() error {
	for _, sql := range []string{
		"SELECT 'word ' || text FROM word GROUP BY text HAVING count(*) > 1",
		"SELECT 'move ' || event FROM move GROUP BY event, from_state, to_state, outcome, actor HAVING count(*) > 1",
	} {
		err := each(f.c, sql, func(s *conn.Stmt) error {
			f.fault("", false, "%s occurs twice in its dictionary", s.GetText(0))
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (f *fsck) halves() error {
	for _, sql := range []string{
		"SELECT n, 'job_now' FROM job_made WHERE n NOT IN (SELECT n FROM job_now)",
		"SELECT n, 'job_made' FROM job_now WHERE n NOT IN (SELECT n FROM job_made)",
	} {
		err := each(f.c, sql, func(s *conn.Stmt) error {
			f.fault("", false, "row %d is missing in %s: half of the record is lost", s.GetInt(0), s.GetText(1))
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// records reads every record and checks it by itself.
func (f *fsck) records() error {
	return each(f.c, selectRow+"ORDER BY m.n", func(s *conn.Stmt) error {
		n := s.GetInt(0)
		f.rows = append(f.rows, rowFacts{n: n})
		f.report.Jobs++
		e, err := f.names.readRow(s)
		if err != nil {
			f.fault(job.ID(s.GetText(1)), false, "%v", err)
			return nil
		}
		if !sumIs(s, 38, e.sumRecord()) {
			f.unsound[n] = e.job.ID
		}
		facts := &f.rows[len(f.rows)-1]
		*facts = rowFacts{n: n, there: true, seq: e.job.Seq, last: e.last}
		if e.job.Children != (job.Children{}) {
			c := e.job.Children
			facts.counts = &c
		}
		for _, column := range []int{2, 10, 11, 12, 13} {
			if number := s.GetInt(column); number != 0 && f.names.words.value(number) == "" {
				f.fault(e.job.ID, false, "word %d of its record is not in the dictionary", number)
			}
		}
		for _, column := range []int{5, 6, 16, 19, 30, 36} {
			if !s.IsText(column) && !s.IsNull(column) && f.names.words.value(s.GetInt(column)) == "" {
				f.fault(e.job.ID, false, "word %d of its record is not in the dictionary", s.GetInt(column))
			}
		}
		f.record(e, s.GetInt(14))
		return f.ctx.Err()
	})
}

func (f *fsck) record(e *entry, flag int64) {
	j := &e.job
	c := j.Children
	for _, v := range []struct {
		what     string
		got      int64
		from, to int64
	}{
		{"priority", int64(j.Priority), job.FirstPriority, job.LastPriority}, {"number", j.Number, 1, job.LastNumber},
		{"version", j.Version, 1, 1 << 62}, {"epoch", j.Epoch, 0, 1 << 62}, {"seq", j.Seq, 1, 1 << 62},
		{"starts", int64(j.Starts), 0, 1 << 62}, {"attempts", int64(j.Attempts), 0, 1 << 62},
		{"retries", int64(j.Retries), 0, 1 << 62}, {"ended", flag, 0, 2}, {"expected", int64(c.Expected), 0, 1 << 62},
	} {
		if v.got < v.from || v.got > v.to {
			f.fault(j.ID, false, "%s is %d", v.what, v.got)
		}
	}
	k := kindNumber{j.Kind, j.Number}
	if other, twice := f.numbers[k]; twice {
		f.fault(j.ID, false, "has number %d of kind %s, as has %s", j.Number, j.Kind, other)
	}
	f.numbers[k] = j.ID
	if before := f.highest[j.Kind]; j.Number < before {
		f.fault(j.ID, false, "has number %d of kind %s after number %d: it cannot be found by its number", j.Number,
			j.Kind, before)
	}
	f.highest[j.Kind] = max(f.highest[j.Kind], j.Number)
	f.flag(e, flag)
}

// flag checks that the flag of the record agrees with the lifecycle.
func (f *fsck) flag(e *entry, flag int64) {
	life := f.lives(e.job.Kind)
	if life == nil {
		f.fault(e.job.ID, false, "unknown kind %q", e.job.Kind)
		return
	}
	if _, known := life.Stage(e.job.State); !known {
		if life.Hash() == e.job.Definition {
			f.fault(e.job.ID, false, "its lifecycle has no state %q", e.job.State)
		}
		return // an older definition may have had it
	}
	want := int64(0)
	if life.Tombstone(e.job.State) {
		want = 2
	} else if life.Ended(e.job.State) {
		want = 1
	}
	if flag != want {
		f.derived(e.job.ID, rowFix(e.n, "UPDATE job_now SET ended = ?2 WHERE n = ?1", e.n, want),
			"is marked %d as to having ended, its state %s means %d", flag, e.job.State, want)
	}
}
