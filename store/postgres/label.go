package postgres

import (
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/stagepost/stagepost/internal/pg"
	"github.com/stagepost/stagepost/job"
)

// labelsText is the stored form of the labels that a job requires: in order, each with a line end. So the sets that
// begin with the same labels are neighbours in the indexes of lanes.
func labelsText(labels []string) string {
	if len(labels) == 0 {
		return ""
	}
	return strings.Join(labels, "\n") + "\n"
}

// labelsOf is the reverse of labelsText.
func labelsOf(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(text, "\n"), "\n")
}

// fits reports whether the worker of the claim may have jobs of a lane, as far as states and labels are concerned.
func (t *terms) fits(k *laneKey) bool {
	return t.places[k.KindState] &&
		(k.requires == "" || len(job.Lacking(labelsOf(k.requires), t.Labels)) == 0)
}

// setsKey identifies the sets of labels that jobs of a state require and a worker with some labels has.
type setsKey struct {
	job.KindState
	labels string // as stored
}

// selectSets finds the sets among the labels that waiting jobs of a state require. It searches from one label to the
// next as in a tree: with a set, its beginning fits too. So jobs that require other labels cost nothing. A found set
// may be only the beginning of others. ORDER BY and LIMIT make each search one of the index.
const selectSets = `WITH RECURSIVE fits (labels, last) AS (
 SELECT '' COLLATE "C", 0::bigint
 UNION ALL
 SELECT (f.labels || l.label || E'\n') COLLATE "C", l.n FROM fits f
  JOIN unnest($3::text[]) WITH ORDINALITY l (label, n) ON l.n > f.last
  JOIN LATERAL (SELECT FROM lane WHERE kind = $1 AND state = $2 AND waiting AND NOT held AND
   requires >= (f.labels || l.label || E'\n') COLLATE "C" AND requires < (f.labels || l.label || E'\v') COLLATE "C"
   ORDER BY requires LIMIT 1) found ON true)
SELECT labels FROM fits`

// sets returns the sets of labels of the lanes of a state that a claim reads, as stored.
func (v *view) sets(t *terms, place job.KindState) ([]string, error) {
	labels := slices.DeleteFunc(job.Tagged(t.Labels...), func(l string) bool { return !job.IsLabel(l) })
	if len(labels) == 0 {
		return []string{""}, nil
	}
	key := setsKey{place, labelsText(labels)}
	if all := v.fitting[key]; all != nil {
		return all, nil
	}
	rows, err := v.q.Query(v.ctx, selectSets, pg.Stored(string(place.Kind)), pg.Stored(string(place.State)),
		labels)
	if err != nil {
		return nil, err
	}
	all, err := pgx.CollectRows(rows, pgx.RowTo[string])
	v.fitting[key], v.visits = all, v.visits+int64(len(all))
	return all, err
}
