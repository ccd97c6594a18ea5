package metrics

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// other stands for the values of a label that are not told apart.
const other = "other"

// valid makes a label value of a text that a stranger chose: valid UTF-8, which Prometheus asks for, and of bounded length.
func valid(s string) string {
	const most = 100
	if s = strings.ToValidUTF8(s, "\uFFFD"); len(s) > most {
		s = strings.ToValidUTF8(s[:most], "")
	}
	return s
}

// table finds what was made for a key before. Reading takes no lock: keys are few and come early.
type table[K comparable, V any] struct {
	all atomic.Pointer[map[K]V]
	mu  sync.Mutex // of those who add
}

// of gives the value of a key, made by the function when it is new.
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

// words lets the first so many values of a label through; later ones are "other".
type words struct {
	mu    sync.Mutex // guards known
	known map[string]bool
	most  int
}

func newWords(most int) *words { return &words{known: map[string]bool{}, most: most} }

func (w *words) bound(s string) string {
	s = valid(s)
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.known[s]:
		return s
	case len(w.known) >= w.most:
		return other
	}
	w.known[s] = true
	return s
}

// chosen says which groups are told apart: those with the most open jobs. A group that was chosen stays as long as it has open jobs, so that its
// series do not come and go.
type chosen struct {
	mu    sync.Mutex // guards names
	names map[string]bool
	most  int
}

// choose gives the groups that are told apart, of groups with their numbers of open jobs.
func (c *chosen) choose(open map[string]int64) map[string]bool {
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
