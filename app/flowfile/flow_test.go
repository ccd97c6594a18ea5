package flowfile

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stagepost/stagepost/flow"
)

func failing(context.Context, *flow.Call) (any, error) { return nil, errors.New("no") }

// noting returns functions that determine what is called: "name(arguments)", and "-name" for reverts.
func noting(log *[]string) Options {
	note := func(sign string) flow.Do {
		return func(_ context.Context, c *flow.Call) (any, error) {
			text, _ := json.Marshal(c.Args())
			*log = append(*log, sign+c.Atom+string(text))
			return c.Get("v"), nil
		}
	}
	return Options{Go: map[string]Func{
		"echo": {Execute: note(""), Revert: note("-")},
		"fail": {Execute: failing, Requires: []string{"why"}},
	}}
}

// play runs a flow serially and gives what was called.
func play(t *testing.T, text string, inputs flow.Values) ([]string, error) {
	t.Helper()
	var log []string
	item, err := mustParse(t, text, noting(&log)).Flow(inputs)
	if err != nil {
		t.Fatal(err)
	}
	r, err := flow.New(item, flow.Options{})
	if err != nil {
		t.Fatal(err)
	}
	err = r.Run(t.Context())
	return log, err
}

func TestLanguage(t *testing.T) {
	for _, c := range []struct {
		name, text string
		fails      bool
		want       []string
	}{
		{"arguments", `
inputs: {a: 1, b: [x]}
linear:
  - {task: one, go: echo, requires: [a], optional: {c: 3, b: 0}, inject: {v: {k: 1.5}}, provides: d}
  - {task: two, go: echo, rebind: {v: d}, provides: {keys: [k]}}
  - {task: three, go: echo, requires: [k]}
`, false, []string{`one{"a":1,"b":["x"],"c":3,"v":{"k":1.5}}`, `two{"v":{"k":1.5}}`, `three{"k":1.5}`}},
		{"reverts", `
linear:
  - {task: one, go: echo}
  - {task: two, go: echo, revert: {go: echo, inject: {z: 1}}}
  - {task: three, go: fail, inject: {why: 1}}
`, true, []string{`one{}`, `two{}`, `two{"z":1}`, `-one{}`}},
		{"retry", `
linear:
  - {task: one, go: echo, requires: [try], inject: {v: 1}}
  - {task: two, go: fail, inject: {why: 1}}
retry: {times: 2, pause: 1ms}
as: try
`, true, []string{`one{"try":1,"v":1}`, `-one{"try":1,"v":1}`, `one{"try":2,"v":1}`, `-one{"try":2,"v":1}`}},
		{"for each", `
linear: [{task: one, go: echo, requires: [it]}, {task: two, go: fail, inject: {why: 1}}]
for_each: [a, {b: 1}]
as: it
`, true, []string{`one{"it":"a"}`, `-one{"it":"a"}`, `one{"it":{"b":1}}`, `-one{"it":{"b":1}}`}},
		{"for each of", `
inputs: {hosts: [h1, h2]}
linear: [{task: one, go: echo, requires: [it]}, {task: two, go: fail, inject: {why: 1}}]
for_each_of: hosts
as: it
`, true, []string{`one{"it":"h1"}`, `-one{"it":"h1"}`, `one{"it":"h2"}`, `-one{"it":"h2"}`}},
		{"only a part", `
linear:
  - {task: one, go: echo}
  - name: p
    always_revert: true
    linear: [{task: two, go: echo}, {task: three, go: fail, inject: {why: 1}}]
`, true, []string{`one{}`, `two{}`, `-two{}`}},
		{"all of it", `
linear:
  - {task: one, go: echo}
  - {name: p, revert_all: true, linear: [{task: two, go: echo}, {task: three, go: fail, inject: {why: 1}}]}
`, true, []string{`one{}`, `two{}`, `-two{}`, `-one{}`}},
		{"each", `
inputs: {files: [b.c, a.c, a.h, "ä ö.c"]}
linear:
  - {each: v, in: files, match: "*.c", task: t, go: echo, provides: all}
  - {task: last, go: echo, requires: [all]}
`, false, []string{`t/b.c{"v":"b.c"}`, `t/a.c{"v":"a.c"}`, `t/.c-70e84685267833c6{"v":"ä ö.c"}`, `last{"all":["b.c","a.c","ä ö.c"]}`}},
		{"each in a line", `
linear: [{each: v, in: [1, {a: 2}], order: linear, task: t, go: echo}]
`, false, []string{`t/1{"v":1}`, `t/a--2--7e8059f495589fcd{"v":{"a":2}}`}},
		{"each of nothing", `
linear: [{each: v, in: [], task: t, go: echo, provides: all}, {task: last, go: echo, requires: [all]}]
`, false, []string{`last{"all":[]}`}},
		{"graph", `
graph:
  - {task: c, go: echo, requires: [b]}
  - {task: d, go: echo, after: [c, a]}
  - {task: a, go: echo, priority: -5}
  - {task: b, go: echo, inject: {v: 1}, provides: b}
`, false, []string{`b{"v":1}`, `a{}`, `c{"b":1}`, `d{}`}},
		{"target", `
graph:
  - {task: c, go: echo, after: b}
  - {task: b, go: echo}
  - {task: a, go: echo}
target: c
`, false, []string{`b{}`, `c{}`}},
		{"when", `
graph:
  - {task: a, go: echo, inject: {v: {n: 5}}}
  - {task: b, go: echo, when: {a: {field: n, greater: 4}}}
  - {task: c, go: echo, when: {a: {field: n, less: 5}}}
  - {task: d, go: echo, after: c}
`, false, []string{`a{"v":{"n":5}}`, `b{}`}},
		{"depth", `
graph:
  - {task: a, go: echo, inject: {v: 5}}
  - {task: c, go: echo, when: {a: 6}, depth: atom}
  - {task: d, go: echo, after: c}
`, false, []string{`a{"v":5}`, `d{}`}},
		{"two sources", `
graph:
  - {task: a, go: echo, inject: {v: 5}}
  - {task: b, go: echo, inject: {v: x}}
  - {task: c, go: echo, when: {any: [{a: 6}, {b: {in: [x, y]}}]}}
  - {task: d, go: echo, when: {a: 5, b: y}}
`, false, []string{`a{"v":5}`, `b{"v":"x"}`, `c{}`}},
		{"anchors", `
linear:
  - {task: a, go: echo, inject: &i {v: 1}}
  - {task: b, go: echo, inject: *i}
`, false, []string{`a{"v":1}`, `b{"v":1}`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			log, err := play(t, "flow: f"+c.text, nil)
			if (err != nil) != c.fails {
				t.Errorf("error %v", err)
			}
			if diff := cmp.Diff(c.want, log); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestConditions asks conditions about results.
func TestConditions(t *testing.T) {
	results := flow.Values{"a": 5, "s": "text", "m": map[string]any{"b": map[string]any{"c": true}, "n": nil},
		"l": []any{1, "x"}, "z": nil}
	for text, want := range map[string]bool{
		"a: 5": true, "a: 5.0": true, "a: '5'": false, "s: text": true, "l: [1, x]": true, "l: [x, 1]": false,
		"other: 5": false, "z: null": true,
		"a: {equals: 5}": true, "a: {in: [1, 5]}": true, "a: {in: [1]}": false, "a: {greater: 4}": true,
		"a: {greater: 5}": false, "a: {less: 5.5}": true,
		"s: {greater: tex}": true, "s: {greater: 4}": false, "s: {less: 4}": false, "z: {exists: true}": false,
		"z: {exists: false}": true, "other: {exists: false}": true,
		"a: {exists: true}": true, "a: {not: 5}": false, "a: {not: {greater: 7}}": true, "other: {not: 5}": true,
		"m: {field: b.c, equals: true}": true,
		"m: {field: b.d, exists: true}": false, "m: {field: n, exists: true}": false,
		"m: {field: n, equals: null}": true, "s: {field: x, exists: false}": true,
		"a: {greater: 4, less: 6}": true, "a: {greater: 4, less: 5}": false, "{a: 5, s: no}": false,
		"{a: 5, s: text}":          true,
		"all: [{a: 5}, {s: text}]": true, "all: [{a: 5}, {s: no}]": false, "any: [{a: 6}, {s: text}]": true,
		"any: [{a: 6}, {s: no}]": false,
		"not: {a: 5}":            false, "not: {any: [{a: 6}, {not: {s: text}}]}": true,
	} {
		root, err := grow([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		r := &reader{}
		what, _ := r.condition(root)
		if len(r.mistakes) > 0 || what(results) != want {
			t.Errorf("%s: want %v, %v", text, want, r.mistakes)
		}
	}
}

// TestSameFlow builds a flow twice and needs the same atoms, links and versions.
func TestSameFlow(t *testing.T) {
	for _, name := range []string{"vm.yaml", "saga.yaml", "fanout.yaml"} {
		inputs := flow.Values{}
		for _, in := range mustParse(t, exampleText(t, name), commands(t)).Inputs() {
			if in.Required {
				inputs[in.Name] = []any{"/x/a.txt", "/x/b.txt"}
			}
		}
		shape := func() string {
			item, err := mustParse(t, exampleText(t, name), commands(t)).Flow(inputs)
			if err != nil {
				t.Fatal(err)
			}
			return outline(item)
		}
		first := shape()
		for range 20 {
			if diff := cmp.Diff(first, shape()); diff != "" {
				t.Fatal(diff)
			}
		}
	}
}

func outline(item flow.Item) string {
	text := fmt.Sprint(item.Title(), item.Needs(), item.Gives())
	if f, is := item.(*flow.Flow); is {
		for _, one := range f.Items() {
			text += "\n" + strings.ReplaceAll(outline(one), "\n", "\n ")
		}
		for _, l := range f.Links() {
			text += fmt.Sprint("\n", l.From.Title(), l.To.Title(), l.Names, l.Depth)
		}
	} else if k, is := item.(*flow.Task); is {
		text += fmt.Sprint(k.Version, k.Args.Requires, k.Args.Inject)
	}
	return text
}

func TestInputs(t *testing.T) {
	f := mustParse(t, "flow: f\nabout: text\ninputs: {a: {required: true, about: what}, b: 2, c: {default: {x: 1}}, d: null}\nlinear: []\n", Options{})
	got := f.Inputs()
	for i := range got {
		got[i].place = place{}
	}
	want := []Input{{Name: "a", Required: true, About: "what"}, {Name: "b", Default: 2},
		{Name: "c", Default: map[string]any{"x": 1}}, {Name: "d"}}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(Input{}, place{})); diff != "" || f.Name() != "f" ||
		f.About() != "text" {
		t.Error(diff)
	}
	if _, err := f.Flow(nil); err == nil || err.Error() != "the flow f requires the input a" ||
		!errors.Is(err, flow.ErrInvalid) {
		t.Error(err)
	}
	if _, err := f.Flow(flow.Values{"a": 1, "e": 1}); err == nil || err.Error() != `the flow f has no input "e" (there are: a, b, c, d)` {
		t.Error(err)
	}
	values, err := f.Values(flow.Values{"a": 1, "b": 3})
	if diff := cmp.Diff(flow.Values{"a": 1, "b": 3, "c": map[string]any{"x": 1}, "d": nil}, values); diff != "" ||
		err != nil {
		t.Error(diff, err)
	}
}

func TestBadLists(t *testing.T) {
	f := mustParse(t, "flow: f\ninputs: {l: {required: true}}\nlinear: [{each: x, in: l, task: t, go: echo}]\n", Options{Go: map[string]Func{"echo": {}}})
	for _, c := range []struct {
		list any
		want string
	}{
		{"a", "the input l must be a list: x runs once for each of its items"},
		{nil, "the input l must be a list: x runs once for each of its items"},
		{[]any{1, 2, 1}, "Atoms with duplicate names found: t/1"},
		{make([]int, MaxTasks+1), "the flow has more than 100000 tasks"},
		{[]string{"a"}, ""},
	} {
		if _, err := f.Flow(flow.Values{"l": c.list}); (err == nil) != (c.want == "") || err != nil &&
			err.Error() != c.want {
			t.Errorf("%v", err)
		}
	}
}

func TestFactory(t *testing.T) {
	var log []string
	build := Factory(noting(&log))
	args, err := json.Marshal(Arguments{
		File:   "flow: f\ninputs: {n: 1}\nlinear: [{task: a, go: echo, requires: [n]}]\n",
		Inputs: map[string]flow.Value{"n": flow.ValueOf(1 << 60)},
	})
	if err != nil {
		t.Fatal(err)
	}
	item, err := build(args)
	if err != nil {
		t.Fatal(err)
	}
	r, err := flow.New(item, flow.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Run(t.Context()); err != nil || !slices.Equal(log, []string{`a{"n":1152921504606846976}`}) {
		t.Error(err, log)
	}
	for text, want := range map[string]string{
		`{"file": "x", "other": 1}`: `arguments of a flow from a file: json: unknown field "other"`,
		`{"file": "flow: f"}`:       "1:1: nothing is to be done: add linear:, unordered: or graph: with a list of items",
		`{} {}`:                     "arguments of a flow from a file: something follows the JSON value",
		`{"file": "flow: f\nlinear: []", "inputs": {"x": 1}}`: `the flow f has no input "x"`,
	} {
		if _, err := build(json.RawMessage(text)); err == nil || err.Error() != want {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestPauses(t *testing.T) {
	a := &again{pause: time.Second, longest: 5 * time.Second}
	var got []time.Duration
	for n := 1; n < 6; n++ {
		got = append(got, a.wait(n)/time.Second)
	}
	if !slices.Equal(got, []time.Duration{1, 2, 4, 5, 5}) || (&again{pause: time.Second}).wait(9) != time.Second {
		t.Error(got)
	}
	for text, want := range map[string]time.Duration{"1d": 24 * time.Hour, "1.5d12h": 48 * time.Hour,
		"10ms": 10 * time.Millisecond} {
		if got, err := span(text); got != want || err != nil {
			t.Errorf("%s: %s, %v", text, got, err)
		}
	}
}

// TestUnless ends the attempts at once when nothing would help.
func TestUnless(t *testing.T) {
	for extra, want := range map[string]string{", unless: [CommandFailed]": "x", "": "xxx"} {
		dir := t.TempDir()
		text := "flow: f\ninputs: {d: {required: true}}\nlinear:\n  - task: a\n    requires: d\n    attempts: {max: 3, first: 1ms" + extra + "}\n    run: printf x >> \"$d/n\"; exit 1\n"
		if err := begin(t, text, commands(t), flow.Values{"d": dir}).Run(t.Context()); err == nil {
			t.Error("it succeeded")
		}
		if got := read1(t, dir, "n"); got != want {
			t.Errorf("%s: got %s", extra, got)
		}
	}
}

func TestLint(t *testing.T) {
	text := `flow: f
inputs: {a: 1, b: 2, c: 3}
linear:
  - task: one
    requires: [a]
    run: echo $a "$a" $b; b=1
    provides: [x, y]
    revert: echo "$x $c"
  - task: two
    requires: [c]
    run: [echo, $c]
  - task: three
    requires: [a]
    run: |
      # $a
      echo '$a' \$a "$(echo "$a")" $((a + $a)) ${a}
    env: true
  - {task: four, requires: a, env: false, run: 'echo "$a"'}
  - {task: five, http: {url: "http://x/{a}"}}
`
	want := []string{
		"2:16: warning: the input b is not used",
		"6:5: warning: $a outside of double quotes falls apart at spaces and stars: write \"$a\"",
		"7:15: note: y, which one provides, is not used",
		"8:13: warning: one uses $c, which is not among its arguments: add requires: [c]",
		"11:5: warning: a list is not read by a shell: $c stays as it is; write run as text",
		"14:5: warning: $a outside of double quotes falls apart at spaces and stars: write \"$a\"",
		"18:43: warning: with env: false there is no variable $a: read it from standard input",
	}
	var got []string
	for _, f := range Lint([]byte(text)) {
		got = append(got, f.String())
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	asked := Lint([]byte(text), CheckReverts)
	if len(asked) != len(want)+3 || asked[3].Source == "" ||
		!strings.Contains(fmt.Sprint(asked), "9:5: note: two has no revert: what it did stays if the flow is reverted") {
		t.Errorf("%v", asked)
	}
	if got := Lint([]byte("flow: f\nlinear: [{task: a, runn: x, go: whatever}]\n")); len(got) != 1 || got[0].String() != `2:20: error: a task has no key "runn"; is it run?` {
		t.Errorf("%v", got)
	}
}

// TestManyTasks reads a large file in little time.
func TestManyTasks(t *testing.T) {
	var text strings.Builder
	text.WriteString("flow: f\nlinear:\n")
	for n := range 20_000 {
		fmt.Fprintf(&text, "  - task: t%d\n    sleep: 1s\n", n)
	}
	if _, err := Parse([]byte(text.String()), Options{}); err != nil {
		t.Error(err)
	}
}

func FuzzParse(f *testing.F) {
	for _, name := range []string{"vm", "saga", "fanout", "approve"} {
		text, err := os.ReadFile(examples + "/" + name + ".yaml")
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text))
	}
	f.Add("flow: f\ngraph:\n  - {task: a, sleep: 1s}\n  - {task: b, when: {a: {not: {in: [1]}}}, http: {url: '{x}/{y}?{z}', method: POST, body: '{\"a\": {b}}'}}\n")
	f.Add("a: &a [*a]\n")
	o := Options{Commands: true, HTTP: anyClient(), Go: map[string]Func{"echo": {}}}
	f.Fuzz(func(t *testing.T, text string) {
		began := time.Now()
		file, err := Parse([]byte(text), o)
		Lint([]byte(text), CheckReverts)
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("%s for %d bytes", took, len(text))
		}
		var all Mistakes
		if err != nil {
			if !errors.As(err, &all) || len(all) == 0 || all[0].Line < 1 || all[0].Column < 1 {
				t.Errorf("no position in %v", err)
			}
			_ = all.Excerpts()
			return
		}
		if file.Name() == "" {
			t.Error("no name")
		}
		inputs := flow.Values{}
		for _, in := range file.Inputs() {
			inputs[in.Name] = []any{"a", 1}
		}
		_, _ = file.Flow(inputs)
	})
}
