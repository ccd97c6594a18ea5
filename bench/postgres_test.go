package bench

import (
	"context"
	"flag"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/engine/explain"
	"github.com/stagepost/stagepost/internal/pgtest"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/store/postgres"
)

var (
	postgresQueued = flag.Int("postgres.queued", 10_000, "queued jobs of the large store in BenchmarkPostgres")
	postgresEnded  = flag.Int("postgres.ended", 10_000, "ended jobs of the large store in BenchmarkPostgres")
	postgresServer = flag.String("postgres.server", "", "connection string \"host=... user=...\" of the database server "+
		"that BenchmarkPostgres uses, where the user may make databases; defaults to one in memory")
)

// few is the number of queued jobs of the small store.
const few = 1000

// shared is a store in PostgreSQL, with an engine that does not run.
type shared struct {
	store *postgres.Store
	e     *engine.Engine
	why   *explain.Explainer
}

// newShared makes a store with queued jobs, and ended ones that are copies of one.
func newShared(b *testing.B, database string, jobs, ended int) *shared {
	b.Helper()
	store, err := postgres.Open(b.Context(), database, postgres.Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := store.Close(); err != nil {
			b.Error(err)
		}
	})
	s := &shared{store: store}
	if ended > 0 {
		workedOff(b, store)
		copyEnded(b, database, ended)
	}
	w := j8Work()
	w.Limits = []job.Limit{{Name: "mine", Kind: "bench.j8", PerOwner: true, Max: 100}}
	if s.e, err = engine.New(store, []engine.Work{w}, engine.Options{}); err != nil {
		b.Fatal(err)
	}
	s.why = explain.New(s.e)
	enqueued(b, s.e, jobs, 10)
	execute(b, database, "VACUUM ANALYZE")
	return s
}

// workedOff works off one job.
func workedOff(b *testing.B, store job.Store) {
	b.Helper()
	e, stop := running(b, store, 1, j8Work())
	defer stop()
	j, err := e.Submit(b.Context(), engine.Order{Kind: "bench.j8", Owner: "owner0", Spec: payload})
	if err == nil {
		_, err = e.Await(b.Context(), j.ID, func(j *job.Job) bool { return j.Ended })
	}
	if err != nil {
		b.Fatal(err)
	}
}

func execute(b *testing.B, database, statement string, args ...any) {
	b.Helper()
	connected(b, database, func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, statement, args...)
		return err
	})
}

// query reads one row into into.
func query(b *testing.B, database string, into []any, statement string, args ...any) {
	b.Helper()
	connected(b, database, func(ctx context.Context, conn *pgx.Conn) error {
		return conn.QueryRow(ctx, statement, args...).Scan(into...)
	})
}

func connected(b *testing.B, database string, do func(context.Context, *pgx.Conn) error) {
	b.Helper()
	ctx := context.WithoutCancel(b.Context()) // databases are removed when the benchmark has ended
	conn, err := pgx.Connect(ctx, database)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = conn.Close(ctx) }()
	if err := do(ctx, conn); err != nil {
		b.Fatal(err)
	}
}

// copyEnded copies the only job, which has ended, n times. Copies are older than it, with numbers below zero.
func copyEnded(b *testing.B, database string, n int) {
	b.Helper()
	const part = 100_000
	statements := []string{
		`INSERT INTO job_made SELECT -g.i, m.id || g.i, kind, -g.i, parent, owner, definition, created, key, spec, crowd
 FROM job_made m, generate_series($1::bigint, $2::bigint) AS g (i) WHERE m.n = 1`,
		copying(b, database, "job_now", "n"), copying(b, database, "event", "job"),
	}
	for from := 1; from <= n; from += part {
		for _, statement := range statements {
			execute(b, database, statement, from, min(from+part-1, n))
		}
	}
}

// copying is the statement that copies the rows of job 1 in a table, whose column of is the job.
func copying(b *testing.B, database, table, of string) string {
	b.Helper()
	var names, values string
	query(b, database, []any{&names, &values}, `SELECT string_agg(quote_ident(attname), ', ' ORDER BY attnum),
 string_agg(CASE attname WHEN $2 THEN '-g.i' ELSE 't.' || quote_ident(attname) END, ', ' ORDER BY attnum)
 FROM pg_attribute WHERE attrelid = $1::text::regclass AND attnum > 0 AND NOT attisdropped AND attgenerated = ''
 AND attidentity = '' AND NOT EXISTS (SELECT FROM pg_attrdef d WHERE d.adrelid = attrelid AND d.adnum = attnum
  AND pg_get_expr(d.adbin, d.adrelid) LIKE 'nextval%')`, table, of)
	return "INSERT INTO " + table + " (" + names + ") SELECT " + values + " FROM " + table +
		" t, generate_series($1::bigint, $2::bigint) AS g (i) WHERE t." + of + " = 1"
}

// BenchmarkPostgres measures what waits for the store at a submission, a claim, a page of a list and an explanation,
// beside the same with 1,000 queued jobs and no ended one, in turns. The ratios are those of the medians.
func BenchmarkPostgres(b *testing.B) {
	databases := emptyDatabases(b)
	stores := []*shared{newShared(b, databases[0], few, 0),
		newShared(b, databases[1], *postgresQueued, *postgresEnded)}
	names := []string{"claim", "submit", "page", "why"}
	took := [2]map[string][]time.Duration{{}, {}}
	for b.Loop() { // the stores are made once, whatever the number of rounds is
		for i, s := range stores {
			for at, one := range s.round(b) {
				took[i][names[at]] = append(took[i][names[at]], one)
			}
		}
	}
	for _, name := range names {
		report(b, took[0][name], name+"-small")
		report(b, took[1][name], name)
		small, large := took[0][name], took[1][name] // sorted by report
		b.ReportMetric(float64(large[len(large)/2])/float64(small[len(small)/2]), name+"-ratio")
	}
}

// emptyDatabases makes two databases, which are removed at the end.
func emptyDatabases(b *testing.B) (all [2]string) {
	b.Helper()
	if *postgresServer == "" {
		server, err := pgtest.New()
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() {
			if err := server.Stop(); err != nil {
				b.Error(err)
			}
		})
		return [2]string{server.Database(b, "template0"), server.Database(b, "template0")}
	}
	for i, name := range []string{"stagepost_bench_small", "stagepost_bench_large"} {
		execute(b, *postgresServer+" dbname=postgres", "CREATE DATABASE "+name+" TEMPLATE template0")
		all[i] = *postgresServer + " dbname=" + name
		b.Cleanup(func() { execute(b, *postgresServer+" dbname=postgres", "DROP DATABASE "+name+" WITH (FORCE)") })
	}
	return all
}

// round makes one call of each kind, and gives how long each took.
func (s *shared) round(b *testing.B) (took [4]time.Duration) {
	b.Helper()
	ctx := b.Context()
	fatal := func(what string, err error) {
		if err != nil {
			b.Fatal(what, err)
		}
	}
	var claimed []job.Job
	took[0] = duration(func() (err error) {
		claimed, err = s.store.Claim(ctx, job.Claim{Worker: "bench", N: 1, Lease: time.Minute, Now: time.Now(),
			From:   []job.KindState{{Kind: "bench.j8", State: "Stage0"}},
			Limits: []job.Limit{{Name: "mine", Kind: "bench.j8", PerOwner: true, Max: 100}}})
		if err == nil && len(claimed) != 1 {
			err = fmt.Errorf("claimed %d jobs", len(claimed))
		}
		return err
	}, fatal)
	_, err := s.store.Commit(ctx, job.Change{Job: claimed[0].ID, Epoch: claimed[0].Epoch, At: time.Now()})
	fatal("give back", err)
	var made job.Job
	took[1] = duration(func() (err error) {
		made, err = s.e.Submit(ctx, engine.Order{Kind: "bench.j8", Owner: "owner0", Spec: payload})
		return err
	}, fatal)
	took[2] = duration(func() error {
		_, err := s.store.List(ctx, job.Query{Kinds: []job.Kind{"bench.j8"}, Owner: "owner3", Ended: new(bool)})
		return err
	}, fatal)
	took[3] = duration(func() error {
		_, err := s.why.Why(ctx, made.ID, time.Time{})
		return err
	}, fatal)
	return took
}

func duration(do func() error, fatal func(string, error)) time.Duration {
	began := time.Now()
	err := do()
	took := time.Since(began)
	fatal("measured: ", err)
	return took
}
