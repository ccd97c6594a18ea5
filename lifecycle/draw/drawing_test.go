package draw_test

import (
	"encoding/xml"
	"regexp"
	"strings"
	"testing"

	. "github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/lifecycle/draw"
	"github.com/stagepost/stagepost/lifecycle/lifecycletest"
)

// TestSVGMarksTheView checks that the drawing marks the current state, the legal exits of one actor and the path.
func TestSVGMarksTheView(t *testing.T) {
	table := lifecycletest.Shop()
	path := []Taken{{Event: "begin", By: Worker}, {Event: "fail", By: Worker}}
	p, err := table.Replay(path)
	if err != nil {
		t.Fatal(err)
	}
	svg := draw.SVG(table, draw.View{Current: p, Path: path, By: Operator})
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
	timer := draw.SVG(table, draw.View{Current: p, By: Timer})
	if !strings.Contains(timer, "Possible: delete to Gone.") || strings.Contains(timer, "legal dashed") {
		t.Errorf("a timer may only delete: %s", timer)
	}
	plain := draw.SVG(table, draw.View{})
	for _, not := range []string{"current\"", " legal\"", " taken\"", "Now:", "↻"} {
		if strings.Contains(plain, not) {
			t.Errorf("the plain drawing has %s", not)
		}
	}
	if !strings.Contains(draw.SVG(table, draw.View{Loops: true}), "↻ lost") {
		t.Error("loops are not shown on demand")
	}
}

// TestDrawingsAtTheSameTime draws one table from several goroutines, as pages do, for the race detector.
func TestDrawingsAtTheSameTime(t *testing.T) {
	table := lifecycletest.Shop()
	want := draw.SVG(table, draw.View{Loops: true})
	got := make(chan string)
	for range 4 {
		go func() { got <- draw.SVG(table, draw.View{Loops: true}) }()
	}
	for range 4 {
		if <-got != want {
			t.Error("the same view gives another drawing")
		}
	}
}

// TestAFalsePathIsMarkedUpToTheMistake checks that a transition that the table does not allow is not marked.
func TestAFalsePathIsMarkedUpToTheMistake(t *testing.T) {
	table := lifecycletest.Shop()
	svg := draw.SVG(table, draw.View{Path: []Taken{{Event: "begin", By: Worker}, {Event: "release", By: Operator},
		{Event: "finish", By: Worker}}})
	if n := strings.Count(svg, `class="word taken"`); n != 1 {
		t.Errorf("%d words are marked as taken, want 1", n)
	}
}

// hostile is a table whose texts contain markup.
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

// TestHostileWordsStayText checks that names and sentences with markup are text in every drawing.
func TestHostileWordsStayText(t *testing.T) {
	table := hostile(t)
	svg := draw.SVG(table, draw.View{Current: table.Start()})
	if err := xml.Unmarshal([]byte(svg), new(struct{})); err != nil {
		t.Errorf("SVG: %v", err)
	}
	if strings.Contains(svg, "<script") || strings.Contains(svg, "<b>") {
		t.Error("markup of a name got into the SVG")
	}
	if !strings.Contains(draw.DOT(table, draw.View{}), `label="a\"]; evil -> b //"`) {
		t.Errorf("DOT does not quote:\n%s", draw.DOT(table, draw.View{}))
	}
	mermaid := draw.Mermaid(table, draw.View{})
	if got := regexp.MustCompile(`(?m)^    \S+ --> \S+( : [^;#:{}<>\n]*)?$`).FindAllString(mermaid, -1); len(got) != 5 {
		t.Errorf("%d transition lines in Mermaid, want 5:\n%s", len(got), mermaid)
	}
	for line := range strings.Lines(draw.Markdown(table)) {
		if strings.HasPrefix(line, "# heading") {
			t.Error("a sentence became a heading")
		}
	}
}

// TestMermaidHasALineForEachTransition counts the transitions of the plain diagram.
func TestMermaidHasALineForEachTransition(t *testing.T) {
	table := lifecycletest.Shop()
	got := draw.Mermaid(table, draw.View{
		Current: Position{State: "Broken", Origin: "Packing"}, By: Operator,
		Path: []Taken{{Event: "begin", By: Worker}},
	})
	for _, want := range []string{"stateDiagram-v2\n", "    [*] --> Open\n", "    Broken --> Packing : retry\n",
		"    Sent --> [*]\n", "    class Broken current\n", "    class Packing,Gone legal\n", "    class Open been\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("the diagram lacks %q:\n%s", want, got)
		}
	}
	if n := strings.Count(got, "-->"); n != 1+8+3 {
		t.Errorf("%d transitions, want 12", n)
	}
	if loops := draw.Mermaid(table, draw.View{Loops: true}); strings.Count(loops, "-->") != 12+2*5+1 {
		t.Errorf("with loops:\n%s", loops)
	}
}

func TestDOTMarksTheView(t *testing.T) {
	table := lifecycletest.Shop()
	got := draw.DOT(table, draw.View{Current: Position{State: "Broken", Origin: "Packing"}, By: Operator,
		Path: []Taken{{Event: "begin", By: Worker}, {Event: "fail", By: Timer}}})
	for _, want := range []string{"start -> n0", "style=dashed, penwidth=2.6, color=\"#0b57d0\"", `fillcolor="#ffe29a"`, "peripheries=2",
		`penwidth=2.6, color="#7a3fc0"`} {
		if !strings.Contains(got, want) {
			t.Errorf("DOT lacks %s:\n%s", want, got)
		}
	}
}
