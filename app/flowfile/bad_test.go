package flowfile

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestBadFiles needs the exact text for what people get wrong.
func TestBadFiles(t *testing.T) {
	const head = "flow: f\nlinear:\n"
	const graph = "flow: f\ngraph:\n"
	for _, c := range []struct{ text, want string }{
		{"", "1:1: the file is empty"},
		{"# nothing\n", "1:1: the file is empty"},
		{"flow: f\n---\nflow: g\n", "3:1: a second document: a file holds one flow"},
		{"- a\n", "1:1: a flow is written as keys with values, not as a list"},
		{"flow: f\n", "1:1: nothing is to be done: add linear:, unordered: or graph: with a list of items"},
		{"linear: []\n", "1:1: the flow has no name: begin with flow: NAME"},
		{"flow: a b\nlinear: []\n", `1:7: "a b" is no name: 1 to 200 letters, digits, dots, hyphens, slashes and underscores`},
		{"flow: [a]\nlinear: []\n", "1:7: flow is a name, not a list"},
		{"flow:\nlinear: []\n", "1:6: flow has no value"},
		{"flow: f\nlinar: []\n", "1:1: nothing is to be done: add linear:, unordered: or graph: with a list of items; 2:1: a flow has no key \"linar\"; is it linear?"},
		{"flow: f\nlinear: []\ngraph: []\n", "3:1: f is linear already: it is one of linear, unordered, graph"},
		{"flow: f\nlinear: 5\n", "2:9: linear is a list of items, each with a hyphen before it, not a number"},
		{"flow: f\nlinear: []\nflow: g\n", `3:1: the key "flow" occurs twice`},
		{"flow: f\ninputs: [a]\nlinear: []\n", "2:9: inputs are written as keys with values, not as a list"},
		{"flow: f\ninputs: {a: {requird: true}}\nlinear: []\n", `2:14: an input has no key "requird"; is it required?`},
		{"flow: f\ninputs: {a: {required: true, default: 1}}\nlinear: []\n", "2:30: an input that is required needs no default"},
		{"flow: f\ninputs: {a b: 1}\nlinear: []\n", `2:10: "a b" is no name: 1 to 200 letters, digits, dots, hyphens, slashes and underscores`},
		{"flow: f\nlinear: []\nretry: 0\n", "3:8: retry must be from 1 to 1000000000"},
		{"flow: f\nlinear: []\nretry: {pause: 2s}\n", "3:8: retry needs times: how often it is run in all"},
		{"flow: f\nlinear: []\nretry: {times: 2, longest: 2s}\n", "3:19: longest doubles a pause, and there is no pause"},
		{"flow: f\nlinear: []\nretry: 2\nfor_each: [1]\n", "4:1: there is retry already: a part has one of retry, for_each, for_each_of, always_revert"},
		{"flow: f\nlinear: []\nfor_each: a\n", "3:11: for_each is a list of values; for_each_of names a value that is a list"},
		{"flow: f\nlinear: []\nfor_each_of: a\n", "3:1: f_retry requires a, which no task provides and is no input of the flow"},
		{"flow: f\nlinear: []\nas: a\n", "3:1: as names the value of an attempt, and this part has no retry, for_each or for_each_of"},
		{"flow: f\nlinear: []\ntarget: a\n", "3:1: only a graph has a target"},
		{head + "  - a\n", "3:5: an item is written as keys with values, such as task: NAME, not as a text"},
		{head + "  - task: a\n", "3:5: a does nothing: give it one of run, http, go, wait, sleep"},
		{head + "  - run: x\n", "3:5: the task has no name: begin with task: NAME"},
		{head + "  - task: a\n    rum: x\n", "3:5: a does nothing: give it one of run, http, go, wait, sleep; 4:5: a task has no key \"rum\"; is it run?"},
		{head + "  - {task: a, sleep: 1s}\n  - {task: a, sleep: 1s}\n", "4:5: there is something called a already, in line 3: every task has a name of its own"},
		{head + "  - sleep: 1s\n  - sleep: 1s\n", ""},
		{head + "  - sleep: soon\n", `3:12: sleep: "soon" is no time; write it as 10s, 1h30m or 2d`},
		{head + "  - sleep: 10\n", "3:12: sleep is a time such as 10s, 1h30m or 2d, not a number"},
		{head + "  - sleep: 4000d\n", `3:12: sleep: "4000d" is longer than ten years`},
		{head + "  - {task: a, run: x, sleep: 1s}\n", "3:23: it does run already: one of run, http, go, wait, sleep"},
		{head + "  - {task: a, run: {x: 1}}\n", "3:20: run is text for sh, or a list of a program and its arguments, not keys with values"},
		{"flow: f\nat_deadline: kep\nlinear: [{sleep: 1s}]\n", "2:14: at_deadline is one of revert, keep, not \"kep\"; is it keep?"},
		{head + "  - wait: {within: 1s}\n", "3:11: wait needs a signal"},
		{head + "  - go: nothing\n", "3:9: the program has no function nothing (there are: known)"},
		{head + "  - go: knwn\n", "3:9: the program has no function knwn; is it known?"},
		{head + "  - {task: a, sleep: 1s, provides: x}\n", "3:36: there is no result that it could provide"},
		{head + "  - {task: a, sleep: 1s, output: json}\n", "3:26: output is for run and http"},
		{head + "  - {task: a, sleep: 1s, dir: /}\n", "3:26: dir is for run"},
		{head + "  - {task: a, run: x, dir: y}\n", `3:28: dir must be absolute here: "y" begins without a slash`},
		{head + "  - {task: a, run: x, output: xml}\n", `3:31: output is one of line, text, json, none, not "xml"`},
		{head + "  - {task: a, run: x, provides: {kies: [a]}}\n", "3:33: provides needs keys: the entries that are handed on; 3:34: provides has no key \"kies\"; is it keys?"},
		{head + "  - {task: a, run: x, provides: [b, b]}\n", "3:33: provides names b twice"},
		{"flow: f\ninputs: {b: 1}\nlinear:\n  - {task: a, run: x, provides: b}\n", "4:33: b is an input of the flow (line 2): a result needs another name"},
		{head + "  - {task: a, run: x, attempts: {first: 1s}}\n", "3:33: attempts needs max: how often it is tried in all"},
		{head + "  - {task: a, run: x, attempts: many}\n", "3:33: attempts is a whole number, not a text"},
		{head + "  - {task: a, run: x, requires: [b]}\n", "3:5: a requires b, which no task provides and is no input of the flow"},
		{head + "  - {task: a, run: x, requires: [adress]}\n  - {task: b, run: x, provides: address}\n",
			"3:5: a requires adress, which no task provides and is no input of the flow; is it address?"},
		{head + "  - {task: a, run: x, requires: [c]}\n  - {task: b, run: x, provides: c}\n", "3:5: a requires c, which b (line 4) provides, but not before it"},
		{"flow: f\nunordered:\n  - {task: a, run: x, requires: [c]}\n  - {task: b, run: x, provides: c}\n", "3:5: a requires c, which b (line 4) provides, but not before it"},
		{graph + "  - {task: a, run: x, requires: [c], provides: c}\n", "3:5: a requires c, which only itself provides"},
		{head + "  - {task: a, run: x, requires: [b, b]}\n", "3:37: requires names b twice"},
		{head + "  - {task: a, run: x, requires: [b], inject: {b: 1}}\n", "3:47: the argument b is there twice: it stands in one of requires, optional, inject"},
		{head + "  - {task: a, run: x, inject: {PATH: 1}}\n", "3:5: the environment variable PATH is not for values: rename the argument with rebind"},
		{head + "  - {task: a, run: x, inject: {LD_PRELOAD: 1}}\n", "3:5: the environment variable LD_PRELOAD is not for values: rename the argument with rebind"},
		{head + "  - {task: a, run: x, inject: {1a: 1}}\n", "3:5: the argument 1a of a command must begin with a letter: it is an environment variable"},
		{head + "  - {task: a, run: x, inject: {a.b: 1, a-b: 2}}\n",
			"3:5: the arguments a-b and a.b would be the same environment variable, a_b: give one another name with rebind"},
		{head + "  - {task: a, run: x, after: b}\n", "3:23: after is for items of a graph; this one stands in linear"},
		{graph + "  - {task: a, run: x, after: b}\n", "3:30: after names b, which is no item of this graph (there are: a)"},
		{graph + "  - {task: a, run: x, after: a}\n", "3:30: a waits for itself"},
		{graph + "  - {task: a, run: x, after: b}\n  - {task: b, run: x, after: a}\n", "4:30: a link from a to b would close a circle"},
		{graph + "  - {task: a, run: x, requires: [p], provides: q}\n  - {task: b, run: x, requires: [q], provides: p}\n",
			"3:5: these depend on each other in a circle: a, b"},
		{graph + "  - {task: a, run: x, provides: p}\n  - {task: b, run: x, provides: p}\n  - {task: c, run: x, requires: p}\n",
			`5:5: c requires "p", which both a and b provide`},
		{graph + "  - {task: a, run: x, depth: all}\n", "3:23: depth is what is left out if when does not hold, and there is no when"},
		{graph + "  - {task: a, run: x, when: yes please}\n", "3:29: a condition is written as task: test, or with all, any, not, not as a text"},
		{graph + "  - {task: a, run: x}\n  - {task: b, run: x, when: {a: {equal: 1}}}\n",
			"4:33: the test is empty: add one of equals, in, exists, greater, less, not; 4:34: a test has no key \"equal\"; is it equals?"},
		{graph + "  - {task: a, run: x}\n  - {task: b, run: x, when: {a: {in: 1}}}\n", "4:38: in is a list of values, not a number"},
		{graph + "  - {task: a, run: x}\n  - {task: b, run: x, when: {a: {less: [1]}}}\n", "4:40: less is a number or a text, not a list"},
		{graph + "  - {name: p, linear: []}\n  - {task: b, run: x, when: {p: 1}}\n", "4:30: when names a task, and p is none"},
		{graph + "  - {task: a, run: x}\ntarget: c\n", "4:9: target names c, which is no item of this graph (there are: a)"},
		{head + "  - {linear: [], retry: 2}\n", "3:5: a part that is run again needs a name: its controller is stored under it"},
		{head + "  - {each: x, task: a, run: x}\n", "3:5: each needs in: a list, or the name of an input that is one"},
		{head + "  - {each: x, in: files, task: a, run: x}\n", "3:19: in names files, which is no input of the flow"},
		{head + "  - {each: x, in: [a, a], task: a, run: x}\n", "3:5: Atoms with duplicate names found: a/a"},
		{head + "  - {each: x, in: [a], match: '[', task: a, run: x}\n",
			`3:31: "[" is no pattern: * stands for any letters but /, ? for one, [a-z] for one of some`},
		{head + "  - {each: x, in: [a], task: a, run: x, provides: [b]}\n", "3:51: with each, provides is one name: that of the list of all results"},
		{head + "  - {each: x, in: [a], task: a, wait: b}\n", "3:33: a wait is not fanned out: all would wait for the same signal"},
		{head + "  - {task: a, http: {}}\n", "3:21: http needs a url"},
		{head + "  - {task: a, http: {url: 'ftp://x'}}\n", "3:27: url: it is no URL that begins with http:// or https://"},
		{head + "  - {task: a, http: {url: 'http://{h}/'}}\n",
			"3:27: url: the host of a URL stands in the file; only the whole base may be a value: {base}/path"},
		{head + "  - {task: a, http: {url: 'http://x/#y'}}\n", "3:27: url: a URL that is requested has no fragment (#)"},
		{head + "  - {task: a, http: {url: 'http://x', body: a}}\n", "3:21: a GET has no body: add method: POST"},
		{head + "  - {task: a, http: {url: 'http://x', method: post}}\n", `3:47: method is one of GET, HEAD, POST, PUT, PATCH, DELETE, not "post"; is it POST?`},
		{head + "  - {task: a, http: {url: 'http://x', method: PATHC}}\n",
			`3:47: method is one of GET, HEAD, POST, PUT, PATCH, DELETE, not "PATHC"; is it PATCH?`},
		{head + "  - {task: a, http: {url: 'http://x', method: [GET]}}\n", "3:47: method is one of GET, HEAD, POST, PUT, PATCH, DELETE, not a list"},
		{head + "\t- sleep: 1s\n", "3:1: not YAML: YAML does not allow a tab here; indent with spaces"},
		{head + "  - task: a\n\trun: x\n", "4:1: not YAML: YAML does not allow a tab here; indent with spaces"},
		{"flow: f\nabout: \"x\nlinear: []\n", "2:8: not YAML: the quote that begins here is not closed"},
		{"flow: f\nabout: 'x'y\nlinear: []\n",
			"2:11: not YAML: a text begins where a value has ended; is a quote before it not closed, or one within a quoted text not doubled?"},
		{head + "  - {task: a, http: {url: 'http://x', method: POST, body: 'hello {b}'}, inject: {b: 1}}\n",
			"3:59: body: a text with {name} in it must be JSON, and this is not: invalid character 'h' looking for beginning of value"},
		{head + "  - {task: a, http: {url: 'http://x', headers: {Host: y}}}\n", `3:49: "Host" is no header that a file may set`},
		{head + "  - {task: a, revert: {go: known, dir: /}}\n", ""},
		{"a: &a [*a]\n", `1:8: there is no anchor "a" before it`},
		{"a: *b\n", `1:4: there is no anchor "b" before it`},
		{"flow: f\nlinear: [\n", "2:9: not YAML: sequence end token ']' not found"},
		{"flow: !!binary x\nlinear: []\n", "1:7: a flow has no tag"},
		{"<<: {flow: f}\n", "1:1: merge keys (<<) are not part of the language"},
		{"? [a]\n: b\n", "2:1: not YAML: found an invalid key for this map"},
	} {
		_, err := Parse([]byte(c.text), Options{any: false, Commands: true, HTTP: anyClient(),
			Go: map[string]Func{"known": {}}})
		got := ""
		if err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%s\ngot  %s\nwant %s", c.text, got, c.want)
		}
	}
}

// TestOffByDefault reports how what is off is turned on.
func TestOffByDefault(t *testing.T) {
	_, err := Parse([]byte("flow: f\nlinear:\n  - {task: a, run: x, revert: y}\n  - {task: b, http: {url: 'http://x'}}\n"), Options{})
	want := "3:20: commands are off; 3:31: commands are off; 4:15: requests are off"
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

func TestExcerpt(t *testing.T) {
	_, err := Parse([]byte("flow: f\nlinear:\n  - task: a\n    slep: 1s\n    sleep: 1s\n"), Options{})
	var all Mistakes
	if !errors.As(err, &all) {
		t.Fatal(err)
	}
	want := "4:5: a task has no key \"slep\"; is it sleep?\n   4 |     slep: 1s\n     |     ^\n"
	if diff := cmp.Diff(want, all.Excerpts()); diff != "" {
		t.Error(diff)
	}
	long := &Mistake{Line: 1, Column: 500, Source: strings.Repeat("x", 1000)}
	if got := long.Excerpt(); len(got) > 250 || !strings.HasSuffix(got, strings.Repeat(" ", 60)+"^") {
		t.Errorf("%s", got)
	}
}

// TestBombs refuses files that are small and would be large, and such that the library would take too long for.
func TestBombs(t *testing.T) {
	laughs := "a0: &a0 [" + strings.Repeat("x,", 10) + "]\n"
	for n := 1; n < 9; n++ {
		laughs += fmt.Sprintf("a%d: &a%d [%s]\n", n, n, strings.Repeat(fmt.Sprintf("*a%d,", n-1), 10))
	}
	deep := ""
	for n := range 40 {
		deep += strings.Repeat("  ", 2*n) + "- linear:\n"
	}
	for name, c := range map[string]struct{ text, want string }{
		"laughs":   {laughs, "there is more in this file than 400000 values, aliases counted as often as they are used"},
		"size":     {"#" + strings.Repeat("x", MaxFile), "the file has more than 1048576 bytes"},
		"brackets": {strings.Repeat("[", 200_000), "more than 10000 brackets and braces"},
		"levels":   {"a: " + strings.Repeat("[", 5000) + strings.Repeat("]", 5000), "this is nested too deeply"},
		"hyphens":  {strings.Repeat("- ", 200_000), `more than 500 times "- " in one line`},
		"colons":   {strings.Repeat("a: ", 200_000), `more than 500 times ": " in one line`},
		"anchors":  {strings.Repeat("&a ", 1000), "more than 500 anchors and tags"},
		"tags":     {strings.Repeat("!!a\n", 1000), "more than 500 anchors and tags"},
		"keys":     {"inputs:\n" + strings.Repeat("  a: 1\n", 2000), "more than 1000 keys one below the other"},
		"empty":    {strings.Repeat("- a:\n", 100_000), "more than 20000 keys and items without a value"},
		"commas":   {"a: {" + strings.Repeat("b,", 100_000) + "}", "more than 20000 keys and items without a value"},
		"lines": {strings.Repeat("- {'b: ',c: d}\n", 9_000) + strings.Repeat("- [a,'b']\n", 9_000),
			"more than 10000 brackets and braces"},
		"parts": {"flow: f\nlinear:\n" + deep, "parts are nested more than 32 deep"},
		"graph": {"flow: f\ngraph:\n" + strings.Repeat("  - sleep: 1s\n", 2001), "a graph has at most 2000 items"},
	} {
		if _, err := Parse([]byte(c.text), Options{}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %.300v, want %s", name, err, c.want)
		}
	}
	control := "flow: f\nlinear:\n"
	for n := range 31 {
		control += strings.Repeat("  ", 2*n) + "- linear:\n"
	}
	if _, err := Parse([]byte(control), Options{}); err != nil {
		t.Errorf("32 parts: %v", err)
	}
}

func TestManyMistakes(t *testing.T) {
	_, err := Parse([]byte("flow: f\nlinear:\n"+strings.Repeat("  - task: a\n", 1000)), Options{})
	var all Mistakes
	if !errors.As(err, &all) || len(all) != MostMistakes {
		t.Errorf("%d mistakes", len(all))
	}
}
