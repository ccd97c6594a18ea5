package flow

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// many is more than the number of times that anything happens in a simulated flow.
const many = 99

// part is a piece of a random flow as data. From it come the items for every runner, the chart for the checker, and the
// printed form.
type part struct {
	kind  string // "task", or the pattern
	name  string
	items []*part
	joins []join     // of a graph: explicit links
	order []int      // of a graph: in which its items are added
	alone bool       // of a graph: each item is added by a call of its own
	steer *retrySpec // the retry controller

	needs    []string
	gives    string
	short    bool // the result lacks what was promised
	round    string
	priority int
	conduct  behavior
}

// behavior is the behavior of a task. It depends only on attempts, rounds of the controller above and stages of the
// simulation, never on time.
type behavior struct {
	fails     int  // the first so many executions
	byRound   bool // counted by the value of the controller above, not by attempts
	before    int  // the hook before Execute fails in the first so many attempts
	after     int  // the hook after it in the first so many stages
	undo      int  // Revert fails in the first so many stages
	undoAfter int  // the hook after Revert in the first so many stages
	tries     int  // Attempts.Max
	waits     string
}

// join is an explicit link between items of a graph.
type join struct {
	from, to int
	// of a decider: yes, no, odd (yes when the source's attempt was odd), error (in the first stage); empty: no decider
	says  string
	depth Depth
}

// retrySpec is a retry controller.
type retrySpec struct {
	name     string
	kind     string // times, each, values, always, custom
	n        int
	all      bool     // stops trying with REVERT_ALL
	then     Decision // custom: after n rounds
	fails    int      // custom: the round whose Execute fails; 0: none
	errs     int      // custom: Decide gives an error in the first so many stages
	undo     int      // custom: Revert fails in the first so many stages
	pause    bool
	priority int
}

// spec describes a simulated flow: the flow, its options and the actions on it.
type spec struct {
	seed        uint64
	root        *part
	workers     int
	deferring   bool
	never       bool
	revertsErrs bool
	forgets     bool // whenever the flow rests, another runner continues
	suspends    []int
	stops       []int
	stages      []string // run, reset
	shy         bool     // at most one task fails, so that the end depends only on the flow
}

// generator makes random simulations.
type generator struct {
	*rand.Rand
	left    int // atoms that may still be made
	tasks   int
	flows   int
	wild    bool // failures of all kinds
	culprit bool // one failing task was made
	shy     bool
	line    bool // linear flows only
}

func (a *generator) chance(percent int) bool { return a.IntN(100) < percent }

// newSpec makes the simulation of a seed.
func newSpec(seed uint64) *spec {
	a := &generator{Rand: rand.New(rand.NewPCG(seed, 17))}
	switch n := a.IntN(100); {
	case n < 60:
		a.left = 2 + a.IntN(6)
	case n < 92:
		a.left = 6 + a.IntN(12)
	default:
		a.left = 20 + a.IntN(40)
	}
	a.shy, a.line = a.chance(25), a.chance(20)
	a.wild = !a.shy && a.chance(80)
	s := &spec{seed: seed, shy: a.shy, stages: []string{"run"}}
	s.root = a.flow(0, nil, "")
	if a.chance(40) {
		s.workers = 1 + a.IntN(4)
	}
	s.deferring, s.never, s.revertsErrs, s.forgets = a.chance(25), a.chance(8), a.chance(30), a.chance(20)
	for a.chance(30) && len(s.suspends) < 3 {
		s.suspends = append(s.suspends, 1+a.IntN(30))
	}
	if a.chance(10) {
		s.stops = []int{1 + a.IntN(20)}
	}
	for a.chance(35) && len(s.stages) < 4 {
		if a.chance(40) {
			s.stages = append(s.stages, "reset")
		}
		s.stages = append(s.stages, "run")
	}
	return s
}

// flow makes a flow; seen are the values that its tasks may need, round is that of the controller above.
func (a *generator) flow(depth int, seen []string, round string) *part {
	a.flows++
	f := &part{name: fmt.Sprintf("f%d", a.flows), kind: []string{"linear", "unordered", "graph"}[a.IntN(3)]}
	if a.line {
		f.kind = "linear"
	}
	if a.chance(40) && a.left > 1 {
		f.steer = a.steer(f.name)
		round = "round_" + f.name
		if f.steer.kind != "always" {
			seen = append(slices.Clone(seen), round)
		}
	}
	n := 1 + a.IntN(6)
	if depth == 0 {
		n = a.left
	}
	for k := 0; k < n && a.left > 0; k++ {
		var item *part
		if a.chance(30) && depth < 4 {
			item = a.flow(depth+1, seen, round)
		} else {
			item = a.task(seen, round)
		}
		f.items = append(f.items, item)
		if f.kind != "unordered" {
			seen = append(slices.Clone(seen), item.given()...)
		}
	}
	if f.kind == "graph" {
		a.join(f)
	}
	return f
}

// join makes explicit links between items of a graph, from earlier to later ones.
func (a *generator) join(f *part) {
	f.order, f.alone = a.Perm(len(f.items)), a.chance(50)
	for to := range f.items {
		for from := range to {
			if !a.chance(120 / (2 + len(f.items))) {
				continue
			}
			j := join{from: from, to: to}
			if a.chance(40) {
				j.says = []string{"yes", "no", "odd", "odd", "error"}[a.IntN(5)]
				j.depth = []Depth{DepthAll, DepthFlow, DepthNeighbors, DepthAtom}[a.IntN(4)]
				if j.says == "error" && (!a.wild || a.chance(70)) {
					j.says = "no"
				}
				if j.says == "odd" && a.shy {
					j.says = "no" // attempts depend on who else was under way
				}
			}
			f.joins = append(f.joins, j)
		}
	}
}

func (a *generator) steer(name string) *retrySpec {
	a.left--
	s := &retrySpec{name: name + "_retry", n: a.IntN(4), kind: []string{"times", "times", "each", "values", "always",
		"custom", "custom"}[a.IntN(7)], all: a.chance(25), pause: a.chance(20)}
	s.then = []Decision{DecideRevert, DecideRevertAll}[a.IntN(2)]
	if a.chance(20) {
		s.priority = a.IntN(3)
	}
	if a.shy {
		s.n = max(s.n, 1) // no values means that the controller fails
	}
	if s.kind == "custom" && a.wild && a.chance(40) {
		switch a.IntN(3) {
		case 0:
			s.fails = 1 + a.IntN(2)
		case 1:
			s.errs = 1
		case 2:
			s.undo = 1
		}
	}
	return s
}

func (a *generator) task(seen []string, round string) *part {
	a.left--
	a.tasks++
	t := &part{kind: "task", name: fmt.Sprintf("t%d", a.tasks), round: round}
	if a.chance(70) {
		t.gives = "v_" + t.name
	}
	for _, name := range seen {
		if a.chance(100 / (2 + len(seen))) {
			t.needs = append(t.needs, name)
		}
	}
	if a.chance(25) {
		t.priority = a.IntN(4) - 1
	}
	if a.chance(12) {
		t.conduct.waits = []string{"sleep", "signal"}[a.IntN(2)]
	}
	if a.chance(20) {
		t.conduct.tries = 2 + a.IntN(2)
	}
	switch {
	case a.shy && !a.culprit && a.chance(25):
		a.culprit = true
		t.conduct.fails, t.conduct.byRound = []int{1, 2, many}[a.IntN(3)], true
	case a.wild:
		a.misbehave(t)
	}
	return t
}

// misbehave makes a task fail in one of many ways.
func (a *generator) misbehave(t *part) {
	c := &t.conduct
	if a.chance(18) {
		c.fails, c.byRound = []int{1, 1, 2, 3, many}[a.IntN(5)], a.chance(30)
	}
	switch n := a.IntN(100); {
	case n < 5:
		c.undo = []int{1, 1, many}[a.IntN(3)]
	case n < 7:
		c.before = 1 + a.IntN(2)
	case n < 9:
		c.after = 1
	case n < 10:
		c.undoAfter = 1
	case n < 13:
		t.short = t.gives != ""
	}
}

// given lists the values that a part gives.
func (p *part) given() []string {
	var all []string
	if p.gives != "" {
		all = append(all, p.gives)
	}
	if p.steer != nil {
		all = append(all, "round_"+p.name)
	}
	for _, item := range p.items {
		all = append(all, item.given()...)
	}
	return all
}

// each calls f for the part and all parts in it.
func (p *part) each(f func(*part)) {
	f(p)
	for _, item := range p.items {
		item.each(f)
	}
}

// size counts the parts.
func (s *spec) size() int {
	n := 0
	s.root.each(func(*part) { n++ })
	return n
}

// String prints the simulation as text, one line for each part.
func (s *spec) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d: workers %d, defer %t, never %t, revert errors %t, forgets %t, suspend at %v, stop at %v, %s\n", s.seed, s.workers, s.deferring, s.never, s.revertsErrs,
		s.forgets, s.suspends, s.stops, strings.Join(s.stages, " "))
	s.root.print(&b, "  ")
	return b.String()
}

func (p *part) print(b *strings.Builder, indent string) {
	fmt.Fprintf(b, "%s%s %s", indent, p.kind, p.name)
	if p.kind == "task" {
		fmt.Fprintf(b, " needs %v gives %q", p.needs, p.gives)
		if p.short {
			b.WriteString(" short")
		}
		fmt.Fprintf(b, " priority %d %+v", p.priority, p.conduct)
	}
	if p.steer != nil {
		fmt.Fprintf(b, " retry %+v", *p.steer)
	}
	for _, j := range p.joins {
		fmt.Fprintf(b, " [%s>%s %s %s]", p.items[j.from].name, p.items[j.to].name, j.says, j.depth)
	}
	if p.kind == "graph" {
		fmt.Fprintf(b, " added %v", p.order)
	}
	b.WriteString("\n")
	for _, item := range p.items {
		item.print(b, indent+"  ")
	}
}
