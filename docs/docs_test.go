package docs

import (
	"flag"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stagepost/stagepost/app/ingest/record"
	"github.com/stagepost/stagepost/lifecycle/draw"
)

var update = flag.Bool("update", false, "write the generated pages instead of comparing them")

// TestGeneratedPages compares lifecycles.md, and the drawing of README.md, with the tables; with -update it writes
// them.
func TestGeneratedPages(t *testing.T) {
	for page, want := range map[string]string{
		"lifecycles.md": draw.Markdown(All()...), "ingest-job.svg": draw.SVG(record.JobLife, draw.View{}),
	} {
		if *update {
			if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		got, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, string(got)); diff != "" {
			t.Errorf("%s is stale; run go test ./docs -update (-tables +page):\n%s", page, diff)
		}
	}
}
