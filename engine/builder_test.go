package engine_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strings"
	"testing"
)

// builder is the file in which all changes are assembled and committed.
const builder = "transition.go"

// outsideBuilder returns where a file makes a job.Change or commits changes.
func outsideBuilder(set *token.FileSet, file *ast.File) (places []string) {
	found := func(n ast.Node, what string) { places = append(places, set.Position(n.Pos()).String()+": "+what) }
	change := func(e ast.Expr) bool {
		s, ok := e.(*ast.SelectorExpr)
		if !ok {
			return false
		}
		x, ok := s.X.(*ast.Ident)
		return ok && x.Name == "job" && s.Sel.Name == "Change"
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CompositeLit:
			of := n.Type
			if list, ok := of.(*ast.ArrayType); ok {
				of = list.Elt
			}
			if change(of) {
				found(n, "a change is made")
			}
		case *ast.ValueSpec:
			if change(n.Type) {
				found(n, "a change is declared")
			}
		case *ast.CallExpr:
			if f, ok := n.Fun.(*ast.Ident); ok && (f.Name == "new" || f.Name == "make") && len(n.Args) > 0 {
				of := n.Args[0]
				if list, ok := of.(*ast.ArrayType); ok {
					of = list.Elt
				}
				if change(of) {
					found(n, "changes are made")
				}
			}
			if f, ok := n.Fun.(*ast.SelectorExpr); ok && f.Sel.Name == "Commit" {
				found(n, "changes are committed")
			}
		}
		return true
	})
	return places
}

// TestChangesComeFromTheBuilder checks that every change that leaves the engine is assembled and committed in one file.
// Control: that file does it.
func TestChangesComeFromTheBuilder(t *testing.T) {
	files, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	control := 0
	for _, f := range files {
		if !strings.HasSuffix(f.Name(), ".go") || strings.HasSuffix(f.Name(), "_test.go") {
			continue
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, f.Name(), nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		places := outsideBuilder(set, file)
		if f.Name() == builder {
			control = len(places)
			continue
		}
		for _, p := range places {
			t.Errorf("%s outside of %s", p, builder)
		}
	}
	if control == 0 {
		t.Errorf("control: no change is found in %s", builder)
	}
}
