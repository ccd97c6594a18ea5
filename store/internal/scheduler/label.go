package scheduler

import (
	"maps"

	"github.com/stagepost/stagepost/job"
)

// kindState has what is common to all jobs of one state of one kind, and finds the states of the jobs that a worker may
// claim.
type kindState struct {
	given int   // jobs granted since the last one that was granted by age
	asked int64 // the number of the last claim that has it among its states
	labelNode
}

// labelNode is a node of a tree of sets of required labels. The labels on the way to a node, in order, are its set. The
// sets that a worker has the labels for are found without a visit to others: with a set, its beginning fits too.
type labelNode struct {
	state *state // of the jobs that require the labels of the node, or nil
	next  map[string]*labelNode
}

// at returns the node of a set of labels, and adds it if there is none.
func (n *labelNode) at(labels []string) *labelNode {
	for _, l := range labels {
		if n.next == nil {
			n.next = map[string]*labelNode{}
		}
		if n.next[l] == nil {
			n.next[l] = &labelNode{}
		}
		n = n.next[l]
	}
	return n
}

// fitting appends the states whose jobs require none but the labels, which are in order and unique.
func (n *labelNode) fitting(all []*state, labels []string, visits *int64) []*state {
	*visits++
	if n.state != nil {
		all = append(all, n.state)
	}
	if len(n.next) == 0 {
		return all
	}
	for i, l := range labels {
		if further := n.next[l]; further != nil {
			all = further.fitting(all, labels[i+1:], visits)
		}
	}
	return all
}

// kindStateOf returns what is common to the jobs in a state of a kind.
func (q *Queue) kindStateOf(k job.KindState) *kindState {
	p := q.kindStates[k]
	if p == nil {
		p = &kindState{}
		q.kindStates[k] = p
	}
	return p
}

// stateOf returns the state of a lane.
func (q *Queue) stateOf(key laneKey) *state {
	n := q.kindStateOf(key.KindState).at(key.requires.all())
	if n.state == nil {
		q.forgetStates()
		// after that, the node may be another one
		n = q.kindStateOf(key.KindState).at(key.requires.all())
		n.state = &state{KindState: key.KindState, requires: key.requires, q: q, homes: map[homeKey]*lot{}}
		q.states[n.state] = struct{}{}
	}
	return n.state
}

// forgetStates drops the states without jobs when they are many: sets of labels that no job requires any more.
func (q *Queue) forgetStates() {
	if len(q.states) <= 2*len(q.lanes)+1024 {
		return
	}
	for _, p := range q.kindStates {
		p.labelNode = labelNode{}
	}
	for s := range q.states {
		q.visits++
		if len(s.homes) == 0 {
			delete(q.states, s)
			continue
		}
		q.kindStateOf(s.KindState).at(s.requires.all()).state = s
	}
	gone := func(o *lot, _ struct{}) bool { _, kept := q.states[o.state]; return !kept }
	for _, all := range q.limits {
		for _, l := range all {
			for _, s := range l.shares {
				q.visits += int64(len(s.lots))
				maps.DeleteFunc(s.lots, gone)
			}
		}
	}
	for _, h := range q.holds {
		q.visits += int64(len(h.lots))
		maps.DeleteFunc(h.lots, gone)
	}
}

// statesOf returns the states that a claim is about. Until the next lane is added they stay the same.
func (q *Queue) statesOf(from []job.KindState, labels []string) []*state {
	all, labels := q.asked[:0], job.Tagged(labels...)
	q.claims++
	for _, k := range from {
		if p := q.kindStates[k]; p != nil && p.asked != q.claims {
			p.asked = q.claims
			all = p.fitting(all, labels, &q.visits)
		}
	}
	q.asked = all
	return all
}
