package scheduler

import (
	"slices"

	"github.com/stagepost/stagepost/job"
)

// limit counts the active jobs of a [job.Limit]. The counts follow each change of a job, so that a claim reads them.
type limit struct {
	job.Limit // Max is that of the last claim
	on        bool
	shares    map[shareKey]*share
	blocking  map[int]map[*share]struct{} // the shares that closed lots, by their active jobs
}

// shareKey identifies the jobs that a limit counts together: all jobs, or those of one group, one owner or both.
type shareKey struct{ group, owner string }

// share has the active jobs that a limit counts together.
type share struct {
	of    *limit
	key   shareKey
	n     int
	lanes int               // that are members
	lots  map[*lot]struct{} // that it closes
	// it was full when one of its lots was to be opened or visited, and has not opened them since
	blocks bool
}

// member is a lane as a limit sees it.
type member struct {
	*share
	occupies bool // all its jobs are active; otherwise the claimed ones, and its claims are guarded
}

// full reports whether the limit forbids one more job of the share.
func (s *share) full() bool { return s.of.on && s.n >= s.of.Max }

// add counts n more active jobs.
func (s *share) add(n int) {
	was, blocks := s.full(), s.blocks
	s.unblock()
	s.n += n
	switch {
	case was && !s.full():
		s.open()
	case blocks:
		s.block()
	}
}

// block notes that the share keeps a lot closed.
func (s *share) block() {
	if s.blocks {
		return
	}
	if s.blocks = true; s.of.blocking[s.n] == nil {
		s.of.blocking[s.n] = map[*share]struct{}{}
	}
	s.of.blocking[s.n][s] = struct{}{}
}

// unblock is the reverse of block.
func (s *share) unblock() {
	if !s.blocks {
		return
	}
	s.blocks = false
	if delete(s.of.blocking[s.n], s); len(s.of.blocking[s.n]) == 0 && len(s.of.blocking) > few {
		delete(s.of.blocking, s.n) // a few empty ones stay for the next that blocks
	}
}

// open opens the lots that the share closed.
func (s *share) open() {
	s.unblock()
	for o := range s.lots {
		o.openAgain()
	}
}

// same reports whether two limits count the same jobs in the same way.
func same(a, b *job.Limit) bool {
	return a.Kind == b.Kind && a.Group == b.Group && a.Owner == b.Owner && a.Tag == b.Tag && a.PerGroup == b.PerGroup &&
		a.PerOwner == b.PerOwner && slices.Equal(a.Guard, b.Guard) && slices.Equal(a.Occupy, b.Occupy)
}

// limitAll puts the limits of a claim in force for the kinds of its states. Each limit is visited once, whatever the
// number of kinds.
func (q *Queue) limitAll(from []job.KindState, given []job.Limit) {
	if len(from) == 0 {
		return
	}
	q.claims++
	one := from[0].Kind
	only := !slices.ContainsFunc(from, func(k job.KindState) bool { return k.Kind != one })
	q.visits += int64(len(given))
	for i := range given {
		m := &given[i]
		if only && m.Kind != one {
			continue
		}
		g := q.given[m.Kind]
		if g == nil {
			g = new(givenLimits)
			q.given[m.Kind] = g
		}
		if g.claim != q.claims {
			g.claim, g.limits = q.claims, g.limits[:0]
		}
		g.limits = append(g.limits, m)
	}
	for i, k := range from {
		if i > 0 && k.Kind == from[i-1].Kind {
			continue
		}
		if g := q.given[k.Kind]; g != nil && g.claim == q.claims {
			q.limit(k.Kind, g.limits)
		} else {
			q.limit(k.Kind, nil)
		}
	}
}

// givenLimits are the limits of a kind that a claim has.
type givenLimits struct {
	claim  int64 // the number of the claim
	limits []*job.Limit
}

// limit puts the limits of a kind in force for its states, in place of those of the claim before. That is quick if they
// are the same; otherwise it visits all lanes of the kind.
func (q *Queue) limit(kind job.Kind, given []*job.Limit) {
	have := q.limits[kind]
	q.visits += int64(len(given))
	for n, m := range given {
		at := n
		for at < len(have) && !same(&have[at].Limit, m) {
			at++
		}
		if at == len(have) {
			have = append(have, q.newLimit(m))
			q.limits[kind] = have
		}
		have[n], have[at] = have[at], have[n]
		q.visits += int64(have[n].set(m, true))
	}
	n := len(given)
	for _, old := range have[n:] {
		q.visits += int64(old.set(&old.Limit, false))
	}
	if len(have) > n+mostUnused {
		q.forgetLimits(kind, n)
	}
}

// mostUnused is the number of limits that are counted although the last claim did not have them: other engines may
// have others.
const mostUnused = 8

// newLimit counts the jobs of a limit.
func (q *Queue) newLimit(m *job.Limit) *limit {
	t := &limit{Limit: *m, shares: map[shareKey]*share{}, blocking: map[int]map[*share]struct{}{}}
	q.visits += int64(len(q.ofKind[m.Kind]))
	t.Guard, t.Occupy = slices.Clone(m.Guard), slices.Clone(m.Occupy)
	for l := range q.ofKind[m.Kind] {
		if one, ok := t.member(l); ok {
			l.members = append(l.members, one)
			one.guard(l.home)
			if one.occupies {
				one.n += l.size
			} else {
				one.n += l.claimed
			}
		}
	}
	return t
}

// forgetLimits drops the limits of a kind after the first n.
func (q *Queue) forgetLimits(kind job.Kind, n int) {
	gone := q.limits[kind][n:]
	q.limits[kind] = slices.Clone(q.limits[kind][:n])
	q.visits += int64(len(q.ofKind[kind]))
	for l := range q.ofKind[kind] {
		l.members = slices.DeleteFunc(l.members, func(m member) bool { return slices.Contains(gone, m.of) })
	}
	old := func(s *share) bool { return slices.Contains(gone, s.of) }
	for s := range q.states {
		s.guards = slices.DeleteFunc(s.guards, old)
		for _, o := range s.homes {
			o.shares = slices.DeleteFunc(o.shares, old)
		}
	}
}

// set changes the maximum, and whether the limit is in force. It returns the number of shares that it visited: those
// that open, each of which a claim closed before. So engines that declare different maxima in turns pay for the owners
// that one of them may have jobs of and the other not.
func (t *limit) set(m *job.Limit, on bool) (visits int) {
	opens := t.on && (!on || m.Max > t.Max)
	t.Name, t.Max, t.on = m.Name, m.Max, on
	if !opens {
		return 0
	}
	for n, some := range t.blocking {
		visits++
		if on && n >= m.Max {
			continue
		}
		for s := range some {
			visits++
			s.open()
		}
	}
	return visits
}

// member makes the lane a member of its share, if the limit concerns its jobs.
func (t *limit) member(l *lane) (m member, ok bool) {
	if t.Kind != l.Kind || t.Group != "" && t.Group != l.group || t.Owner != "" && t.Owner != l.owner ||
		t.Tag != "" && !l.tags.has(t.Tag) {
		return m, false
	}
	m.occupies = slices.Contains(t.Occupy, l.State)
	if !m.occupies && len(t.Guard) > 0 && !slices.Contains(t.Guard, l.State) {
		return m, false
	}
	var key shareKey
	if t.PerGroup {
		key.group = l.group
	}
	if t.PerOwner {
		key.owner = l.owner
	}
	m.share = t.shares[key]
	if m.share == nil {
		m.share = &share{of: t, key: key, lots: map[*lot]struct{}{}}
		t.shares[key] = m.share
	}
	m.lanes++
	return m, true
}

// join makes a new lane a member of the shares that count its jobs.
func (q *Queue) join(l *lane) {
	for _, t := range q.limits[l.Kind] {
		if m, ok := t.member(l); ok {
			l.members = append(l.members, m)
		}
	}
}

// guard lets the share close the home lot of a lane, or its state, if the limit concerns all jobs there.
func (m member) guard(home *lot) {
	t, s := m.of, home.state
	switch {
	case m.occupies || t.Owner != "" || t.PerOwner:
	case t.Group == "" && !t.PerGroup && t.Tag == "":
		if !slices.Contains(s.guards, m.share) {
			s.guards = append(s.guards, m.share)
		}
	default:
		if _, ok := m.lots[home]; !ok {
			m.lots[home] = struct{}{}
			home.shares = append(home.shares, m.share)
		}
	}
}

// part ends the memberships of a lane without jobs. The share of all jobs remains, because states refer to it.
func (l *lane) part() {
	for _, m := range l.members {
		if m.lanes--; m.lanes == 0 && m.key != (shareKey{}) {
			m.unblock()
			delete(m.of.shares, m.key)
		}
	}
}

// lotFor returns the lot of the lane while the share blocks it.
func (s *share) lotFor(l *lane) *lot {
	if s.of.Owner == "" && !s.of.PerOwner {
		return l.home
	}
	for o := range s.lots {
		if o.state == l.home.state && o.suspect == l.suspect {
			return o
		}
	}
	o := &lot{homeKey: homeKey{suspect: l.suspect}, state: l.home.state, shares: []*share{s}, slot: -1}
	s.lots[o] = struct{}{}
	return o
}

// full returns the share that forbids to grant one more job of the lane, or nil.
func (l *lane) full() *share {
	for _, m := range l.members {
		if !m.occupies && m.share.full() {
			return m.share
		}
	}
	return nil
}

// guards returns the limits in force that must let a job of the lane pass, in the order of the claim.
func (q *Queue) guards(l *lane) []job.LimitUse {
	var all []job.LimitUse
	for _, t := range q.limits[l.Kind] {
		for _, m := range l.members {
			if m.of == t && t.on && !m.occupies {
				all = append(all, job.LimitUse{Limit: t.Limit, Active: m.n})
			}
		}
	}
	return all
}
