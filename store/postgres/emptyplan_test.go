package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/storetest"
)

// complete are what may be read as a whole: all holds, the clock, the lanes that holds mark, and the first job that
// waits for its time.
var complete = []string{"hold", "clock", "lane_held", "job_due"}

// wholes lists the tables and indexes that a plan reads without a condition on an index.
func (p *plan) wholes() (all []string) {
	if name := p.Index + p.Relation; p.Type != "ModifyTable" && name != "" && p.Cond == "" &&
		!slices.Contains(complete, p.Index) && !slices.Contains(complete, p.Relation) {
		all = append(all, p.Type+" of "+p.Relation+" "+p.Index)
	}
	for i := range p.Plans {
		all = append(all, p.Plans[i].wholes()...)
	}
	return all
}

// TestPlansOfEmptyTables: the plans of the statements that write are made once, maybe when the tables are empty. So
// each of them finds rows by conditions on indexes, and none reads a whole index or table, however few rows the planner
// expects.
func TestPlansOfEmptyTables(t *testing.T) {
	s := openStore(t, newDatabase(t), Options{CallerTime: true})
	ctx := t.Context()
	var conn *pgx.Conn
	s.beforeFlush = func(w *writer) { conn = w.conn }
	_, err := script(ctx, s)
	check(t, err)
	check(t, rest(ctx, s))
	for _, id := range []job.ID{"tst_chain1", "tst_chain2"} {
		jobs, err := s.Create(ctx, chained(id))
		check(t, err)
		for _, e := range []lifecycle.Event{"begin", "next"} {
			chainOn(t, s, &jobs[0], e, start)
		}
	}
	_, err = conn.Prepare(ctx, "control", selectRecord+"WHERE m.n = ANY ($1) AND j.waits = 1")
	check(t, err)
	type prepared struct {
		Name, Statement string
		Parameters      int
	}
	rows, err := conn.Query(ctx, "SELECT name, statement, cardinality(parameter_types) FROM pg_prepared_statements",
		pgx.QueryExecModeExec)
	check(t, err)
	all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[prepared])
	check(t, err)
	explained, control := 0, 0
	for _, one := range all {
		if slices.Contains([]string{"BEGIN", "COMMIT", "ROLLBACK"}, one.Statement) {
			continue
		}
		var text []byte
		check(t, conn.QueryRow(ctx, "EXPLAIN (FORMAT JSON) EXECUTE "+pgx.Identifier{one.Name}.Sanitize()+
			nulls(one.Parameters), pgx.QueryExecModeExec).Scan(&text))
		var answer []struct{ Plan plan }
		check(t, json.Unmarshal(text, &answer))
		explained++
		if reads := answer[0].Plan.wholes(); one.Name == "control" {
			control = len(reads)
		} else if len(reads) > 0 {
			t.Errorf("%s\nreads all of %v", one.Statement, reads)
		}
	}
	if explained < 30 || control == 0 {
		t.Errorf("%d plans, the control reads %d tables or indexes", explained, control)
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
		by := pick(e == "cancel", lifecycle.Operator, lifecycle.Timer)
		c, err := storetest.Transition(storetest.Step, j, e, by, start)
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
