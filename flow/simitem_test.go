package flow

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"sync"
	"time"
)

// newItem makes the item of a part, for one runner.
func (p *simulation) newItem(f *part) Item {
	switch f.kind {
	case "task":
		return p.newTask(f)
	case "graph":
		return p.newGraph(f)
	}
	items := make([]Item, len(f.items))
	for k := range f.items {
		items[k] = p.newItem(f.items[k])
	}
	made := Linear(f.name, items...)
	if f.kind == "unordered" {
		made = Unordered(f.name, items...)
	}
	if f.steer != nil {
		made.With(p.controller(f))
	}
	return made
}

// newGraph makes a graph flow. Every link of a simulated flow is legal.
func (p *simulation) newGraph(f *part) Item {
	made := Graph(f.name)
	if f.steer != nil {
		made.With(p.controller(f))
	}
	items := make([]Item, len(f.items))
	for k := range f.items {
		items[k] = p.newItem(f.items[k])
	}
	added := make([]Item, len(items))
	for k, at := range f.order {
		added[k] = items[at]
	}
	if f.alone {
		for _, one := range added {
			p.must(made.Add(one))
		}
	} else {
		p.must(made.Add(added...))
	}
	for _, j := range f.joins {
		if j.says == "" {
			p.must(made.Link(items[j.from], items[j.to]))
			continue
		}
		source := f.items[j.from].name
		p.must(made.LinkIf(items[j.from], items[j.to], func(results Values) (bool, error) {
			yes, err := j.answer(results[source], int(p.stage.Load()))
			if err != nil {
				p.logEntry(entry{what: "decider", atom: f.items[j.to].name, err: err})
			}
			return yes, err
		}, j.depth))
	}
	return made
}

func (p *simulation) must(err error) {
	if err != nil {
		panic(fmt.Sprintf("%v\n%s", err, p.spec))
	}
}

// answer is the answer of a decider to the result of its source. The checker uses it too.
func (j join) answer(result any, stage int) (bool, error) {
	switch j.says {
	case "no":
		return false, nil
	case "odd":
		return attemptIn(result)%2 == 1, nil
	case "error":
		if stage == 0 {
			return false, errors.New("the decider does not know")
		}
	}
	return true, nil
}

// attemptIn reads the attempt from the result of a task; it is 1 for other values.
func attemptIn(result any) int {
	for _, v := range pairsIn(result) {
		n := 0
		if _, err := fmt.Sscanf(v, "attempt %d", &n); err == nil {
			return n
		}
	}
	return 1
}

func pairsIn(result any) []string {
	switch v := result.(type) {
	case string:
		return []string{v}
	case map[string]any:
		var all []string
		for _, one := range v {
			if text, ok := one.(string); ok {
				all = append(all, text)
			}
		}
		return all
	}
	return nil
}

// newTask makes a task. The hooks log every execution and revert.
func (p *simulation) newTask(f *part) *Task {
	c := f.conduct
	t := &Task{Name: f.name, Priority: f.priority, Args: Args{Requires: f.needs}, Attempts: Attempts{Max: c.tries},
		Signals: []AnySignal{Signal[string]("sig_" + f.name)}}
	if f.round != "" && !slices.Contains(f.needs, f.round) {
		t.Args.Optional = Values{f.round: 1}
	}
	if t.Result = One(f.gives); f.short {
		t.Result = Result{Keys: []string{f.gives}}
	}
	var ends sync.Map // *Call: how Execute ended
	t.BeforeExecute = func(ctx context.Context, call *Call) (err error) {
		p.logBegin(ctx, call, false)
		if call.Attempt <= c.before {
			err = fmt.Errorf("the hook before %s fails", f.name)
		}
		ends.Store(call, err)
		return err
	}
	t.Execute = func(_ context.Context, call *Call) (any, error) {
		v, err := p.execute(f, call)
		ends.Store(call, err)
		return v, err
	}
	t.AfterExecute = func(ctx context.Context, call *Call) error {
		got, _ := ends.LoadAndDelete(call)
		failed, _ := got.(error)
		var wait *awaiting
		err := p.runHook(f, c.after, "after")
		p.logEntry(entry{what: "end", run: runOf(ctx), atom: f.name, attempt: call.Attempt, err: failed,
			waits: errors.As(failed, &wait), fault: err != nil})
		return err
	}
	t.BeforeRevert = func(ctx context.Context, call *Call) error { p.logBegin(ctx, call, true); return nil }
	t.Revert = func(_ context.Context, call *Call) (any, error) {
		p.waitBriefly(f.name, call.Attempt)
		return "undone", p.runHook(f, c.undo, "revert of")
	}
	t.AfterRevert = func(ctx context.Context, call *Call) error {
		err := p.runHook(f, c.undoAfter, "after the revert of")
		p.logEntry(entry{what: "end", run: runOf(ctx), atom: f.name, undo: true, fault: err != nil})
		return err
	}
	return t
}

// runHook fails in the first stages of the simulation.
func (p *simulation) runHook(f *part, stages int, what string) error {
	if int(p.stage.Load()) < stages {
		return fmt.Errorf("%s %s fails", what, f.name)
	}
	return nil
}

// runKey is the context key of the number of the runner. It separates the work of a runner from that of its successor.
type runKey struct{}

func runOf(ctx context.Context) int { return ctx.Value(runKey{}).(int) }

func (p *simulation) logBegin(ctx context.Context, c *Call, undo bool) {
	run := runOf(ctx)
	p.logEntry(entry{what: "begin", run: run, atom: c.Atom, undo: undo, attempt: c.Attempt, args: c.Args()})
	if p.tamper.twice != nil && p.tamper.twice(c.Atom, undo) {
		p.logEntry(entry{what: "end", run: run, atom: c.Atom, undo: undo, attempt: c.Attempt})
		p.logEntry(entry{what: "begin", run: run, atom: c.Atom, undo: undo, attempt: c.Attempt, args: c.Args()})
	}
}

// waitBriefly lets time pass in a parallel simulation, so that tasks end in another order than they began. It runs in
// a synctest bubble.
func (p *simulation) waitBriefly(atom string, attempt int) {
	if p.workers > 0 {
		h := fnv.New32()
		fmt.Fprint(h, p.seed, atom, attempt)
		time.Sleep(time.Duration(h.Sum32()%8) * time.Millisecond)
	}
}

// execute executes a task.
func (p *simulation) execute(f *part, c *Call) (any, error) {
	p.waitBriefly(f.name, c.Attempt)
	switch f.conduct.waits {
	case "sleep":
		if c.Due().IsZero() {
			return nil, Await("", c.Now().Add(time.Hour))
		}
		if c.Now().Before(c.Due()) {
			return nil, Await("", c.Due())
		}
	case "signal":
		if _, came := c.Signal("sig_" + f.name); !came {
			return nil, Await("sig_"+f.name, time.Time{})
		}
	}
	n := c.Attempt
	if f.conduct.byRound {
		n = 1
		if round, ok := c.Get(f.round).(int); ok {
			n = round
		}
	}
	if n <= f.conduct.fails {
		return nil, fmt.Errorf("%s fails", f.name)
	}
	if f.short {
		return map[string]any{"other": fmt.Sprintf("attempt %d", c.Attempt)}, nil
	}
	return fmt.Sprintf("attempt %d", c.Attempt), nil
}

// controller makes a retry controller that logs its calls.
func (p *simulation) controller(f *part) *Retry {
	s := f.steer
	r := p.newRetry(f)
	if s.all {
		r.RevertingAll()
	}
	r.Result, r.Priority = "round_"+f.name, s.priority
	if s.pause {
		r.Pause = func(int) time.Duration { return time.Minute }
	}
	execute, decide := r.Execute, r.Decide
	r.Execute = func(ctx context.Context, c *Call) (any, error) {
		p.logBegin(ctx, c, false)
		v, err := execute(ctx, c)
		p.logEntry(entry{what: "end", run: runOf(ctx), atom: c.Atom, attempt: c.Attempt, err: err})
		return v, err
	}
	r.Decide = func(ctx context.Context, c *Call) (Decision, error) {
		d, err := decide(ctx, c)
		if int(p.stage.Load()) < s.errs {
			d, err = "", fmt.Errorf("%s cannot decide", s.name)
		}
		p.logEntry(entry{what: "ask", atom: c.Atom, decision: d, err: err, attempt: len(c.History)})
		return d, err
	}
	r.Revert = func(ctx context.Context, c *Call) (any, error) {
		p.logBegin(ctx, c, true)
		err := p.runHook(&part{name: s.name}, s.undo, "revert of")
		p.logEntry(entry{what: "end", run: runOf(ctx), atom: c.Atom, undo: true, err: err})
		return nil, err
	}
	return r
}

func (p *simulation) newRetry(f *part) *Retry {
	s := f.steer
	switch s.kind {
	case "times":
		return Times(s.n)
	case "each":
		return ForEach(listOf(s.n)...)
	case "values":
		r := ParameterizedForEach()
		r.Args.Rebind = map[string]string{"values": "values_" + f.name}
		return r
	case "always":
		return AlwaysRevert()
	}
	return &Retry{
		Execute: func(_ context.Context, c *Call) (any, error) {
			if len(c.History)+1 == s.fails {
				return nil, fmt.Errorf("%s fails", s.name)
			}
			return len(c.History) + 1, nil
		},
		Decide: func(_ context.Context, c *Call) (Decision, error) {
			if len(c.History) < s.n {
				return DecideRetry, nil
			}
			return s.then, nil
		},
	}
}
