package stagepost_test

import (
	"fmt"
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// idea is a row of a table in docs/embedding.md: what a package offers, and the examples that show it.
type idea struct {
	name, reason          string
	identifiers, examples []string
}

// TestIdeas compares the tables of docs/embedding.md with the packages: each exported identifier belongs to one idea,
// and each idea has an example that runs.
func TestIdeas(t *testing.T) {
	text, err := os.ReadFile("docs/embedding.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range append(slices.Clone(public), "client") {
		all := ideas(string(text), dir)
		if len(all) < 3 {
			t.Errorf("docs/embedding.md has %d ideas of %s", len(all), dir)
		}
		for _, fault := range ideaFaults(t, dir, all) {
			t.Errorf("docs/embedding.md, %s: %s", dir, fault)
		}
	}
}

// ideas reads the table of a package.
func ideas(text, dir string) (all []idea) {
	_, section, _ := strings.Cut(text, "\n## "+dir+"\n")
	section, _, _ = strings.Cut(section, "\n## ")
	for row := range strings.Lines(section) {
		if cells := strings.Split(row, "|"); len(cells) == 6 && strings.Contains(cells[2], "`") {
			all = append(all, idea{
				name: strings.TrimSpace(cells[1]), reason: strings.TrimSpace(cells[4]),
				identifiers: quoted(cells[2]), examples: quoted(cells[3]),
			})
		}
	}
	return all
}

// quoted returns the words between backquotes.
func quoted(cell string) (words []string) {
	for i, word := range strings.Split(cell, "`") {
		if i%2 == 1 {
			words = append(words, word)
		}
	}
	return words
}

// ideaFaults compares the ideas of a package with its identifiers and its examples.
func ideaFaults(t *testing.T, dir string, all []idea) (faults []string) {
	t.Helper()
	const manyMethods = 10 // methods of a type from which each belongs to an idea itself; others belong to their type
	named, shown := map[string]bool{}, map[string]bool{}
	add := func(seen map[string]bool, idea, name string) {
		if seen[name] {
			faults = append(faults, fmt.Sprintf("%s: %s is in two ideas", idea, name))
		}
		seen[name] = true
	}
	runs := runningExamples(t, dir)
	for _, i := range all {
		if len(i.examples) == 0 || i.reason == "" {
			faults = append(faults, i.name+": an idea has an example and a reason")
		}
		for _, name := range i.identifiers {
			add(named, i.name, name)
		}
		for _, name := range i.examples {
			add(shown, i.name, name)
			if !runs[name] {
				faults = append(faults, fmt.Sprintf("%s: there is no %s that has an output", i.name, name))
			}
		}
	}
	for name := range runs {
		if !shown[name] {
			faults = append(faults, name+" shows no idea")
		}
	}
	methods := map[string]int{}
	there := exported(t, dir)
	for i, name := range there {
		there[i] = strings.TrimPrefix(name, filepath.ToSlash(dir)+".")
		if of, _, is := strings.Cut(there[i], "."); is {
			methods[of]++
		}
	}
	for _, name := range there {
		of, _, is := strings.Cut(name, ".")
		if !named[name] && (!is || methods[of] >= manyMethods) {
			faults = append(faults, name+" belongs to no idea")
		}
	}
	for name := range named {
		if !slices.Contains(there, name) {
			faults = append(faults, name+" does not exist")
		}
	}
	slices.Sort(faults)
	return faults
}

// runningExamples returns the examples of a package, and whether go test runs them and compares what they print.
func runningExamples(t *testing.T, dir string) map[string]bool {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	var files []*ast.File
	for _, path := range paths {
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	runs := map[string]bool{}
	for _, e := range doc.Examples(files...) {
		runs["Example"+e.Name] = e.Output != "" || e.EmptyOutput
	}
	return runs
}

// TestIdeasSees is the control: every fault of a table is found.
func TestIdeasSees(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("package p\n"+text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	source := "func A() {}\nfunc B() {}\nfunc C() {}\ntype Large struct{}\ntype Small struct{}\nfunc (Small) Do() {}\n"
	for i := range 10 {
		source += fmt.Sprintf("func (Large) M%d() {}\n", i)
	}
	write("p.go", source)
	write("p_test.go", "func ExampleA() {\n\t// Output:\n}\nfunc ExampleB() {}\nfunc ExampleC() {\n\t// Output: c\n}\n")
	text := "\n## p\n| idea | identifiers | example | why |\n|---|---|---|---|\n" +
		"| planted | `Small` |  | no example |\n" +
		"| a | `A`, `Gone`, `Large.M0` | `ExampleA` | good |\n" +
		"| b | `B`, `A` | `ExampleB`, `ExampleD` | it does not run |\n" +
		"\n## q\n| other | `C` | `ExampleC` | of another package |\n"
	want := []string{
		"C belongs to no idea", "ExampleC shows no idea", "Gone does not exist", "Large belongs to no idea",
	}
	for i := range 9 {
		want = append(want, fmt.Sprintf("Large.M%d belongs to no idea", i+1))
	}
	want = append(want, "b: A is in two ideas", "b: there is no ExampleB that has an output",
		"b: there is no ExampleD that has an output", "planted: an idea has an example and a reason")
	if diff := cmp.Diff(want, ideaFaults(t, dir, ideas(text, "p"))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
