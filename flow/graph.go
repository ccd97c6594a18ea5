package flow

import (
	"fmt"
	"slices"
	"strings"
)

// Decider decides whether a link is followed. It gets the results, by atom, of all atoms from which links with deciders
// lead to the target, without ignored atoms. It is called when the target could run, before the results are stored, and
// should depend only on them.
type Decider func(results Values) (bool, error)

// Depth selects the atoms that are ignored when a decider returns false.
type Depth string

// The depths, from wide to narrow.
const (
	DepthAll       Depth = "all"       // the target and everything after it
	DepthFlow      Depth = "flow"      // the target and the tasks after it in the same flow
	DepthNeighbors Depth = "neighbors" // the target and the tasks right after it
	DepthAtom      Depth = "atom"      // the target
)

// width orders the depths; 0: not a depth.
func (d Depth) width() int {
	return 1 + slices.Index([]Depth{DepthAtom, DepthNeighbors, DepthFlow, DepthAll}, d)
}

// links are the items of a graph flow and the edges between them.
type links struct {
	items   []Item // in the order in which they were added
	at      map[Item]int
	out, in [][]int
	edges   map[[2]int]*edge
	gives   map[string][]int        // name: items that give it
	unmet   map[string]map[int]bool // name: items that need it, without an item before them that gives it
	target  int                     // -1: none
	order   []int                   // topological; nil: unknown
}

// edge is one link.
type edge struct {
	decider Decider
	depth   Depth
	names   []string // the values that it provides; none: made with Link
}

func newLinks() *links {
	return &links{at: map[Item]int{}, edges: map[[2]int]*edge{}, gives: map[string][]int{},
		unmet: map[string]map[int]bool{}, target: -1}
}

// AddOptions select the links that [Flow.AddWith] makes automatically.
type AddOptions struct {
	NoRequires bool // do not link a new item to the items that provide the values it needs
	NoExisting bool // do not link a new item to existing items that need its values
}

// Add adds items to a graph flow. It links each to the items that provide its values and to those that need its values.
// An error leaves the flow unchanged: [ErrAmbiguous] if two items provide one needed value, [ErrCyclic], [ErrInvalid].
func (f *Flow) Add(items ...Item) error { return f.AddWith(AddOptions{}, items...) }

// AddWith is Add with options for the automatic links.
func (f *Flow) AddWith(o AddOptions, items ...Item) error {
	if f.pattern != PatternGraph {
		return wrong(ErrInvalid, []string{f.Name}, "items are added to graph flows only; %s is %s", f.Name, f.pattern)
	}
	given := ""
	if f.Retry != nil {
		given = f.Retry.Result
	}
	if len(items) == 1 && f.graph.harmless(items[0], o, given) {
		return f.graph.addItem(items[0], o, given)
	}
	after := f.graph.clone()
	for _, item := range items {
		if item == nil {
			continue
		}
		if !proper(item) {
			return wrong(ErrInvalid, []string{f.Name},
				"%T cannot be added to %s: it is no item; a flow is made of tasks and flows", item, f.Name)
		}
		if _, there := after.at[item]; there {
			continue
		}
		if err := after.addItem(item, o, given); err != nil {
			return err
		}
	}
	if err := after.sort(); err != nil {
		return err
	}
	f.graph = after
	return nil
}

// Link makes v wait for u. Both must have been added. It returns the errors of Add.
func (f *Flow) Link(u, v Item) error { return f.link(u, v, edge{}) }

// LinkIf makes v wait for u. If the decider returns false, v is ignored, and with it the atoms that depth selects. An
// empty depth is [DepthAll].
func (f *Flow) LinkIf(u, v Item, decider Decider, depth Depth) error {
	if decider == nil {
		return wrong(ErrInvalid, []string{title(u), title(v)}, "the link from %s to %s has a depth and no decider",
			title(u), title(v))
	}
	if depth == "" {
		depth = DepthAll
	}
	if depth.width() == 0 {
		return wrong(ErrInvalid, []string{title(u), title(v)},
			"there is no depth %q (there are: all, flow, neighbors, atom)", depth)
	}
	return f.link(u, v, edge{decider: decider, depth: depth})
}

func (f *Flow) link(u, v Item, e edge) error {
	if f.pattern != PatternGraph {
		return wrong(ErrInvalid, []string{f.Name}, "links are for graph flows only; %s is %s", f.Name, f.pattern)
	}
	i, foundU := f.graph.indexOf(u)
	j, foundV := f.graph.indexOf(v)
	switch {
	case !foundU && !foundV:
		return wrong(ErrInvalid, []string{title(u), title(v)}, "%s and %s must be added to %s before they are linked",
			title(u), title(v), f.Name)
	case !foundU:
		return wrong(ErrInvalid, []string{title(u)}, "%s must be added to %s before it is linked", title(u), f.Name)
	case !foundV:
		return wrong(ErrInvalid, []string{title(v)}, "%s must be added to %s before it is linked", title(v), f.Name)
	}
	if i == j || f.graph.reaches(j, i) {
		return wrong(ErrCyclic, []string{u.Title(), v.Title()}, "a link from %s to %s would close a circle", u.Title(),
			v.Title())
	}
	l := f.graph
	l.connect(i, j, "")
	if e.decider != nil {
		l.edges[[2]int{i, j}].decider, l.edges[[2]int{i, j}].depth = e.decider, e.depth
	}
	l.satisfy(j)
	l.order = nil
	return nil
}

// Target restricts a graph flow to an item and its dependencies; nil removes the restriction. An error leaves the flow
// unchanged.
func (f *Flow) Target(item Item) error {
	if f.pattern != PatternGraph {
		return wrong(ErrInvalid, []string{f.Name}, "only graph flows have a target; %s is %s", f.Name, f.pattern)
	}
	if item == nil {
		f.graph.target = -1
		return nil
	}
	i, found := f.graph.indexOf(item)
	if !found {
		return wrong(ErrInvalid, []string{title(item)}, "%s must be added to %s before it is its target",
			title(item), f.Name)
	}
	f.graph.target = i
	return nil
}

// Link is an edge between two items, as [Flow.Links] lists them.
type Link struct {
	From, To Item
	Names    []string // the values that it provides; none: made with Link
	Depth    Depth    // of its decider; empty: it has none
}

// Links lists the edges of a flow by the order of their items.
func (f *Flow) Links() []Link {
	var all []Link
	switch f.pattern {
	case PatternLinear:
		for i := 1; i < len(f.items); i++ {
			all = append(all, Link{From: f.items[i-1], To: f.items[i]})
		}
	case PatternGraph:
		l := f.graph
		shown := l.shown()
		part := make([]bool, len(l.items))
		for _, i := range shown {
			part[i] = true
		}
		for _, i := range shown {
			for _, j := range l.out[i] {
				if e := l.edges[[2]int{i, j}]; part[j] {
					all = append(all, Link{From: l.items[i], To: l.items[j], Names: slices.Clone(e.names),
						Depth: e.depth})
				}
			}
		}
	}
	return all
}

// indexOf returns the number of an item.
func (l *links) indexOf(item Item) (int, bool) {
	if !proper(item) { // it may not be a valid map key
		return 0, false
	}
	i, found := l.at[item]
	return i, found
}

func (l *links) clone() *links {
	c := newLinks()
	c.items, c.target = slices.Clone(l.items), l.target
	for item, i := range l.at {
		c.at[item] = i
	}
	for i := range l.items {
		c.out, c.in = append(c.out, slices.Clone(l.out[i])), append(c.in, slices.Clone(l.in[i]))
	}
	for k, e := range l.edges {
		one := *e
		one.names = slices.Clone(e.names)
		c.edges[k] = &one
	}
	for n, by := range l.gives {
		c.gives[n] = slices.Clone(by)
	}
	for n, by := range l.unmet {
		c.unmet[n] = map[int]bool{}
		for i := range by {
			c.unmet[n][i] = true
		}
	}
	return c
}

// harmless reports whether adding a new item cannot fail, so that no copy of the links is needed. No existing item
// depends on it, so it closes no cycle, and none of its values is ambiguous. Most flows are built that way, item by
// item.
func (l *links) harmless(item Item, o AddOptions, given string) bool {
	if _, there := l.indexOf(item); there || !proper(item) {
		return false
	}
	for _, name := range item.Needs() {
		if name != given && len(l.gives[name]) > 1 {
			return false
		}
	}
	return o.NoExisting || !slices.ContainsFunc(item.Gives(), func(name string) bool { return len(l.unmet[name]) > 0 })
}

// addItem adds an item and links it by the values that items need and give; given is the value of the flow's retry
// controller.
func (l *links) addItem(item Item, o AddOptions, given string) error {
	i := len(l.items)
	l.items, l.at[item] = append(l.items, item), i
	l.out, l.in = append(l.out, nil), append(l.in, nil)
	l.order = nil
	for _, name := range item.Needs() {
		if name == given {
			continue
		}
		by := l.gives[name]
		switch {
		case !o.NoRequires && len(by) > 1:
			return wrong(ErrAmbiguous, []string{item.Title(), l.items[by[0]].Title(), l.items[by[1]].Title()},
				"%s requires %q, which both %s and %s provide", item.Title(), name, l.items[by[0]].Title(),
				l.items[by[1]].Title())
		case !o.NoRequires && len(by) == 1:
			l.connect(by[0], i, name)
		default:
			if l.unmet[name] == nil {
				l.unmet[name] = map[int]bool{}
			}
			l.unmet[name][i] = true
		}
	}
	for _, name := range item.Gives() {
		l.gives[name] = append(l.gives[name], i)
		if o.NoExisting {
			continue
		}
		for _, j := range inOrder(l.unmet[name]) {
			if j != i && !l.providedBefore(j, name) {
				l.connect(i, j, name)
			}
			if j != i {
				delete(l.unmet[name], j)
			}
		}
	}
	return nil
}

func inOrder(set map[int]bool) []int {
	all := make([]int, 0, len(set))
	for i := range set {
		all = append(all, i)
	}
	slices.Sort(all)
	return all
}

// connect makes an edge, or adds a reason to one.
func (l *links) connect(i, j int, name string) {
	e := l.edges[[2]int{i, j}]
	if e == nil {
		e = &edge{}
		l.edges[[2]int{i, j}] = e
		l.out[i], l.in[j] = append(l.out[i], j), append(l.in[j], i)
	}
	if name != "" {
		e.names = append(e.names, name)
	}
}

// satisfy removes from l.unmet the values of an item that an item before it gives.
func (l *links) satisfy(j int) {
	for _, name := range l.items[j].Needs() {
		if l.unmet[name][j] && l.providedBefore(j, name) {
			delete(l.unmet[name], j)
		}
	}
}

// providedBefore reports whether an item that item j depends on gives a value.
func (l *links) providedBefore(j int, name string) bool {
	for _, i := range l.gives[name] {
		if i != j && l.reaches(i, j) {
			return true
		}
	}
	return false
}

// reaches reports whether a path of links leads from i to j.
func (l *links) reaches(i, j int) bool {
	if l.edges[[2]int{i, j}] != nil {
		return true
	}
	if len(l.out[i]) == 0 || len(l.in[j]) == 0 {
		return false
	}
	seen := map[int]bool{j: true}
	for stack := []int{j}; len(stack) > 0; {
		at := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		for _, before := range l.in[at] {
			if before == i {
				return true
			}
			if !seen[before] {
				seen[before] = true
				stack = append(stack, before)
			}
		}
	}
	return false
}

// sort makes the topological order; independent items keep the order in which they were added. Error: [ErrCyclic].
func (l *links) sort() error {
	left := make([]int, len(l.items))
	ready := newHeap()
	for i := range l.items {
		if left[i] = len(l.in[i]); left[i] == 0 {
			ready.push(i)
		}
	}
	l.order = make([]int, 0, len(l.items))
	for ready.len() > 0 {
		i := ready.pop()
		l.order = append(l.order, i)
		for _, j := range l.out[i] {
			if left[j]--; left[j] == 0 {
				ready.push(j)
			}
		}
	}
	if len(l.order) == len(l.items) {
		return nil
	}
	var names []string
	for i := range l.items {
		if left[i] > 0 {
			names = append(names, l.items[i].Title())
		}
	}
	l.order = nil
	return wrong(ErrCyclic, names, "these depend on each other in a circle: %s", strings.Join(names, ", "))
}

// shown lists the items that are part of the flow: all, or what the target depends on.
func (l *links) shown() []int {
	if l.order == nil {
		if err := l.sort(); err != nil {
			panic(fmt.Sprintf("a graph flow became cyclic: %v", err)) // Add and Link refuse circles
		}
	}
	if l.target < 0 {
		return l.order
	}
	part := map[int]bool{l.target: true}
	for stack := []int{l.target}; len(stack) > 0; {
		at := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		for _, before := range l.in[at] {
			if !part[before] {
				part[before] = true
				stack = append(stack, before)
			}
		}
	}
	return slices.DeleteFunc(slices.Clone(l.order), func(i int) bool { return !part[i] })
}

func (l *links) ordered() []Item {
	shown := l.shown()
	items := make([]Item, len(shown))
	for k, i := range shown {
		items[k] = l.items[i]
	}
	return items
}

// needs adds the values that items need and no item before them gives.
func (l *links) needs(have, needs map[string]bool) {
	for _, i := range l.shown() {
		for _, name := range l.items[i].Needs() {
			if !have[name] && !l.providedBefore(i, name) {
				needs[name] = true
			}
		}
	}
}
