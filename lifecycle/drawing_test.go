package lifecycle_test

import (
	"encoding/xml"
	"regexp"
	"strings"
	"testing"

	. "github.com/stagepost/stagepost/lifecycle"
)

// TestSVGMarksTheView looks at what a view lights: the current state, the legal exits of one actor, the way taken.
func TestSVGMarksTheView(t *testing.T) {
	table := shop(t)
	path := []Taken{{"begin", Worker}, {"fail", Worker}}
	p, err := table.Replay(path)
	if err != nil {
		t.Fatal(err)
	}
	svg := table.SVG(View{Current: p, Path: path, By: Operator})
	for _, want := range []string{
		`role="img"`, `<title id="lc-shop-order-title">Lifecycle shop.order</title>`, "<desc id=",
		"Now: Broken. Possible: retry to Packing, delete to Gone.",
		`<g class="state end failed current" aria-current="step">`,
		`<g class="state queue been">`,
		`class="word legal"`, `class="word fail taken"`, `class="line legal dashed"`, "prefers-color-scheme:dark",
	} {
		if !strings.Contains(svg, want) {
			t.Errorf("the drawing lacks %s", want)
		}
	}
	timer := table.SVG(View{Current: p, By: Timer})
	if !strings.Contains(timer, "Possible: delete to Gone.") || strings.Contains(timer, "legal dashed") {
		t.Errorf("a timer may only delete: %s", timer)
	}
	plain := table.SVG(View{})
	for _, not := range []string{"current\"", " legal\"", " taken\"", "Now:", "↻"} {
		if strings.Contains(plain, not) {
			t.Errorf("the plain drawing has %s", not)
		}
	}
	if !strings.Contains(table.SVG(View{Loops: true}), "↻ lost") {
		t.Error("loops are not shown on demand")
	}
}

// TestDrawingsAtTheSameTime draws one table from several goroutines, as pages do; the race detector watches.
func TestDrawingsAtTheSameTime(t *testing.T) {
	table := shop(t)
	want := table.SVG(View{Loops: true})
	got := make(chan string)
	for range 4 {
		go func() { got <- table.SVG(View{Loops: true}) }()
	}
	for range 4 {
		if <-got != want {
			t.Error("the same view gives another drawing")
		}
	}
}

// TestAFalsePathIsMarkedUpToTheMistake: what a table does not allow is not drawn as taken.
func TestAFalsePathIsMarkedUpToTheMistake(t *testing.T) {
	svg := shop(t).SVG(View{Path: []Taken{{"begin", Worker}, {"release", Operator}, {"finish", Worker}}})
	if n := strings.Count(svg, `class="word taken"`); n != 1 {
		t.Errorf("%d words are marked as taken, want 1", n)
	}
}

// hostile is a table whose words try to leave their place.
func hostile(t *testing.T) *Table {
	t.Helper()
	table, err := New(`x"><script>`,
		OnWait(`a"]; evil -> b //`, "<script>alert(1)</script>\n\"] |",
			On("<b>&", "state", Operator, "`|\n# heading"), On("c;d", "1 2\nend", Operator, "--> x")),
		OnEnd("state", OK, "ok"), OnEnd("1 2\nend", Failed, "s1"))
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// TestHostileWordsStayText: names and sentences that look like markup are text in every drawing.
func TestHostileWordsStayText(t *testing.T) {
	table := hostile(t)
	svg := table.SVG(View{Current: table.Start()})
	if err := xml.Unmarshal([]byte(svg), new(struct{})); err != nil {
		t.Errorf("SVG: %v", err)
	}
	if strings.Contains(svg, "<script") || strings.Contains(svg, "<b>") {
		t.Error("markup of a name got into the SVG")
	}
	if !strings.Contains(table.DOT(View{}), `label="a\"]; evil -> b //"`) {
		t.Errorf("DOT does not quote:\n%s", table.DOT(View{}))
	}
	mermaid := table.Mermaid(View{})
	if got := regexp.MustCompile(`(?m)^    \S+ --> \S+( : [^;#:{}<>\n]*)?$`).FindAllString(mermaid, -1); len(got) != 5 {
		t.Errorf("%d arrow lines in Mermaid, want 5:\n%s", len(got), mermaid)
	}
	for line := range strings.Lines(Markdown(table)) {
		if strings.HasPrefix(line, "# heading") {
			t.Error("a sentence became a heading")
		}
	}
}

// TestMermaidHasALineForEachArrow counts the arrows of the plain diagram.
func TestMermaidHasALineForEachArrow(t *testing.T) {
	table := shop(t)
	got := table.Mermaid(View{Current: Position{State: "Broken", Origin: "Packing"}, By: Operator, Path: []Taken{{"begin", Worker}}})
	for _, want := range []string{"stateDiagram-v2\n", "    [*] --> Open\n", "    Broken --> Packing : retry\n", "    Sent --> [*]\n",
		"    class Broken current\n", "    class Packing,Gone legal\n", "    class Open been\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("the diagram lacks %q:\n%s", want, got)
		}
	}
	if n := strings.Count(got, "-->"); n != 1+8+3 {
		t.Errorf("%d arrows, want 12", n)
	}
	if loops := table.Mermaid(View{Loops: true}); strings.Count(loops, "-->") != 12+2*5+1 {
		t.Errorf("with loops:\n%s", loops)
	}
}

func TestDOTMarksTheView(t *testing.T) {
	got := shop(t).DOT(View{Current: Position{State: "Broken", Origin: "Packing"}, By: Operator,
		Path: []Taken{{"begin", Worker}, {"fail", Timer}}})
	for _, want := range []string{"start -> n0", "style=dashed, penwidth=2.6, color=\"#0b57d0\"", `fillcolor="#ffe29a"`, "peripheries=2",
		`penwidth=2.6, color="#7a3fc0"`} {
		if !strings.Contains(got, want) {
			t.Errorf("DOT lacks %s:\n%s", want, got)
		}
	}
}
