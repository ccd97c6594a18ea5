package stagepost_test

import (
	"os"
	"strings"
	"testing"
)

// market is a module of its own inside the repository: other systems that Stagepost is measured beside.
const market = "bench/market"

// TestPeersStayApart checks that the modules of other systems are in bench/market only: neither does go.mod require
// them, nor does another package import them.
func TestPeersStayApart(t *testing.T) {
	text, err := os.ReadFile("docs/dependencies.md")
	if err != nil {
		t.Fatal(err)
	}
	own, err := os.ReadFile("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	nested, err := os.ReadFile(market + "/go.mod")
	if err != nil {
		t.Fatal(err)
	}
	peers := peerModules(string(text))
	if len(peers) < 5 {
		t.Errorf("docs/dependencies.md lists %d modules only in %s", len(peers), market)
	}
	for _, mod := range peers {
		if strings.Contains(string(own), "\t"+mod) {
			t.Errorf("go.mod requires %s, which only %s may use", mod, market)
		}
		if !strings.Contains(string(nested), "\t"+mod) { // the control, too: the search finds what is required
			t.Errorf("%s/go.mod does not require %s, which docs/dependencies.md lists for it", market, mod)
		}
	}
	for file, imports := range sources(t) {
		for _, path := range imports {
			for _, mod := range peers {
				if below(path, mod) && !below(file, market) {
					t.Errorf("%s imports %s, which only %s may use", file, path, market)
				}
			}
		}
	}
}

// peerModules returns the modules in the section of docs/dependencies.md that is about bench/market.
func peerModules(text string) (all []string) {
	_, section, _ := strings.Cut(text, "\n## Only in "+market+"\n")
	section, _, _ = strings.Cut(section, "\n## ")
	for line := range strings.Lines(section) {
		if mod, ok := strings.CutPrefix(line, "| `"); ok {
			mod, _, _ = strings.Cut(mod, "`")
			all = append(all, mod)
		}
	}
	return all
}
