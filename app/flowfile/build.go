package flowfile

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/stagepost/stagepost/flow"
)

// Flow builds the flow for the given inputs: those that the file declares, with its defaults for what is missing. It is
// a new one at each call, and the same for the same file and inputs. Errors are of kind flow.ErrInvalid,
// flow.ErrDuplicate and those of flow.Flow.Add.
func (f *File) Flow(inputs flow.Values) (flow.Item, error) {
	if f.o.any {
		return nil, invalid(nil, "the flow %s was read for inspection: it cannot be run", f.name)
	}
	values, err := f.Values(inputs)
	if err != nil {
		return nil, err
	}
	return f.build(values, false)
}

// build makes the items. With placeholder, inputs without a value stand for themselves.
func (f *File) build(values flow.Values, placeholder bool) (flow.Item, error) {
	b := &builder{o: &f.o, values: values, placeholder: placeholder, at: map[flow.Item]*item{}}
	whole, err := b.part(f.root)
	if err != nil {
		return nil, err
	}
	if placeholder {
		return whole, nil
	}
	if _, err := flow.New(whole, flow.Options{}); err != nil { // names that fan-outs made
		return nil, err
	}
	return whole, nil
}

type builder struct {
	o           *Options
	values      flow.Values
	placeholder bool
	tasks       int
	at          map[flow.Item]*item // where an item stands in the file
}

func (b *builder) part(p *part) (*flow.Flow, error) {
	items := make([]flow.Item, len(p.items))
	for n, i := range p.items {
		var err error
		if items[n], err = b.item(i); err != nil {
			return nil, err
		}
		b.at[items[n]] = i
	}
	retry, err := b.retry(p)
	if err != nil {
		return nil, err
	}
	switch p.pattern {
	case flow.PatternLinear:
		return flow.Linear(p.name, items...).With(retry), nil
	case flow.PatternUnordered:
		return flow.Unordered(p.name, items...).With(retry), nil
	}
	g := flow.Graph(p.name).With(retry)
	if err := g.Add(items...); err != nil {
		return nil, err
	}
	named := make(map[string]flow.Item, len(items))
	for n, i := range p.items {
		named[i.title()] = items[n]
	}
	for n, i := range p.items {
		for _, one := range i.after {
			if err := g.Link(named[one.name], items[n]); err != nil {
				return nil, located{one.place, err}
			}
		}
		for _, one := range i.froms {
			if err := g.LinkIf(named[one.name], items[n], b.decider(i.when), i.depth); err != nil {
				return nil, located{one.place, err}
			}
		}
	}
	if p.target != nil {
		if err := g.Target(named[p.target.name]); err != nil {
			return nil, located{p.target.place, err}
		}
	}
	return g, nil
}

// located is an error of building with the position that it belongs to.
type located struct {
	place
	error
}

func (l located) Unwrap() error { return l.error }

func (b *builder) decider(when term) flow.Decider {
	return func(results flow.Values) (bool, error) { return when(results), nil }
}

func (b *builder) item(i *item) (flow.Item, error) {
	switch {
	case i.part != nil:
		return b.part(i.part)
	case i.each != nil:
		return b.each(i)
	}
	return b.task(i.task, i.task.name, nil)
}

// task builds one task; given are arguments besides those of the file.
func (b *builder) task(k *task, name string, given flow.Values) (*flow.Task, error) {
	if b.tasks++; b.tasks > MaxTasks {
		return nil, invalid(nil, "the flow has more than %d tasks", MaxTasks)
	}
	t := &flow.Task{
		Name: name, Version: k.version, Was: k.was, Priority: k.priority, Args: b.args(&k.args, given),
		Result:  k.provides.result,
		Signals: k.signals(b.o), Execute: k.execute(b.o), Revert: k.undoing(b.o), Attempts: k.attempts,
		Timeout: k.timeout,
	}
	if k.undo != nil {
		undo := b.args(k.undo, given)
		t.Undo = &undo
	}
	return t, nil
}

// args builds arguments. What is an input of the flow is injected, so that the flow needs nothing from outside.
func (b *builder) args(a *args, given flow.Values) flow.Args {
	out := flow.Args{Rebind: a.rebind, Optional: flow.Values{}, Inject: flow.Values{}}
	input := func(name string) bool {
		from, bound := a.rebind[name]
		if !bound {
			from = name
		}
		v, is := b.values[from]
		if is {
			out.Inject[name] = v
		}
		return is
	}
	for _, one := range a.requires {
		if out.Requires = append(out.Requires, one.name); len(given) > 0 {
			if _, there := given[one.name]; there {
				continue
			}
		}
		input(one.name)
	}
	for _, one := range a.optional {
		if !input(one.name) {
			out.Optional[one.name] = one.value
		}
	}
	for _, one := range a.inject {
		out.Inject[one.name] = one.value
	}
	for name, v := range given {
		out.Inject[name] = v
	}
	return out
}

// each builds a part with a task for each item, and if they provide something, a task that gathers it in the order of
// the list.
func (b *builder) each(i *item) (flow.Item, error) {
	all, err := i.each.list(b.values, b.placeholder)
	if err != nil {
		return nil, err
	}
	if len(all) > MaxTasks {
		return nil, invalid(nil, "the flow has more than %d tasks", MaxTasks)
	}
	k := i.task
	gathers := k.provides.result.Name
	items, wants := make([]flow.Item, len(all)), make([]string, len(all))
	for n, v := range all {
		name := k.name + "/" + label(v)
		t, err := b.task(k, name, flow.Values{i.each.arg: v})
		if err != nil {
			return nil, err
		}
		if gathers != "" {
			wants[n] = gathers + "/" + label(v)
			t.Result = flow.One(wants[n])
		}
		items[n] = t
	}
	var fan *flow.Flow
	if i.each.pattern == flow.PatternLinear {
		fan = flow.Linear(k.name, items...)
	} else {
		fan = flow.Unordered(k.name, items...)
	}
	if gathers == "" {
		return fan, nil
	}
	if b.tasks++; b.tasks > MaxTasks {
		return nil, invalid(nil, "the flow has more than %d tasks", MaxTasks)
	}
	collect := &flow.Task{Name: k.name, Args: flow.Args{Requires: wants}, Result: flow.One(gathers),
		Execute: func(_ context.Context, c *flow.Call) (any, error) {
			list := make([]any, len(wants))
			for n, name := range wants {
				list[n] = c.Get(name)
			}
			return list, nil
		}}
	return flow.Linear(k.name, fan, collect), nil
}

// retry builds the controller of a part; nil if there is none.
func (b *builder) retry(p *part) (*flow.Retry, error) {
	a := p.again
	if a == nil {
		return nil, nil
	}
	var r *flow.Retry
	switch a.way {
	case "retry":
		r = flow.Times(a.times)
		if a.pause > 0 {
			r.Pause = a.wait
		}
	case "for_each":
		r = flow.ForEach(slices.Clone(a.values)...)
	case "for_each_of":
		r = flow.ParameterizedForEach()
		r.Args.Rebind = map[string]string{"values": a.of}
		if v, is := b.values[a.of]; is {
			if _, is := listOf(flow.ValueOf(v)); !is && !b.placeholder {
				return nil, invalid(nil, "the input %s must be a list: for_each_of runs the part with one of its "+
					"items after another", a.of)
			}
			r.Args.Inject = flow.Values{"values": v}
		}
	default:
		r = flow.AlwaysRevert()
	}
	r.Result = a.as
	if a.all {
		r.RevertingAll()
	}
	return r, nil
}

// wait gives the pause after an attempt.
func (a *again) wait(attempt int) time.Duration {
	pause := a.pause
	for n := 1; n < attempt && pause < a.longest; n++ {
		pause *= 2
	}
	if a.longest > 0 {
		pause = min(pause, a.longest)
	}
	return pause
}

// FactoryName is the name under which [Factory] is registered.
const FactoryName = "file"

// Arguments are what a stored flow is rebuilt from.
type Arguments struct {
	File   string                `json:"file"` // its text
	Inputs map[string]flow.Value `json:"inputs,omitempty"`
}

// Values gives the inputs.
func (a *Arguments) Values() flow.Values {
	values := flow.Values{}
	for name, v := range a.Inputs {
		values[name] = v.Any()
	}
	return values
}

// Factory gives a function that builds flows from [Arguments] in JSON: the one who stores them can build the flow again
// in another process.
func Factory(o Options) func(args json.RawMessage) (flow.Item, error) {
	return func(text json.RawMessage) (flow.Item, error) {
		var a Arguments
		if err := decodeStrictly(text, &a); err != nil {
			return nil, fmt.Errorf("arguments of a flow from a file: %w", err)
		}
		f, err := Parse([]byte(a.File), o)
		if err != nil {
			return nil, err
		}
		return f.Flow(a.Values())
	}
}
