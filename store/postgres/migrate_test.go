package postgres

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/store/sqlite"
	"github.com/stagepost/stagepost/store/storetest"
)

// TestViews compares the views, which are what users read, with those of the store in SQLite: they have the same names
// and the same columns.
func TestViews(t *testing.T) {
	s := openStore(t, newDatabase(t), Options{})
	rows, err := s.pool.Query(t.Context(), `SELECT table_name, column_name FROM information_schema.columns
 WHERE table_schema = 'public' AND table_name IN (SELECT viewname FROM pg_views) ORDER BY table_name, ordinal_position`)
	check(t, err)
	got := map[string][]string{}
	var view, column string
	_, err = pgx.ForEachRow(rows, []any{&view, &column}, func() error {
		got[view] = append(got[view], column)
		return nil
	})
	check(t, err)
	dir := t.TempDir()
	other, err := sqlite.Open(dir, sqlite.Options{})
	check(t, err)
	check(t, other.Close())
	files, err := filepath.Glob(filepath.Join(dir, "*.db"))
	if err != nil || len(files) != 1 {
		t.Fatalf("databases %q, %v", files, err)
	}
	out, err := exec.Command("sqlite3", "-separator", " ", files[0], `SELECT m.name, c.name FROM sqlite_schema m
 JOIN pragma_table_info(m.name) c WHERE m.type = 'view' ORDER BY m.name, c.cid`).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	want := map[string][]string{}
	for line := range strings.Lines(string(out)) {
		view, column, _ := strings.Cut(strings.TrimSpace(line), " ")
		want[view] = append(want[view], column)
	}
	if len(want) < 6 {
		t.Errorf("only %d views", len(want))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("views (-sqlite +postgres):\n%s", diff)
	}
}

// TestReadViews reads what users read.
func TestReadViews(t *testing.T) {
	s := openStore(t, newDatabase(t), Options{CallerTime: true})
	_, err := script(t.Context(), s)
	check(t, err)
	_, err = s.Hold(t.Context(), job.Hold{Scope: job.Scope{Group: "maps", Tag: "queue=a"}, Who: "olga", Since: start})
	check(t, err)
	for _, c := range []struct{ statement, want string }{
		{`SELECT string_agg(id || ' ' || state || ' ' || coalesce(worker, '-') || ' ' || created, ', '
 ORDER BY number, id) FROM jobs`,
			"tst_1 Done - 2026-03-04 05:06:07+00, tst_batch Waiting - 2026-03-04 05:06:07+00, " +
				"tst_2 Waiting - 2026-03-04 05:06:07+00"},
		{`SELECT string_agg(event || ' by ' || "by", ', ' ORDER BY seq) FROM history WHERE job = 'tst_1'`,
			"create by operator, begin by worker, next by worker, finish by worker"},
		{"SELECT scope FROM holds", "group=maps queue=a"},
		{"SELECT coalesce(moment(0)::text, '-') || ' ' || moment(('-9223372036854775808')::bigint)",
			"- 1970-01-01 00:00:00+00"},
		{"SELECT string_agg(key || ' ' || settled, ', ') FROM outbox", "mtst_1 pending, mtst_2 pending"},
		{"SELECT string_agg(name, ', ' ORDER BY name) FROM tasks", "begin, finish, next"},
		{"SELECT string_agg(event, ', ' ORDER BY number) FROM audit_list",
			"create, create, create, hold, release, break-lock, hold"},
	} {
		var got string
		check(t, s.pool.QueryRow(t.Context(), c.statement).Scan(&got))
		if got != c.want {
			t.Errorf("%s: %q, want %q", c.statement, got, c.want)
		}
	}
}

// TestMigrate opens an empty database by several servers at once, and a database of a newer program.
func TestMigrate(t *testing.T) {
	if errServer != nil {
		t.Fatal(errServer)
	}
	check(t, testServer.Exec("postgres", "CREATE DATABASE test_empty"))
	defer func() { check(t, testServer.Exec("postgres", "DROP DATABASE test_empty WITH (FORCE)")) }()
	var all sync.WaitGroup
	var errs [4]error
	for i := range errs {
		all.Go(func() {
			s, err := Open(t.Context(), testServer.URL("test_empty"), Options{Unsynced: true})
			if errs[i] = err; err == nil {
				errs[i] = s.Close()
			}
		})
	}
	all.Wait()
	if slices.ContainsFunc(errs[:], func(err error) bool { return err != nil }) {
		t.Errorf("opened at once: %v", errs)
	}
	check(t, testServer.Exec("test_empty", "INSERT INTO schema_version VALUES (99, 'later')"))
	_, err := Open(t.Context(), testServer.URL("test_empty"), Options{Unsynced: true})
	if job.KindOf(err) != job.Internal || !strings.Contains(err.Error(), "use a newer program") {
		t.Errorf("a newer schema: %v", err)
	}
}

// TestReadOnly: a database without tables is refused and gets none, and one with tables is read as it is, without a
// row of a writer. The control opens both otherwise.
func TestReadOnly(t *testing.T) {
	if errServer != nil {
		t.Fatal(errServer)
	}
	ctx := t.Context()
	check(t, testServer.Exec("postgres", "CREATE DATABASE test_bare"))
	defer func() { check(t, testServer.Exec("postgres", "DROP DATABASE test_bare WITH (FORCE)")) }()
	reads := Options{Unsynced: true, Migrates: true, ReadOnly: true}
	tables := func() (n int) {
		conn, err := pgx.Connect(ctx, testServer.URL("test_bare"))
		check(t, err)
		defer func() { check(t, conn.Close(ctx)) }()
		check(t, conn.QueryRow(ctx, "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'").Scan(&n))
		return n
	}
	if _, err := Open(ctx, testServer.URL("test_bare"), reads); job.KindOf(err) != job.NotFound || tables() != 0 {
		t.Errorf("without tables: %v, %d tables", err, tables())
	}
	s, err := Open(ctx, testServer.URL("test_bare"), Options{Unsynced: true})
	check(t, err)
	check(t, oneJob(ctx, s, "tst_1"))
	writers := func(s *Store) (n int) {
		check(t, s.pool.QueryRow(ctx, "SELECT count(*) FROM writer").Scan(&n))
		return n
	}
	if n := writers(s); n != 1 || tables() == 0 {
		t.Errorf("control: %d writers, %d tables", n, tables())
	}
	check(t, s.Close())
	s, err = Open(ctx, testServer.URL("test_bare"), reads)
	check(t, err)
	if n, err := s.Content().Rows(ctx); err != nil || n.Jobs != 1 || writers(s) != 1 {
		t.Errorf("%+v, %d writers, %v", n, writers(s), err)
	}
	check(t, s.Close())
	for version, want := range map[int]job.ErrorKind{2: job.Refused, 99: job.Internal} {
		check(t, testServer.Exec("test_bare", fmt.Sprintf("TRUNCATE schema_version; INSERT INTO schema_version "+
			"VALUES (%d, 'now')", version)))
		if _, err := Open(ctx, testServer.URL("test_bare"), reads); job.KindOf(err) != want {
			t.Errorf("schema %d: %v, want %s", version, err, want)
		}
	}
}

// statements counts the statements of a transaction.
type statements struct {
	querier
	n int
}

func (c *statements) Query(ctx context.Context, statement string, args ...any) (pgx.Rows, error) {
	c.n++
	return c.querier.Query(ctx, statement, args...)
}

// TestPageStatements: a page of jobs is read by the same number of statements, whatever is in it, and ends before it
// has too many entries or tasks. The control is one job.
func TestPageStatements(t *testing.T) {
	database := newDatabase(t)
	s := openStore(t, database, Options{CallerTime: true})
	ctx := t.Context()
	for i := range 30 {
		check(t, oneJob(ctx, s, job.ID(fmt.Sprintf("tst_%02d", i))))
	}
	_, err := s.pool.Exec(ctx, `INSERT INTO task SELECT n, 't' || g.i, 'k', 's', 0, 0, 0, 0, '', NULL, 0
 FROM job_made, generate_series(1, CASE WHEN id >= 'tst_20' THEN 6000 ELSE 3 END) AS g (i)`)
	check(t, err)
	_, err = s.pool.Exec(ctx, `UPDATE job_now SET seq = 9000 FROM job_made m
 WHERE m.n = job_now.n AND m.id >= 'tst_10' AND m.id < 'tst_20'`)
	check(t, err)
	page := func(after, want int64) (n int) {
		check(t, s.read(ctx, "test", "", func(r *reader) error {
			c := &statements{querier: r.q}
			r.q = c
			jobs, err := r.jobs(after)
			if err == nil && (int64(len(jobs)) != want || len(jobs[0].History) != 2 || len(jobs[0].Tasks) < 3) {
				t.Errorf("after row %d: %d jobs, want %d; %+v", after, len(jobs), want, jobs[0])
			}
			n = c.n
			return err
		}))
		return n
	}
	one := page(29, 1)
	for after, want := range map[int64]int64{0: 12, 10: 2, 20: 3} {
		if n := page(after, want); n != one {
			t.Errorf("after row %d: %d statements, %d for one job", after, n, one)
		}
	}
}

// TestOpenRefuses opens databases that cannot be used.
func TestOpenRefuses(t *testing.T) {
	database := newDatabase(t)
	if _, err := Open(t.Context(), database, Options{}); job.KindOf(err) != job.Refused ||
		!strings.Contains(err.Error(), "fsync") {
		t.Errorf("a server without fsync: %v", err)
	}
	for name, c := range map[string]struct {
		database string
		want     job.ErrorKind
	}{
		"no connection string": {"postgres://[", job.Invalid},
		"no such database":     {testServer.URL("nobody"), job.Internal},
		"no server":            {"host=/nowhere user=postgres", job.Unavailable},
	} {
		if _, err := Open(t.Context(), c.database, Options{Unsynced: true}); job.KindOf(err) != c.want {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
}

// TestWriterForgotten has a database that does not have the last transactions of the server, as a replica that took
// over, or that has forgotten the server.
func TestWriterForgotten(t *testing.T) {
	s := openStore(t, newDatabase(t), Options{CallerTime: true, OnFailure: func(error) {}})
	for i, statement := range []string{"DELETE FROM writer", "UPDATE writer SET seq = seq - 1",
		"UPDATE writer SET seq = 0"} {
		_, err := s.pool.Exec(t.Context(), statement)
		check(t, err)
		for range 3 {
			_, err = s.Create(t.Context(), newJob(storetest.Step, job.ID("tst_"+statement[:1]+string(rune('a'+i)))))
			check(t, err)
		}
	}
	tallies, err := s.Count(t.Context())
	if err != nil || len(tallies) != 1 || tallies[0].Jobs != 3 {
		t.Errorf("%+v, %v", tallies, err)
	}
}
