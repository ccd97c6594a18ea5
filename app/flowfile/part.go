package flowfile

import (
	"fmt"

	"github.com/stagepost/stagepost/flow"
	"github.com/stagepost/stagepost/format/tree"
)

// patterns are the keys of parts.
var patterns = []flow.Pattern{flow.PatternLinear, flow.PatternUnordered, flow.PatternGraph}

// mostInGraph bounds the items of one graph: links are checked for circles one by one.
const mostInGraph = 2_000

// part reads a part; its name is known already. It gives nil if there is none.
func (r *reader) part(t *tree.Node, name string, depth int) *part {
	p := &part{place: t.Position, name: name}
	var items *tree.Node
	for _, pattern := range patterns {
		found := t.Get(string(pattern))
		switch {
		case found == nil:
		case items != nil:
			r.wrong(t.At(string(pattern)), "%s is %s already: it is one of linear, unordered, graph", or(name, "it"),
				p.pattern)
		default:
			items, p.pattern = found, pattern
		}
	}
	if items == nil {
		r.wrong(t.Position, "nothing is to be done: add linear:, unordered: or graph: with a list of items")
		return nil
	}
	if depth > MaxDepth {
		r.wrong(t.Position, "parts are nested more than %d deep", MaxDepth)
		return nil
	}
	p.again = r.again(t, name)
	if items.Kind != tree.List {
		if items.Kind != tree.Leaf || items.Value != nil {
			r.wrong(items.Position, "%s is a list of items, each with a hyphen before it, not %s", p.pattern,
				items.Describe())
		}
		items = &tree.Node{Kind: tree.List}
	}
	if p.pattern == flow.PatternGraph && len(items.Items) > mostInGraph {
		r.wrong(t.At("graph"), "a graph has at most %d items", mostInGraph)
		return nil
	}
	for k, one := range items.Items {
		if i := r.item(one, fmt.Sprintf("%s/%d", name, k+1), p.pattern, depth); i != nil {
			p.items = append(p.items, i)
		}
	}
	if target := t.Get("target"); target != nil {
		if p.pattern != flow.PatternGraph {
			r.wrong(t.At("target"), "only a graph has a target")
		} else if name := r.name(target, "target"); name != "" {
			p.target = &ref{target.Position, name}
		}
	}
	if p.pattern == flow.PatternGraph {
		r.links(p)
	}
	return p
}

func or(text, other string) string {
	if text == "" {
		return other
	}
	return text
}

// item reads one entry of a part.
func (r *reader) item(t *tree.Node, auto string, within flow.Pattern, depth int) *item {
	if t.Kind != tree.Mapping {
		r.wrong(t.Position, "an item is written as keys with values, such as task: NAME, not as %s", t.Describe())
		return nil
	}
	if r.items++; r.items > MaxTasks {
		if r.items == MaxTasks+1 {
			r.wrong(t.Position, "a flow has at most %d tasks", MaxTasks)
		}
		return nil
	}
	i := &item{place: t.Position}
	switch {
	case t.Get("each") != nil:
		if !r.keys(t, "a task for each item", eachTable) {
			return nil
		}
		i.each = r.each(t)
		i.task = r.task(t, true)
	case t.Get("linear") != nil, t.Get("unordered") != nil, t.Get("graph") != nil:
		r.keys(t, "a part", partTable)
		name := auto
		if given := t.Get("name"); given != nil {
			name = r.name(given, "name")
		} else if hasAgain(t) {
			r.wrong(t.Position, "a part that is run again needs a name: its controller is stored under it")
		}
		i.part = r.part(t, name, depth+1)
	default:
		r.keys(t, "a task", taskTable)
		i.task = r.task(t, false)
	}
	if i.part == nil && i.task == nil {
		return nil
	}
	r.link(i, t, within)
	return i
}

// againKeys are the keys of controllers.
var againKeys = []string{"retry", "for_each", "for_each_of", "always_revert"}

func hasAgain(t *tree.Node) bool {
	for _, k := range append([]string{"revert_all"}, againKeys...) {
		if t.Get(k) != nil {
			return true
		}
	}
	return false
}

// again reads the controller of a part; nil if there is none.
func (r *reader) again(t *tree.Node, name string) *again {
	if !hasAgain(t) {
		if t.Get("as") != nil {
			r.wrong(t.At("as"), "as names the value of an attempt, and this part has no retry, for_each or for_each_of")
		}
		return nil
	}
	a := &again{place: t.Position, all: r.flag(t.Get("revert_all"), "revert_all", false)}
	for _, k := range againKeys {
		v := t.Get(k)
		if v == nil {
			continue
		}
		if a.way != "" {
			r.wrong(t.At(k), "there is %s already: a part has one of retry, for_each, for_each_of, always_revert",
				a.way)
			continue
		}
		a.way, a.place = k, t.At(k)
		switch k {
		case "retry":
			r.retry(a, v)
		case "for_each":
			if v.Kind != tree.List || len(v.Items) == 0 {
				r.wrong(v.Position, "for_each is a list of values; for_each_of names a value that is a list")
				continue
			}
			a.values = v.Plain().([]any)
		case "for_each_of":
			a.of = r.name(v, "for_each_of")
		case "always_revert":
			if !r.flag(v, "always_revert", true) {
				a.way = ""
			}
		}
	}
	if a.way == "" && !a.all {
		return nil
	}
	if as := t.Get("as"); as != nil {
		if a.way != "retry" && a.way != "for_each" && a.way != "for_each_of" {
			r.wrong(t.At("as"), "as names the value of an attempt, and this part has no retry, for_each or for_each_of")
		} else {
			a.as = r.name(as, "as")
		}
	}
	if name != "" {
		r.take(name+"_retry", a.place)
	}
	return a
}

// retry reads "retry: 3" or its long form.
func (r *reader) retry(a *again, t *tree.Node) {
	if t.Kind != tree.Mapping {
		a.times = r.whole(t, "retry", 1, 1)
		return
	}
	if !r.keys(t, "retry", retryKeys) {
		return
	}
	if t.Get("times") == nil {
		r.wrong(t.Position, "retry needs times: how often it is run in all")
	}
	a.times = r.whole(t.Get("times"), "times", 1, 1)
	a.pause = r.span(t.Get("pause"), "pause")
	if a.longest = r.span(t.Get("longest"), "longest"); a.longest > 0 && a.pause == 0 {
		r.wrong(t.At("longest"), "longest doubles a pause, and there is no pause")
	}
}

// link reads how an item depends on others of its graph.
func (r *reader) link(i *item, t *tree.Node, within flow.Pattern) {
	for _, k := range linkKeys.names() {
		if t.Get(k) != nil && within != flow.PatternGraph {
			r.wrong(t.At(k), "%s is for items of a graph; this one stands in %s", k, within)
			return
		}
	}
	i.after = r.names(t.Get("after"), "after")
	if when := t.Get("when"); when != nil {
		i.when, i.froms = r.condition(when)
	}
	if depth := t.Get("depth"); depth != nil {
		i.depth = flow.Depth(r.oneOf(depth, "depth", "all", "flow", "neighbors", "atom"))
		if t.Get("when") == nil {
			r.wrong(t.At("depth"), "depth is what is left out if when does not hold, and there is no when")
		}
	}
}

// links checks that what items of a graph name is there.
func (r *reader) links(p *part) {
	there := map[string]*item{}
	var titles []string
	for _, i := range p.items {
		if i.part != nil {
			if first, twice := there[i.title()]; twice {
				r.wrong(i.place, "there is something called %s already in this graph, in line %d", i.title(),
					first.Line)
			}
		}
		there[i.title()] = i
		titles = append(titles, i.title())
	}
	look := func(what string, one ref, self *item) *item {
		found := there[one.name]
		switch {
		case found == nil:
			r.wrong(one.place, "%s names %s, which is no item of this graph%s", what, one.name,
				similar(one.name, titles))
		case found == self:
			r.wrong(one.place, "%s waits for itself", one.name)
			found = nil
		}
		return found
	}
	for _, i := range p.items {
		for _, one := range i.after {
			look("after", one, i)
		}
		for _, one := range i.froms {
			if found := look("when", one, i); found != nil && (found.part != nil || found.each != nil) {
				r.wrong(one.place, "when names a task, and %s is none", one.name)
			}
		}
	}
	if p.target != nil {
		look("target", *p.target, nil)
	}
}
