package sqlite

import (
	"fmt"
	"strings"

	"github.com/stagepost/stagepost/job"
)

// view creates the view of a new kind: jobs of kind "ingest.job" in view ingest_job. It is for people at the sqlite3
// prompt; a kind whose name is taken gets none.
func (r *records) view(kind job.Kind) error {
	if r.viewed[kind] {
		return nil
	}
	r.viewed[kind] = true
	if f := r.logging(); f != nil {
		f.view.Text(1, string(kind))
		return f.view.Run()
	}
	return r.c.Exec(createView(kind))
}

func createView(kind job.Kind) string {
	return fmt.Sprintf(`CREATE VIEW IF NOT EXISTS "%s" AS SELECT * FROM jobs WHERE kind = '%s'`, viewName(kind),
		strings.ReplaceAll(string(kind), "'", "''"))
}

func viewName(kind job.Kind) string {
	name := strings.Map(func(c rune) rune {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
			return c
		}
		return '_'
	}, string(kind))
	if strings.HasPrefix(strings.ToLower(name), "sqlite_") { // reserved by SQLite
		return "kind_" + name
	}
	return name
}
