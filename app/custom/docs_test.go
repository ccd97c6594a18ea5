package custom

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stagepost/stagepost/lifecycle"
)

// TestExamples parses the examples, and compares the one in docs/custom.md with its file.
func TestExamples(t *testing.T) {
	for _, file := range []string{"../../examples/custom/book.yaml", "../../examples/worker/count.yaml"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Parse(file, text); err != nil {
			t.Errorf("%s:%v", file, err)
		}
	}
	book, err := os.ReadFile("../../examples/custom/book.yaml")
	if err != nil {
		t.Fatal(err)
	}
	doc, err := os.ReadFile("../../docs/custom.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(doc), "```yaml\n"+string(book)+"```\n") {
		t.Error("docs/custom.md shows another file than examples/custom/book.yaml")
	}
}

// A state with worker: true is one of programs that the operator starts; one with a command is not.
func TestStatesOfPrograms(t *testing.T) {
	text, err := os.ReadFile("../../examples/custom/book.yaml")
	if err != nil {
		t.Fatal(err)
	}
	f, err := Parse("book.yaml", text)
	if err != nil {
		t.Fatal(err)
	}
	if got := (&Options{Remote: true}).work(f).Programs; !slices.Equal(got, []lifecycle.State{"Scanning"}) {
		t.Errorf("got %v", got)
	}
}
