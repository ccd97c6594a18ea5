package stagepost_test

import (
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestPackageComments requires a comment of every package that states what is in it. That of a program begins with its
// name.
func TestPackageComments(t *testing.T) {
	files := map[string]string{}
	for file := range sources(t) {
		if !strings.HasSuffix(file, "_test.go") {
			files[file] = ""
		}
	}
	for _, fault := range uncommented(t, files) {
		t.Error(fault)
	}
}

// TestPackageCommentsSees is the control: a package without a comment, and one whose comment names another package,
// are found; a comment in one file of several is enough.
func TestPackageCommentsSees(t *testing.T) {
	faults := uncommented(t, map[string]string{
		"none/a.go":  "package none\n",
		"wrong/a.go": "// Package other has something.\npackage wrong\n",
		"apart/a.go": "// Package apart has something.\n\npackage apart\n",
		"right/a.go": "package right\n", "right/b.go": "// Package right has something.\npackage right\n",
		"program/a.go": "// Program does something.\npackage main\n",
	})
	if len(faults) != 3 {
		t.Errorf("got %q", faults)
	}
}

// uncommented returns the folders whose package has no comment. files are Go sources by path; an empty text is read
// from the disk.
func uncommented(t *testing.T, files map[string]string) (faults []string) {
	t.Helper()
	commented := map[string]bool{}
	for path, text := range files {
		var source any
		if text != "" {
			source = text
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, source, parser.PackageClauseOnly|parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		dir, comment := filepath.Dir(path), f.Doc.Text()
		commented[dir] = commented[dir] || strings.HasPrefix(comment, "Package "+f.Name.Name+" ") ||
			f.Name.Name == "main" && comment != ""
	}
	for _, dir := range slices.Sorted(maps.Keys(commented)) {
		if !commented[dir] {
			faults = append(faults, dir+" has no comment of its package: state in doc.go what is in it")
		}
	}
	return faults
}
