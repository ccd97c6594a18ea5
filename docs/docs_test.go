package docs

import (
	"flag"
	"testing"

	"github.com/stagepost/stagepost/app/ingest/record"
	"github.com/stagepost/stagepost/internal/goldentest"
	"github.com/stagepost/stagepost/lifecycle/draw"
)

var update = flag.Bool("update", false, "write the generated pages instead of comparing them")

// TestGeneratedPages compares lifecycles.md, and the drawing of README.md, with the tables; with -update it writes
// them.
func TestGeneratedPages(t *testing.T) {
	for page, want := range map[string]string{
		"lifecycles.md": draw.Markdown(All()...), "ingest-job.svg": draw.SVG(record.JobLife, draw.View{}),
	} {
		goldentest.Compare(t, page, []byte(want), *update, "go test ./docs -update")
	}
}
