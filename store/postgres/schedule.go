package postgres

import (
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/store/internal/rules"
)

// schedule makes the view follow the writes from number n on, and grants the claims that they request if that is
// allowed. A new job waits its turn; a chained one is only preceded by jobs of better priority.
func (b *batch) schedule(n int) error {
	expected := map[job.ID]int{}
	for _, w := range b.writes.Jobs[n:] {
		if w.After != nil {
			expected[w.After.ID] = w.After.Children.Expected
		}
	}
	for _, w := range b.writes.Jobs[n:] {
		before := b.before(w)
		if w.After == nil {
			b.follow(before, &changed{candidate: before.candidate, purged: true})
			continue
		}
		now := b.at(w.At)
		row, crowd := b.number(w, expected)
		after := newChanged(w.After, row, crowd, now)
		b.follow(before, after)
		if w.Chain == nil || w.After.Ended {
			continue
		}
		granted, err := b.canChain(w, after, now)
		if err != nil {
			return err
		}
		if granted {
			w.At = now
			w.Grant()
			b.follow(after, newChanged(w.After, row, crowd, now))
		}
	}
	return nil
}

// before returns a job as it was before a write, nil for a new one.
func (b *batch) before(w *rules.JobWrite) *changed {
	if w.Before == nil {
		return nil
	}
	if c := b.changed[w.Before.ID]; c != nil {
		return c
	}
	r := b.rows[w.Before.ID]
	return newChanged(&r.job, r.n, r.crowd, time.Time{})
}

// number returns the row number and the crowd of a job. A new job gets them.
func (b *batch) number(w *rules.JobWrite, expected map[job.ID]int) (row int64, crowd job.ID) {
	id := w.After.ID
	if w.Before == nil {
		b.row++
		b.news[id] = b.row
		parent := w.After.Parent
		n, known := expected[parent]
		if r := b.rows[parent]; !known && r != nil {
			n = r.job.Children.Expected
		}
		if delete(b.crowds, id); parent != "" && n > large {
			b.crowds[id] = parent
		}
	}
	if n, is := b.news[id]; is {
		return n, b.crowds[id]
	}
	return b.rows[id].n, b.rows[id].crowd
}

func newChanged(j *job.Job, n int64, crowd job.ID, now time.Time) *changed {
	c := &changed{candidate: candidate{j.ID, j.Parent, n, int64(j.Priority), micro(j.Entered), micro(j.Due)}}
	if j.Ended {
		return c
	}
	c.key = laneOf(j, crowd)
	c.lane, c.claimed = c.key.id(), j.Claimed()
	c.ready = !c.claimed && !j.Due.After(now)
	return c
}

// canChain reports whether a job may be claimed by the worker that moved or created it.
func (b *batch) canChain(w *rules.JobWrite, c *changed, now time.Time) (bool, error) {
	claim := &job.Claim{N: 1, From: []job.KindState{c.key.KindState}, Labels: w.Chain.Labels, Now: now}
	if len(w.Chain.Limits) > 0 && len(guarding(w.Chain.Limits, claim.From)) > 0 { // others need not be counted
		claim.Limits = w.Chain.Limits
	}
	t, err := b.terms(claim)
	if err != nil {
		return false, err
	}
	if !c.ready || !t.fits(c.key) || !b.open(t, c.key) || c.key.held(b.view.holds, now, &c.candidate) != nil {
		return false, nil
	}
	first, err := b.first(t, byTurn)
	if first.candidate == nil || err != nil {
		return false, err
	}
	granted := first.id == c.id || w.Before != nil && first.priority >= c.priority
	if granted {
		b.noBetter(c, w.Before == nil)
	}
	return granted, nil
}

// lockPicked has a condition that is that of no index: an index of all waiting jobs would be read as a whole, if the
// plan was made when there were few.
const lockPicked = selectRecord + `WHERE m.n = ANY ($1) AND j.n = ANY ($1) AND j.waits + 0 = 1
ORDER BY m.id FOR UPDATE OF j SKIP LOCKED`

// claim leases the jobs that a claim is granted. Jobs that another server has locked are passed over: it claims them,
// or changes them otherwise.
func (b *batch) claim(c *job.Claim) ([]*job.Job, error) {
	t, err := b.terms(c)
	if err != nil {
		return nil, err
	}
	given, turns := maps.Clone(b.given), maps.Clone(b.turns)
	for {
		picked, err := b.pick(t)
		if err != nil {
			return nil, err
		}
		lost, err := b.lockPicked(picked)
		if err != nil {
			return nil, err
		}
		b.putBack(t, picked)
		if len(lost) == 0 {
			return b.lease(c, picked)
		}
		for _, id := range lost {
			t.taken[id] = true
		}
		maps.Copy(b.given, given)
		maps.Copy(b.turns, turns)
	}
}

// lockPicked locks and reads the jobs that were picked. It returns those that cannot be claimed any more.
func (b *batch) lockPicked(picked []grant) (lost []job.ID, err error) {
	var rows []int64
	for _, g := range picked {
		if b.changed[g.id] == nil && b.rows[g.id] == nil {
			rows = append(rows, g.n)
		}
	}
	if len(rows) > 0 {
		found, err := b.q.Query(b.ctx, lockPicked, rows)
		if err != nil {
			return nil, err
		}
		list, err := collect(b.s, found, scanRecord)
		if err != nil {
			return nil, err
		}
		for _, r := range list {
			b.setRead(r)
		}
	}
	for _, g := range picked {
		if b.changed[g.id] != nil {
			continue
		}
		r := b.rows[g.id]
		if r == nil || r.waits != waitsTurn || r.lane != g.lane.id || int64(r.job.Priority) != g.priority ||
			micro(r.job.Entered) != g.entered {
			lost = append(lost, g.id)
		}
	}
	return lost, nil
}

// lease makes the writes of a claim.
func (b *batch) lease(c *job.Claim, picked []grant) ([]*job.Job, error) {
	ids := make([]job.ID, len(picked))
	for i, g := range picked {
		ids[i] = g.id
		b.granted[g.lane.key.owner] = true
	}
	from := len(b.writes.Jobs)
	claimed, err := rules.Claim(b.writes, c, ids)
	if err != nil {
		return nil, err
	}
	return claimed, b.schedule(from)
}

// raised returns the lanes whose stored keys are lower than those of their first jobs: they are raised, so that later
// claims do not visit them.
func (v *view) raised() (ids []laneID) {
	for _, s := range v.sources {
		for _, l := range s.lanes {
			if len(ids) < mostRaised && v.outdated(s.order, l) && !slices.Contains(ids, l.id) {
				ids = append(ids, l.id)
			}
		}
	}
	return ids
}

// mostRaised bounds the lanes that one transaction raises.
const mostRaised = 256

func (v *view) outdated(o order, l *laneState) bool {
	for _, c := range l.jobs {
		if v.changed[c.id] == nil {
			return o != byPriority && o.rank(c, v.turns[l.key.owner]) != l.rank
		}
	}
	return true
}

// promoted are jobs that become due. Their lanes are added or lowered.
const promoteJobs = `UPDATE job_now SET waits = 1 WHERE n IN (SELECT n FROM job_now WHERE waits = 2 AND due <= $1
 ORDER BY due LIMIT 5000 FOR UPDATE SKIP LOCKED) RETURNING lane, priority, n, entered`

// promote makes the jobs that are due claimable, in a transaction of its own. It returns how many it found, at most
// 5000.
func (b *batch) promote(at int64) (n int, err error) {
	rows, err := b.q.Query(b.ctx, promoteJobs, at)
	if err != nil {
		return 0, err
	}
	entered := map[laneID]*enteredLane{}
	_, err = collect(b.s, rows, func(row pgx.CollectableRow) (bool, error) {
		var id laneID
		var c candidate
		err := row.Scan((*[16]byte)(&id), &c.priority, &c.n, &c.entered)
		enter(entered, id, nil, &c)
		n++
		return true, err
	})
	if err != nil {
		return n, err
	}
	var p pgx.Batch
	b.enterLanes(&p, entered)
	p.Queue("COMMIT")
	return n, b.q.SendBatch(b.ctx, &p).Close()
}
