package flowfile

import (
	"fmt"
	"slices"
	"strings"

	"github.com/stagepost/stagepost/flow"
	"github.com/stagepost/stagepost/format/tree"
)

// task reads a task, or the template of a fan-out.
func (r *reader) task(t *tree.Node, template bool) *task {
	k := &task{place: t.Position, version: "1.0"}
	if name := t.Get("task"); name != nil {
		k.name = r.name(name, "task")
	}
	k.act = r.action(t, []string{"run", "http", "go", "wait", "sleep"})
	r.named(k, t)
	k.args = r.args(t)
	r.revert(k, t.Get("revert"))
	if k.act == nil && k.revert == nil {
		r.wrong(t.Position, "%s does nothing: give it one of run, http, go, wait, sleep", or(k.name, "the task"))
	}
	k.provides = r.provides(t.Get("provides"))
	r.output(k, t)
	k.timeout = r.span(t.Get("timeout"), "timeout")
	k.attempts = r.attempts(t.Get("attempts"))
	k.priority = r.whole(t.Get("priority"), "priority", -1_000_000_000, 0)
	if v := t.Get("version"); v != nil {
		k.version = r.text(v, "version")
	}
	for _, was := range r.names(t.Get("was"), "was") {
		k.was = append(k.was, was.name)
	}
	if template {
		r.template(k, t)
	}
	r.complete(k)
	r.take(k.name, t.Position)
	r.tasks = append(r.tasks, k)
	return k
}

// named gives a task without a name the one of what it does.
func (r *reader) named(k *task, t *tree.Node) {
	if k.name != "" || t.Get("task") != nil {
		return
	}
	switch {
	case k.act == nil:
	case k.act.kind == "wait":
		k.name = "wait-" + k.act.signal
	case k.act.kind == "sleep":
		k.name = r.sleepName("sleep-" + r.text(t.Get("sleep"), "sleep"))
	case k.act.kind == "go":
		k.name = k.act.fn
	}
	if k.name == "" {
		r.wrong(t.Position, "the task has no name: begin with task: NAME")
	} else if !nameForm.MatchString(k.name) {
		r.wrong(t.Position, "the task needs a name of its own: begin with task: NAME")
		k.name = ""
	}
}

// sleepName numbers sleeps of one length from the second on.
func (r *reader) sleepName(name string) string {
	if r.sleeps == nil {
		r.sleeps = map[string]int{}
	}
	if r.sleeps[name]++; r.sleeps[name] == 1 {
		return name
	}
	return fmt.Sprintf("%s-%d", name, r.sleeps[name])
}

// action reads what is done: one of the keys; nil if there is none.
func (r *reader) action(t *tree.Node, keys []string) *action {
	var a *action
	for _, k := range keys {
		v := t.Get(k)
		if v == nil {
			continue
		}
		if a != nil {
			r.wrong(t.At(k), "it does %s already: one of %s", a.kind, strings.Join(keys, ", "))
			continue
		}
		a = &action{place: t.At(k), kind: k}
		switch k {
		case "run":
			r.command(a, v)
			if dir := t.Get("dir"); dir != nil {
				a.dir = r.dir(dir)
			}
			a.noEnv = !r.flag(t.Get("env"), "env", true)
		case "http":
			r.http(a, v)
		case "go":
			if a.fn = r.name(v, "go"); a.fn != "" && !r.o.any {
				if _, there := r.o.Go[a.fn]; !there {
					r.wrong(v.Position, "the program has no function %s%s", a.fn, similar(a.fn, sortedKeys(r.o.Go)))
				}
			}
		case "wait":
			r.wait(a, v)
		case "sleep":
			a.within = r.span(v, "sleep")
		}
	}
	return a
}

func (r *reader) wait(a *action, t *tree.Node) {
	if t.Kind != tree.Mapping {
		a.signal = r.name(t, "wait")
		return
	}
	r.keys(t, "wait", waitKeys)
	if signal := t.Get("signal"); signal != nil {
		a.signal = r.name(signal, "signal")
	} else {
		r.wrong(t.Position, "wait needs a signal")
	}
	a.within = r.span(t.Get("within"), "within")
	if comes := t.Get("type"); comes != nil {
		a.comes = r.oneOf(comes, "type", "boolean", "integer", "number", "string", "list", "object")
	}
}

// revert reads what takes a task back.
func (r *reader) revert(k *task, t *tree.Node) {
	if t == nil {
		return
	}
	if t.Kind != tree.Mapping {
		if a := (&action{place: t.Position, kind: "run"}); r.command(a, t) {
			k.revert = a
		}
	} else {
		r.keys(t, "revert", revertTable)
		if k.revert = r.action(t, []string{"run", "http", "go"}); k.revert == nil {
			r.wrong(t.Position, "revert does nothing: give it one of run, http, go")
			return
		}
		if slices.ContainsFunc(argKeys.names(), func(n string) bool { return t.Get(n) != nil }) {
			undo := r.args(t)
			k.undo = &undo
		}
	}
	if k.revert != nil && k.act != nil && k.act.kind == "run" && k.revert.kind == "run" {
		k.revert.noEnv = k.act.noEnv
		k.revert.dir = or(k.revert.dir, k.act.dir)
	}
}

// args reads arguments.
func (r *reader) args(t *tree.Node) args {
	a := args{requires: r.names(t.Get("requires"), "requires"), rebind: map[string]string{}}
	a.optional = r.given(t.Get("optional"), "optional")
	a.inject = r.given(t.Get("inject"), "inject")
	seen := map[string]bool{}
	for _, one := range a.requires {
		seen[one.name] = true
	}
	for _, one := range append(a.optional[:len(a.optional):len(a.optional)], a.inject...) {
		if seen[one.name] {
			r.wrong(one.place, "the argument %s is there twice: it stands in one of requires, optional, inject",
				one.name)
		}
		seen[one.name] = true
	}
	t = t.Get("rebind")
	if t == nil {
		return a
	}
	if t.Kind != tree.Mapping {
		r.wrong(t.Position, "rebind is written as argument: value, not as %s", t.Describe())
		return a
	}
	for _, m := range t.Members {
		if name := r.name(m.Value, "rebind"); name != "" && r.argument(m) {
			a.rebind[m.Name] = name
		}
		if !seen[m.Name] {
			a.requires = append(a.requires, ref{m.Position, m.Name}) // what is bound is meant to be there
		}
	}
	return a
}

// argument checks the name of an argument that is a key.
func (r *reader) argument(m tree.Member) bool {
	if nameForm.MatchString(m.Name) {
		return true
	}
	r.wrong(m.Position, "%.40q is no name: 1 to 200 letters, digits, dots, hyphens, slashes and underscores", m.Name)
	return false
}

// given reads arguments with values.
func (r *reader) given(t *tree.Node, what string) []arg {
	if t == nil {
		return nil
	}
	if t.Kind != tree.Mapping {
		r.wrong(t.Position, "%s is written as argument: value, not as %s", what, t.Describe())
		return nil
	}
	var all []arg
	for _, m := range t.Members {
		if r.argument(m) {
			all = append(all, arg{ref{m.Position, m.Name}, m.Value.Plain()})
		}
	}
	return all
}

// provides reads the names of a result.
func (r *reader) provides(t *tree.Node) provides {
	if t == nil {
		return provides{}
	}
	p := provides{place: t.Position}
	switch t.Kind {
	case tree.Leaf:
		p.result = flow.One(r.name(t, "provides"))
	case tree.List:
		for _, one := range t.Items {
			name := ""
			if one.Kind != tree.Leaf || one.Value != nil && one.Value != "" {
				name = r.name(one, "provides")
			}
			p.result.Names = append(p.result.Names, name)
		}
	case tree.Mapping:
		r.keys(t, "provides", providesKeys)
		for _, one := range r.names(t.Get("keys"), "keys") {
			p.result.Keys = append(p.result.Keys, one.name)
		}
		if len(p.result.Keys) == 0 {
			r.wrong(t.Position, "provides needs keys: the entries that are handed on")
		}
	}
	seen := map[string]bool{}
	for _, name := range p.names() {
		if seen[name] {
			r.wrong(t.Position, "provides names %s twice", name)
		}
		seen[name] = true
		if i := slices.IndexFunc(r.inputs, func(in Input) bool { return in.Name == name }); i >= 0 {
			r.wrong(t.Position, "%s is an input of the flow (line %d): a result needs another name", name,
				r.inputs[i].place.Line)
		}
	}
	return p
}

// output reads what becomes of a command's output or a response's body.
func (r *reader) output(k *task, t *tree.Node) {
	if out := t.Get("output"); out != nil {
		if k.act == nil || k.act.kind != "run" && k.act.kind != "http" {
			r.wrong(t.At("output"), "output is for run and http")
		}
		k.output = r.oneOf(out, "output", "line", "text", "json", "none")
	} else if len(k.provides.result.Names)+len(k.provides.result.Keys) > 0 {
		k.output = "json"
	} else if k.act != nil && k.act.kind == "run" {
		k.output = "line"
	}
	runs := k.act != nil && k.act.kind == "run" || k.revert != nil && k.revert.kind == "run"
	for _, name := range []string{"dir", "env"} {
		if t.Get(name) != nil && !runs {
			r.wrong(t.At(name), "%s is for run", name)
		}
	}
	if len(k.provides.names()) > 0 && (k.act == nil || k.act.kind == "sleep" || k.output == "none") {
		r.wrong(k.provides.place, "there is no result that it could provide")
	}
}

// attempts reads how a task is tried again.
func (r *reader) attempts(t *tree.Node) flow.Attempts {
	if t == nil {
		return flow.Attempts{}
	}
	if t.Kind != tree.Mapping {
		return flow.Attempts{Max: r.whole(t, "attempts", 1, 1)}
	}
	r.keys(t, "attempts", attemptKeys)
	if t.Get("max") == nil {
		r.wrong(t.Position, "attempts needs max: how often it is tried in all")
	}
	a := flow.Attempts{Max: r.whole(t.Get("max"), "max", 1, 1), First: r.span(t.Get("first"), "first"),
		Longest: r.span(t.Get("longest"), "longest")}
	if unless := r.names(t.Get("unless"), "unless"); len(unless) > 0 {
		a.Until = func(f *flow.Failure) bool {
			return slices.ContainsFunc(unless, func(one ref) bool { return f.Caused(one.name) })
		}
	}
	return a
}

// complete adds the arguments that follow from what a task does, and checks their names.
func (r *reader) complete(k *task) {
	if k.act != nil {
		r.follow(k.act, &k.args, nil)
	}
	if k.revert != nil {
		own := append(k.provides.names(), "result")
		if k.undo != nil {
			r.follow(k.revert, k.undo, own)
		} else {
			r.follow(k.revert, &k.args, own)
		}
	}
	for _, a := range []*args{&k.args, k.undo} {
		if a == nil {
			continue
		}
		for name := range a.rebind {
			if !slices.Contains(a.names(), name) {
				r.wrong(k.place, "rebind names %s, which is no argument", name)
			}
		}
	}
	r.variables(k)
}

// follow adds to args what an action needs by itself; own are the names that it has anyway.
func (r *reader) follow(a *action, to *args, own []string) {
	var wanted []ref
	switch {
	case a.request != nil:
		wanted = a.request.wants
	case a.fn != "":
		for _, name := range r.o.Go[a.fn].Requires {
			wanted = append(wanted, ref{a.place, name})
		}
	}
	have := append(to.names(), own...)
	for _, one := range wanted {
		if !slices.Contains(have, one.name) {
			to.requires = append(to.requires, one)
			have = append(have, one.name)
		}
	}
}

func sortedKeys[V any](m map[string]V) []string {
	all := make([]string, 0, len(m))
	for k := range m {
		all = append(all, k)
	}
	slices.Sort(all)
	return all
}

func invalid(atoms []string, format string, args ...any) error {
	return &flow.Error{Kind: flow.ErrInvalid, Atoms: atoms, Text: fmt.Sprintf(format, args...)}
}
