package compute_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/app/compute/agent"
)

// TestLimitsInWords has limits beyond what a service allows, in the words of people as long as these show the
// difference.
func TestLimitsInWords(t *testing.T) {
	most := compute.Limits{Wall: 2 * time.Hour, Memory: 1 << 30, Processes: 64, Cores: 2}
	for want, asked := range map[string]compute.Limits{
		"": most,
		"memory 900 GiB is more than the 1 GiB that its service allows":         {Memory: 966367641600},
		"memory 1073741825 is more than the 1073741824 that its service allows": {Memory: 1<<30 + 1},
		"wall 2h30m is more than the 2h that its service allows":                {Wall: 150 * time.Minute},
		"wall 2h0m30s is more than the 2h that its service allows":              {Wall: 2*time.Hour + 30*time.Second},
		"processes 65 is more than the 64 that its service allows":              {Processes: 65},
		"cores 2.5 is more than the 2 that its service allows":                  {Cores: 2.5},
	} {
		text := ""
		if err := asked.Within(most); err != nil {
			text = err.Error()
		}
		if text != want {
			t.Errorf("got %q, want %q", text, want)
		}
	}
}

// TestLeftNames lets dots stand for two names at least.
func TestLeftNames(t *testing.T) {
	for n, want := range map[int]string{1: "(a)", 3: "(a, b, c)", 4: "(a, b, c, d)", 5: "(a, b, c, ...)"} {
		var l compute.LeftOut
		for _, name := range strings.Split("abcde", "")[:n] {
			l.Add("fifo", name, "a pipe")
		}
		if text := l.Sentence(); !strings.HasSuffix(text, " "+want) {
			t.Errorf("%d: got %q, want %s", n, text, want)
		}
	}
}

// TestCauses lists every cause that the program has a constant for; those of callbacks are no causes of jobs that
// people list.
func TestCauses(t *testing.T) {
	known := compute.Causes()
	if !slices.Contains(known, agent.CauseStopped) || slices.Contains(known, "foo") {
		t.Errorf("got %q", known)
	}
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, name := range names {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			v, ok := n.(*ast.ValueSpec)
			if !ok || len(v.Names) != 1 || len(v.Values) != 1 || !strings.HasPrefix(v.Names[0].Name, "Cause") &&
				!strings.HasPrefix(v.Names[0].Name, "block") {
				return true
			}
			value, ok := v.Values[0].(*ast.BasicLit)
			if !ok || value.Kind != token.STRING {
				return true
			}
			found++
			if text, err := strconv.Unquote(value.Value); err != nil || !slices.Contains(known, text) {
				t.Errorf("%s is not among the causes", v.Names[0].Name)
			}
			return true
		})
	}
	if found < 20 {
		t.Errorf("only %d constants were found", found)
	}
}
