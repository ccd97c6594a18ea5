package web

import (
	"flag"
	"testing"

	"github.com/stagepost/stagepost/internal/goldentest"
	"github.com/stagepost/stagepost/lifecycle/draw"
)

var update = flag.Bool("update", false, "write the generated style sheet instead of comparing it")

// TestStyleOfDrawings compares lifecycle.css, which the pages load for inline drawings, with the style sheet of package
// draw.
func TestStyleOfDrawings(t *testing.T) {
	goldentest.Compare(t, "pages/lifecycle.css", []byte(draw.Style), *update, "go test ./web -update")
}
