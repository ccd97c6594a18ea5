package metrics

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// Other is the label of all values without a series of their own.
const Other = "other"

// Valid makes a label value of any text: valid UTF-8, which Prometheus requires, and at most 100 bytes.
func Valid(s string) string {
	const most = 100
	if s = strings.ToValidUTF8(s, "\uFFFD"); len(s) > most {
		s = strings.ToValidUTF8(s[:most], "")
	}
	return s
}

// table keeps what was made for a key. Reading takes no lock: keys are few and come early.
type table[K comparable, V any] struct {
	all atomic.Pointer[map[K]V]
	mu  sync.Mutex // guards additions
}

// of returns the value of a key, made by the function when it is new.
func (t *table[K, V]) of(k K, create func(K) V) V {
	if all := t.all.Load(); all != nil {
		if v, ok := (*all)[k]; ok {
			return v
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	more := map[K]V{}
	if all := t.all.Load(); all != nil {
		if v, ok := (*all)[k]; ok {
			return v
		}
		more = maps.Clone(*all)
	}
	v := create(k)
	more[k] = v
	t.all.Store(&more)
	return v
}

// Values limits the values of a label: the first ones keep their names; later ones are [Other].
type Values struct {
	mu    sync.Mutex // guards known
	known map[string]bool
	most  int
}

func newValues(most int) *Values { return &Values{known: map[string]bool{}, most: most} }

// Bound returns a value as it is, or Other.
func (w *Values) Bound(s string) string {
	s = Valid(s)
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.known[s]:
		return s
	case len(w.known) >= w.most:
		return Other
	}
	w.known[s] = true
	return s
}

// Largest chooses which values of a label have series of their own: those with the largest numbers. A value that was
// chosen stays while its number is positive, so that its series do not come and go.
type Largest struct {
	mu    sync.Mutex // guards names
	names map[string]bool
	most  int
}

// Choose returns the chosen values, of values with their numbers.
func (c *Largest) Choose(open map[string]int64) map[string]bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	order := slices.Collect(maps.Keys(open))
	slices.SortFunc(order, func(a, b string) int {
		stay := func(s string) int {
			if c.names[s] && open[s] > 0 {
				return 0
			}
			return 1
		}
		return cmp.Or(cmp.Compare(stay(a), stay(b)), cmp.Compare(open[b], open[a]), cmp.Compare(a, b))
	})
	c.names = map[string]bool{}
	for _, name := range order[:min(len(order), c.most)] {
		c.names[name] = true
	}
	return maps.Clone(c.names)
}
