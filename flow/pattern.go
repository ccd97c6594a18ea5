package flow

import (
	"fmt"
	"slices"
)

// Pattern is how the items of a flow depend on each other.
type Pattern string

// The patterns.
const (
	PatternLinear    Pattern = "linear"    // one by one
	PatternUnordered Pattern = "unordered" // concurrently
	PatternGraph     Pattern = "graph"     // by links: made with Link, or between a needed value and its provider
)

// Flow consists of items, a pattern of their dependencies, and optionally a retry controller that governs them. Flows
// nest. The name of a flow need not be unique. An item is part of one flow, once.
type Flow struct {
	Name    string
	Retry   *Retry
	pattern Pattern
	items   []Item
	graph   *links // of graph flows
}

// Linear makes a flow whose items run one after another.
func Linear(name string, items ...Item) *Flow {
	return &Flow{Name: name, pattern: PatternLinear, items: items}
}

// Unordered makes a flow whose items run concurrently. They do not get each other's results.
func Unordered(name string, items ...Item) *Flow {
	return &Flow{Name: name, pattern: PatternUnordered, items: items}
}

// Graph makes a flow to which [Flow.Add] adds items and [Flow.Link] adds links.
func Graph(name string) *Flow {
	return &Flow{Name: name, pattern: PatternGraph, graph: newLinks()}
}

// With sets the flow's retry controller.
func (f *Flow) With(r *Retry) *Flow {
	f.Retry = r
	return f
}

// proper reports whether an item is a task or a flow, and not nil.
func proper(item Item) bool {
	switch item := item.(type) {
	case *Task:
		return item != nil
	case *Flow:
		return item != nil
	}
	return false
}

// title returns the name of an item, or its Go type if it is not a proper one.
func title(item Item) string {
	if !proper(item) {
		return fmt.Sprintf("%T", item)
	}
	return item.Title()
}

// Title is part of [Item].
func (f *Flow) Title() string { return f.Name }

// Items returns the items in order: as added, in a graph flow in topological order.
func (f *Flow) Items() []Item {
	if f.pattern == PatternGraph {
		return f.graph.ordered()
	}
	return slices.Clone(f.items)
}

// Needs is part of [Item]: the values that an item needs and neither an item before it nor the flow's retry controller
// gives.
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

// Gives is part of [Item]: the values of its items and its retry controller.
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

// retryName returns the name of the flow's retry controller.
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
