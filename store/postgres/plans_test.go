package postgres

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stagepost/stagepost/internal/pg"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/storetest"
)

// scan matches the scan of an index, up to its condition.
var scan = regexp.MustCompile(`Index (?:Only )?Scan(?: Backward)? using (\w+) on [^\n]*\n *(Index Cond)?`)

// complete are what is read as a whole: all holds, the lanes that they mark, and the first job that waits for its time.
var complete = []string{"lane_held", "job_due"}

// TestPlans: the plans of the statements that write are made once, maybe when the tables are empty. So each of them
// finds rows by conditions on indexes, and none reads a whole index or table, however few rows the planner expects.
func TestPlans(t *testing.T) {
	s := openStore(t, newDatabase(t), Options{CallerTime: true})
	var conn *pgx.Conn
	s.beforeFlush = func(w *writer) { conn = w.conn }
	_, err := script(t.Context(), s)
	check(t, err)
	check(t, rest(t.Context(), s))
	_, err = conn.Prepare(t.Context(), "control", selectRecord+"WHERE m.n = ANY ($1) AND j.waits = 1")
	check(t, err)
	rows, err := conn.Query(t.Context(),
		"SELECT name, statement, array_to_string(parameter_types, ',') FROM pg_prepared_statements", pgx.QueryExecModeExec)
	check(t, err)
	type prepared struct{ Name, Statement, Types string }
	all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[prepared])
	check(t, err)
	explained, control := 0, 0
	for _, p := range all {
		plan, err := explain(t.Context(), conn, p.Name, p.Types)
		if pg.State(err) == "42601" { // of BEGIN and the like
			continue
		}
		check(t, err)
		explained++
		reads := regexp.MustCompile("Seq Scan on (\\w+)").FindAllStringSubmatch(plan, -1)
		for _, m := range scan.FindAllStringSubmatch(plan, -1) {
			if m[2] == "" && !slices.Contains(complete, m[1]) {
				reads = append(reads, m)
			}
		}
		reads = slices.DeleteFunc(reads, func(m []string) bool { return m[1] == "hold" || m[1] == "clock" })
		if p.Name == "control" {
			control = len(reads)
		} else if len(reads) > 0 {
			t.Errorf("%s\nreads all of %v:\n%s", p.Statement, reads, plan)
		}
	}
	if explained < 40 || control == 0 {
		t.Errorf("%d plans, the control reads %d indexes", explained, control)
	}
}

// rest executes statements that script does not: with limits, by age, of many jobs, of due jobs, of purges.
func rest(ctx context.Context, s *Store) error {
	list := []job.Created{newJob(storetest.Step, "tst_due", func(j *job.Job) { j.Due = start.Add(time.Minute) })}
	for i := range 20 {
		list = append(list, newJob(storetest.Step, job.ID(fmt.Sprint("tst_many", i))))
	}
	if _, err := s.Create(ctx, list...); err != nil {
		return err
	}
	claim := job.Claim{Worker: "w1", N: 6, Now: start.Add(time.Hour), Lease: time.Minute, From: from("Waiting"),
		Limits: []job.Limit{{Kind: stepKind, Max: 9, Occupy: []lifecycle.State{"Running"}}},
		Ageing: job.Ageing{Share: 2, Patience: time.Second}}
	held := job.Hold{Scope: job.Scope{Job: "tst_many0"}, Who: "olga", Since: start}
	if _, err := s.Hold(ctx, held); err != nil {
		return err
	}
	got, err := s.Claim(ctx, claim)
	if err != nil {
		return err
	}
	j := got[slices.IndexFunc(got, func(j job.Job) bool { return strings.HasPrefix(string(j.ID), "tst_many") })]
	for _, e := range []lifecycle.Event{"cancel", "delete"} {
		c, err := storetest.Transition(storetest.Step, j, e, pick(e == "cancel", lifecycle.Operator, lifecycle.Timer), start)
		if err != nil {
			return err
		}
		r, err := s.Commit(ctx, c)
		if err := moved(r, err); err != nil {
			return err
		}
		j = r[0].Job
	}
	return moved(s.Commit(ctx, job.Change{Job: j.ID, Version: j.Version, Purge: true, At: start}))
}

// explain returns the plan of a prepared statement.
func explain(ctx context.Context, conn *pgx.Conn, name, types string) (string, error) {
	var nulls []string
	for _, one := range strings.Split(types, ",") {
		if one != "" {
			nulls = append(nulls, "NULL::"+one)
		}
	}
	statement := "EXPLAIN EXECUTE " + pgx.Identifier{name}.Sanitize()
	if len(nulls) > 0 {
		statement += "(" + strings.Join(nulls, ", ") + ")"
	}
	rows, err := conn.Query(ctx, statement, pgx.QueryExecModeExec)
	if err != nil {
		return "", err
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	return strings.Join(lines, "\n"), err
}
