package postgres

import (
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stagepost/stagepost/internal/pg"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// terms are the conditions of a claim.
type terms struct {
	*job.Claim
	now    time.Time
	places map[job.KindState]bool // of From, those in which jobs may wait
	order  []job.KindState        // those in the order of From
	limits map[job.Kind][]*limit  // of their kinds
	same   map[job.Kind]string    // of each kind, the identity of its limits
	taken  map[job.ID]bool        // jobs that this claim has, or that other servers claim now
}

// terms returns the conditions of a claim, with the limits that can apply: those of kinds of which jobs wait.
func (v *view) terms(c *job.Claim) (t *terms, err error) {
	t = &terms{Claim: c, now: c.Now, same: map[job.Kind]string{}, taken: map[job.ID]bool{}}
	if t.places, err = v.filled(c.From); err != nil {
		return nil, err
	}
	listed := make(map[job.KindState]bool, len(t.places))
	for _, place := range c.From {
		if t.places[place] && !listed[place] {
			listed[place], t.same[place.Kind] = true, ""
			t.order = append(t.order, place)
		}
	}
	t.limits, err = v.limited(c.Limits, func(k job.Kind) bool { _, is := t.same[k]; return is })
	for kind, limits := range t.limits {
		var b strings.Builder
		for _, l := range limits {
			fmt.Fprintln(&b, identity(&l.Limit), l.Max)
		}
		t.same[kind] = b.String()
	}
	return t, err
}

// fewPlaces is the number of states up to which a claim does not ask first in which of them jobs wait.
const fewPlaces = 8

// selectFilled finds the states in which jobs wait, by one search of the index for each of these: states without jobs
// cost nothing. ORDER BY and LIMIT make each search one of the index.
const selectFilled = `WITH RECURSIVE filled (kind, state) AS (
 (SELECT kind, state FROM lane WHERE waiting AND NOT held ORDER BY kind, state LIMIT 1)
 UNION ALL
 SELECT n.kind, n.state FROM filled f CROSS JOIN LATERAL (SELECT kind, state FROM lane
  WHERE waiting AND NOT held AND (kind, state) > (f.kind, f.state) ORDER BY kind, state LIMIT 1) n)
SELECT kind, state FROM filled`

// filled returns those of the states in which jobs may wait: at least all in which some do.
func (v *view) filled(from []job.KindState) (map[job.KindState]bool, error) {
	asked := make(map[job.KindState]bool, len(from))
	for _, place := range from {
		asked[place] = true
	}
	if len(asked) <= fewPlaces {
		return asked, nil
	}
	found := map[job.KindState]bool{}
	for _, l := range v.fresh {
		if asked[l.key.KindState] {
			found[l.key.KindState] = true
		}
	}
	rows, err := v.q.Query(v.ctx, selectFilled)
	if err != nil {
		return nil, err
	}
	var kind, state string
	_, err = pgx.ForEachRow(rows, []any{&kind, &state}, func() error {
		v.visits++
		place := job.KindState{Kind: job.Kind(pg.Original(kind)), State: lifecycle.State(pg.Original(state))}
		if asked[place] {
			found[place] = true
		}
		return nil
	})
	return found, err
}
