package docs

import (
	"flag"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stagepost/stagepost/lifecycle/draw"
)

var update = flag.Bool("update", false, "write the generated pages instead of comparing them")

// TestLifecyclesPage holds lifecycles.md against the tables; with -update it writes the page.
func TestLifecyclesPage(t *testing.T) {
	const page = "lifecycles.md"
	want := draw.Markdown(All()...)
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
