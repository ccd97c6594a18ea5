package tree_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stagepost/stagepost/format/tree"
)

// TestRead shows every part of a file with its position and its text.
func TestRead(t *testing.T) {
	const text = `name: maps   # a comment
size: 0x1F
rate: 1.50
"on": True
off: ~
list:
  - one
  - {two: 2, "three": [3]}
true: >
  folded
  text
2024: |
  a block
`
	root, err := tree.Read([]byte(text), tree.Options{})
	if err != nil {
		t.Fatal(err)
	}
	type part struct {
		Key      string
		Position tree.Position
		Word     string
		Text     string
		Value    any
	}
	var got []part
	for key, n := range root.All() {
		got = append(got, part{key, n.Position, n.Describe(), n.Text, n.Value})
	}
	want := []part{
		{"", tree.Position{Line: 1, Column: 1}, "keys with values", "", nil},
		{"name", tree.Position{Line: 1, Column: 7}, "a text", "maps", "maps"},
		{"size", tree.Position{Line: 2, Column: 7}, "a number", "0x1F", json.Number("31")},
		{"rate", tree.Position{Line: 3, Column: 7}, "a number", "1.50", json.Number("1.5")},
		{"on", tree.Position{Line: 4, Column: 7}, "true or false", "True", true},
		{"off", tree.Position{Line: 5, Column: 6}, "nothing", "", nil},
		{"list", tree.Position{Line: 7, Column: 3}, "a list", "", nil},
		{"list.0", tree.Position{Line: 7, Column: 5}, "a text", "one", "one"},
		{"list.1", tree.Position{Line: 8, Column: 5}, "keys with values", "", nil},
		{"list.1.two", tree.Position{Line: 8, Column: 11}, "a number", "2", json.Number("2")},
		{"list.1.three", tree.Position{Line: 8, Column: 23}, "a list", "", nil},
		{"list.1.three.0", tree.Position{Line: 8, Column: 24}, "a number", "3", json.Number("3")},
		{"true", tree.Position{Line: 9, Column: 7}, "a text", "folded text\n", "folded text\n"},
		{"2024", tree.Position{Line: 12, Column: 7}, "a text", "a block\n", "a block\n"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	plain := map[string]any{
		"name": "maps", "size": json.Number("31"), "rate": json.Number("1.5"), "on": true, "off": nil,
		"true": "folded text\n", "2024": "a block\n",
		"list": []any{"one", map[string]any{"two": json.Number("2"), "three": []any{json.Number("3")}}},
	}
	if diff := cmp.Diff(plain, root.Plain()); diff != "" {
		t.Error(diff)
	}
}

// TestFind finds existing parts. For a missing part it returns the position of the nearest key above.
func TestFind(t *testing.T) {
	root, err := tree.Read([]byte("a:\n  b: [x, {c: y}]\n"), tree.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		path         string
		line, column int
		ok           bool
		word         string
	}{
		{"a", 1, 1, true, "keys with values"},
		{"a b", 2, 3, true, "a list"},
		{"a b 0", 2, 7, true, "a text"},
		{"a b 1 c", 2, 11, true, "a text"},
		{"b", 1, 1, false, "keys with values"},
		{"a c d", 1, 1, false, "keys with values"},
		{"a b 2", 2, 3, false, "a list"},
		{"a b -1", 2, 3, false, "a list"},
		{"a b 0 x", 2, 7, false, "a text"},
	} {
		part, key, ok := root.Find(strings.Fields(c.path))
		if key != (tree.Position{Line: c.line, Column: c.column}) || ok != c.ok || part.Describe() != c.word {
			t.Errorf("%s: got %s at %v, %v", c.path, part.Describe(), key, ok)
		}
	}
	if part, key, ok := root.Find(nil); part != root || key != root.Position || !ok {
		t.Errorf("the root: got %v at %v, %v", part, key, ok)
	}
	if root.Get("b") != nil ||
		root.Get("a").At("x") != root.Get("a").Position ||
		root.Get("a").At("b") != (tree.Position{Line: 2, Column: 3}) {
		t.Errorf("got %v", root.Get("a"))
	}
	for range root.All() {
		break // a range that continued would panic
	}
}

// TestRefused compares the exact messages for what files must not have. The same files with options that allow it are
// the control.
func TestRefused(t *testing.T) {
	most := tree.Options{Aliases: true, Quote: true, Noun: "flow", Second: "one is enough", Merge: "not here"}
	for _, c := range []struct {
		text string
		o    tree.Options
		want string
	}{
		{"", tree.Options{}, "1:1: the file is empty"},
		{"# nothing\n---\n", tree.Options{}, "1:1: the file is empty"},
		{"# nothing\n---\n", tree.Options{Empty: true}, ""},
		{"a: 1\n---\nb: 2\n", tree.Options{}, "3:1: it has more than one document"},
		{"a: 1\n---\nb: 2\n", most, "3:1: one is enough"},
		{"a: 1\n---\n# nothing\n", most, ""},
		{"<<: {a: 1}\n", tree.Options{}, "1:1: a merge key is not for this file"},
		{"<<: {a: 1}\n", most, "1:1: not here"},
		{"a: !!binary x\n", tree.Options{}, "1:4: a file has no tag"},
		{"a: !!binary x\n", most, "1:4: a flow has no tag"},
		{"a: .inf\n", most, "1:4: a flow has no infinity"},
		{"a: .nan\n", most, "1:4: a flow has no nan"},
		{"a: {[b]: c}\n", most, "1:8: not YAML: found an invalid key for this map"},
		{"? a\n: b\n", most, "1:1: a key is a plain word"},
		{"~: b\n", most, "1:1: a key is a plain word"},
		{"a: 1\nb: 2\na: 3\n", tree.Options{}, "3:1: the key occurs twice"},
		{"a: 1\nb: 2\n\"a\": 3\n", most, `3:1: the key "a" occurs twice`},
		{"a: {1: x, '1': y}\n", most, `1:11: the key "1" occurs twice`},
		{"a: &x 1\n", tree.Options{}, "1:4: it takes a plain value: a file has no anchors"},
		{"a: *x\n", tree.Options{}, "1:4: it takes a plain value: a file has no aliases"},
		{"a: &x 1\nb: *x\n", most, ""},
		{"a: *x\n", tree.Options{Aliases: true}, "1:4: there is no anchor before it"},
		{"a: *x\nb: &x 1\n", most, `1:4: there is no anchor "x" before it`},
		{"a: &x [*x]\n", most, `1:8: there is no anchor "x" before it`},
		{"a: [\n", most, "1:4: not YAML: sequence end token ']' not found"},
		{"a: 'b\n", most, "1:4: not YAML: the quote that begins here is not closed"},
	} {
		root, err := tree.Read([]byte(c.text), c.o)
		got := ""
		if err != nil {
			got = err.Error()
		}
		if got != c.want || (root == nil) != (err != nil) {
			t.Errorf("%q\ngot  %s\nwant %s", c.text, got, c.want)
		}
	}
}

// TestNothingIsQuoted puts a secret where messages would quote it.
func TestNothingIsQuoted(t *testing.T) {
	for _, text := range []string{
		"%YAML hush4711\n---\na: 1\n",
		"%YAML \"x\"hush4711\"y\"\n---\na: 1\n",
		"a: *hush4711\n",
		"hush4711: 1\nhush4711: 2\n",
		"a: !hush4711 [b\n",
		"a: \"hush4711\n",
		"a: !!hush4711 b\n",
	} {
		_, err := tree.Read([]byte(text), tree.Options{Aliases: true})
		if err == nil || strings.Contains(err.Error(), "4711") {
			t.Errorf("%q: got %v", text, err)
		}
	}
	_, err := tree.Read([]byte("a: *hush4711\n"), tree.Options{Aliases: true, Quote: true}) // the control
	if err == nil || !strings.Contains(err.Error(), "4711") {
		t.Errorf("control: got %v", err)
	}
}

func TestOmit(t *testing.T) {
	const text = "a:\nb: ~\nc: ''\nd: [~]\ne: &e\nf: *e\ng: {h: null}\n"
	root, err := tree.Read([]byte(text), tree.Options{Omit: true, Aliases: true})
	if diff := cmp.Diff(map[string]any{"c": "", "d": []any{nil}, "g": map[string]any{}}, root.Plain()); diff != "" ||
		err != nil {
		t.Error(err, diff)
	}
	root, err = tree.Read([]byte(text), tree.Options{Aliases: true}) // the control
	if err != nil || len(root.Members) != 7 {
		t.Errorf("got %v, %v", root, err)
	}
}

// TestNumber decides what becomes of numbers, and shows that none loses a digit.
func TestNumber(t *testing.T) {
	const text = "[18446744073709551615, -9223372036854775808, 0.1, 1.0e+3, 0o17]"
	root, err := tree.Read([]byte(text),
		tree.Options{Number: func(n json.Number) any { return "<" + n.String() + ">" }})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]any{"<18446744073709551615>", "<-9223372036854775808>", "<0.1>", "<1000>", "<15>"},
		root.Plain()); diff != "" {
		t.Error(diff)
	}
}

// TestAliases checks that an alias brings the value of its anchor at the position of the alias. Anchors may be
// redefined.
func TestAliases(t *testing.T) {
	root, err := tree.Read([]byte("a: &x {b: 1}\nc: *x\nd: &x [*x]\ne: *x\n"), tree.Options{Aliases: true})
	if err != nil {
		t.Fatal(err)
	}
	one := map[string]any{"b": json.Number("1")}
	if diff := cmp.Diff(map[string]any{"a": one, "c": one, "d": []any{one}, "e": []any{one}},
		root.Plain()); diff != "" {
		t.Error(diff)
	}
	if got := root.Get("c"); got.Position != (tree.Position{Line: 2, Column: 4}) ||
		got.At("b") != (tree.Position{Line: 1, Column: 8}) || root.Get("a").Line != 1 {
		t.Errorf("got %v", got)
	}
}

// TestPanic makes a mistake in the file of whatever panics while it is read.
func TestPanic(t *testing.T) {
	_, err := tree.Read([]byte("a: 1\n"), tree.Options{Number: func(json.Number) any { panic("no") }})
	var e *tree.Error
	if !errors.As(err, &e) || e.Error() != "1:1: the file cannot be read as YAML" {
		t.Errorf("got %v", err)
	}
}

// TestMerges: a merge key adds what is not given; an earlier mapping of a list comes first.
func TestMerges(t *testing.T) {
	o := tree.Options{Aliases: true, Merges: true}
	const text = "a: &a {x: 1, y: 2}\nb: {x: 3, <<: *a}\nc:\n  <<: [{z: 4, x: 5}, *a]\n  z: 6\n"
	root, err := tree.Read([]byte(text), o)
	if err != nil {
		t.Fatal(err)
	}
	n := func(s string) json.Number { return json.Number(s) }
	want := map[string]any{
		"a": map[string]any{"x": n("1"), "y": n("2")},
		"b": map[string]any{"x": n("3"), "y": n("2")},
		"c": map[string]any{"x": n("5"), "y": n("2"), "z": n("6")},
	}
	if diff := cmp.Diff(any(want), root.Plain()); diff != "" {
		t.Error(diff)
	}
	for _, bad := range []string{"a: {<<: 1}\n", "a: {<<: [{}, 1]}\n", "a: {<<: *a}\n"} {
		if _, err := tree.Read([]byte(bad), o); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
}
