package tree_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stagepost/stagepost/format/tree"
)

// TestHostile refuses files that are small and would be large, and such that the YAML library would take too long
// for. Beside each stands the largest that is taken.
func TestHostile(t *testing.T) {
	laughs := func(most int) string {
		text := "a0: &a0 [" + strings.Repeat("x,", 10) + "]\n"
		for n := 1; n < most; n++ {
			text += fmt.Sprintf("a%d: &a%d [%s]\n", n, n, strings.Repeat(fmt.Sprintf("*a%d,", n-1), 10))
		}
		return text
	}
	nested := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	for name, c := range map[string]struct{ text, want, control string }{
		"values": {"[" + strings.Repeat("x,", 1000) + "]", "there is more in this file than 1000 values",
			"[" + strings.Repeat("x,", 999) + "]"},
		"laughs": {laughs(9), "there is more in this file than 1000 values, aliases counted as often as they are used",
			laughs(2)},
		"levels": {nested(34), "1:34: this is nested too deeply", nested(33)},
		"aliases": {"- &a " + nested(20) + "\n- [[[[[[[[[[[[[*a]]]]]]]]]]]]]\n", "2:16: this is nested too deeply",
			"- &a " + nested(19) + "\n- [[[[[[[[[[[[[*a]]]]]]]]]]]]]\n"},
		"size": {"#" + strings.Repeat("x", tree.MaxFile), "the file has more than 1048576 bytes",
			"a: 1 #" + strings.Repeat("x", tree.MaxFile-6)},
		"brackets": {strings.Repeat("[", 200_000), "more than 10000 brackets and braces",
			"a: '" + strings.Repeat("[", 10_000) + "'"},
		"hyphens": {strings.Repeat("- ", 200_000), `more than 500 times "- " in one line`,
			"a: '" + strings.Repeat("- ", 500) + "'"},
		"colons": {strings.Repeat("a: ", 200_000), `more than 500 times ": " in one line`,
			"a: '" + strings.Repeat(": ", 499) + "'"},
		"keyed": {strings.Repeat("? ", 200_000), `more than 500 times "? " in one line`,
			"a: '" + strings.Repeat("? ", 500) + "'"},
		"tabs": {strings.Repeat("-\t", 200_000), `more than 500 times "-\t" in one line`,
			"a: '" + strings.Repeat("-\t", 500) + "'"},
		"columns": {strings.Repeat("a:\t", 200_000), `more than 500 times ":\t" in one line`,
			"a: '" + strings.Repeat(":\t", 500) + "'"},
		"anchors": {strings.Repeat("&a ", 1000), "more than 500 anchors and tags", strings.Repeat("- &a x\n", 500)},
		"tags": {strings.Repeat("!!a\n", 1000), "501:1: more than 500 anchors and tags",
			"a: '" + strings.Repeat(" !!a", 500) + "'"},
		"keys": {"inputs:\n" + strings.Repeat("  a: 1\n", 2000), "1002:1: more than 1000 keys one below the other",
			keys(999)},
		"between": {strings.Repeat("a:\n- x\n", 2000), "2001:1: more than 1000 keys one below the other",
			strings.Repeat("- a: 1\n", 300)},
		"asked": {strings.Repeat("? a\n", 30_000), "20001:1: more than 20000 keys and items without a value",
			"- a\n"},
		"open": {strings.Repeat("- b:,c:\n", 7_000),
			"more than 20000 keys and items without a value",
			strings.Repeat("- x # "+strings.Repeat("a,", 30)+"\n", 900)},
		"empty": {strings.Repeat("- a:\n", 100_000), "20001:1: more than 20000 keys and items without a value",
			strings.Repeat("- a:\n", 400)},
		"hyphen": {strings.Repeat("-\n", 100_000), "20001:1: more than 20000 keys and items without a value",
			strings.Repeat("-\n", 900)},
		"commas": {"a: {" + strings.Repeat("b,", 100_000) + "}", "more than 20000 keys and items without a value",
			"a: [" + strings.Repeat("b,", 900) + "]"},
		"quotes": {strings.Repeat("- 'b: ',c: d\n", 30_000), "more than 20000 keys and items without a value",
			strings.Repeat("- 'b: ,c: d'\n", 900)},
	} {
		o := tree.Options{Nodes: 1000, Aliases: true}
		if _, err := tree.Read([]byte(c.text), o); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %.300v, want %s", name, err, c.want)
		}
		if _, err := tree.Read([]byte(c.control), o); err != nil {
			t.Errorf("%s, control: got %.300v", name, err)
		}
	}
}

// keys makes a file of that many keys.
func keys(n int) string {
	var text strings.Builder
	for i := range n {
		fmt.Fprintf(&text, "k%d: 1\n", i)
	}
	return text.String()
}

// TestManyMappings takes many keys where none of their mappings has many.
func TestManyMappings(t *testing.T) {
	below := ""
	for i := range 100 {
		below += fmt.Sprintf("k%d:\n%s", i, strings.ReplaceAll("  "+strings.TrimSpace(keys(30)), "\n", "\n  ")+"\n")
	}
	for _, text := range []string{below, strings.Repeat("- a: 1\n  b: 2\n", 2000), strings.Repeat("- k: 1\n", 5000)} {
		if _, err := tree.Read([]byte(text), tree.Options{}); err != nil {
			t.Errorf("%.20q...: %v", text, err)
		}
	}
}

// TestDefaults holds the bounds of the zero Options.
func TestDefaults(t *testing.T) {
	list := func(n int) string { return strings.Repeat("- x\n", n) }
	for text, want := range map[string]string{
		list(20_000): "there is more in this file than 20000 values", list(19_999): "",
		strings.Repeat("[", 34) + strings.Repeat("]", 34): "this is nested too deeply", strings.Repeat("[", 33) +
			strings.Repeat("]", 33): "",
	} {
		_, err := tree.Read([]byte(text), tree.Options{})
		if got := fmt.Sprint(err); (err != nil) != (want != "") || !strings.Contains(got, want) {
			t.Errorf("%.20s...: got %v, want %q", text, err, want)
		}
	}
}

// FuzzRead checks that no text makes Read panic or takes long, that a refusal has a position, and that what is taken
// keeps to its bounds and is valid UTF-8.
func FuzzRead(f *testing.F) {
	for _, text := range []string{
		"id: maps\nlist: [a, {b: 1.5}]\n", "a: &a [*a]\n",
		"a: &a 1\nb: &b [*a]\nc: &a [*b]\nd: *a\n", "id: [\n", "? a\n: b\n", "<<: {a: 1}\n", "%YAML \"1\"2\"\n---\n",
		"a: |\n  x\nb: >-\n  y\n", "a: \"\\xff\\u00e9\"\n",
		"\xff: \xfe\n", "id: 0\n#0\nnotification: !00\n0:0:0", "---\n...\n", "- - - ~\n", "{a: , b}",
		"a: 0x1F\nb: .inf\n",
	} {
		f.Add(text, true)
		f.Add(text, false)
	}
	f.Fuzz(func(t *testing.T, text string, flag bool) {
		began := time.Now()
		o := tree.Options{Nodes: 5000, Levels: 40, Aliases: flag, Omit: flag, Empty: flag, Quote: flag}
		root, err := tree.Read([]byte(text), o)
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("%s for %d bytes", took, len(text))
		}
		if err != nil {
			var e *tree.Error
			if !errors.As(err, &e) || e.Line < 1 || e.Column < 1 || e.Text == "" || strings.Contains(e.Text, "\n") ||
				root != nil {
				t.Errorf("got %v with %v", root, err)
			}
			return
		}
		nodes := 0
		for key, n := range root.All() {
			if nodes++; n.Line < 1 || n.Column < 1 ||
				!utf8.ValidString(key) || !utf8.ValidString(n.Text) || flag && n.Kind == tree.Leaf && n.Value == nil &&
				key == "" {
				t.Errorf("%q: %v", key, n)
			}
		}
		if nodes > o.Nodes {
			t.Errorf("%d nodes", nodes)
		}
		_ = root.Plain()
	})
}
