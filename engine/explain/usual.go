package explain

import (
	"context"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// Bounds of the samples from which usual durations are computed.
const (
	usualEnded  = 1000           // newest ended jobs of a kind whose histories are read
	usualMoved  = 200            // newest open ones, for the states that they have left
	usualLeast  = 20             // fewer stays give no quantile
	usualFresh  = time.Minute    // how long a sample is remembered
	usualFloor  = time.Minute    // no shorter limit
	usualOfJob  = time.Hour      // the limit if there are too few stays
	usualBatch  = 24 * time.Hour // the same for batches
	batchSuffix = ".batch"       // of the kinds of batches
)

// Usual is how long jobs of a kind stay in a state, waiting and working counted together.
type Usual struct {
	Limit time.Duration // the 95th percentile, at least a minute; or the default
	Stays int           // in the sample
	Known bool          // Limit is computed from them; else it is the default
}

// usual caches the usual durations by kind. Its zero value is ready.
type usual struct {
	mu    sync.Mutex // guards kinds, and allows one computation at a time
	kinds map[job.Kind]usualKind
}

type usualKind struct {
	at     time.Time
	states map[lifecycle.State]Usual
}

// IsBatch reports whether jobs of the kind are batches, which consist of other jobs.
func IsBatch(k job.Kind) bool { return strings.HasSuffix(string(k), batchSuffix) }

// Usual reports how long jobs of a kind usually stay in each of its states, from the histories of the newest that ended
// or moved on. Answers are up to a minute old.
func (e *Explainer) Usual(ctx context.Context, k job.Kind) (map[lifecycle.State]Usual, error) {
	w := e.engine.Work(k)
	if w == nil {
		return nil, job.Errorf(job.NotFound, "usual", "", "there is no kind %q (known: %s)", k, e.kinds())
	}
	u := &e.usual
	u.mu.Lock()
	defer u.mu.Unlock()
	now := e.engine.Clock().Now()
	if old, ok := u.kinds[k]; ok && now.Sub(old.at) < usualFresh && !now.Before(old.at) {
		return old.states, nil
	}
	stays, err := e.stays(ctx, k)
	if err != nil {
		return nil, err
	}
	states := map[lifecycle.State]Usual{}
	for _, s := range w.Life.Stages() {
		if s.Kind != lifecycle.End {
			states[s.State] = usualOf(k, stays[s.State])
		}
	}
	if u.kinds == nil {
		u.kinds = map[job.Kind]usualKind{}
	}
	u.kinds[k] = usualKind{at: now, states: states}
	return states, nil
}

// usualOf takes the 95th percentile of stays (nearest rank), or the default of the kind.
func usualOf(k job.Kind, stays []time.Duration) Usual {
	if len(stays) < usualLeast {
		limit := usualOfJob
		if IsBatch(k) {
			limit = usualBatch
		}
		return Usual{Limit: limit, Stays: len(stays)}
	}
	slices.Sort(stays)
	nth := int(math.Ceil(0.95*float64(len(stays)))) - 1
	return Usual{Limit: max(stays[nth], usualFloor), Stays: len(stays), Known: true}
}

// stays reads how long jobs of a kind stayed in the states that they left.
func (e *Explainer) stays(ctx context.Context, k job.Kind) (map[lifecycle.State][]time.Duration, error) {
	all := map[lifecycle.State][]time.Duration{}
	for ended, n := range map[bool]int{true: usualEnded, false: usualMoved} {
		page, err := e.store.List(ctx, job.Query{Kinds: []job.Kind{k}, Ended: &ended, Limit: n})
		if err != nil {
			return nil, err
		}
		for i := range page.Jobs {
			history, err := e.store.History(ctx, page.Jobs[i].ID, 0, 0)
			if job.KindOf(err) == job.NotFound { // purged meanwhile
				continue
			}
			if err != nil {
				return nil, err
			}
			addStays(all, history)
		}
	}
	return all, nil
}

// addStays adds the stays of one history. Loops do not end a stay.
func addStays(all map[lifecycle.State][]time.Duration, history []job.Event) {
	if len(history) == 0 {
		return
	}
	state, since := history[0].To, history[0].At
	for _, h := range history[1:] {
		if h.To == state {
			continue
		}
		all[state] = append(all[state], max(h.At.Sub(since), 0))
		state, since = h.To, h.At
	}
}

// kinds lists the kinds of the engine for a message.
func (e *Explainer) kinds() string {
	words := []string{}
	for _, k := range e.engine.Kinds() {
		words = append(words, string(k))
	}
	return strings.Join(words, ", ")
}
