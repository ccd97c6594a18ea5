package postgres

import (
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/stagepost/stagepost/internal/pg"
)

// statement is the statement that writes the jobs of a transaction: rows of several tables, each in a part of WITH, and
// conditions without which it fails with [pg.DivisionByZero]. The parts see what was there before all of them.
type statement struct {
	parts, conditions []string
	args              []any
}

// param adds an argument and returns how the statement names it.
func (s *statement) param(arg any) string {
	s.args = append(s.args, arg)
	return fmt.Sprint("$", len(s.args))
}

// part adds a part and returns its name.
func (s *statement) part(text string) (name string) {
	name = fmt.Sprint("w", len(s.parts))
	s.parts = append(s.parts, name+" AS ("+text+")")
	return name
}

// condition adds a condition that has a verb for each of its arguments.
func (s *statement) condition(format string, args ...any) {
	params := make([]any, len(args))
	for i, arg := range args {
		params[i] = s.param(arg)
	}
	s.conditions = append(s.conditions, fmt.Sprintf(format, params...))
}

// queue adds the statement to those that are sent, if it does anything.
func (s *statement) queue(p *pgx.Batch) {
	if len(s.parts)+len(s.conditions) == 0 {
		return
	}
	text := "SELECT 1"
	if len(s.conditions) > 0 {
		text += " / (" + strings.Join(s.conditions, "\n AND ") + ")::int"
	}
	if len(s.parts) > 0 {
		text = "WITH " + strings.Join(s.parts, ",\n") + "\n" + text
	}
	p.Queue(text, s.args...)
}

// array has rows of a table, as an argument: an array of the composite type of the table.
type array[T any] struct {
	t    *table[T]
	rows []*T
	was  []int64 // versions of rows that are updated
}

// Len is part of pg.Rows.
func (r array[T]) Len() int { return len(r.rows) }

// AppendRow is part of pg.Rows.
func (r array[T]) AppendRow(b []byte, i int) ([]byte, int) {
	n, row := len(r.t.columns), r.rows[i]
	for k := range r.t.columns {
		switch c := &r.t.columns[k]; {
		case c.int != nil:
			b = pg.AppendInt(b, c.int(row))
		case c.text != nil:
			b = pg.AppendText(b, pg.Stored(c.text(row)))
		case c.plain != nil:
			b = pg.AppendText(b, c.plain(row))
		case c.lane != nil:
			b = pg.AppendUUID(b, c.lane(row).uuid())
		default:
			b = pg.AppendBytes(b, c.bytes(row))
		}
	}
	if r.t.versioned {
		was := int64(0)
		if r.was != nil {
			was = r.was[i]
		}
		return pg.AppendInt(b, was), n + 1
	}
	return b, n
}

// rowTypes are the composite types of arrays.
var rowTypes = []string{made.row, now.row, transition.row, events.row, tallies.row}

// insertInto adds a part that inserts rows.
func insertInto[T any](s *statement, t *table[T], rows []*T) {
	if len(rows) > 0 {
		s.part("INSERT INTO " + t.name + " (" + t.names("") + ")\n SELECT " + t.names("v.") + " FROM unnest(" +
			s.param(array[T]{t: t, rows: rows}) + "::" + t.row + "[]) AS v")
	}
}

// update adds a part that updates rows by the first column. Each must have the version was.
func update[T any](s *statement, t *table[T], rows []*T, was []int64) {
	if len(rows) == 0 {
		return
	}
	arg, key := s.param(array[T]{t, rows, was}), t.columns[0].name
	name := s.part("UPDATE " + t.name + " t SET (" + t.names("") + ") =\n ROW (" + t.names("v.") + ") FROM unnest(" +
		arg + "::" + t.row + "[]) AS v\n WHERE t." + key + " = v." + key + " AND t.version = v.was RETURNING 1")
	s.conditions = append(s.conditions, "(SELECT count(*) FROM "+name+") = cardinality("+arg+")")
}
