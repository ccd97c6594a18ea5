package main

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stagepost/stagepost/backup"
	"github.com/stagepost/stagepost/host"
	"github.com/stagepost/stagepost/host/stores"
)

// sameData compares a restored data directory with the one that it was made of, which no server uses: every row of the
// databases, and every file that belongs to a backup. It gives the number of files.
func sameData(t *testing.T, was, is string) int {
	t.Helper()
	for _, name := range []string{stores.SQLiteFile, "inventory.db"} {
		want, got := tables(t, filepath.Join(was, name)), tables(t, filepath.Join(is, name))
		delete(want, "head") // the newest commit: the original has one more
		delete(got, "head")
		if n := len(got["audit"]); n+1 == len(want["audit"]) { // the backup itself
			want["audit"] = want["audit"][:n]
		}
		if diff := cmp.Diff(want, got); diff != "" || len(got) < 3 {
			t.Errorf("%s with %d tables (-was +is):\n%s", name, len(got), diff)
		}
	}
	want, got := durableFiles(t, was), durableFiles(t, is)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("files (-was +is):\n%s", diff)
	}
	return len(got)
}

// tables gives all rows of a database.
func tables(t *testing.T, file string) map[string][]string {
	t.Helper()
	db, err := host.OpenReading(file, "_pragma=query_only(1)")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	names := column(t, db, "SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name")
	all := map[string][]string{}
	for _, name := range names {
		all[name] = column(t, db, "SELECT * FROM \""+name+"\"")
	}
	return all
}

// column gives the rows of a query, each as one text.
func column(t *testing.T, db interface {
	QueryContext(context.Context, string, ...any) (*sql.Rows, error)
}, query string) (all []string) {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), query)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	names, err := rows.Columns()
	if err != nil {
		t.Fatal(err)
	}
	for rows.Next() {
		values, into := make([]any, len(names)), make([]any, len(names))
		for i := range values {
			into[i] = &values[i]
		}
		if err := rows.Scan(into...); err != nil {
			t.Fatal(err)
		}
		if len(values) == 1 {
			all = append(all, fmt.Sprint(values[0]))
			continue
		}
		all = append(all, fmt.Sprintf("%v", values))
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}

// durableFiles gives every file of a data directory that belongs to a backup, but databases: mode, time and digest.
func durableFiles(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		first, _, _ := strings.Cut(name, string(filepath.Separator))
		d := backup.Find(newSettings().DurableData(), first)
		if d == nil || d.How == backup.Left || d.How == backup.Database || first == backup.OutsideName {
			if e.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		text := ""
		if info.Mode().IsRegular() {
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			text = fmt.Sprintf(" %s %x", info.ModTime(), sha256.Sum256(b))
		}
		all[name] = info.Mode().String() + text
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}
