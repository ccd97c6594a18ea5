// Package sqldbtest has what the tests of databases of applications share.
package sqldbtest

import (
	"database/sql"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// SameSchema requires that a SQLite file and a schema of a PostgreSQL database have the same tables, columns, keys and
// indexes in meaning.
func SameSchema(t *testing.T, file, shared *sql.DB) (lines int) {
	t.Helper()
	a, b := fileSchema(t, file), sharedSchema(t, shared)
	for _, line := range a {
		if !slices.Contains(b, line) {
			t.Errorf("only in SQLite: %s", line)
		}
	}
	for _, line := range b {
		if !slices.Contains(a, line) {
			t.Errorf("only in PostgreSQL: %s", line)
		}
	}
	return len(a)
}

// query gives the rows of a query as texts.
func query(t *testing.T, db *sql.DB, text string, args ...any) (all [][]string) {
	t.Helper()
	r, err := db.QueryContext(t.Context(), text, args...)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	columns, err := r.Columns()
	if err != nil {
		t.Fatal(err)
	}
	for r.Next() {
		row, to := make([]sql.NullString, len(columns)), make([]any, len(columns))
		for i := range row {
			to[i] = &row[i]
		}
		if err := r.Scan(to...); err != nil {
			t.Fatal(err)
		}
		texts := make([]string, len(row))
		for i, v := range row {
			texts[i] = v.String
		}
		all = append(all, texts)
	}
	if err := r.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}

// folded finds columns that are compared without regard to case.
var folded = regexp.MustCompile(`(\w+) TEXT NOT NULL COLLATE NOCASE`)

func fileSchema(t *testing.T, db *sql.DB) (lines []string) {
	t.Helper()
	for _, table := range query(t, db, `SELECT name, sql FROM sqlite_schema
		WHERE type = 'table' AND name NOT LIKE 'sqlite_%'`) {
		name, text := table[0], table[1]
		var nocase []string
		for _, m := range folded.FindAllStringSubmatch(text, -1) {
			nocase = append(nocase, m[1])
		}
		for _, c := range query(t, db, "SELECT name, type, \"notnull\" OR pk, pk, cid FROM pragma_table_info(?)",
			name) {
			kind := strings.ToLower(c[1])
			if slices.Contains(nocase, c[0]) {
				kind += " nocase"
			}
			if c[3] == "1" && strings.Contains(text, "AUTOINCREMENT") {
				kind += " counted"
			}
			lines = append(lines, fmt.Sprintf("%s.%s: %s, not null %s, key %s, column %s", name, c[0], kind, c[2], c[3],
				c[4]))
		}
		for _, f := range query(t, db, `SELECT "table", group_concat("from") FROM pragma_foreign_key_list(?)
			GROUP BY id`, name) {
			lines = append(lines, fmt.Sprintf("%s (%s) refers to %s", name, f[1], f[0]))
		}
		for _, i := range query(t, db, `SELECT l.name, l.origin, (SELECT group_concat(name) FROM pragma_index_info(l.name)),
			coalesce((SELECT sql FROM sqlite_schema AS s WHERE s.name = l.name), '') FROM pragma_index_list(?) AS l
			WHERE l.origin <> 'pk'`, name) {
			_, where, _ := strings.Cut(i[3], " WHERE ")
			if i[1] == "u" {
				i[0] = "unique"
			}
			lines = append(lines, fmt.Sprintf("%s: index %s (%s) %s", name, i[0], i[2], condition(where)))
		}
		if strings.Contains(text, "CHECK") {
			lines = append(lines, name+" has a check")
		}
	}
	return lines
}

// kinds are the types of columns by those of PostgreSQL.
var kinds = map[string]string{"text": "text", "bigint": "integer", "boolean": "integer", "bytea": "blob"}

func sharedSchema(t *testing.T, db *sql.DB) (lines []string) {
	t.Helper()
	for _, c := range query(t, db, `SELECT c.relname, a.attname, format_type(a.atttypid, NULL),
			coalesce((SELECT collname FROM pg_collation AS k WHERE k.oid = a.attcollation), ''), a.attidentity,
			a.attnotnull::int, coalesce(array_position(p.conkey, a.attnum), 0), a.attnum - 1
		FROM pg_class AS c JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0
		LEFT JOIN pg_constraint AS p ON p.conrelid = c.oid AND p.contype = 'p'
		WHERE c.relkind = 'r' AND c.relnamespace = current_schema()::regnamespace
			AND c.relname NOT IN ('schema_version', 'writers')`) {
		kind := kinds[c[2]]
		switch c[3] {
		case "", "C":
		case "nocase":
			kind += " nocase"
		default:
			kind += " of collation " + c[3]
		}
		if c[4] != "" {
			kind += " counted"
		}
		lines = append(lines, fmt.Sprintf("%s.%s: %s, not null %s, key %s, column %s", c[0], c[1], kind, c[5], c[6],
			c[7]))
	}
	const names = `(SELECT string_agg(attname, ',' ORDER BY at.n) FROM unnest(%s) WITH ORDINALITY AS at (num, n)
		JOIN pg_attribute AS a ON a.attrelid = %s AND a.attnum = at.num)`
	for _, f := range query(t, db, `SELECT f.conrelid::regclass::text, `+fmt.Sprintf(names, "f.conkey", "f.conrelid")+`,
		f.confrelid::regclass::text, f.contype FROM pg_constraint AS f
		WHERE f.contype IN ('f', 'c') AND f.connamespace = current_schema()::regnamespace`) {
		if f[3] == "c" {
			lines = append(lines, f[0]+" has a check")
			continue
		}
		lines = append(lines, fmt.Sprintf("%s (%s) refers to %s", f[0], f[1], f[2]))
	}
	for _, i := range query(t, db, `SELECT i.indrelid::regclass::text, c.relname, i.indisunique::int,
			`+fmt.Sprintf(names, "i.indkey::int2[]", "i.indrelid")+`, coalesce(pg_get_expr(i.indpred, i.indrelid), '')
		FROM pg_index AS i JOIN pg_class AS c ON c.oid = i.indexrelid
		WHERE NOT i.indisprimary AND c.relnamespace = current_schema()::regnamespace`) {
		if i[2] == "1" {
			i[1] = "unique"
		}
		lines = append(lines, fmt.Sprintf("%s: index %s (%s) %s", i[0], i[1], i[3], condition(i[4])))
	}
	return lines
}

var list = regexp.MustCompile(`= ANY \(ARRAY\[(.*?)\]\)`)

// condition writes the condition of an index as both databases have it.
func condition(text string) string {
	text = list.ReplaceAllString(text, "IN ($1)")
	return strings.NewReplacer("::text", "", "(", "", ")", "", " ", "").Replace(text)
}

// Rows gives all rows of tables, in any order, each as a text, without some columns such as "events.id".
func Rows(t *testing.T, db *sql.DB, tables []string, without ...string) (all []string) {
	t.Helper()
	for _, table := range tables {
		r, err := db.QueryContext(t.Context(), "SELECT * FROM "+table)
		if err != nil {
			t.Fatal(err)
		}
		columns, err := r.Columns()
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
		for _, row := range query(t, db, "SELECT * FROM "+table) {
			line := table
			for i, v := range row {
				if !slices.Contains(without, table+"."+columns[i]) {
					line += fmt.Sprintf(" %s=%q", columns[i], strings.NewReplacer("true", "1", "false", "0").Replace(v))
				}
			}
			all = append(all, line)
		}
	}
	slices.Sort(all)
	return all
}
