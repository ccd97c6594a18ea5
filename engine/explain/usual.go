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

	Typical time.Duration // the median; zero: there are too few
	// the median of the time from the entry into the state to the end of jobs that ended well; zero: there are too few
	Rest time.Duration
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
	stays, rests, err := e.stays(ctx, w.Life, k)
	if err != nil {
		return nil, err
	}
	states := map[lifecycle.State]Usual{}
	for _, s := range w.Life.Stages() {
		if s.Kind != lifecycle.End {
			of := usualOf(k, stays[s.State])
			of.Rest = median(rests[s.State])
			states[s.State] = of
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
	return Usual{Limit: max(stays[nth], usualFloor), Stays: len(stays), Known: true, Typical: median(stays)}
}

// median returns the lower median; zero for fewer than [usualLeast].
func median(all []time.Duration) time.Duration {
	if len(all) < usualLeast {
		return 0
	}
	slices.Sort(all)
	return all[(len(all)-1)/2]
}

// samples are durations by state.
type samples map[lifecycle.State][]time.Duration

// stays reads how long jobs of a kind stayed in the states that they left, and how long after the entry into a state
// those ended that ended well.
func (e *Explainer) stays(ctx context.Context, life *lifecycle.Table, k job.Kind) (all, rests samples, err error) {
	all, rests = samples{}, samples{}
	for ended, n := range map[bool]int{true: usualEnded, false: usualMoved} {
		page, err := e.store.List(ctx, job.Query{Kinds: []job.Kind{k}, Ended: &ended, Limit: n})
		if err != nil {
			return nil, nil, err
		}
		for i := range page.Jobs {
			history, err := e.store.History(ctx, page.Jobs[i].ID, 0, 0)
			if job.KindOf(err) == job.NotFound { // purged meanwhile
				continue
			}
			if err != nil {
				return nil, nil, err
			}
			addStays(all, history)
			if page.Jobs[i].Outcome == lifecycle.OK {
				addRests(rests, life, history)
			}
		}
	}
	return all, rests, nil
}

// addRests adds the times from each entry into a state to the first end.
func addRests(all samples, life *lifecycle.Table, history []job.Event) {
	ended := func(h job.Event) bool {
		stage, _ := life.Stage(h.To)
		return stage.Kind == lifecycle.End
	}
	end := slices.IndexFunc(history, ended)
	if end < 0 {
		return
	}
	for i, h := range history[:end] {
		if i == 0 || h.To != history[i-1].To {
			all[h.To] = append(all[h.To], max(history[end].At.Sub(h.At), 0))
		}
	}
}

// addStays adds the stays of one history. Loops do not end a stay.
func addStays(all samples, history []job.Event) {
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
