package custom

import (
	"os"
	"strings"
	"testing"
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
