package flowfile

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/stagepost/stagepost/flow"
	"github.com/stagepost/stagepost/format/tree"
)

// check builds the flow as far as that is possible without inputs, and reports what is wrong with the whole.
func (r *reader) check(f *File) {
	b := &builder{o: &f.o, values: flow.Values{}, placeholder: true, at: map[flow.Item]*item{}}
	for _, in := range f.inputs {
		b.values[in.Name] = in.Default
	}
	whole, err := b.part(f.root)
	if err != nil {
		r.broken(f, err)
		return
	}
	if _, err := flow.New(whole, flow.Options{}); err != nil {
		r.broken(f, err)
		return
	}
	m := misser{reader: r, builder: b, lacks: map[string]bool{}}
	for _, name := range whole.Needs() {
		m.lacks[name] = true
	}
	if len(m.lacks) > 0 {
		m.givers(f.root)
		m.part(f.root, whole, map[string]bool{})
	}
}

// broken reports an error of building.
func (r *reader) broken(f *File, err error) {
	at := f.root.place
	var where located
	var e *flow.Error
	switch {
	case errors.As(err, &where):
		at = where.place
	case errors.As(err, &e) && len(e.Atoms) > 0:
		found := map[string]place{}
		places(f.root, found)
		// fan-outs make names of their own behind a slash
		for name := e.Atoms[0]; name != ""; name = name[:max(strings.LastIndexByte(name, '/'), 0)] {
			if p, there := found[name]; there {
				at = p
				break
			}
		}
	}
	r.wrong(at, "%v", err)
}

func places(p *part, found map[string]place) {
	for _, i := range p.items {
		found[i.title()] = i.place
		if i.part != nil {
			places(i.part, found)
		}
	}
}

// misser finds who needs what no one before it provides.
type misser struct {
	*reader
	*builder
	lacks map[string]bool
	gives map[string]ref // name: some task that provides it
}

func (m *misser) givers(p *part) {
	m.gives = map[string]ref{}
	for _, k := range m.reader.tasks {
		for _, name := range k.provides.names() {
			if _, there := m.gives[name]; !there {
				m.gives[name] = ref{k.place, k.name}
			}
		}
	}
}

// part appears through a part; have is what is provided before it. It gives what is provided after it.
func (m *misser) part(p *part, built *flow.Flow, have map[string]bool) {
	if p.again != nil {
		if p.again.of != "" {
			m.need(p.again.place, p.name+"_retry", p.again.of, have)
		}
		if p.again.as != "" {
			have = plus(have, []string{p.again.as})
		}
	}
	before := map[flow.Item]map[string]bool{}
	for _, link := range built.Links() { // by the order of the items: those before the first are complete
		from := before[link.From]
		if before[link.To] == nil {
			before[link.To] = map[string]bool{}
		}
		for _, name := range link.From.Gives() {
			if m.lacks[name] {
				before[link.To][name] = true
			}
		}
		for name := range from {
			before[link.To][name] = true
		}
	}
	for _, one := range built.Items() {
		i := m.at[one]
		now := have
		if len(before[one]) > 0 {
			now = plus(have, sortedKeys(before[one]))
		}
		if i.part != nil {
			m.part(i.part, one.(*flow.Flow), now)
			continue
		}
		for _, name := range one.Needs() {
			m.need(i.place, i.title(), name, now)
		}
	}
}

func plus(have map[string]bool, names []string) map[string]bool {
	more := map[string]bool{}
	for name := range have {
		more[name] = true
	}
	for _, name := range names {
		more[name] = true
	}
	return more
}

// need reports a need that is not met.
func (m *misser) need(at place, who, name string, have map[string]bool) {
	if !m.lacks[name] || have[name] {
		return
	}
	known := append(sortedKeys(m.gives), func() (all []string) {
		for _, in := range m.inputs {
			all = append(all, in.Name)
		}
		return all
	}()...)
	by, there := m.gives[name]
	switch {
	case there && by.name == who:
		m.wrong(at, "%s requires %s, which only itself provides", who, name)
	case there:
		m.wrong(at, "%s requires %s, which %s (line %d) provides, but not before it", who, name, by.name, by.Line)
	default:
		slices.Sort(known)
		m.wrong(at, "%s requires %s, which no task provides and is no input of the flow%s", who, name,
			similar(name, known))
	}
}

// Finding is something that can be stated of a file.
type Finding struct {
	Line     int      `json:"line"`
	Column   int      `json:"column"`
	Severity Severity `json:"severity"`
	Text     string   `json:"text"`
	Source   string   `json:"source,omitempty"` // the line
}

// String gives "line:column: severity: text".
func (f Finding) String() string {
	return fmt.Sprintf("%d:%d: %s: %s", f.Line, f.Column, f.Severity, f.Text)
}

// Excerpt gives the line with a caret below the position.
func (f Finding) Excerpt() string {
	return tree.Excerpt(tree.Position{Line: f.Line, Column: f.Column}, f.Source)
}
