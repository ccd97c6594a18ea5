package stagepost_test

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A package that is larger than this has a row in docs/design.md, section Packages that stay large.
const (
	mostFiles = 30
	mostLines = 3000
)

// size is that of a package without its tests.
type size struct{ files, lines int }

func (s size) over() bool { return s.files > mostFiles || s.lines > mostLines }

// TestLargePackages compares the packages that are too large with the table in docs/design.md that gives the reasons.
func TestLargePackages(t *testing.T) {
	sizes := map[string]size{}
	for file := range sources(t) {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		dir := filepath.ToSlash(filepath.Dir(file))
		s := sizes[dir]
		sizes[dir] = size{s.files + 1, s.lines + bytes.Count(text, []byte("\n"))}
	}
	text, err := os.ReadFile("docs/design.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, fault := range compareSizes(sizes, string(text)) {
		t.Error(fault)
	}
	for _, dir := range slices.Sorted(maps.Keys(sizes)) {
		if s := sizes[dir]; s.over() {
			t.Logf("%s: %d files, %d lines", dir, s.files, s.lines)
		}
	}
}

// TestLargePackagesSees is the control: a large package without a row, and a row that is not needed, are found.
func TestLargePackagesSees(t *testing.T) {
	doc := "## Packages that stay large\n\n| package | why |\n|---|---|\n| `a` | one thing |\n| `gone` | it was |\n\n## Next\n| `c` | - |\n"
	sizes := map[string]size{"a": {31, 10}, "b": {3, 3001}, "c": {31, 1}, "d": {30, 3000}}
	if faults := compareSizes(sizes, doc); len(faults) != 3 {
		t.Errorf("got %q", faults)
	}
}

var largeRow = regexp.MustCompile("(?m)^\\| `([^`]+)` \\| .+ \\|$")

// compareSizes gives the large packages without a row and the rows without a large package.
func compareSizes(sizes map[string]size, doc string) (faults []string) {
	_, section, _ := strings.Cut("\n"+doc, "\n## Packages that stay large\n")
	section, _, _ = strings.Cut(section, "\n## ")
	rows := map[string]bool{}
	for _, m := range largeRow.FindAllStringSubmatch(section, -1) {
		rows[m[1]] = true
		if !sizes[m[1]].over() {
			faults = append(faults, m[1]+" is not over the limit: remove its row from docs/design.md, Packages that stay large")
		}
	}
	for dir, s := range sizes {
		if s.over() && !rows[dir] {
			faults = append(faults, dir+" has more than 30 files or 3,000 lines: split it, or add a row with the reason to "+
				"docs/design.md, Packages that stay large")
		}
	}
	return faults
}
