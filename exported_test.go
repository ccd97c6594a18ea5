package stagepost_test

import (
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the golden files anew")

// public are the packages that programs embed. docs/embedding.md has the reason for each of their identifiers.
var public = []string{"lifecycle", "job", "store/sqlite", "store/postgres", "engine", "flow"}

// TestExported compares the exported identifiers of the public packages with testdata/exported.txt: what is added there
// is a decision (go test . -run TestExported -update).
func TestExported(t *testing.T) {
	const golden = "testdata/exported.txt"
	var got []string
	for _, dir := range public {
		names := exported(t, dir)
		if len(names) < 10 {
			t.Fatalf("%s exports %d identifiers: the search is broken", dir, len(names))
		}
		got = append(got, names...)
	}
	if *update {
		if err := os.WriteFile(golden, []byte(strings.Join(got, "\n")+"\n"), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the exported identifiers have changed (-want +got); see docs/embedding.md before you add any:\n%s", diff)
	}
}

// TestExportedSees is the control: every kind of exported identifier is found, and nothing else.
func TestExportedSees(t *testing.T) {
	dir := t.TempDir()
	text := `package p
const A, b = 1, 2
var C int
type D struct{ Field int }
type e struct{}
type Other = q.D
func (d *D) F() {}
func (d D) g() {}
func (x e) H() {}
func I[T any]() {}
func j() {}
`
	for name, text := range map[string]string{"p.go": text, "p_test.go": "package p\nfunc K() {}\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	for _, name := range exported(t, dir) {
		got = append(got, strings.TrimPrefix(name, dir+"."))
	}
	if diff := cmp.Diff([]string{"A", "C", "D", "D.F", "I"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// exported lists the exported identifiers of the package in a folder, sorted: constants, variables, functions, types
// and the methods of exported types. Another name of a type of another package is none of them.
func exported(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	add := func(name *ast.Ident, of string) {
		if name.IsExported() {
			found[filepath.ToSlash(dir)+"."+of+name.Name] = true
		}
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if of := receiver(d); of == "" || ast.IsExported(of) {
					add(d.Name, of)
				}
			case *ast.GenDecl:
				for _, s := range d.Specs {
					switch s := s.(type) {
					case *ast.TypeSpec:
						if _, other := s.Type.(*ast.SelectorExpr); !other || s.Assign == token.NoPos {
							add(s.Name, "")
						}
					case *ast.ValueSpec:
						for _, name := range s.Names {
							add(name, "")
						}
					}
				}
			}
		}
	}
	names := make([]string, 0, len(found))
	for name := range found {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// receiver returns the name of the type of a method and a dot; nothing for a function.
func receiver(d *ast.FuncDecl) string {
	if d.Recv == nil {
		return ""
	}
	of := d.Recv.List[0].Type
	for {
		switch x := of.(type) {
		case *ast.StarExpr:
			of = x.X
		case *ast.IndexExpr:
			of = x.X
		case *ast.IndexListExpr:
			of = x.X
		case *ast.Ident:
			return x.Name + "."
		default:
			return "?."
		}
	}
}
