package draw

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/stagepost/stagepost/flow"
)

// fold replaces all but a number of like items in every flow by rests. Like are all items of an unordered or linear
// flow, and those of a graph flow that wait for the same and are waited for by the same. In a linear flow, neighbours
// become one, and the first and the last stay. positions is how many items of graph flows have still space.
func (p *part) fold(most int, places *int) {
	if most < 0 {
		return
	}
	for _, item := range p.items {
		item.fold(most, places)
	}
	group := make([]int, len(p.items)) // by item: the first that is like it
	if p.pattern == flow.PatternGraph {
		group = p.twins()
	}
	into := p.crowd(group, most)
	hidden := map[int][]*part{} // by the first of a rest
	for i, item := range p.items {
		if into[i] >= 0 {
			hidden[into[i]] = append(hidden[into[i]], item)
		}
	}
	items, at := []*part{}, make([]int, len(p.items)) // at: where an item is now
	rests := map[int]int{}                            // by the first of a rest: where it is now
	for i, item := range p.items {
		switch place, there := rests[into[i]]; {
		case into[i] < 0:
			at[i] = len(items)
			items = append(items, item)
		case there:
			at[i] = place
		default:
			rests[into[i]], at[i] = len(items), len(items)
			items = append(items, rest(hidden[into[i]]))
		}
	}
	if len(items) == len(p.items) {
		p.bound(max(*places, most), places)
		return
	}
	if p.pattern == flow.PatternUnordered { // the rest is stated last
		slices.SortStableFunc(items, func(a, b *part) int {
			return cmp.Compare(b2i(a.kind == kindRest), b2i(b.kind == kindRest))
		})
	}
	p.items, p.links = items, relink(p.links, at)
	p.bound(max(*places, most), places)
}

// mostPlaced is how many items of graph flows have a position of their own, however different they are. The lanes of
// links that pass many ranks grow with the square of that.
const mostPlaced = 1000

// bound leaves a number of items of a graph flow, the most important ones. The others become a rest without links,
// which is the last item.
func (p *part) bound(most int, places *int) {
	if p.pattern != flow.PatternGraph {
		return
	}
	if *places -= min(*places, len(p.items)); len(p.items) <= most {
		return
	}
	order := make([]int, len(p.items))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(p.pressing(a), p.pressing(b)) })
	shown := order[:most]
	slices.Sort(shown)
	at := make([]int, len(p.items)) // where an item is now, counted from 1; 0: in the rest
	var items, hidden []*part
	for _, i := range shown {
		items = append(items, p.items[i])
		at[i] = len(items)
	}
	count := 0
	for i, item := range p.items {
		if at[i] == 0 {
			hidden = append(hidden, item)
			count += max(item.count, 1)
		}
	}
	left := rest(hidden)
	left.count = count
	var links []flow.OutlinedLink
	for _, l := range p.links {
		if l.From, l.To = at[l.From]-1, at[l.To]-1; l.From >= 0 && l.To >= 0 {
			links = append(links, l)
		}
	}
	p.items, p.links = append(items, left), links
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// twins gives for each item the first that has the same links.
func (p *part) twins() []int {
	keys := make([][]byte, len(p.items))
	for _, l := range p.links {
		keys[l.To] = fmt.Appendf(keys[l.To], "<%d%s", l.From, l.Depth)
		keys[l.From] = fmt.Appendf(keys[l.From], ">%d%s", l.To, l.Depth)
	}
	first := map[string]int{}
	group := make([]int, len(p.items))
	for i, k := range keys {
		if _, ok := first[string(k)]; !ok {
			first[string(k)] = i
		}
		group[i] = first[string(k)]
	}
	return group
}

// crowd gives for each item the first of the rest that it becomes part of, or -1 if it is shown.
func (p *part) crowd(group []int, most int) []int {
	into := make([]int, len(p.items))
	members := map[int][]int{}
	for i, g := range group {
		into[i] = -1
		members[g] = append(members[g], i)
	}
	for _, all := range members {
		if len(all) <= most+1 {
			continue
		}
		ranked := slices.Clone(all)
		slices.SortStableFunc(ranked, func(a, b int) int { return cmp.Compare(p.pressing(a), p.pressing(b)) })
		hidden := ranked[most:]
		slices.Sort(hidden)
		for k, i := range hidden {
			into[i] = hidden[0]
			if p.pattern == flow.PatternLinear && k > 0 {
				into[i] = i
				if hidden[k-1] == i-1 {
					into[i] = into[i-1]
				}
			}
		}
	}
	if p.pattern == flow.PatternLinear { // a single item is not folded
		for i := range into {
			if into[i] == i && (i+1 == len(into) || into[i+1] != i) {
				into[i] = -1
			}
		}
	}
	return into
}

// pressing orders items by what is to be shown first.
func (p *part) pressing(i int) int {
	if p.pattern == flow.PatternLinear && (i == 0 || i == len(p.items)-1) {
		return -1
	}
	if p.items[i].urgency > looks[waits].urgency {
		return unknown.urgency // among those that wait for nothing, the order decides
	}
	return p.items[i].urgency
}

// relink moves links to where their ends are now.
func relink(links []flow.OutlinedLink, at []int) []flow.OutlinedLink {
	type ends struct {
		from, to int
		depth    flow.Depth
	}
	seen := map[ends]bool{}
	var all []flow.OutlinedLink
	for _, l := range links {
		l.From, l.To = at[l.From], at[l.To]
		if k := (ends{l.From, l.To, l.Depth}); !seen[k] {
			seen[k] = true
			all = append(all, l)
		}
	}
	return all
}
