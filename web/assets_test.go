package web

import (
	"flag"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stagepost/stagepost/lifecycle/draw"
)

var update = flag.Bool("update", false, "write the generated style sheet instead of comparing it")

// TestStyleOfDrawings compares lifecycle.css, which the pages load for inline drawings, with the style sheet of package
// draw.
func TestStyleOfDrawings(t *testing.T) {
	const file = "pages/lifecycle.css"
	if *update {
		if err := os.WriteFile(file, []byte(draw.Style), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(draw.Style, string(got)); diff != "" {
		t.Errorf("%s is stale; run go test ./web -update (-draw +file):\n%s", file, diff)
	}
}
