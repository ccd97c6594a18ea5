package queue

import (
	"slices"

	"github.com/stagepost/stagepost/job"
)

// full reports whether a limit forbids to grant one more job of the lane. A job in an occupied state of the limit is
// counted already.
func (s *selection) full(l *lane) bool {
	for i := range s.limits {
		if m := &s.limits[i]; guards(m, l) && !slices.Contains(m.Occupy, l.State) && s.under(i, l) >= m.Max {
			return true
		}
	}
	return false
}

func guards(m *job.Limit, l *lane) bool {
	return m.Kind == l.Kind && (len(m.Guard) == 0 || slices.Contains(m.Guard, l.State)) && concerns(m, l)
}

func concerns(m *job.Limit, l *lane) bool {
	return (m.Group == "" || m.Group == l.group) && (m.Owner == "" || m.Owner == l.owner) &&
		(m.Tag == "" || l.tags.has(m.Tag))
}

// share is the set of jobs that a limit counts together: all jobs, or those of one group, one owner or both.
type share struct {
	limit        int
	group, owner string
}

func (s *selection) share(limit int, l *lane) share {
	one := share{limit: limit}
	if m := &s.limits[limit]; m.PerGroup {
		one.group = l.group
	}
	if s.limits[limit].PerOwner {
		one.owner = l.owner
	}
	return one
}

// under returns the number of active jobs of the limit that are counted together with lane l. The lanes are counted
// once in a selection.
func (s *selection) under(limit int, l *lane) int {
	if s.counts == nil {
		s.counts, s.counted = map[share]int{}, make([]bool, len(s.limits))
	}
	if !s.counted[limit] {
		s.counted[limit] = true
		m := &s.limits[limit]
		for _, other := range s.q.lanes {
			n := 0
			if other.Kind != m.Kind || !concerns(m, other) {
				continue
			}
			if slices.Contains(m.Occupy, other.State) {
				n = other.size
			} else if len(m.Guard) == 0 || slices.Contains(m.Guard, other.State) {
				n = other.claimed
			}
			if n > 0 {
				s.counts[s.share(limit, other)] += n
			}
		}
		for _, e := range s.picked {
			s.count(limit, e.lane)
		}
	}
	return s.counts[s.share(limit, l)]
}

// take records an entry as picked, before it is Put as claimed.
func (s *selection) take(e *entry) {
	s.picked = append(s.picked, e)
	for i, counted := range s.counted {
		if counted {
			s.count(i, e.lane)
		}
	}
}

// count counts one picked entry of the lane for the limit.
func (s *selection) count(limit int, l *lane) {
	if m := &s.limits[limit]; guards(m, l) && !slices.Contains(m.Occupy, l.State) {
		s.counts[s.share(limit, l)]++
	}
}
