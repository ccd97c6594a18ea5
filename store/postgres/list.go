package postgres

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stagepost/stagepost/internal/pg"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/store/internal/rules"
)

// planned has a statement planned for its arguments at each call, after which PostgreSQL would take one plan for all: a
// list by a tag that few jobs have is found by another index than one by a tag that most have.
const planned = pgx.QueryExecModeCacheDescribe

// mostRows bounds the jobs of an answer, as job.Store defines.
const mostRows = 1000

// conditions are the conditions of a statement, with their arguments.
type conditions struct {
	text []string
	args []any
}

// add adds a condition, in which %s is a parameter for the argument.
func (c *conditions) add(text string, arg any) {
	c.args = append(c.args, arg)
	c.text = append(c.text, fmt.Sprintf(text, "$"+strconv.Itoa(len(c.args))))
}

func (c *conditions) where() string {
	if len(c.text) == 0 {
		return ""
	}
	return "WHERE " + strings.Join(c.text, " AND ")
}

// List is part of job.Store. A cursor is the row number of a page's last job.
func (s *Store) List(ctx context.Context, q job.Query) (page job.Page, err error) {
	if err := q.Check(); err != nil {
		return page, err
	}
	var c conditions
	after := int64(math.MaxInt64)
	if q.Oldest {
		after = 0
	}
	if q.After != "" {
		if after, err = strconv.ParseInt(q.After, 10, 64); err != nil || after < 0 {
			return page, job.Errorf(job.Invalid, "list", "", "bad cursor %q", q.After)
		}
	}
	if len(q.Words) > 0 {
		from := after - 1
		if q.Oldest {
			from = after + 1
		}
		err = s.read(ctx, "list", "", func(r *reader) error {
			page, err = r.pageOfWords(&q, from)
			return err
		})
		return page, err
	}
	order := "DESC"
	if q.Oldest {
		order = "ASC"
		c.add("m.n > %s", after)
	} else {
		c.add("m.n < %s", after)
	}
	c.query(&q)
	limit := q.PageSize()
	statement := selectRecord + c.where() + " ORDER BY m.n " + order + " LIMIT " + strconv.Itoa(limit+1)
	err = s.read(ctx, "list", "", func(r *reader) error {
		rows, err := r.q.Query(r.ctx, statement, append([]any{planned}, c.args...)...)
		if err != nil {
			return err
		}
		page, err = pageOf(r.s, rows, rules.NewPage(&q), func(last *record) string {
			return strconv.FormatInt(last.n, 10)
		})
		return err
	})
	return page, err
}

// pageOf collects a page, whose cursor follows from its last job. What is behind its end is not read into memory.
func pageOf(s *Store, rows pgx.Rows, page rules.Page, cursor func(last *record) string) (job.Page, error) {
	defer rows.Close()
	var last *record
	next := ""
	for rows.Next() {
		one, err := scanRecord(rows)
		if err != nil {
			return job.Page{}, err
		}
		s.touched.Add(1)
		if !page.Add(&one.job) {
			next = cursor(last)
			break
		}
		last = one
	}
	rows.Close()
	return job.Page{Jobs: page.Jobs, Next: next}, rows.Err()
}

// query adds the conditions of a query, which are those of [job.Query.Matches].
func (c *conditions) query(q *job.Query) {
	list := func(column string, values []string) {
		switch len(values) {
		case 0:
		case 1:
			c.add(column+" = %s", values[0])
		default:
			c.add(column+" = ANY (%s)", values)
		}
	}
	text := func(column, value string) {
		if value != "" {
			c.add(column+" = %s AND "+column+" <> ''", pg.Stored(value))
		}
	}
	list("j.kind", storedAll(q.Kinds))
	list("j.state", storedAll(q.States))
	list("j.outcome", storedAll(q.Outcomes))
	list("j.cause", storedAll(q.Causes))
	if len(q.Causes) > 0 && !slices.Contains(q.Causes, "") {
		c.text = append(c.text, "j.cause <> ''")
	}
	text("j.grp", q.Group)
	text("m.owner", q.Owner)
	text("m.parent", string(q.Parent))
	text("m.key", q.Key)
	if q.Tag != "" {
		c.add("m.n IN (SELECT n FROM job_tag WHERE tag = %s)", pg.Stored(q.Tag))
	}
	c.words(q.Words)
	if q.Ended != nil {
		c.text = append(c.text, pick(*q.Ended, "j.ended <> 0", "j.ended = 0"))
	}
	if !q.Before.IsZero() {
		c.add("j.changed < %s", micro(q.Before))
	}
	if q.Worker != "" {
		c.add("j.worker ^@ %s AND j.worker <> ''", pg.Stored(q.Worker))
	}
}

// selectEnded reads the index job_aged: of each state as much as fits a page.
const selectEnded = selectRecord + `WHERE m.n = ANY (ARRAY (
  SELECT o.n FROM unnest($2::text[]) AS s (state) CROSS JOIN LATERAL (SELECT n, changed FROM job_now
   WHERE kind || '' = $1 AND state = s.state AND ended > 0 AND changed < $3 AND (changed, n) > ($4, $5)
   ORDER BY changed, n LIMIT $6) o ORDER BY o.changed, o.n LIMIT $6)) ORDER BY j.changed, m.n`

// ListEnded is part of job.Store.
func (s *Store) ListEnded(ctx context.Context, q job.EndedQuery) (page job.Page, err error) {
	after, some, err := rules.ParseAge(q.After)
	if !some {
		after.Changed = math.MinInt64
	}
	if err != nil || q.Before.IsZero() {
		return page, err
	}
	states := slices.Compact(slices.Sorted(slices.Values(storedAll(q.States))))
	err = s.read(ctx, "list", "", func(r *reader) error {
		rows, err := r.q.Query(r.ctx, selectEnded, pg.Stored(string(q.Kind)), states, micro(q.Before), after.Changed,
			after.Row, q.PageSize()+1)
		if err != nil {
			return err
		}
		page, err = pageOf(r.s, rows, rules.NewPage(&q), func(last *record) string {
			return rules.Age{Changed: micro(last.job.Changed), Row: last.n}.Cursor()
		})
		return err
	})
	return page, err
}

// Named is part of job.Store. Jobs that are not among the newest 10,000 are found in the order of their ids, which
// increase with time, past 10,000 of other owners, and those of an owner among the newest 10,000 of that owner.
func (s *Store) Named(ctx context.Context, part, owner string, n int) (jobs []job.Job, err error) {
	part = pg.Stored(part)
	const begin, newest = selectRecord + `WHERE m.n = ANY (ARRAY (
  (SELECT n FROM `, `
  UNION SELECT n FROM (SELECT n, id, owner FROM job_made ORDER BY n DESC LIMIT 10000) e
   WHERE (right(id, length($1)) = $1 OR id ^@ $1) AND ($2 = '' OR owner = $2)))
 ORDER BY m.n DESC LIMIT $3`
	statement := begin + `job_made WHERE id >= $1 AND id < $1 || U&'\+10FFFF' ORDER BY id DESC LIMIT $3)` + newest
	if owner != "" {
		statement = begin + `(SELECT n, id, owner FROM job_made WHERE id >= $1 AND id < $1 || U&'\+10FFFF'
    ORDER BY id DESC LIMIT 11000) b WHERE owner = $2 ORDER BY id DESC LIMIT $3)
  UNION (SELECT n FROM (SELECT n, id FROM job_made WHERE owner = $2 AND owner <> '' ORDER BY n DESC LIMIT 10000) o
   WHERE id ^@ $1 ORDER BY n DESC LIMIT $3)` + newest
	}
	err = s.read(ctx, "find", "", func(r *reader) error {
		list, err := all(r, scanRecord, statement, planned, part, pg.Stored(owner), max(0, min(n, mostRows)))
		jobs = nil
		for _, one := range list {
			jobs = append(jobs, one.job)
		}
		return err
	})
	return jobs, err
}

// selectOverdue reads the index job_overdue, kind by kind, up to the last job that it returns.
const selectOverdue = selectRecord + `WHERE m.n = ANY (ARRAY (
  SELECT o.n FROM unnest($2::text[]) AS k (kind) CROSS JOIN LATERAL (SELECT n FROM job_now
   WHERE kind || '' = k.kind AND ` + overdueFrom + ` <= $1 ORDER BY ` + overdueFrom + ` LIMIT $3) o LIMIT $3))`

// overdueFrom is the expression of the index job_overdue.
const overdueFrom = `CASE WHEN ended = 0 THEN least(
    CASE WHEN worker <> '' AND until <> 0 THEN until END, CASE WHEN expires <> 0 THEN expires END) END`

// Overdue is part of job.Store.
func (s *Store) Overdue(ctx context.Context, now time.Time, kinds []job.Kind, n int) (jobs []job.Job, err error) {
	err = s.read(ctx, "overdue", "", func(r *reader) error {
		at, of := now, storedAll(kinds)
		if !s.options.CallerTime {
			if err := r.q.QueryRow(r.ctx, "SELECT clock_timestamp()").Scan(&at); err != nil {
				return err
			}
		}
		if len(kinds) == 0 {
			known, err := r.kinds()
			if err != nil {
				return err
			}
			of = known
		}
		list, err := all(r, scanRecord, selectOverdue, micro(at), of, max(0, min(n, mostRows)))
		jobs = nil
		for _, one := range list {
			jobs = append(jobs, one.job)
		}
		return err
	})
	return jobs, err
}

// kinds returns the kinds of which there ever was a job, as they are stored.
func (r *reader) kinds() ([]string, error) {
	return all(r, pgx.RowTo[string], "SELECT substr(what, $1) FROM given WHERE what ^@ $2", len(countNumbers)+1,
		countNumbers)
}

// selectForPeek begins a peek. The statements of a peek are those of a claim, whose plans are made once for the writer.
const selectForPeek = "SELECT set_config('plan_cache_mode', 'force_generic_plan', true), clock_timestamp(), (" +
	selectFirstDue + ")"

// Peek is part of job.Store. It reads only, except that jobs which have become due are promoted first. No claim sees a
// difference: one with an earlier time passes over them.
func (s *Store) Peek(ctx context.Context, c job.Claim, id job.ID) (f job.Forecast, err error) {
	now := c.Now
	for range 2 {
		due := int64(0)
		err = s.read(ctx, "peek", id, func(r *reader) (err error) {
			f = job.Forecast{}
			clock := time.Time{}
			if err := r.q.QueryRow(r.ctx, selectForPeek).Scan(nil, &clock, &due); err != nil {
				return err
			}
			if !s.options.CallerTime {
				now = clock
			}
			mine := c
			mine.Now = now
			f, err = r.peek(&mine, id)
			return err
		})
		if err != nil || due == 0 || due > micro(now) {
			return f, err
		}
		promote := &operation{queue: true, until: now, apply: func(*batch) error { return nil }}
		if err := s.do(ctx, "peek", promote); err != nil {
			return f, err
		}
	}
	return f, err
}

func (r *reader) peek(c *job.Claim, id job.ID) (f job.Forecast, err error) {
	v := newView(r.ctx, r.q)
	if v.holds, err = r.holds(); err != nil {
		return f, err
	}
	r.s.mu.Lock()
	for place, n := range r.s.given {
		v.given[place] = n
	}
	r.s.mu.Unlock()
	t, err := v.terms(c)
	if err != nil {
		return f, err
	}
	found, err := all(r, scanRecord, selectRecord+"WHERE m.id = $1", pg.Stored(string(id)))
	if err != nil {
		return f, err
	}
	if len(found) > 0 && !found[0].job.Ended && !found[0].job.Claimed() {
		of := newChanged(&found[0].job, found[0].n, found[0].crowd, c.Now)
		limits, err := v.limited(c.Limits, func(k job.Kind) bool { return k == of.key.Kind })
		if err != nil {
			return f, err
		}
		f.Limits = uses(limits[of.key.Kind], of.key)
		if h := of.key.held(v.holds, c.Now, &of.candidate); h != nil {
			one := *h
			f.Hold = &one
		}
	}
	v.turn = math.MaxInt64 / 2 // after all turns that were given
	picked, err := v.pick(t)
	for _, g := range picked {
		f.Next = append(f.Next, g.id)
	}
	r.s.visited.Add(v.visits)
	return f, err
}
