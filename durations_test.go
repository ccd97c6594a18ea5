package stagepost_test

import (
	"encoding/json"
	"errors"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// spoken are the packages whose messages TestRawDurations checks.
var spoken = []string{"./flow/...", "./app/flowfile/...", "./cli/...", "./config/...", "./host/...", "./module/...",
	"./cmd/...", "./app/archive/...", "./app/bulk/...", "./app/compute/...", "./app/custom/...", "./app/ingest/..."}

// listed is what go list reports of a package.
type listed struct {
	ImportPath, Export, Dir string
	GoFiles                 []string
	DepOnly                 bool
}

// TestRawDurations: messages write durations by package quantity, as 30d, never as Go does: 720h0m0s. They write times
// in a format that they name, never as Go does: 2026-11-22 11:16:00.5 +0000 UTC m=+0.1.
func TestRawDurations(t *testing.T) {
	args := append([]string{"list", "-export", "-deps", "-json=ImportPath,Export,Dir,GoFiles,DepOnly"}, spoken...)
	out, err := exec.Command("go", args...).Output()
	if err != nil {
		var failed *exec.ExitError
		if errors.As(err, &failed) {
			t.Fatalf("%v: %s", err, failed.Stderr)
		}
		t.Fatal(err)
	}
	exports, own := map[string]string{}, []listed{}
	for d := json.NewDecoder(strings.NewReader(string(out))); d.More(); {
		var p listed
		if err := d.Decode(&p); err != nil {
			t.Fatal(err)
		}
		if exports[p.ImportPath] = p.Export; !p.DepOnly && !strings.HasSuffix(p.ImportPath, "test") {
			own = append(own, p)
		}
	}
	files := token.NewFileSet()
	from := importer.ForCompiler(files, "gc",
		func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })
	for _, p := range own {
		var parsed []*ast.File
		for _, name := range p.GoFiles {
			f, err := parser.ParseFile(files, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			parsed = append(parsed, f)
		}
		for _, at := range rawDurations(t, files, from, parsed) {
			t.Errorf("%s: write a duration by quantity.FormatDuration, and a time by Format", at)
		}
	}
	if len(own) < 5 {
		t.Errorf("%d packages were checked", len(own))
	}
	// the control
	const planted = `package p
import ("fmt"; "log/slog"; "time")
type s struct{ d time.Duration }
func f(x s, text string) {
	fmt.Printf("%s after %v", text, x.d)
	_ = fmt.Errorf("%s", time.Second)
	slog.Info("slow", "took", x.d)
	_ = "for " + x.d.String()
	fmt.Println(time.Time{})
	fmt.Println(time.Time{}.String())
	fmt.Println(time.Time{}.Format(time.RFC3339))
	fmt.Println(x.d.Seconds(), int64(x.d), text)
}`
	f, err := parser.ParseFile(files, "p.go", planted, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	if at := rawDurations(t, files, from, []*ast.File{f}); len(at) != 6 {
		t.Errorf("of the planted ones it finds %q", at)
	}
}

// rawDurations gives where a time.Duration or time.Time becomes text as Go writes it: as an argument of a list of any,
// or by String.
func rawDurations(t *testing.T, files *token.FileSet, from types.Importer, parsed []*ast.File) (at []string) {
	t.Helper()
	info := &types.Info{Types: map[ast.Expr]types.TypeAndValue{}}
	if _, err := (&types.Config{Importer: from}).Check("p", files, parsed, info); err != nil {
		t.Fatal(err)
	}
	raw := func(e ast.Expr) bool {
		named, ok := info.TypeOf(e).(*types.Named)
		return ok && named.Obj().Pkg() != nil && named.Obj().Pkg().Path() == "time" &&
			(named.Obj().Name() == "Duration" || named.Obj().Name() == "Time")
	}
	for _, f := range parsed {
		ast.Inspect(f, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			if to, ok := call.Fun.(*ast.SelectorExpr); ok && to.Sel.Name == "String" && raw(to.X) {
				at = append(at, files.Position(call.Pos()).String())
			}
			sig, ok := info.TypeOf(call.Fun).(*types.Signature)
			if !ok || !sig.Variadic() {
				return true
			}
			last := sig.Params().Len() - 1
			for i, arg := range call.Args {
				if i >= last && raw(arg) && types.IsInterface(sig.Params().At(last).Type().(*types.Slice).Elem()) {
					at = append(at, files.Position(arg.Pos()).String())
				}
			}
			return true
		})
	}
	return at
}
