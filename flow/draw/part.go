package draw

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/stagepost/stagepost/flow"
	"github.com/stagepost/stagepost/lifecycle"
)

// kindRest is what stands for items that are not shown one by one.
const kindRest flow.Kind = "rest"

// part is an outline with what is known of it.
type part struct {
	kind    flow.Kind
	name    string // clean
	pattern flow.Pattern
	status  status
	retry   *part
	items   []*part
	links   []flow.OutlinedLink // of a graph flow, sound ones only
	tally   tally               // of the tasks in it
	count   int                 // of a rest: items
	urgency int                 // the least of all that is in it
}

// tally counts tasks by state; the empty state counts those that nothing is known of.
type tally map[lifecycle.State]int

// partOf joins an outline and records. It gives the records of atoms that the outline does not have, too.
func partOf(o *flow.Outline, records []flow.Record, now time.Time) (root *part, left []flow.Record) {
	byName := make(map[string]*flow.Record, len(records))
	for i := range records {
		byName[records[i].Name] = &records[i]
	}
	root = build(o, byName, now)
	for i := range records {
		if _, unused := byName[records[i].Name]; unused {
			left = append(left, records[i])
		}
	}
	return root, left
}

// read joins an outline and records into what the pictures of the graph show.
func (o Options) read(outline *flow.Outline, records []flow.Record) *part {
	root, _ := partOf(outline, records, o.Now)
	places := mostPlaced
	root.fold(o.most(), &places)
	if root.kind == flow.KindFlow {
		root.status.word = cut(clean(string(o.State)), 20)
	}
	return root
}

// build takes what it uses out of byName.
func build(o *flow.Outline, byName map[string]*flow.Record, now time.Time) *part {
	p := &part{kind: o.Kind, name: clean(o.Name), pattern: o.Pattern, tally: tally{}, urgency: unknown.urgency}
	if o.Kind != flow.KindFlow {
		rec := byName[o.Name]
		delete(byName, o.Name)
		p.status = statusOf(rec, now)
		p.urgency = p.status.urgency
		if o.Kind == flow.KindTask {
			p.tally[lifecycle.State(p.status.word)]++
		}
		return p
	}
	if o.Retry != nil {
		p.retry = build(o.Retry, byName, now)
		p.urgency = min(p.urgency, p.retry.urgency)
	}
	for _, item := range o.Items {
		if item == nil {
			item = &flow.Outline{Kind: flow.KindTask}
		}
		one := build(item, byName, now)
		p.items = append(p.items, one)
		p.tally.add(one.tally)
		p.urgency = min(p.urgency, one.urgency)
	}
	for _, l := range o.Links {
		if o.Pattern == flow.PatternGraph && l.From >= 0 && l.From < l.To && l.To < len(p.items) {
			p.links = append(p.links, l)
		}
	}
	return p
}

func (t tally) add(more tally) {
	for s, n := range more {
		t[s] += n
	}
}

func (t tally) tasks() int {
	n := 0
	for _, k := range t {
		n += k
	}
	return n
}

// String lists the states that are known, the pressing ones first: "2 FAILURE, 950 SUCCESS, 47 PENDING".
func (t tally) String() string {
	states := slices.SortedFunc(maps.Keys(t), func(a, b lifecycle.State) int {
		return cmp.Or(cmp.Compare(rankOf(a), rankOf(b)), cmp.Compare(a, b))
	})
	var words []string
	for _, s := range states {
		if s != "" {
			words = append(words, fmt.Sprintf("%d %s", t[s], s))
		}
	}
	return strings.Join(words, ", ")
}

// rankOf orders states in sentences: what failed, what is active, what is done, what is to come.
func rankOf(s lifecycle.State) int {
	order := []lifecycle.State{flow.RevertFailure, flow.FailureState, flow.Running, flow.Reverting, flow.Reverted,
		flow.Success, flow.Ignore, flow.Pending}
	if i := slices.Index(order, s); i >= 0 {
		return i
	}
	return len(order)
}

// done states how much of a flow is through: "3 of 7"; nothing if nothing is known.
func (p *part) done() string {
	all := p.tally.tasks()
	if all == 0 || p.tally[""] == all {
		return ""
	}
	return fmt.Sprintf("%d of %d", p.tally[flow.Success]+p.tally[flow.Ignore], all)
}

// sum is what a rest states: "997 more: 950 SUCCESS, 47 PENDING".
func (p *part) sum() string {
	text := fmt.Sprintf("%d more", p.count)
	if n := p.tally.tasks(); n != p.count {
		text += fmt.Sprintf(" (%d tasks)", n)
	}
	if states := p.tally.String(); states != "" {
		text += ": " + states
	}
	return text
}

// rest stands for a number of items.
func rest(items []*part) *part {
	r := &part{kind: kindRest, count: len(items), tally: tally{}, urgency: unknown.urgency,
		status: status{look: unknown, progress: -1}}
	for _, item := range items {
		r.tally.add(item.tally)
		r.urgency = min(r.urgency, item.urgency)
	}
	return r
}

// title is what stands first in the label of a part.
func (p *part) title() string {
	if p.kind == kindRest {
		return fmt.Sprintf("%d more", p.count)
	}
	return p.name
}
