package sqlite

import (
	"strings"

	"github.com/stagepost/stagepost/job"
)

// newIDs finds without a search that no job has an id. Most ids of new jobs are among the highest that begin as they
// do, because they begin with a time. Only the loop uses it.
type newIDs struct{ series map[string]*idSeries }

// idSeries are the ids with a prefix: no job has one above floor that is in neither map. A job that has one may have
// been purged, or rolled back.
type idSeries struct {
	floor      job.ID
	young, old map[job.ID]struct{}
}

const (
	mostSeries = 64   // prefixes
	youngIDs   = 4096 // after that many the young ones become the old ones, which raise the floor
)

// idPrefix returns the part of an id up to the last underscore; ok is false if it has none.
func idPrefix(id job.ID) (prefix string, ok bool) {
	at := strings.LastIndexByte(string(id), '_')
	return string(id[:at+1]), at >= 0
}

// isNew reports whether it is known that no job has the id. highest searches for the highest id with a prefix, below
// another text.
func (n *newIDs) isNew(id job.ID, highest func(prefix, below string) (job.ID, error)) (bool, error) {
	prefix, ok := idPrefix(id)
	if !ok {
		return false, nil
	}
	s := n.series[prefix]
	if s == nil {
		floor, err := highest(prefix, prefix[:len(prefix)-1]+string(rune('_'+1)))
		if err != nil {
			return false, err
		}
		if n.series == nil || len(n.series) >= mostSeries {
			n.series = map[string]*idSeries{}
		}
		s = &idSeries{floor: floor, young: map[job.ID]struct{}{}}
		n.series[prefix] = s
	}
	if id <= s.floor {
		return false, nil
	}
	_, young := s.young[id]
	_, old := s.old[id]
	return !young && !old, nil
}

// add notes the id of a new job. [newIDs.isNew] was called for it.
func (n *newIDs) add(id job.ID) {
	prefix, _ := idPrefix(id)
	s := n.series[prefix]
	if s == nil || id <= s.floor {
		return
	}
	if s.young[id] = struct{}{}; len(s.young) < youngIDs {
		return
	}
	for old := range s.old {
		s.floor = max(s.floor, old)
	}
	clear(s.old)
	if s.old == nil {
		s.old = make(map[job.ID]struct{}, youngIDs)
	}
	s.young, s.old = s.old, s.young
}

// highestID returns the highest id that begins with a prefix; below is the next text that does not. Jobs of the open
// record of the log are left out.
func (r *records) highestID(prefix, below string) (highest job.ID, err error) {
	if f := r.logging(); f != nil {
		v, err := f.read()
		if err != nil {
			return "", err
		}
		for _, m := range v.ids(func(id job.ID) bool { return strings.HasPrefix(string(id), prefix) }) {
			highest = max(highest, m.id)
		}
	}
	s := r.reads.highest
	s.Text(1, prefix)
	s.Text(2, below)
	row, err := s.Step()
	if err != nil {
		return "", err
	}
	defer s.Reset()
	if row && !s.IsNull(0) {
		highest = max(highest, job.ID(s.GetText(0)))
	}
	return highest, nil
}
