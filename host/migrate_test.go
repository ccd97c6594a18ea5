package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/jackc/pgx/v5"

	"github.com/stagepost/stagepost/host/stores"
	"github.com/stagepost/stagepost/internal/transfer"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/module"
	"github.com/stagepost/stagepost/store/postgres"
	"github.com/stagepost/stagepost/store/sqlite"
	"github.com/stagepost/stagepost/store/storetest"
)

// inFiles is a module whose database is a file beside that of the store: app.db, or app-postgres for PostgreSQL.
func inFiles() module.Module {
	path := func(d module.Databases) string {
		if d.Postgres != "" {
			return filepath.Join(d.Dir, "app-postgres")
		}
		return filepath.Join(d.Dir, "app.db")
	}
	return module.Module{Name: "app",
		Count: func(_ context.Context, d module.Databases) (int64, error) {
			text, err := os.ReadFile(path(d))
			if errors.Is(err, os.ErrNotExist) {
				err = nil
			}
			return int64(len(text)), err
		},
		Migrate: func(_ context.Context, from, to module.Databases, replace bool) (c module.Copied, err error) {
			text, err := os.ReadFile(path(from))
			if err == nil && !replace {
				err = errors.New("an interrupted migration cannot be repeated")
			}
			c = module.Copied{Rows: int64(len(text)), Digest: "d"}
			return c, errors.Join(err, os.WriteFile(path(to), text, 0o600))
		},
	}
}

// migration is one between the SQLite store of a directory and a database.
func migration(from, to, dir string) *Migration {
	s := NewSettings(inFiles())
	s.Data = dir
	return &Migration{Settings: s, From: from, To: to, Dir: dir}
}

func run(t *testing.T, m *Migration) Migrated {
	t.Helper()
	done, err := m.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return done
}

func wantRefused(t *testing.T, what string, err error, words ...string) {
	t.Helper()
	if job.KindOf(err) != job.Refused {
		t.Errorf("%s: %v, want it to be refused", what, err)
		return
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%s: %v, want %q in it", what, err, w)
		}
	}
}

var began = time.Date(2026, 3, 4, 5, 6, 7, 8000, time.UTC)

func must[T any](t *testing.T) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func created(life *lifecycle.Table, id, parent job.ID, children int) job.Created {
	j, e := job.New(job.Job{ID: id, Kind: job.Kind(life.Name()), Position: life.Start(), Definition: life.Hash(),
		Parent: parent, Priority: job.DefaultPriority, Children: job.Children{Expected: children},
		Spec: []byte(`{"of": "` + string(id) + `"}`)}, lifecycle.Owner, "alice", began)
	return job.Created{Job: j, Event: e}
}

// filled makes a SQLite store with everything that a store can have, and an empty file of the module.
func filled(t *testing.T, dir string, n int) {
	t.Helper()
	s := must[*sqlite.Store](t)(sqlite.Open(dir, sqlite.Options{NoLog: true}))
	ctx, at := t.Context(), began.Add(time.Minute)
	must[[]job.Job](t)(s.Create(ctx, created(storetest.Batch, "tst_batch", "", n)))
	moves, all := map[job.ID][]lifecycle.Taken{}, []job.Created{}
	legal, _ := storetest.Moves(storetest.Step)
	for i := range n {
		c := created(storetest.Step, job.ID(fmt.Sprintf("tst_%04d", i)), "tst_batch", 0)
		c.Job.Key, c.Job.Group = fmt.Sprint("key ", i), fmt.Sprint("group ", i%3)
		c.Job.Owner = fmt.Sprint("owner ", i%2)
		c.Job.Tags, c.Job.Bytes = job.Tagged("queue=large", fmt.Sprint("place=", i%2)), int64(i)
		c.Job.Words = fmt.Sprint("maps part", i)
		all = append(all, c)
		moves[c.Job.ID] = legal[i%len(legal)].Way
	}
	must[[]job.Job](t)(s.Create(ctx, all...))
	must[map[job.ID]job.Job](t)(storetest.Drive(ctx, s, storetest.Step, at, moves))
	last := created(storetest.Step, "tst_purged", "", 0) // its number is not given again
	must[[]job.Job](t)(s.Create(ctx, last))
	gone := must[map[job.ID]job.Job](t)(storetest.Drive(ctx, s, storetest.Step, at, map[job.ID][]lifecycle.Taken{
		"tst_purged": {{Event: "cancel", By: lifecycle.Operator}, {Event: "delete", By: lifecycle.Operator}}}))
	r := must[[]job.Result](t)(s.Commit(ctx, job.Change{Job: "tst_purged", Version: gone["tst_purged"].Version,
		Purge: true, By: lifecycle.Operator, Actor: "olga", At: at}))
	if r[0].Err != nil {
		t.Fatal(r[0].Err)
	}
	must[[]job.Hold](t)(s.Hold(ctx, job.Hold{Scope: job.Scope{Tag: "place=1"}, Who: "olga", Why: "disk", Since: at}))
	must[[]job.Hold](t)(s.Hold(ctx, job.Hold{Scope: job.Scope{Group: "group 0"}, Who: "olga", Why: "wait", Since: at,
		Until: at.Add(time.Hour)}))
	claimAndPost(ctx, t, s, at)
	if err := s.KeepClock(ctx, job.KeptClock{Trusted: at, Latest: at.Add(time.Second)}); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(s.Close(), os.WriteFile(filepath.Join(dir, "app.db"), []byte("four"), 0o600)); err != nil {
		t.Fatal(err)
	}
}

// claimAndPost leaves a claim with a task and messages that are pending, delivered and abandoned.
func claimAndPost(ctx context.Context, t *testing.T, s job.Store, at time.Time) {
	t.Helper()
	must[[]job.Job](t)(s.Create(ctx, created(storetest.Step, "tst_claimed", "", 0)))
	all := must[[]job.Job](t)(s.Claim(ctx, job.Claim{Worker: "w", N: 1, Lease: time.Hour, Now: at,
		From: []job.KindState{{Kind: "storetest.batch", State: storetest.Batch.Start().State}}}))
	if len(all) != 1 {
		t.Fatalf("claimed %d", len(all))
	}
	c := must[job.Change](t)(storetest.Transition(storetest.Batch, all[0], "begin", lifecycle.Worker, at))
	c.Tasks = []job.Task{{Name: "z", Kind: "k", State: "s", Epoch: c.Epoch, Data: []byte(`{"a": [1]}`), Changed: at}}
	for _, key := range []string{"pending", "delivered", "abandoned"} {
		c.Outbox = append(c.Outbox, job.Message{Key: key, Job: c.Job, Topic: "mail", Body: []byte(`{"x": 1}`),
			Created: at, Due: at})
	}
	if r := must[[]job.Result](t)(s.Commit(ctx, c)); r[0].Err != nil {
		t.Fatal(r[0].Err)
	}
	for _, m := range must[[]job.Message](t)(s.Take(ctx, job.Taking{N: 3, Lease: time.Minute, Now: at})) {
		m.Attempts++
		m.Tried = []job.Attempt{{At: at, Took: 3, Error: "no\x00 answer"}}
		if m.Key != "pending" {
			m.Settled = job.Settled(m.Key)
		}
		if err := s.Settle(ctx, m); err != nil {
			t.Fatal(err)
		}
	}
	all = must[[]job.Job](t)(s.Claim(ctx, job.Claim{Worker: "w", N: 1, Lease: time.Hour, Now: at,
		From: []job.KindState{{Kind: "storetest.step", State: storetest.Step.Start().State}}}))
	if len(all) != 1 {
		t.Fatalf("claimed %d", len(all))
	}
}

// goesOn uses a store as servers do: the claim continues, the next number follows, and an old key is known.
func goesOn(t *testing.T, s job.Store, number int64) {
	t.Helper()
	ctx, at := t.Context(), began.Add(2*time.Minute)
	if faults := storetest.Check(ctx, s, storetest.Step, storetest.Batch); len(faults) > 0 {
		t.Errorf("faults: %q", faults)
	}
	next := must[[]job.Job](t)(s.Create(ctx, created(storetest.Step, job.ID(fmt.Sprint("tst_next", number)), "", 0)))[0]
	if next.Number != number {
		t.Errorf("the next job has number %d, want %d", next.Number, number)
	}
	same := created(storetest.Step, "tst_same", "tst_batch", 0)
	same.Job.Key, same.Job.Owner = "key 1", "owner 1"
	if j := must[[]job.Job](t)(s.Create(ctx, same))[0]; j.ID != "tst_0001" {
		t.Errorf("a known key made %s", j.ID)
	}
	found := must[job.Page](t)(s.List(ctx, job.Query{Words: []string{"part1", "map"}})).Jobs
	if len(found) != 1 || found[0].ID != "tst_0001" {
		t.Errorf("%d jobs are found by their words", len(found))
	}
	claimed := must[job.Page](t)(s.List(ctx, job.Query{Worker: "w"})).Jobs
	if len(claimed) != 1 {
		t.Fatalf("%d claims", len(claimed))
	}
	lost := must[[]job.Lease](t)(s.Renew(ctx, job.Renewal{Worker: "w", Lease: 2 * time.Hour, Now: at,
		Leases: []job.Lease{{Job: claimed[0].ID, Epoch: claimed[0].Epoch}}}))
	if len(lost) > 0 {
		t.Errorf("the claim was lost: %v", lost)
	}
	if holds := must[[]job.Hold](t)(s.Holds(ctx)); len(holds) != 2 {
		t.Errorf("holds %v", holds)
	}
}

func usePostgres(t *testing.T, url string, number int64) {
	t.Helper()
	s := must[*postgres.Store](t)(postgres.Open(t.Context(), url, postgres.Options{CallerTime: true}))
	defer s.Close()
	goesOn(t, s, number)
}

func useSQLite(t *testing.T, dir string, number int64) {
	t.Helper()
	s := must[*sqlite.Store](t)(sqlite.Open(dir, sqlite.Options{}))
	defer s.Close()
	goesOn(t, s, number)
	r, err := s.Fsck(t.Context(), lives, false)
	if err != nil || !r.Clean() {
		t.Errorf("fsck: %v, %v", r.Faults, err)
	}
}

func lives(k job.Kind) *lifecycle.Table {
	for _, l := range []*lifecycle.Table{storetest.Step, storetest.Batch} {
		if l.Name() == string(k) {
			return l
		}
	}
	return nil
}

// tablesIn counts the tables of a database.
func tablesIn(t *testing.T, url string) (n int) {
	t.Helper()
	conn := must[*pgx.Conn](t)(pgx.Connect(t.Context(), url))
	defer conn.Close(t.Context())
	err := conn.QueryRow(t.Context(), "SELECT count(*) FROM pg_tables WHERE schemaname NOT IN ('pg_catalog', "+
		"'information_schema')").Scan(&n)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestMigrateThereAndBack copies a store to PostgreSQL and back: each is equal to the one before, and work continues.
func TestMigrateThereAndBack(t *testing.T) {
	dir, url := t.TempDir(), newDatabase(t)
	filled(t, dir, 450)
	plan := migration("sqlite", url, dir)
	plan.Check = true
	would := run(t, plan)
	if n := tablesIn(t, url); n != 0 {
		t.Errorf("the check made %d tables", n)
	}
	there := run(t, migration("sqlite", url, dir))
	if diff := cmp.Diff(there.Tables, would.Tables, cmpopts.IgnoreFields(transfer.Table{}, "Digest")); diff != "" {
		t.Errorf("what was announced differs (-copied +announced):\n%s", diff)
	}
	if tablesIn(t, url) == 0 {
		t.Error("control: the migration made no tables")
	}
	if there.Tables[0].Rows != 452 || !there.Copied || would.Copied {
		t.Errorf("got %+v after %+v", there, would)
	}
	_, err := stores.Open(t.Context(), stores.Options{Where: "sqlite", Dir: dir})
	wantRefused(t, "the source", err, "another store")
	_, err = sqlite.Open(dir, sqlite.Options{})
	wantRefused(t, "the source", err, "were migrated to PostgreSQL database test_")
	_, err = migration("sqlite", url, dir).Run(t.Context())
	wantRefused(t, "a second migration", err, "were migrated")

	back := migration(url, "sqlite", dir)
	_, err = back.Run(t.Context())
	wantRefused(t, "a target with old jobs", err, "--replace")
	back.Replace, back.Check = true, true
	would = run(t, back)
	if diff := cmp.Diff(there.Tables, would.Tables, cmpopts.IgnoreFields(transfer.Table{}, "Digest")); diff != "" {
		t.Errorf("what was announced for the way back differs (-there +announced):\n%s", diff)
	}
	back.Check = false
	if diff := cmp.Diff(there.Tables, run(t, back).Tables); diff != "" {
		t.Errorf("what came back differs (-there +back):\n%s", diff)
	}
	_, err = postgres.Open(t.Context(), url, postgres.Options{})
	wantRefused(t, "the database", err, "were migrated to sqlite in "+dir)
	useSQLite(t, dir, 453)

	again := migration("sqlite", url, dir)
	again.Replace = true
	run(t, again)
	usePostgres(t, url, 454)
	r, err := sharing(t, url, "", dir) // the files stayed
	if err != nil {
		t.Fatal(err)
	}
	_, err = migration(url, "sqlite", dir).Run(t.Context())
	if err == nil || !strings.Contains(err.Error(), "is in use by") {
		t.Errorf("beside a server: %v", err)
	}
	_ = r
}

// TestMigrateWarns: the check of a migration lists all that the migration itself lists of settings and jobs that
// servers on the target do not have. Control: without such settings nothing is listed.
func TestMigrateWarns(t *testing.T) {
	dir, url := t.TempDir(), newDatabase(t)
	filled(t, dir, 3)
	set := func(from, to string, several func(context.Context, job.Store) ([]string, error)) *Migration {
		m := migration(from, to, dir)
		m.Settings.Modules = append(m.Settings.Modules, module.Module{Name: "agents", Several: several})
		m.Settings.BackupEvery, m.Settings.Shared, m.Replace = time.Hour, t.TempDir(), true
		return m
	}
	jobs := func(ctx context.Context, s job.Store) ([]string, error) {
		j, err := s.Get(ctx, "tst_claimed")
		return []string{string(j.ID) + " is left"}, err
	}
	for _, c := range []struct {
		m    *Migration
		want []string
	}{
		{set("sqlite", url, jobs), []string{"backup.every must be off", "tst_claimed is left"}},
		{set(url, "sqlite", jobs), []string{"shared must not be set"}},
	} {
		c.m.Check = true
		would := run(t, c.m)
		c.m.Check = false
		done := run(t, c.m)
		if diff := cmp.Diff(done.Warnings, would.Warnings); diff != "" {
			t.Errorf("%s to %s: the check lists others (-migration +check):\n%s", c.m.From, c.m.To, diff)
		}
		if len(done.Warnings) != len(c.want) {
			t.Fatalf("%s to %s: got %q", c.m.From, c.m.To, done.Warnings)
		}
		for i, w := range c.want {
			if !strings.HasPrefix(done.Warnings[i], w) {
				t.Errorf("got %q, want %s", done.Warnings[i], w)
			}
		}
	}
	control := migration("sqlite", url, dir)
	control.Replace, control.Check = true, true
	if done := run(t, control); len(done.Warnings) > 0 {
		t.Errorf("control: got %q", done.Warnings)
	}
	failing := set("sqlite", url, func(context.Context, job.Store) ([]string, error) {
		return nil, errors.New("not readable")
	})
	if _, err := failing.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "not readable") {
		t.Errorf("what cannot be found out: %v", err)
	}
}

// TestMigrateStopped stops a migration after each of its steps, in both directions. No server starts on the target, and
// the next run ends with equal stores.
func TestMigrateStopped(t *testing.T) {
	const n = 210 // more than a page
	full := t.TempDir()
	filled(t, full, n)
	for _, way := range []string{"there", "back"} {
		for at, finished := 1, false; !finished; at++ {
			t.Run(fmt.Sprint(way, " ", at), func(t *testing.T) {
				dir, url := t.TempDir(), newDatabase(t)
				if err := os.CopyFS(dir, os.DirFS(full)); err != nil {
					t.Fatal(err)
				}
				from, to := "sqlite", url
				if way == "back" {
					run(t, migration(from, to, dir))
					from, to = to, from
				}
				m := migration(from, to, dir)
				m.Replace = way == "back"
				stop := errors.New("stopped")
				steps, last := 0, ""
				m.stop = func(step string) error {
					if steps++; steps == at {
						last = step
						return stop
					}
					return nil
				}
				_, err := m.Run(t.Context())
				switch finished = !errors.Is(err, stop); {
				case finished && (err != nil || at < 10):
					t.Fatalf("%d steps, %v", at-1, err)
				case !finished:
					refusesServers(t, to, dir, last)
					if way == "back" {
						usesSource(t, from, dir, last)
					}
					if done := run(t, migration(from, to, dir)); done.Tables[0].Rows != n+2 {
						t.Errorf("after %s: %+v", last, done)
					}
				}
				if to == url {
					usePostgres(t, url, n+3)
				} else {
					useSQLite(t, dir, n+3)
				}
			})
		}
	}
}

func refusesServers(t *testing.T, to, dir, after string) {
	t.Helper()
	var err error
	if to == "sqlite" {
		_, err = stores.Open(t.Context(), stores.Options{Where: to, Dir: dir})
		wantRefused(t, "a server in the directory after "+after, err, "run the same stagepost migrate again, or use")
		_, err = sqlite.Open(dir, sqlite.Options{})
	} else {
		_, err = postgres.Open(t.Context(), to, postgres.Options{})
	}
	wantRefused(t, "a server after "+after, err, "has not finished", "run the same stagepost migrate again")
}

// usesSource opens the source of a migration to the directory as a server, which the target does not refuse. Only when
// everything was copied, the source refuses by itself.
func usesSource(t *testing.T, url, dir, after string) {
	t.Helper()
	s, err := stores.Open(t.Context(), stores.Options{Where: url, Dir: dir, Files: dir})
	if err == nil {
		err = s.Closer.Close()
	}
	if err != nil && !strings.Contains(err.Error(), "were migrated to sqlite in "+dir) {
		t.Errorf("a server on the source after %s: %v", after, err)
	}
}

// TestMigrateWithoutMark is the control: without the mark a server starts on a part of the jobs.
func TestMigrateWithoutMark(t *testing.T) {
	dir, url := t.TempDir(), newDatabase(t)
	filled(t, dir, 8)
	m := migration("sqlite", url, dir)
	stop := errors.New("stopped")
	m.stop = func(step string) error {
		if strings.HasPrefix(step, "a part") {
			return stop
		}
		return nil
	}
	if _, err := m.Run(t.Context()); !errors.Is(err, stop) {
		t.Fatal(err)
	}
	name := url[strings.LastIndex(url[:strings.Index(url, "?")], "/")+1 : strings.Index(url, "?")]
	if err := databases.Server(t).Exec(name, "DELETE FROM migration"); err != nil {
		t.Fatal(err)
	}
	s := must[*postgres.Store](t)(postgres.Open(t.Context(), url, postgres.Options{}))
	defer s.Close()
	if messages := must[[]job.Message](t)(s.Messages(t.Context(), job.MessageQuery{})); len(messages) > 0 {
		t.Error("the store is whole: the control shows nothing")
	}
}

// TestMigrateReopen removes the mark of a source, which servers then use again.
func TestMigrateReopen(t *testing.T) {
	dir, url := t.TempDir(), newDatabase(t)
	filled(t, dir, 3)
	m := migration("sqlite", url, dir)
	_, err := m.Reopen(t.Context())
	wantRefused(t, "a store that was not migrated", err, "was not migrated")
	run(t, migration("sqlite", url, dir))
	if name, err := migration("sqlite", "", dir).Reopen(t.Context()); err != nil || name != "sqlite in "+dir {
		t.Fatal(name, err)
	}
	s, err := stores.Open(t.Context(), stores.Options{Where: "sqlite", Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Closer.Close(); err != nil {
		t.Fatal(err)
	}
	_, err = stores.Open(t.Context(), stores.Options{Where: url, Dir: t.TempDir(), Files: dir})
	wantRefused(t, "the other store, whose files these are no more", err, stores.FilesName)
}

// TestMigrateRefuses lists what is refused before anything is written.
func TestMigrateRefuses(t *testing.T) {
	dir, url := t.TempDir(), newDatabase(t)
	filled(t, dir, 3)
	other := t.TempDir()
	filled(t, other, 3)
	t.Run("a target with jobs", func(t *testing.T) {
		s := must[*postgres.Store](t)(postgres.Open(t.Context(), url, postgres.Options{}))
		must[[]job.Job](t)(s.Create(t.Context(), created(storetest.Step, "tst_old", "", 0)))
		_, err := migration("sqlite", url, dir).Run(t.Context())
		if err == nil || !strings.Contains(err.Error(), "a server without a name") {
			t.Errorf("while a server runs: %v", err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		_, err = migration("sqlite", url, dir).Run(t.Context())
		wantRefused(t, "a target with jobs", err, "is not empty", "1 jobs")
	})
	t.Run("a target of an application with rows", func(t *testing.T) {
		if err := os.WriteFile(filepath.Join(other, "app-postgres"), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := migration("sqlite", newDatabase(t), other).Run(t.Context())
		wantRefused(t, "rows of an application", err, "app has 1 rows")
	})
	t.Run("a server on the source", func(t *testing.T) {
		s := must[*sqlite.Store](t)(sqlite.Open(dir, sqlite.Options{}))
		defer s.Close()
		_, err := migration("sqlite", url, dir).Run(t.Context())
		if used := new(sqlite.InUse); !errors.As(err, &used) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("no source", func(t *testing.T) {
		_, err := migration("sqlite", url, t.TempDir()).Run(t.Context())
		if job.KindOf(err) != job.NotFound {
			t.Errorf("got %v", err)
		}
	})
	t.Run("a store in memory", func(t *testing.T) {
		if _, err := migration("sqlite", "mem", dir).Run(t.Context()); err == nil {
			t.Error("a store in memory was written")
		}
	})
}
