package stagepost_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TestSoakList checks that each line of SOAK in the Makefile names a package, tests in it, and flags that the package
// defines. A line whose test was renamed would pass without running anything.
func TestSoakList(t *testing.T) {
	text, err := os.ReadFile("Makefile")
	if err != nil {
		t.Fatal(err)
	}
	_, list, found := strings.Cut(string(text), "\ndefine SOAK\n")
	list, _, ended := strings.Cut(list, "\nendef\n")
	if !found || !ended {
		t.Fatal("the Makefile has no list SOAK")
	}
	lines := 0
	for line := range strings.Lines(strings.ReplaceAll(list, "$$", "$")) {
		lines++
		for _, fault := range soakFaults(strings.Fields(line)) {
			t.Errorf("%s: %s", strings.TrimSpace(line), fault)
		}
	}
	if lines < 10 {
		t.Errorf("SOAK has %d lines: its form has changed", lines)
	}
}

// TestSoakListSees is the control: a package, a test and a flag that do not exist are found.
func TestSoakListSees(t *testing.T) {
	for _, line := range []string{"./nowhere -run Big", "./cmd/stagepost -run NoSuchTest",
		"./cmd/stagepost -run Big -biggest 1", "./cmd/stagepost"} {
		if len(soakFaults(strings.Fields(line))) == 0 {
			t.Errorf("%s: no fault is found", line)
		}
	}
}

func soakFaults(words []string) (faults []string) {
	if len(words) < 3 || words[1] != "-run" {
		return []string{"the form is PACKAGE -run TESTS FLAGS"}
	}
	tests, flags := testsAndFlags(words[0])
	wanted, err := regexp.Compile(words[2])
	if err != nil {
		return []string{err.Error()}
	}
	some := false
	for _, name := range tests {
		some = some || wanted.MatchString(name)
	}
	if !some {
		faults = append(faults, "no test has this name")
	}
	for _, word := range words[3:] {
		if name, is := strings.CutPrefix(word, "-"); is && !flags[name] && !strings.HasPrefix(name, "rapid.") {
			faults = append(faults, "the package defines no flag "+word)
		}
	}
	return faults
}

// testsAndFlags returns the names of the tests in a folder and of the flags that its test files define.
func testsAndFlags(dir string) (tests []string, flags map[string]bool) {
	flags = map[string]bool{}
	files, _ := filepath.Glob(filepath.Join(dir, "*_test.go"))
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			continue
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				if n.Recv == nil && strings.HasPrefix(n.Name.Name, "Test") {
					tests = append(tests, n.Name.Name)
				}
			case *ast.CallExpr:
				if name, ok := flagName(n); ok {
					flags[name] = true
				}
			}
			return true
		})
	}
	return tests, flags
}

// flagName returns the name that a call like flag.Int("name", ...) defines.
func flagName(call *ast.CallExpr) (string, bool) {
	fun, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || len(call.Args) == 0 {
		return "", false
	}
	if of, ok := fun.X.(*ast.Ident); !ok || of.Name != "flag" {
		return "", false
	}
	name, ok := call.Args[0].(*ast.BasicLit)
	if !ok {
		return "", false
	}
	text, err := strconv.Unquote(name.Value)
	return text, err == nil
}
