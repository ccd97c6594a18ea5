package flowfile

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stagepost/stagepost/flow"
)

const paths = `flow: f
inputs:
  image: {required: true, path: true}
  also: {path: true, default: ""}
  text: a
linear:
  - {sleep: 1ms}
`

// TestPaths: the one who submits makes paths absolute, and a flow is not begun with others: they would mean something
// else where its commands run.
func TestPaths(t *testing.T) {
	f := mustParse(t, paths, Options{})
	below := func(name string, v any) any {
		for _, in := range f.Inputs() {
			if in.Name == name {
				return in.Below("/home/ann", flow.ValueOf(v)).Any()
			}
		}
		t.Fatalf("no input %s", name)
		return nil
	}
	for _, c := range []struct {
		name string
		give any
		want any
	}{
		{"image", "vm", "/home/ann/vm"}, {"image", "../vm/.", "/home/vm"}, {"image", "/vm", "/vm"}, {"image", "", ""},
		{"image", nil, nil}, {"image", 5, 5},
		{"image", []any{"a", "/b", 7}, []any{"/home/ann/a", "/b", 7}}, {"text", "vm", "vm"},
	} {
		if diff := cmp.Diff(c.want, below(c.name, c.give)); diff != "" {
			t.Errorf("%s %v (-want +got):\n%s", c.name, c.give, diff)
		}
	}
	for _, c := range []struct {
		give any
		want string
	}{
		{"/vm", ""}, {"", ""}, {nil, ""}, {[]any{"/a", "/b"}, ""}, {[]any{}, ""},
		{"vm", `the input image is a path and must be absolute here, not "vm"`}, {[]any{"/a", "b"}, `the input image is a path and must be absolute here, not "b"`},
		{5, "the input image must be a path, or a list of them"}, {[]any{"/a", nil}, "the input image must be a path, or a list of them"},
	} {
		_, err := f.Flow(flow.Values{"image": c.give, "text": "relative/is/fine"})
		if (err == nil) != (c.want == "") || err != nil && (err.Error() != c.want || !errors.Is(err, flow.ErrInvalid)) {
			t.Errorf("%v: %v, want %q", c.give, err, c.want)
		}
	}
	if _, err := Parse([]byte(strings.Replace(paths, `default: ""`, "default: here", 1)), Options{}); err == nil ||
		!strings.Contains(err.Error(), "must be absolute") {
		t.Errorf("a relative default: %v", err)
	}
}

// TestSketch: a file is examined without its inputs, without its functions, and with all that may be off; it cannot be
// run from there.
func TestSketch(t *testing.T) {
	f, err := Inspect([]byte(`flow: f
inputs: {files: {required: true, path: true}, out: {required: true}}
linear:
  - {each: file, in: files, task: sum, go: digest}
  - {task: put, requires: [out], run: cp a "$out"}
`))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		inputs flow.Values
		want   []string
	}{
		{nil, []string{"sum/item", "put"}},
		{flow.Values{"files": []any{"a", "b"}}, []string{"sum/a", "sum/b", "put"}},
	} {
		item, err := f.Sketch(c.inputs)
		if err != nil {
			t.Fatal(err)
		}
		outline, err := flow.OutlineOf(item)
		if err != nil {
			t.Fatal(err)
		}
		text, _ := json.Marshal(outline)
		for _, name := range c.want {
			if !strings.Contains(string(text), `"`+name+`"`) {
				t.Errorf("no %s in %s", name, text)
			}
		}
	}
	if _, err := f.Sketch(flow.Values{"flies": 1}); err == nil || !strings.Contains(err.Error(), "is it files?") {
		t.Errorf("an input that does not exist: %v", err)
	}
	if _, err := f.Flow(flow.Values{"files": []any{"/a"}, "out": "x"}); !errors.Is(err, flow.ErrInvalid) {
		t.Errorf("it was made to be run: %v", err)
	}
}
