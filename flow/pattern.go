package flow

import (
	"fmt"
	"slices"
)

// Pattern is how the items of a flow depend on each other.
type Pattern string

// The patterns.
const (
	PatternLinear    Pattern = "linear"    // one after another
	PatternUnordered Pattern = "unordered" // all at once
	PatternGraph     Pattern = "graph"     // by links: by hand, or from who needs what somebody gives
)

// Flow is a number of items and how they depend on each other, and perhaps a retry controller that governs them. Flows
// nest. A flow's name need not be unique, but an item stands in one position only.
type Flow struct {
	Name    string
	Retry   *Retry
	pattern Pattern
	items   []Item
	graph   *links // of graph flows
}

// Linear makes a flow whose items are done one after another.
func Linear(name string, items ...Item) *Flow {
	return &Flow{Name: name, pattern: PatternLinear, items: items}
}

// Unordered makes a flow whose items are done all at once. They do not see each other's results.
func Unordered(name string, items ...Item) *Flow {
	return &Flow{Name: name, pattern: PatternUnordered, items: items}
}

// Graph makes a flow whose items are added and linked with [Flow.Add] and [Flow.Link].
func Graph(name string) *Flow {
	return &Flow{Name: name, pattern: PatternGraph, graph: newLinks()}
}

// With sets the flow's retry controller.
func (f *Flow) With(r *Retry) *Flow {
	f.Retry = r
	return f
}

// proper reports whether an item can stand in a flow: a task or a flow that is there.
func proper(item Item) bool {
	switch item := item.(type) {
	case *Task:
		return item != nil
	case *Flow:
		return item != nil
	}
	return false
}

// title gives the name of an item, or what stands where one should be.
func title(item Item) string {
	if !proper(item) {
		return fmt.Sprintf("%T", item)
	}
	return item.Title()
}

// Title is part of [Item].
func (f *Flow) Title() string { return f.Name }

// Items gives the items in their order: as given, in a graph flow in topological order.
func (f *Flow) Items() []Item {
	if f.pattern == PatternGraph {
		return f.graph.ordered()
	}
	return slices.Clone(f.items)
}

// Needs is part of [Item]: what no item before the one that needs it gives, nor the flow's retry controller.
func (f *Flow) Needs() []string {
	have := map[string]bool{}
	needs := map[string]bool{}
	if f.Retry != nil {
		for _, n := range f.Retry.Args.needs() {
			needs[n] = true
		}
		if f.Retry.Result != "" {
			have[f.Retry.Result] = true
		}
	}
	switch f.pattern {
	case PatternGraph:
		f.graph.needs(have, needs)
	default:
		for _, item := range f.items {
			if !proper(item) { // New refuses it
				continue
			}
			for _, n := range item.Needs() {
				if !have[n] {
					needs[n] = true
				}
			}
			if f.pattern == PatternLinear {
				for _, n := range item.Gives() {
					have[n] = true
				}
			}
		}
	}
	return sorted(needs)
}

// Gives is part of [Item]: what its items and its retry controller give.
func (f *Flow) Gives() []string {
	gives := map[string]bool{}
	if f.Retry != nil && f.Retry.Result != "" {
		gives[f.Retry.Result] = true
	}
	for _, item := range f.Items() {
		if !proper(item) {
			continue
		}
		for _, n := range item.Gives() {
			gives[n] = true
		}
	}
	return sorted(gives)
}

// retryName gives the name of the flow's retry controller.
func (f *Flow) retryName() string {
	if f.Retry.Name != "" {
		return f.Retry.Name
	}
	return f.Name + "_retry"
}

func sorted(set map[string]bool) []string {
	names := make([]string, 0, len(set))
	for n := range set {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}
