package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/stagepost/stagepost/internal/pg"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/storetest"
)

// addEnded adds n ended jobs, half of them older and half newer than others, each a copy of an ended one: with a
// batch, a key, two entries of its history, a task, a tag, a delivered message and an entry of the audit log.
func addEnded(t *testing.T, s *Store, id job.ID, n int) {
	t.Helper()
	for _, statement := range []string{
		`INSERT INTO job_made SELECT g.i, 'old_' || g.i, kind, 1000000000 + g.i, 'old_batch_' || g.i / 10, owner, definition,
 created, 'key ' || g.i, spec, crowd FROM job_made, generate_series(-$2::bigint / 2, 1000000 + $2::bigint / 2) AS g (i)
 WHERE id = $1 AND g.i NOT BETWEEN 0 AND 1000000`,
		`INSERT INTO job_now SELECT m.n, j.kind, j.state, j.last_ok, j.origin, j.outcome, j.ended, j.priority, j.grp,
 j.tags, j.bytes, j.version, j.epoch, j.worker, j.until, j.starts, j.attempts, j.retries, j.due, j.deadline, j.expires,
 j.entered, j.changed, j.message, j.cause, j.children, j.seq, j.head, j.data, j.lane, j.waits
 FROM job_made m, job_now j WHERE m.id LIKE 'old%' AND j.n = (SELECT n FROM job_made WHERE id = $1) AND $2::bigint > 0`,
		`INSERT INTO event (job, seq, event, from_state, to_state, outcome, actor, who, cause, note, epoch, at, hash)
 SELECT m.n, e.seq, e.event, e.from_state, e.to_state, e.outcome, e.actor, e.who, e.cause, e.note, e.epoch, e.at, e.hash
 FROM job_made m, event e WHERE m.id LIKE 'old%' AND e.job = (SELECT n FROM job_made WHERE id = $1) AND e.seq <= 2
 AND $2::bigint > 0`,
		`INSERT INTO task SELECT n, 't', 'k', 's', 0, 0, 0, 0, '', NULL, 0 FROM job_made WHERE id LIKE 'old%'
 AND $1::text <> '' AND $2::bigint > 0`,
		`INSERT INTO job_tag SELECT 'a', n FROM job_made WHERE id LIKE 'old%' AND $1::text <> '' AND $2::bigint > 0`,
		`INSERT INTO message SELECT 1000000000 + n, 'old' || n, id, 'mail', NULL, 0, 0, 1, '', 'delivered', ''
 FROM job_made WHERE id LIKE 'old%' AND $1::text <> '' AND $2::bigint > 0`,
		`INSERT INTO audit SELECT -1000000000 + n, 0, 8, 'olga', 'test', id, '', '', '', '', '', 0, ''
 FROM job_made WHERE id LIKE 'old%' AND $1::text <> '' AND $2::bigint > 0`,
	} {
		_, err := s.pool.Exec(t.Context(), statement, id, n)
		check(t, err)
	}
}

// growing are the tables whose rows remain when jobs have ended.
var growing = []string{"job_made", "job_now", "event", "task", "job_tag", "job_word", "message", "audit"}

// live are the indexes that have no rows of jobs that have ended: a statement may read all of one.
var live = []string{"job_live", "job_first", "job_eldest", "job_due", "job_claimed", "job_overdue",
	"message_due"}

// tracer notes the statements of a store, each with the arguments of its last call.
type tracer struct {
	mu   sync.Mutex
	seen map[string][]any
}

func (r *tracer) note(statement string, args []any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen[statement] = slices.DeleteFunc(slices.Clone(args), func(arg any) bool { return arg == any(planned) })
}

// reset forgets the statements.
func (r *tracer) reset() {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.seen)
}

// saw reports whether a statement was executed.
func (r *tracer) saw(statement string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, seen := r.seen[statement]
	return seen
}

// statements returns the statements, sorted.
func (r *tracer) statements() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Sorted(maps.Keys(r.seen))
}

func (r *tracer) TraceQueryStart(ctx context.Context, _ *pgx.Conn, d pgx.TraceQueryStartData) context.Context {
	r.note(d.SQL, d.Args)
	return ctx
}

func (r *tracer) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func (r *tracer) TraceBatchStart(ctx context.Context, _ *pgx.Conn, d pgx.TraceBatchStartData) context.Context {
	for _, q := range d.Batch.QueuedQueries {
		r.note(q.SQL, q.Arguments)
	}
	return ctx
}

func (r *tracer) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}
func (r *tracer) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData)     {}

// plan is a node of an answer of EXPLAIN.
type plan struct {
	Type     string `json:"Node Type"`
	Relation string `json:"Relation Name"`
	Index    string `json:"Index Name"`
	Cond     string `json:"Index Cond"`
	Plans    []plan `json:"Plans"`
}

// faults lists the nodes that read a growing table or an index of it as a whole. An index that is read in its order up
// to a limit, as for the highest number, is not read as a whole.
func (p *plan) faults(limited bool) (all []string) {
	switch {
	case strings.HasPrefix(p.Type, "Gather"):
		all = append(all, "parallel workers")
	case !slices.Contains(growing, p.Relation), p.Type == "ModifyTable":
	case p.Type == "Seq Scan", p.Index == "":
		all = append(all, p.Type+" of "+p.Relation)
	case p.Cond == "" && !limited && !slices.Contains(live, p.Index):
		all = append(all, "whole index "+p.Index)
	}
	limited = p.Type == "Limit" || limited && p.Type == "LockRows"
	for i := range p.Plans {
		all = append(all, p.Plans[i].faults(limited)...)
	}
	return all
}

// explained returns what a statement reads as a whole: as it is planned for its arguments, and for any.
func explained(t *testing.T, conn *pgx.Conn, statement string, args []any) (all []string) {
	t.Helper()
	ctx := t.Context()
	ask := func(question string, args ...any) {
		var text []byte
		if err := conn.QueryRow(ctx, question, args...).Scan(&text); err != nil {
			t.Errorf("%s: %v", question, err)
			return
		}
		var answer []struct{ Plan plan }
		check(t, json.Unmarshal(text, &answer))
		all = append(all, answer[0].Plan.faults(false)...)
	}
	ask("EXPLAIN (FORMAT JSON) "+statement, args...)
	_, err := conn.Exec(ctx, "PREPARE one AS "+statement)
	check(t, err)
	ask("EXPLAIN (FORMAT JSON) EXECUTE one" + nulls(len(args)))
	_, err = conn.Exec(ctx, "DEALLOCATE one")
	check(t, err)
	return slices.Compact(all)
}

// nulls are the arguments of a prepared statement for its plan.
func nulls(n int) string {
	if n == 0 {
		return ""
	}
	return "(" + strings.Repeat("NULL, ", n-1) + "NULL)"
}

// TestPlans: no statement of the work on jobs, of lists of jobs that have not ended, or of explanations reads a whole
// table that grows with ended jobs, or a whole index of one. The controls are statements that do.
func TestPlans(t *testing.T) {
	r := &tracer{seen: map[string][]any{}}
	s := openStore(t, newDatabase(t), Options{CallerTime: true, tracer: r})
	ctx := t.Context()
	jobs, err := s.Create(ctx, newJob(storetest.Step, "tst_old"))
	check(t, err)
	c, err := storetest.Transition(storetest.Step, jobs[0], "cancel", lifecycle.Operator, start)
	check(t, err)
	_, err = s.Commit(ctx, c)
	check(t, err)
	addEnded(t, s, "tst_old", 5000)
	_, err = s.pool.Exec(ctx, "ANALYZE")
	check(t, err)
	r.reset()
	_, err = script(ctx, s)
	check(t, err)
	for i := range 3 {
		check(t, oneJob(ctx, s, job.ID(fmt.Sprint("tst_more", i))))
	}
	limits := []job.Limit{{Name: "all", Kind: stepKind, Max: 50},
		{Name: "mine", Kind: stepKind, PerOwner: true, Max: 9}}
	for _, do := range []func() error{
		func() error {
			claim := job.Claim{Worker: "w1", N: 1, Now: start, Lease: 1, From: from("Waiting"), Limits: limits}
			got, err := s.Claim(ctx, claim)
			for _, version := range []int64{9, 0} { // refused at first: the record is compared, and not written
				if err == nil {
					_, err = s.Commit(ctx, job.Change{Job: got[0].ID, Epoch: got[0].Epoch, Version: version, At: start})
				}
			}
			return err
		},
		func() error { _, err := s.List(ctx, job.Query{Ended: new(bool), Limit: 20}); return err },
		func() error {
			_, err := s.List(ctx, job.Query{Kinds: []job.Kind{stepKind}, Owner: "o1", Ended: new(bool), Limit: 20})
			return err
		},
		func() error { _, err := s.List(ctx, job.Query{Parent: "tst_batch", Limit: 20}); return err },
		func() error { _, err := s.List(ctx, job.Query{Worker: "w1"}); return err },
		func() error { _, err := s.List(ctx, job.Query{Words: []string{"maps", "cr"}}); return err },
		func() error { _, err := s.List(ctx, job.Query{Words: []string{"cr"}, Oldest: true}); return err },
		func() error { _, err := s.Overdue(ctx, start, nil, 10); return err },
		func() error {
			_, err := s.ListEnded(ctx, job.EndedQuery{Kind: stepKind, States: []lifecycle.State{"Done"}, Before: start})
			return err
		},
		func() error { _, err := s.Count(ctx); return err },
		func() error { _, err := s.Get(ctx, "tst_2"); return err },
		func() error { _, err := s.Numbered(ctx, stepKind, 2); return err },
		func() error { _, err := s.History(ctx, "tst_2", 0, 10); return err },
		func() error { _, err := s.Tasks(ctx, "tst_1"); return err },
		func() error { _, err := s.Messages(ctx, job.MessageQuery{Limit: 20}); return err },
		func() error { _, err := s.Audit(ctx, 0, -10); return err },
		func() error { _, err := s.Holds(ctx); return err },
		func() error { _, err := s.Moved(ctx, 0, 10_000); return err },
		func() error {
			_, err := s.Peek(ctx, job.Claim{N: 5, Now: start, From: from("Waiting"), Limits: limits}, "tst_2")
			return err
		},
	} {
		check(t, do())
	}
	conn, err := s.connect(ctx)
	check(t, err)
	defer func() { check(t, conn.Close(ctx)) }()
	check(t, pg.RegisterRows(ctx, conn, rowTypes))
	check(t, set(ctx, conn, append(slices.Clone(planSettings), "SET plan_cache_mode = force_generic_plan",
		"SET stagepost.buckets = ''", "SET parallel_setup_cost = 0", "SET parallel_tuple_cost = 0",
		"SET min_parallel_table_scan_size = 0", "SET min_parallel_index_scan_size = 0"))) // as if tables were large
	n := 0
	for _, statement := range slices.Sorted(maps.Keys(r.seen)) {
		verb, _, _ := strings.Cut(strings.TrimSpace(statement), " ")
		if !slices.Contains([]string{"SELECT", "INSERT", "UPDATE", "DELETE", "WITH"}, strings.ToUpper(verb)) ||
			strings.Contains(statement, ";") {
			continue
		}
		n++
		for _, fault := range explained(t, conn, statement, r.seen[statement]) {
			t.Errorf("%s: %s", fault, statement)
		}
	}
	t.Logf("%d statements", n)
	if n < 25 || !r.saw(lockSame) {
		t.Errorf("only %d statements were seen", n)
	}
	for statement, want := range map[string]string{
		"SELECT count(*) FROM job_now WHERE changed = 1":              "of job_now",
		"SELECT n FROM job_made ORDER BY n":                           "whole index job_made_pkey",
		"SELECT count(*) FROM event e JOIN job_made m ON m.n = e.job": "whole index",
	} {
		if got := strings.Join(explained(t, conn, statement, nil), "; "); !strings.Contains(got, want) {
			t.Errorf("control: %q of %s, want %q", got, statement, want)
		}
	}
	check(t, set(ctx, conn, []string{"RESET max_parallel_workers_per_gather"}))
	const whole = "SELECT count(*) FROM event e JOIN job_made m ON m.n = e.job"
	if got := explained(t, conn, whole, nil); !slices.Contains(got, "parallel workers") {
		t.Errorf("control: with parallel workers: %q", got)
	}
}

// TestPlansMadeOnce: the statements of a peek are not planned again for each call, which takes longer than to execute
// them. Control: that of a record is.
func TestPlansMadeOnce(t *testing.T) {
	s := openStore(t, newDatabase(t), Options{CallerTime: true, Connections: 1})
	ctx := t.Context()
	_, err := s.Create(ctx, newJob(storetest.Step, "tst_1"))
	check(t, err)
	plans := func(call func() error) (n int64) {
		t.Helper()
		s.pool.Reset() // a new connection has no statements
		for range 4 {
			check(t, call())
		}
		var once int64
		check(t, s.pool.QueryRow(ctx, `SELECT sum(custom_plans), sum(generic_plans) FROM pg_prepared_statements
 WHERE statement NOT LIKE '%pg_notify%'`, // which the announcer may send at any time
			pgx.QueryExecModeExec).Scan(&n, &once))
		t.Logf("%d plans were made for arguments, %d others were used", n, once)
		return n
	}
	if n := plans(func() error {
		_, err := s.Peek(ctx, job.Claim{N: 5, Now: start, From: from("Waiting"), Ageing: job.Ageing{Share: 1},
			Limits: []job.Limit{{Kind: stepKind, Max: 9}}}, "tst_1")
		return err
	}); n != 0 {
		t.Errorf("statements were planned %d times for their arguments", n)
	}
	if plans(func() error { _, err := s.Get(ctx, "tst_1"); return err }) == 0 {
		t.Error("control: no statement was planned for its arguments")
	}
}
