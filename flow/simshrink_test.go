package flow

import (
	"slices"
	"testing"
)

// shrink searches for a smaller simulated flow with the same violation: fewer options, stages, crashes and items.
func shrink(t *testing.T, s *spec, crashes []crash, bad *violationFound) (*spec, []crash, *violationFound) {
	if bad.property == "deterministic" || bad.property == "same end" {
		return s, crashes, bad // found by comparing
	}
	for again := true; again; {
		again = false
		for _, small := range smaller(s) {
			if p, worse := showsFault(t, small, crashes, bad.property); p != nil {
				s, crashes, bad, again = small, p, worse, true
				break
			}
		}
	}
	return s, crashes, bad
}

// showsFault searches for crashes with which a simulated flow has a violation: none, those given, or one at any commit.
func showsFault(t *testing.T, s *spec, crashes []crash, property string) ([]crash, *violationFound) {
	c := chartOf(s)
	p, _, bad := simulate(t, s, c, nil, tamper{})
	if bad != nil && bad.property == property {
		return []crash{}, bad
	}
	if bad != nil || len(crashes) == 0 {
		return nil, nil
	}
	tries := [][]crash{crashes}
	for at := 1; at <= p.all; at++ {
		for _, stored := range []bool{true, false} {
			tries = append(tries, []crash{{at: at, stored: stored, same: crashes[0].same}})
		}
	}
	for _, one := range tries {
		if _, _, bad := simulate(t, s, c, slices.Clone(one), tamper{}); bad != nil && bad.property == property {
			return one, bad
		}
	}
	return nil, nil
}

// smaller returns slightly simpler simulations.
func smaller(s *spec) []*spec {
	var all []*spec
	change := func(f func(*spec)) {
		c := *s
		c.root = s.root.clone()
		f(&c)
		all = append(all, &c)
	}
	count := 0
	s.root.each(func(*part) { count++ })
	for k := 1; k < count; k++ {
		change(func(c *spec) { c.root.without(k) })
	}
	for k := range s.stages[1:] {
		change(func(c *spec) { c.stages = slices.Delete(slices.Clone(c.stages), k+1, k+2) })
	}
	for k := range s.suspends {
		change(func(c *spec) { c.suspends = slices.Delete(slices.Clone(c.suspends), k, k+1) })
	}
	if len(s.stops) > 0 {
		change(func(c *spec) { c.stops = nil })
	}
	if s.forgets {
		change(func(c *spec) { c.forgets = false })
	}
	if s.workers > 0 {
		change(func(c *spec) { c.workers = 0 })
	}
	return all
}

func (p *part) clone() *part {
	c := *p
	c.items, c.joins, c.order, c.needs = nil, slices.Clone(p.joins), slices.Clone(p.order), slices.Clone(p.needs)
	for _, item := range p.items {
		c.items = append(c.items, item.clone())
	}
	return &c
}

// without removes the k-th part, and its values from the needs of other parts.
func (p *part) without(k int) {
	n := 0
	p.each(func(f *part) {
		for at := 0; at < len(f.items); at++ {
			if n++; n != k {
				continue
			}
			gone := f.items[at].given()
			f.items = slices.Delete(f.items, at, at+1)
			f.order = slices.DeleteFunc(f.order, func(i int) bool { return i == at })
			for i := range f.order {
				if f.order[i] > at {
					f.order[i]--
				}
			}
			f.joins = slices.DeleteFunc(f.joins, func(j join) bool { return j.from == at || j.to == at })
			for i := range f.joins {
				if f.joins[i].from > at {
					f.joins[i].from--
				}
				if f.joins[i].to > at {
					f.joins[i].to--
				}
			}
			p.each(func(t *part) {
				t.needs = slices.DeleteFunc(t.needs, func(name string) bool { return slices.Contains(gone, name) })
			})
			return
		}
	})
}
