package postgres

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/stagepost/stagepost/internal/pg"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// record is a job with the columns that the contract does not have.
type record struct {
	job   job.Job
	n     int64 // row number, in order of creation
	crowd job.ID
	lane  laneID // zero for an ended job
	waits int64
}

// What a job waits for.
const (
	waitsNot int64 = iota // it has ended or is claimed
	waitsTurn
	waitsDue
)

// selectRecord reads whole records; scan has its columns. The caller adds WHERE.
const selectRecord = `SELECT m.n, m.id, m.kind, m.number, m.parent, m.owner, m.definition, m.created, m.key, m.spec,
 m.crowd, j.state, j.last_ok, j.origin, j.outcome, j.ended, j.priority, j.grp, j.tags, j.bytes, j.version, j.epoch,
 j.worker, j.until, j.starts, j.attempts, j.retries, j.due, j.deadline, j.expires, j.entered, j.changed, j.message,
 j.cause, j.children, j.seq, j.head, j.data, j.lane, j.waits, m.requires, m.words
FROM job_made m JOIN job_now j ON j.n = m.n `

// scan reads the record under the cursor of selectRecord.
func (r *record) scan(rows pgx.CollectableRow) error {
	j := &r.job
	var state, lastOK, origin, outcome, tags, children, requires string
	var id, kind, parent, crowd string
	var created, ended, until, due, deadline, expires, entered, changed int64
	var spec, data, head []byte
	var lane pgtype.UUID
	err := rows.Scan(&r.n, &id, &kind, &j.Number, &parent, &j.Owner, &j.Definition, &created, &j.Key, &spec,
		&crowd, &state, &lastOK, &origin, &outcome, &ended, &j.Priority, &j.Group, &tags, &j.Bytes, &j.Version,
		&j.Epoch, &j.Worker, &until, &j.Starts, &j.Attempts, &j.Retries, &due, &deadline, &expires, &entered, &changed,
		&j.Message, &j.Cause, &children, &j.Seq, &head, &data, &lane, &r.waits,
		&requires, &j.Words)
	if err != nil {
		return err
	}
	for _, text := range []*string{&id, &kind, &parent, &crowd, &j.Owner, &j.Definition, &j.Key, &state, &lastOK,
		&origin, &outcome, &j.Group, &j.Worker, &j.Message, &j.Cause} {
		*text = pg.Original(*text)
	}
	j.ID, j.Kind, j.Parent, r.crowd = job.ID(id), job.Kind(kind), job.ID(parent), job.ID(crowd)
	j.Position = lifecycle.Position{State: lifecycle.State(state), LastOK: lifecycle.State(lastOK),
		Origin: lifecycle.State(origin), Outcome: lifecycle.Outcome(outcome)}
	j.Ended, j.Gone = ended > 0, ended == 2
	j.Created, j.Until, j.Due, j.Deadline = moment(created), moment(until), moment(due), moment(deadline)
	j.Expires, j.Entered, j.Changed = moment(expires), moment(entered), moment(changed)
	j.Spec, j.Data, j.Requires, r.lane = spec, data, labelsOf(requires), lane.Bytes
	if copy(j.Head[:], head) != len(j.Head) {
		return damaged(j.ID, "the record: its hash is cut off")
	}
	if err := getChildren(children, &j.Children); err != nil {
		return damaged(j.ID, "the record: %v", err)
	}
	if tags != "" {
		if err := json.Unmarshal([]byte(tags), &j.Tags); err != nil {
			return damaged(j.ID, "the record: its tags: %v", err)
		}
		for i := range j.Tags {
			j.Tags[i] = pg.Original(j.Tags[i])
		}
	}
	return nil
}

func damaged(id job.ID, format string, args ...any) error {
	return job.Errorf(job.Internal, "read", id, format, args...)
}

func scanRecord(row pgx.CollectableRow) (*record, error) {
	r := new(record)
	return r, r.scan(row)
}

// tagsText is the stored form of tags.
func tagsText(tags []string) string {
	if len(tags) == 0 {
		return ""
	}
	text, _ := json.Marshal(storedAll(tags)) // texts have no marshal errors
	return string(text)
}

// childrenText is the stored form of the counts of children; getChildren reads it.
func childrenText(c *job.Children) string {
	if *c == (job.Children{}) {
		return ""
	}
	return fmt.Sprintf("[%d,%d,%d,%d,%d,%d,%d]", c.Expected, c.Open, c.OK, c.Failed, c.TimedOut, c.Cancelled, c.Deleted)
}

func getChildren(text string, c *job.Children) error {
	if text == "" {
		return nil
	}
	var n [7]int
	if err := json.Unmarshal([]byte(text), &n); err != nil {
		return fmt.Errorf("its counts of jobs: %w", err)
	}
	*c = job.Children{Expected: n[0], Open: n[1], OK: n[2], Failed: n[3], TimedOut: n[4], Cancelled: n[5],
		Deleted: n[6]}
	return nil
}

// column is a column of a table whose rows are written in bulk: one of the functions gives its value.
type column[T any] struct {
	name  string
	int   func(*T) int64
	text  func(*T) string
	plain func(*T) string // a text in its stored form
	bytes func(*T) []byte
	lane  func(*T) laneID
}

// typed returns the type of the column's array, and args its values.
func (c *column[T]) typed() string {
	switch {
	case c.int != nil:
		return "bigint[]"
	case c.text != nil, c.plain != nil:
		return "text[]"
	case c.lane != nil:
		return "uuid[]"
	}
	return "bytea[]"
}

func (c *column[T]) args(rows []*T) any {
	switch {
	case c.int != nil:
		return valuesOf(rows, c.int)
	case c.text != nil:
		return valuesOf(rows, func(r *T) string { return pg.Stored(c.text(r)) })
	case c.plain != nil:
		return valuesOf(rows, c.plain)
	case c.lane != nil:
		return valuesOf(rows, func(r *T) pgtype.UUID {
			return c.lane(r).uuid()
		})
	}
	return valuesOf(rows, c.bytes)
}

// valuesOf returns a value of each row: values for rows that have addresses already.
func valuesOf[T, V any](rows []*T, f func(*T) V) []V {
	all := make([]V, len(rows))
	for i, r := range rows {
		all[i] = f(r)
	}
	return all
}

// pointers returns the addresses of rows.
func pointers[T any](rows []T) []*T {
	all := make([]*T, len(rows))
	for i := range rows {
		all[i] = &rows[i]
	}
	return all
}

func values[T, V any](rows []T, f func(*T) V) []V {
	all := make([]V, len(rows))
	for i := range rows {
		all[i] = f(&rows[i])
	}
	return all
}

// table is a table whose rows are written in bulk.
type table[T any] struct {
	name      string
	row       string // composite type with the columns, and was if the table is versioned; "": none
	versioned bool   // it has the column version
	columns   []column[T]
}

// only is the table with some of its columns, which a composite type has.
func (t *table[T]) only(row string, names ...string) table[T] {
	some := *t
	some.row, some.columns = row, slices.DeleteFunc(slices.Clone(t.columns), func(c column[T]) bool {
		return !slices.Contains(names, c.name)
	})
	return some
}

// names returns the names of the columns, each after a prefix.
func (t *table[T]) names(prefix string) string {
	all := make([]string, len(t.columns))
	for i := range t.columns {
		all[i] = prefix + t.columns[i].name
	}
	return strings.Join(all, ", ")
}

// source is an expression that has rows of arguments, one for each column.
func (t *table[T]) source() string {
	all := make([]string, len(t.columns))
	for i := range t.columns {
		all[i] = fmt.Sprintf("$%d::%s", i+1, t.columns[i].typed())
	}
	return "unnest(" + strings.Join(all, ", ") + ") AS v (" + t.names("") + ")"
}

// insert is a statement that inserts rows.
func (t *table[T]) insert() string {
	return "INSERT INTO " + t.name + " (" + t.names("") + ") SELECT " + t.names("v.") + " FROM " + t.source()
}

// put is a statement that inserts rows or replaces those with the same keys.
func (t *table[T]) put(keys string) string {
	return t.insert() + " ON CONFLICT (" + keys + ") DO UPDATE SET (" + t.names("") + ") = ROW (" +
		t.names("excluded.") + ")"
}

// args are the arguments of the statements.
func (t *table[T]) args(rows []*T) []any {
	all := make([]any, len(t.columns))
	for i := range t.columns {
		all[i] = t.columns[i].args(rows)
	}
	return all
}
