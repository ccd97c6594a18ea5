package scheduler

import (
	"encoding/binary"
	"slices"
)

// tagSet is a set of tags or of required labels, interned: its address identifies it.
type tagSet struct{ tags []string }

// all returns the tags; a nil set has none.
func (s *tagSet) all() []string {
	if s == nil {
		return nil
	}
	return s.tags
}

func (s *tagSet) has(tag string) bool { return slices.Contains(s.all(), tag) }

// tagSet returns the set of the tags, nil for none.
func (q *Queue) tagSet(tags []string) *tagSet {
	if len(tags) == 0 {
		return nil
	}
	var buffer [128]byte
	text := buffer[:0]
	for _, t := range tags {
		text = binary.AppendUvarint(text, uint64(len(t)))
		text = append(text, t...)
	}
	s := q.sets[string(text)]
	if s == nil {
		if len(q.sets) > 2*len(q.lanes)+1024 {
			q.forgetSets()
		}
		s = &tagSet{slices.Clone(tags)}
		q.sets[string(text)] = s
	}
	return s
}

// forgetSets drops the sets that no job has any more.
func (q *Queue) forgetSets() {
	used := make(map[*tagSet]bool, len(q.lanes))
	for k := range q.lanes {
		used[k.tags], used[k.requires] = true, true
	}
	for s := range q.states {
		used[s.requires] = true
	}
	for text, s := range q.sets {
		if !used[s] {
			delete(q.sets, text)
		}
	}
}
