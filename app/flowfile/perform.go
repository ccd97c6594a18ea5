package flowfile

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/stagepost/stagepost/app/flowfile/process"
	"github.com/stagepost/stagepost/flow"
)

// execute gives what a task does; nil if that is nothing.
func (k *task) execute(o *Options) flow.Do {
	switch {
	case k.act == nil:
		return nil
	case k.act.kind == "go":
		return o.Go[k.act.fn].Execute
	case k.act.kind == "wait":
		return k.act.waits(k.name).Execute
	case k.act.kind == "sleep":
		return flow.Sleep(k.name, k.act.within).Execute
	}
	return k.act.do(o, k.output, func(c *flow.Call) flow.Values { return c.Args() })
}

// waits makes the task that waits for a signal.
func (a *action) waits(name string) *flow.Task {
	switch a.comes {
	case "boolean":
		return flow.Signal[bool](a.signal).Wait(name, a.within)
	case "integer":
		return flow.Signal[int](a.signal).Wait(name, a.within)
	case "number":
		return flow.Signal[float64](a.signal).Wait(name, a.within)
	case "string":
		return flow.Signal[string](a.signal).Wait(name, a.within)
	case "list":
		return flow.Signal[[]any](a.signal).Wait(name, a.within)
	case "object":
		return flow.Signal[map[string]any](a.signal).Wait(name, a.within)
	}
	return flow.Wait(name, a.signal, a.within)
}

// signals gives the signals that a task waits for.
func (k *task) signals(o *Options) []flow.AnySignal {
	switch {
	case k.act == nil:
		return nil
	case k.act.kind == "go":
		return o.Go[k.act.fn].Signals
	case k.act.kind == "wait":
		return k.act.waits(k.name).Signals
	}
	return nil
}

// undoing gives what takes a task back; nil if nothing does.
func (k *task) undoing(o *Options) flow.Do {
	switch {
	case k.revert == nil && k.act != nil && k.act.kind == "go":
		return o.Go[k.act.fn].Revert
	case k.revert == nil:
		return nil
	case k.revert.kind == "go":
		return o.Go[k.revert.fn].Execute
	}
	output := "line"
	if k.revert.kind == "http" {
		output = ""
	}
	return k.revert.do(o, output, k.known)
}

// known gives what a revert has: its arguments, the result of the task, and the names that it provided. Where the
// task failed these are null, so that a script can ask for them.
func (k *task) known(c *flow.Call) flow.Values {
	all := flow.Values{}
	if len(k.provides.names()) > 0 || k.act != nil {
		all["result"] = c.Result.Any()
	}
	for _, name := range k.provides.names() {
		all[name] = pick(k.provides.result, name, c.Result.Any())
	}
	maps.Copy(all, c.Args())
	return all
}

// pick takes what a result provides under a name out of it.
func pick(r flow.Result, name string, whole any) any {
	if r.Name == name {
		return whole
	}
	if i := slices.Index(r.Names, name); i >= 0 {
		if l, is := whole.([]any); is && i < len(l) {
			return l[i]
		}
		return nil
	}
	if m, is := whole.(map[string]any); is {
		return m[name]
	}
	return nil
}

// do makes a command or a request of an action.
func (a *action) do(o *Options, output string, values func(*flow.Call) flow.Values) flow.Do {
	return func(ctx context.Context, c *flow.Call) (any, error) {
		if a.request != nil {
			return a.request.do(ctx, o, c.Key(), output, holes(values(c)))
		}
		return a.run(ctx, o, c, output, values(c))
	}
}

// run runs a command. Values reach it in its environment and on its standard input, and nowhere else.
func (a *action) run(ctx context.Context, o *Options, c *flow.Call, output string, values flow.Values) (any, error) {
	stdin, err := compactJSON(values)
	if err != nil {
		return nil, fmt.Errorf("values of %s: %w", c.Atom, err)
	}
	env, err := a.environment(o, c, values)
	if err != nil {
		return nil, err
	}
	argv := a.argv
	if a.script != "" {
		argv = []string{"sh", "-eu", "-c", a.script, c.Atom}
	}
	out, err := o.Commander.Run(ctx, &process.Command{Argv: argv, Env: env, Stdin: append(stdin, '\n'), Dir: a.dir,
		Most: MaxOutput, Grace: termination})
	if err != nil {
		return nil, err
	}
	if out.Exit != 0 || out.Signal != "" || out.Limit != "" {
		return nil, &CommandError{Exit: out.Exit, Signal: out.Signal, Limit: out.Limit,
			Stderr: strings.TrimSpace(strings.ToValidUTF8(string(out.Stderr), "\uFFFD"))}
	}
	return result(out.Stdout, output)
}

// environment is all that a command sees.
func (a *action) environment(o *Options, c *flow.Call, values flow.Values) ([]string, error) {
	env := []string{
		"PATH=" + o.Path, "LANG=C.UTF-8",
		"STAGEPOST_FLOW=" + c.Flow, "STAGEPOST_TASK=" + c.Atom, "STAGEPOST_KEY=" + c.Key(),
		fmt.Sprintf("STAGEPOST_ATTEMPT=%d", c.Attempt),
	}
	if c.Failure != nil {
		text := strings.ReplaceAll(c.Failure.Type+": "+c.Failure.Message, "\x00", "\uFFFD")
		env = append(env, "STAGEPOST_FAILURE="+text)
	}
	if a.noEnv {
		return env, nil
	}
	total := 0
	for _, name := range sortedKeys(values) {
		text, err := textOf(values[name])
		if err != nil {
			return nil, fmt.Errorf("%s of %s: %w", name, c.Atom, err)
		}
		if total += len(name) + len(text); len(text) > longestVar || total > longestEnv {
			return nil, invalid([]string{c.Atom},
				"the value %s is too long for the environment of a command (%d bytes): set env: false, and read it "+
					"from standard input", name, len(text))
		}
		if strings.Contains(text, "\x00") {
			return nil, invalid([]string{c.Atom},
				"the value %s holds a NUL byte, which the environment of a command cannot: set env: false, and read "+
					"it from standard input", name)
		}
		env = append(env, variable(name)+"="+text)
	}
	return env, nil
}
