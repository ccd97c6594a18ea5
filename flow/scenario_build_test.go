package flow_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stagepost/stagepost/flow"
)

// built is a flow of a scenario, for one engine: each process makes its own.
type built struct {
	harness *harness
	life    int // the process that it belongs to
	item    flow.Item
	items   map[string]flow.Item
}

// build makes the flow of an item. The error is that of the flow's constructor.
func build(w *harness, words *itemWords) (*built, error) {
	b := &built{harness: w, life: w.life(), items: map[string]flow.Item{}}
	if words == nil {
		return nil, errors.New("the scenario has no flow")
	}
	var err error
	b.item, err = b.make(words)
	return b, err
}

// notItem is a retry controller where an item is wanted. Go's types refuse it; this is the nearest that compiles.
type notItem struct{ *flow.Retry }

func (n notItem) Title() string   { return n.Name }
func (n notItem) Needs() []string { return n.Args.Requires }
func (n notItem) Gives() []string { return []string{n.Result} }

func (b *built) make(words *itemWords) (flow.Item, error) {
	said := 0
	for _, is := range []bool{words.Linear != nil, words.Unordered != nil, words.Graph != nil, words.Task != nil,
		words.RetryAtom != nil} {
		if is {
			said++
		}
	}
	if said != 1 {
		return nil, fmt.Errorf("an item is one of linear, unordered, graph, task, retry_atom; it has %d of them", said)
	}
	switch {
	case words.Task != nil:
		t := b.task(words)
		b.items[t.Name] = t
		return t, nil
	case words.RetryAtom != nil:
		r, err := b.retry(words.RetryAtom)
		return notItem{r}, err
	}
	f, err := b.flow(words)
	if err == nil {
		b.items[f.Name] = f
	}
	return f, err
}

func (b *built) flow(words *itemWords) (*flow.Flow, error) {
	items := make([]flow.Item, len(words.Of))
	for i := range words.Of {
		var err error
		if items[i], err = b.make(&words.Of[i]); err != nil {
			return nil, err
		}
	}
	var r *flow.Retry
	if words.Retry != nil {
		var err error
		if r, err = b.retry(words.Retry); err != nil {
			return nil, err
		}
	}
	if words.Graph == nil && len(words.Links) > 0 {
		return nil, errors.New("links are for graph flows")
	}
	switch {
	case words.Linear != nil:
		return flow.Linear(*words.Linear, items...).With(r), nil
	case words.Unordered != nil:
		return flow.Unordered(*words.Unordered, items...).With(r), nil
	}
	f := flow.Graph(*words.Graph).With(r)
	return f, b.graph(f, words, items)
}

// graph adds and links the items of a graph flow.
func (b *built) graph(f *flow.Flow, words *itemWords, items []flow.Item) error {
	var o flow.AddOptions
	if words.AutoLink != nil && !*words.AutoLink {
		o = flow.AddOptions{NoRequires: true, NoExisting: true}
	}
	if words.AutoLinkExisting != nil && !*words.AutoLinkExisting {
		o.NoExisting = true
	}
	batches := [][]flow.Item{items}
	if words.AddedSeparately {
		batches = slices.Collect(slices.Chunk(items, 1))
	}
	for _, batch := range batches {
		if err := f.AddWith(o, batch...); err != nil {
			return err
		}
	}
	for i := range words.Links {
		if err := b.link(f, &words.Links[i]); err != nil {
			return err
		}
	}
	if words.Target == "" {
		return nil
	}
	return f.Target(b.named(words.Target))
}

func (b *built) link(f *flow.Flow, l *linkWords) error {
	from, to := b.named(l.From), b.named(l.To)
	if l.Decider == nil && l.Depth == "" {
		return f.Link(from, to)
	}
	var d flow.Decider
	if l.Decider != nil {
		d = b.decider(l.Decider)
	}
	return f.LinkIf(from, to, d, flow.Depth(l.Depth))
}

// named returns an item, or an item of that name that is in no flow.
func (b *built) named(name string) flow.Item {
	if item := b.items[name]; item != nil {
		return item
	}
	return &flow.Task{Name: name}
}

func (b *built) decider(d *deciderWords) flow.Decider {
	return func(results flow.Values) (bool, error) {
		var names []string
		sum := 0.0
		for name, v := range results {
			names = append(names, name)
			n, _ := amount(plain(v))
			sum += n
		}
		slices.Sort(names)
		b.harness.decided(b.life, names)
		switch {
		case d.answer != nil:
			return *d.answer, nil
		case d.Gate != "":
			return b.harness.gate(d.Gate), nil
		case d.Sum != nil:
			return sum == float64(*d.Sum), nil
		case d.Failed != "":
			return false, &raised{"RuntimeError", d.Failed}
		}
		return false, errors.New("a decider has no answer")
	}
}

func (b *built) task(words *itemWords) *flow.Task {
	t := &flow.Task{Name: *words.Task, Priority: words.Priority}
	t.Args = argumentsOf(words.Do, words.Requires, words.Optional, words.Inject, words.Rebind)
	if words.RevertRequires != nil || words.Undo.needs() != nil {
		t.Undo = &flow.Args{Requires: union(words.RevertRequires, words.Undo.needs()), Optional: t.Args.Optional,
			Rebind: t.Args.Rebind, Inject: t.Args.Inject}
	}
	if p := words.Provides; p != nil {
		t.Result = flow.Result{Name: p.name, Names: p.names, Keys: p.keys}
	}
	t.Execute = b.do(words.Do, b.harness.executing)
	t.Revert = b.do(words.Undo, b.harness.reverting)
	return t
}

// argumentsOf makes the arguments of an execution. TaskFlow injects by the name of the value, not by that of the
// argument.
func argumentsOf(do *doWords, requires []string, optional, inject map[string]any, rebind *rebindWords) flow.Args {
	a := flow.Args{Optional: flow.Values{}, Rebind: map[string]string{}, Inject: flow.Values{}}
	for _, arg := range union(do.needs(), requires) {
		if _, has := optional[arg]; !has {
			a.Requires = append(a.Requires, arg)
		}
	}
	for arg, v := range optional {
		a.Optional[arg] = settled(v)
	}
	if rebind != nil {
		for arg, name := range rebind.named {
			a.Rebind[arg] = name
			if _, has := optional[arg]; !has && !slices.Contains(a.Requires, arg) {
				a.Requires = append(a.Requires, arg)
			}
		}
		needed := slices.Clone(a.Requires)
		for i, name := range rebind.list {
			if i < len(needed) {
				a.Rebind[needed[i]] = name
			} else {
				a.Requires = append(a.Requires, name)
			}
		}
	}
	args := slices.Clone(a.Requires)
	for arg := range a.Optional {
		args = append(args, arg)
	}
	for _, arg := range args {
		name := arg
		if other, ok := a.Rebind[arg]; ok {
			name = other
		}
		if v, given := inject[name]; given {
			a.Inject[arg] = settled(v)
		}
	}
	return a
}

func union(a, b []string) []string {
	all := slices.Clone(a)
	for _, name := range b {
		if !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	return all
}

// needs lists the arguments that doing it takes, in order.
func (d *doWords) needs() []string {
	if d == nil {
		return nil
	}
	all := union(d.Args, d.FailUnlessEqual)
	all = union(union(all, d.Sum), d.Multiply)
	for _, one := range []string{d.AddOne, d.ProgressArg} {
		if one != "" {
			all = union(all, []string{one})
		}
	}
	return all
}

func (b *built) retry(words *retryWords) (*flow.Retry, error) {
	var r *flow.Retry
	switch words.Kind {
	case "Times":
		n := 1
		if words.Attempts != nil {
			n = *words.Attempts
		}
		r = flow.Times(n)
	case "ForEach":
		r = flow.ForEach(words.values()...)
	case "ParameterizedForEach":
		r = flow.ParameterizedForEach()
	case "AlwaysRevert":
		r = flow.AlwaysRevert()
	case "AlwaysRevertAll":
		r = flow.AlwaysRevertAll()
	case "Custom":
		r = b.custom(words)
	default:
		return nil, fmt.Errorf("there is no retry of kind %q", words.Kind)
	}
	if words.AsSet && words.Kind != "ForEach" {
		return nil, fmt.Errorf("a %s has no values that could be a set", words.Kind)
	}
	if words.Kind != "Custom" && (words.Do != nil || words.Undo != nil || words.OnFailure != nil) {
		return nil, fmt.Errorf("a %s does what it does", words.Kind)
	}
	r.Name, r.Result, r.Priority = words.Name, words.Provides, words.Priority
	a := argumentsOf(words.Do, union(words.Requires, r.Args.Requires), words.Optional, words.Inject, words.Rebind)
	r.Args = a
	if words.RevertAll {
		r = r.RevertingAll()
	}
	execute := r.Execute
	r.Execute = func(ctx context.Context, c *flow.Call) (any, error) {
		b.harness.executing(b.life, c)
		return execute(ctx, c)
	}
	revert := r.Revert
	r.Revert = func(ctx context.Context, c *flow.Call) (any, error) {
		b.harness.reverting(b.life, c)
		if revert == nil {
			return nil, nil
		}
		return revert(ctx, c)
	}
	return r, nil
}

// values gives the values in their order; those of a set from the last to the first, each once, so that no scenario
// relies on the order in which they are written.
func (r *retryWords) values() []any {
	var all []any
	for _, v := range r.Values {
		v = settled(v)
		if r.AsSet && slices.ContainsFunc(all, func(one any) bool { return same(one, v) }) {
			continue
		}
		all = append(all, v)
	}
	if r.AsSet {
		slices.Reverse(all)
	}
	return all
}

func (b *built) custom(words *retryWords) *flow.Retry {
	do := b.do(words.Do, nil)
	r := &flow.Retry{Execute: do, Revert: b.do(words.Undo, nil)}
	if words.Do != nil && words.Do.attempt {
		r.Execute = func(_ context.Context, c *flow.Call) (any, error) { return len(c.History) + 1, nil }
	}
	r.Decide = func(ctx context.Context, c *flow.Call) (flow.Decision, error) {
		on := words.OnFailure
		switch {
		case on == nil:
			return "", errors.New("the scenario has no decision of the retry")
		case on.always != "":
			return flow.Decision(on.always), nil
		case on.Fail != "":
			return "", &raised{"RuntimeError", on.Fail}
		}
		if err := b.harness.pass(ctx, on.Delay); err != nil {
			return "", err
		}
		if len(c.History) < on.Until {
			return flow.DecideRetry, nil
		}
		return flow.Decision(on.Then), nil
	}
	return r
}

// raised is an error of a kind that a scenario names.
type raised struct{ kind, text string }

func (e *raised) Error() string       { return e.text }
func (e *raised) FailureType() string { return e.kind }

// do makes the function that words describe; it calls notify first.
func (b *built) do(words *doWords, notify func(life int, c *flow.Call)) flow.Do {
	if words == nil {
		words = &doWords{}
	}
	return func(ctx context.Context, c *flow.Call) (any, error) {
		if notify != nil {
			notify(b.life, c)
		}
		return b.act(ctx, c, words)
	}
}

func (b *built) act(ctx context.Context, c *flow.Call, d *doWords) (any, error) {
	result := settled(d.Return)
	bad := func(text string) (any, error) {
		kind := d.Error
		if kind == "" {
			kind = "RuntimeError"
		}
		for arg, v := range c.Args() {
			text = strings.ReplaceAll(text, "{"+arg+"}", python(plain(v)))
		}
		return nil, &raised{kind, text}
	}
	message := d.Message
	if message == "" {
		message = "Woot!"
	}
	if d.WaitFor != nil {
		if err := b.harness.wait(ctx, d.WaitFor); err != nil {
			return nil, err
		}
	}
	if d.Slow > 0 {
		if err := b.harness.pass(ctx, d.Slow); err != nil {
			return nil, err
		}
	}
	if d.Sleep != nil {
		if err := b.harness.pass(ctx, *d.Sleep); err != nil {
			return nil, err
		}
	}
	switch {
	case d.MustNotRun:
		b.harness.violate(b.life, "%s ran, and must not", c.Atom)
		return bad("must not run")
	case d.Fail != nil:
		return bad(*d.Fail)
	case d.FailUnlessEqual != nil:
		x, y := c.Get(d.FailUnlessEqual[0]), c.Get(d.FailUnlessEqual[1])
		if !same(plain(x), plain(y)) {
			return bad(message)
		}
		return nil, nil
	case d.Sum != nil, d.Multiply != nil:
		return calculate(c, d)
	case d.AddOne != "":
		return increased(c.Get(d.AddOne))
	case d.ProgressArg != "":
		var parts []float64
		if err := c.Into(d.ProgressArg, &parts); err != nil {
			return nil, err
		}
		for _, p := range parts {
			c.Progress(p)
		}
		return result, nil
	case d.FailIfGate != "" && b.harness.gate(d.FailIfGate):
		return bad(message)
	case d.FailUntilElapsed != nil && b.harness.elapsed() < time.Duration(*d.FailUntilElapsed*float64(time.Second)):
		return bad(message)
	case d.ResultPlusOne:
		return increased(c.Result.Any())
	}
	return result, nil
}

func calculate(c *flow.Call, d *doWords) (any, error) {
	args, total := d.Sum, 0.0
	if d.Multiply != nil {
		args, total = d.Multiply, 1
	}
	for _, arg := range args {
		n, ok := amount(plain(c.Get(arg)))
		switch {
		case !ok:
			return nil, &raised{"TypeError", fmt.Sprintf("%s is no number: %v", arg, c.Get(arg))}
		case d.Multiply != nil:
			total *= n
		default:
			total += n
		}
	}
	return whole(total), nil
}

func increased(v any) (any, error) {
	n, ok := amount(plain(v))
	if !ok {
		return nil, &raised{"TypeError", fmt.Sprintf("%v is no number", v)}
	}
	return whole(n + 1), nil
}

// whole makes an integer of a number that is one.
func whole(n float64) any {
	if n == float64(int(n)) {
		return int(n)
	}
	return n
}

// amount returns a value as a number.
func amount(v any) (float64, bool) {
	switch v := v.(type) {
	case int:
		return float64(v), true
	case float64:
		return v, true
	}
	return 0, false
}
