package flow

import "slices"

// KindFlow is the kind of a flow in an [Outline]. Records have the other two kinds only.
const KindFlow Kind = "flow"

// Outline is the structure of a flow, for drawings, the API and the command line. It has no code and can be stored as
// JSON.
type Outline struct {
	Kind     Kind       `json:"kind"`
	Name     string     `json:"name"`               // of an atom: as in its [Record]
	Version  string     `json:"version,omitempty"`  // of an atom
	Priority int        `json:"priority,omitempty"` // of an atom
	Needs    []string   `json:"needs,omitempty"`    // see [Item]
	Gives    []string   `json:"gives,omitempty"`
	Signals  Declared   `json:"signals,omitempty"` // that a task declares
	Pattern  Pattern    `json:"pattern,omitempty"` // of a flow
	Retry    *Outline   `json:"retry,omitempty"`   // the retry controller of a flow
	Items    []*Outline `json:"items,omitempty"`   // of a flow, in the order of [Flow.Items]
	// of a graph flow; those of the other patterns follow from the order
	Links []OutlinedLink `json:"links,omitempty"`
}

// OutlinedLink is a link of a graph flow: To waits for From. Both are positions in Items, and From is the smaller.
type OutlinedLink struct {
	From  int      `json:"from"`
	To    int      `json:"to"`
	Names []string `json:"names,omitempty"` // the values that it provides; none: made with Link
	Depth Depth    `json:"depth,omitempty"` // of its decider; empty: it has none
}

// OutlineOf returns the structure of a flow. Errors: those of [New].
func OutlineOf(root Item) (*Outline, error) {
	if _, err := compile(root); err != nil {
		return nil, err
	}
	return outline(root), nil
}

func outline(item Item) *Outline {
	f, ok := item.(*Flow)
	if !ok {
		t := item.(*Task) // compile refuses other types
		return &Outline{Kind: KindTask, Name: t.Name, Version: t.version(), Priority: t.Priority, Needs: t.Needs(),
			Gives: t.Gives(), Signals: t.declared()}
	}
	o := &Outline{Kind: KindFlow, Name: f.Name, Needs: f.Needs(), Gives: f.Gives(), Pattern: f.pattern}
	if r := f.Retry; r != nil {
		o.Retry = &Outline{Kind: KindRetry, Name: f.retryName(), Version: r.version(), Priority: r.Priority,
			Needs: r.Args.needs(), Gives: One(r.Result).names()}
	}
	index := map[Item]int{}
	for i, item := range f.Items() {
		o.Items = append(o.Items, outline(item))
		index[item] = i
	}
	if f.pattern != PatternGraph {
		return o
	}
	for _, l := range f.Links() {
		o.Links = append(o.Links, OutlinedLink{From: index[l.From], To: index[l.To], Names: l.Names, Depth: l.Depth})
	}
	slices.SortFunc(o.Links, func(a, b OutlinedLink) int {
		if a.From != b.From {
			return a.From - b.From
		}
		return a.To - b.To
	})
	return o
}

// walk calls visit for the outline and its parts, in the order of compile: a flow, its retry controller, its items.
func (o *Outline) walk(visit func(part *Outline)) {
	visit(o)
	if o.Retry != nil {
		o.Retry.walk(visit)
	}
	for _, item := range o.Items {
		item.walk(visit)
	}
}

// Declared returns the signals that tasks of the flow declare.
func (o *Outline) Declared() Declared {
	all := Declared{}
	o.walk(func(part *Outline) {
		for name, form := range part.Signals {
			if has, there := all[name]; !there || has == nil {
				all[name] = form
			}
		}
	})
	return all
}

// Atoms lists the names of the tasks and retry controllers, a retry controller before its items.
func (o *Outline) Atoms() []string {
	var names []string
	o.walk(func(part *Outline) {
		if part.Kind != KindFlow {
			names = append(names, part.Name)
		}
	})
	return names
}
