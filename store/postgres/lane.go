package postgres

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/stagepost/stagepost/internal/pg"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// laneID identifies a lane: the first bytes of the SHA-256 sum over its key. So a server needs no query to find the
// lane of a job, and two servers give a new lane the same id.
type laneID [16]byte

// laneKey is what the jobs of a lane have in common.
type laneKey struct {
	job.KindState
	group, owner string
	tags         string // as stored
	crowd        job.ID // the batch, if it is a large one
	suspect      bool
	requires     string // labels, as stored
}

// large is the number of jobs from which a batch has lanes of its own, so that a hold on it concerns whole lanes.
const large = 64

// laneOf returns the key of the lane of a job that has not ended.
func laneOf(j *job.Job, crowd job.ID) *laneKey {
	return &laneKey{KindState: job.KindState{Kind: j.Kind, State: j.State}, group: j.Group, owner: j.Owner,
		tags: tagsText(j.Tags), crowd: crowd, suspect: j.Suspect(), requires: labelsText(j.Requires)}
}

func (k *laneKey) id() (id laneID) {
	var room [512]byte
	b := room[:0]
	for _, text := range []string{string(k.Kind), string(k.State), k.group, k.owner, k.tags, string(k.crowd)} {
		b = binary.AppendUvarint(b, uint64(len(text)))
		b = append(b, text...)
	}
	if k.suspect {
		b = append(b, 1)
	}
	if k.requires != "" {
		b = append(b, 2)
		b = append(b, k.requires...)
	}
	sum := sha256.Sum256(b)
	copy(id[:], sum[:])
	return id
}

// uuid is the stored form of a lane: NULL for none.
func (id laneID) uuid() pgtype.UUID { return pgtype.UUID{Bytes: id, Valid: id != laneID{}} }

// bucket is the lock under which the keys of a lane change; see doc.go.
func (id laneID) bucket() int32 { return int32(id[0]) % laneBuckets }

const laneBuckets = 64

// tagged are the tags of the lane.
func (k *laneKey) tagged() []string {
	if k.tags == "" {
		return nil
	}
	var tags []string
	_ = json.Unmarshal([]byte(k.tags), &tags) // it was made by tagsText
	for i := range tags {
		tags[i] = pg.Original(tags[i])
	}
	return tags
}

// concerns reports whether a limit is about jobs like those of the lane; guards, whether it must let them pass. Jobs in
// an occupied state are counted already.
func (k *laneKey) concerns(l *job.Limit) bool {
	return l.Kind == k.Kind && (l.Group == "" || l.Group == k.group) && (l.Owner == "" || l.Owner == k.owner) &&
		(l.Tag == "" || slices.Contains(k.tagged(), l.Tag))
}

func (k *laneKey) guarded(l *job.Limit) bool {
	return len(l.Guard) == 0 || slices.Contains(l.Guard, k.State)
}

func (k *laneKey) guards(l *job.Limit) bool {
	return k.concerns(l) && k.guarded(l) && !slices.Contains(l.Occupy, k.State)
}

// held returns the hold in force on a job of the lane, or on all of them if c is nil, nil if there is none.
func (k *laneKey) held(holds []job.Hold, at time.Time, c *candidate) *job.Hold {
	if len(holds) == 0 {
		return nil
	}
	as := &job.Job{ID: "", Parent: k.crowd, Kind: k.Kind, Group: k.group, Owner: k.owner, Tags: k.tagged(),
		Position: lifecycle.Position{State: k.State}}
	if c != nil {
		as.ID, as.Parent = c.id, c.parent
	}
	for i := range holds {
		if holds[i].On(at) && holds[i].Matches(as) {
			return &holds[i]
		}
	}
	return nil
}

// candidate is a job that can be claimed.
type candidate struct {
	id, parent job.ID
	n          int64
	priority   int64
	entered    int64
	due        int64
}

// isDue reports whether the job may be claimed at a time, which may be before 1970: it is due since then, or at any
// time.
func (c *candidate) isDue(at time.Time) bool { return c.due == 0 || c.due <= micro(at) }

// rank is the position of a job or a lane in an order: lower first.
type rank struct{ a, b, c int64 }

func (r rank) less(o rank) bool {
	switch {
	case r.a != o.a:
		return r.a < o.a
	case r.b != o.b:
		return r.b < o.b
	}
	return r.c < o.c
}

// order is one of the orders in which a claim grants jobs.
type order int

const (
	byTurn     order = iota // priority, then the turns of owners, then number
	byAge                   // the time at which it entered the state
	byPriority              // priority, then number
)

// rank returns the position of a job whose owner had its last turn at a time.
func (o order) rank(c *candidate, turn int64) rank {
	switch o {
	case byAge:
		return rank{c.entered, c.n, 0}
	case byPriority:
		return rank{c.priority, c.n, 0}
	}
	return rank{c.priority, turn, c.n}
}
