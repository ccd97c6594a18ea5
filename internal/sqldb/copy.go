package sqldb

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/stagepost/stagepost/internal/headfile"
)

// Side is one of the two databases of a copy.
type Side struct {
	Read     *sql.DB
	Write    func(ctx context.Context, do func(tx *sql.Tx) error) error
	Postgres bool

	Installation string         // that it belongs to
	Head         *headfile.File // beside a file; nil: there is none
}

// Tables are those that a copy includes, so that a table is after those that it refers to.
type Tables struct {
	Names   []string
	Counter map[string]string // columns whose numbers the database gives, by table: none is given again
	Made    []string          // tables that have rows in a new database: the copied rows replace them
	Replace bool              // the rows of the target are removed, those of all tables
}

// Copied is what a copy copied: both sides have the same number of rows in each table, with the same values.
type Copied struct {
	Rows   map[string]int64 // by table
	Digest string           // of all rows, in any order
}

// Sum returns the number of rows of all tables.
func (c *Copied) Sum() (rows int64) {
	for _, n := range c.Rows {
		rows += n
	}
	return rows
}

// ErrNotEmpty reports that the target of a copy has rows.
var ErrNotEmpty = errors.New("the target is not empty")

// chunk is how many values are written by one statement at most.
const chunk = 2000

// Copy copies all rows into an empty database of the same schema, in one transaction of each side, and then compares
// both sides. It needs the memory of a few rows. A copy that was interrupted changed nothing, and may be repeated.
func Copy(ctx context.Context, from, to Side, tables Tables) (Copied, error) {
	err := to.Write(ctx, func(tx *sql.Tx) error {
		return from.snapshot(ctx, func(source *sql.Tx) error {
			for _, table := range slices.Backward(tables.Names) { // none refers to one that is removed before it
				if err := tables.prepare(ctx, tx, table); err != nil {
					return err
				}
			}
			for _, table := range tables.Names {
				if err := copyTable(ctx, source, tx, table); err != nil {
					return fmt.Errorf("table %s: %w", table, err)
				}
				if column := tables.Counter[table]; column != "" {
					last, err := from.lastNumber(ctx, source, table, column)
					if err == nil && last != 0 {
						err = to.continueAfter(ctx, tx, table, column, last)
					}
					if err != nil {
						return fmt.Errorf("counter of %s: %w", table, err)
					}
				}
			}
			return nil
		})
	})
	if err != nil {
		return Copied{}, fmt.Errorf("copy: %w", err)
	}
	return compare(ctx, from, to, tables.Names)
}

// compare reads both sides and refuses a difference.
func compare(ctx context.Context, from, to Side, tables []string) (Copied, error) {
	source, err := from.content(ctx, tables)
	if err != nil {
		return Copied{}, fmt.Errorf("compare: %w", err)
	}
	target, err := to.content(ctx, tables)
	if err != nil {
		return Copied{}, fmt.Errorf("compare: %w", err)
	}
	for _, table := range tables {
		if a, b := source.Rows[table], target.Rows[table]; a != b {
			return Copied{}, fmt.Errorf("compare: table %s has %d rows, and its copy has %d", table, a, b)
		}
	}
	if source.Digest != target.Digest {
		return Copied{}, errors.New("compare: the copied rows differ: something wrote to one of the databases")
	}
	return target, nil
}

// snapshot reads in a transaction that sees one state.
func (s *Side) snapshot(ctx context.Context, do func(tx *sql.Tx) error) error {
	options := sql.TxOptions{ReadOnly: true} // in SQLite that is enough
	if s.Postgres {
		options.Isolation = sql.LevelRepeatableRead
	}
	tx, err := s.Read.BeginTx(ctx, &options)
	if err != nil {
		return err
	}
	return errors.Join(do(tx), tx.Rollback())
}

// Count counts the rows of all tables, but those that a new database has.
func Count(ctx context.Context, of Side, tables Tables) (rows int64, err error) {
	err = of.snapshot(ctx, func(tx *sql.Tx) error {
		for _, table := range tables.Names {
			if slices.Contains(tables.Made, table) {
				continue
			}
			var n int64
			if err := tx.QueryRowContext(ctx, "SELECT count(*) FROM "+table).Scan(&n); err != nil {
				return fmt.Errorf("table %s: %w", table, err)
			}
			rows += n
		}
		return nil
	})
	return rows, err
}

// prepare refuses a table with rows, and removes those that are replaced.
func (t *Tables) prepare(ctx context.Context, tx *sql.Tx, table string) error {
	if t.Replace || slices.Contains(t.Made, table) {
		_, err := tx.ExecContext(ctx, "DELETE FROM "+table)
		return err
	}
	var some bool
	err := tx.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM "+table+")").Scan(&some)
	if err == nil && some {
		err = fmt.Errorf("%w: table %s has rows", ErrNotEmpty, table)
	}
	return err
}

// columns gives the columns of a table, and which of them are boolean.
func columns(ctx context.Context, tx *sql.Tx, table string) (names []string, boolean []bool, err error) {
	r, err := tx.QueryContext(ctx, "SELECT * FROM "+table+" LIMIT 0")
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	types, err := r.ColumnTypes()
	for _, t := range types {
		names, boolean = append(names, t.Name()), append(boolean, t.DatabaseTypeName() == "BOOL")
	}
	return names, boolean, errors.Join(err, r.Err())
}

func copyTable(ctx context.Context, source, target *sql.Tx, table string) error {
	names, boolean, err := columns(ctx, target, table)
	if err != nil {
		return err
	}
	list := strings.Join(names, ", ")
	one := "(" + strings.TrimSuffix(strings.Repeat("?, ", len(names)), ", ") + ")"
	var values []any
	write := func() error {
		if len(values) == 0 {
			return nil
		}
		rows := strings.TrimSuffix(strings.Repeat(one+", ", len(values)/len(names)), ", ")
		_, err := target.ExecContext(ctx, "INSERT INTO "+table+" ("+list+") VALUES "+rows, values...)
		values = values[:0]
		return err
	}
	err = eachRow(ctx, source, "SELECT "+list+" FROM "+table, len(names), func(row []any) error {
		for i, v := range row {
			if n, ok := v.(int64); ok && boolean[i] {
				v = n != 0
			}
			values = append(values, v)
		}
		if len(values)+len(names) <= chunk {
			return nil
		}
		return write()
	})
	if err != nil {
		return err
	}
	return write()
}

// eachRow calls do with each row of a result. It keeps none of them.
func eachRow(ctx context.Context, tx *sql.Tx, query string, width int, do func(row []any) error) (err error) {
	r, err := tx.QueryContext(ctx, query)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	for r.Next() {
		row, to := make([]any, width), make([]any, width)
		for i := range row {
			to[i] = &row[i]
		}
		if err := r.Scan(to...); err != nil {
			return err
		}
		if err := do(row); err != nil {
			return err
		}
	}
	return r.Err()
}

// lastNumber returns the last number that the database gave to a row of a table; 0: none.
func (s *Side) lastNumber(ctx context.Context, tx *sql.Tx, table, column string) (last int64, err error) {
	query, args := "SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = ?", []any{table}
	if s.Postgres {
		query, args = "SELECT coalesce(pg_sequence_last_value(pg_get_serial_sequence(?, ?)::regclass), 0)",
			[]any{table, column}
	}
	err = tx.QueryRowContext(ctx, query, args...).Scan(&last)
	return last, err
}

// continueAfter lets the numbers that the database gives to rows of a table continue after the last one.
func (s *Side) continueAfter(ctx context.Context, tx *sql.Tx, table, column string, last int64) error {
	if s.Postgres {
		_, err := tx.ExecContext(ctx, "SELECT setval(pg_get_serial_sequence(?, ?)::regclass, ?)", table, column, last)
		return err
	}
	if _, err := tx.ExecContext(ctx, "DELETE FROM sqlite_sequence WHERE name = ?", table); err != nil {
		return err
	}
	_, err := tx.ExecContext(ctx, "INSERT INTO sqlite_sequence (name, seq) VALUES (?, ?)", table, last)
	return err
}

// content counts and digests all rows.
func (s *Side) content(ctx context.Context, tables []string) (c Copied, err error) {
	c.Rows = map[string]int64{}
	var all [sha256.Size]byte
	err = s.snapshot(ctx, func(tx *sql.Tx) error {
		for _, table := range tables {
			names, _, err := columns(ctx, tx, table)
			if err != nil {
				return err
			}
			slices.Sort(names)
			err = eachRow(ctx, tx, "SELECT "+strings.Join(names, ", ")+" FROM "+table, len(names),
				func(row []any) error {
					c.Rows[table]++
					for i, b := range rowDigest(table, row) {
						all[i] ^= b // in any order: no table has a row twice
					}
					return nil
				})
			if err != nil {
				return fmt.Errorf("table %s: %w", table, err)
			}
		}
		return nil
	})
	c.Digest = hex.EncodeToString(all[:])
	return c, err
}

// rowDigest is the digest of a row in a form that is the same in both databases.
func rowDigest(table string, row []any) [sha256.Size]byte {
	sum := sha256.New()
	fmt.Fprintf(sum, "%q", table)
	for _, v := range row {
		switch x := v.(type) {
		case bool:
			n := 0
			if x {
				n = 1
			}
			fmt.Fprintf(sum, " %d", n)
		case []byte:
			fmt.Fprintf(sum, " %x.", x)
		case string:
			fmt.Fprintf(sum, " %q", x)
		default:
			fmt.Fprintf(sum, " %v", x)
		}
	}
	return [sha256.Size]byte(sum.Sum(nil))
}
