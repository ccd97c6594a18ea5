package report_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stagepost/stagepost/app/ingest"
	"github.com/stagepost/stagepost/app/ingest/record"
	"github.com/stagepost/stagepost/app/ingest/report"
	"github.com/stagepost/stagepost/engine/cause"
	"github.com/stagepost/stagepost/lifecycle"
)

// TestStatesAreThoseOfTheTables: each state of a table, and no other, has words for people.
func TestStatesAreThoseOfTheTables(t *testing.T) {
	var want []lifecycle.State
	for _, table := range []*lifecycle.Table{record.BatchLife, record.JobLife} {
		for _, s := range table.Stages() {
			want = append(want, s.State)
		}
	}
	slices.Sort(want)
	got := slices.Sorted(slices.Values(report.States))
	if diff := cmp.Diff(slices.Compact(want), got); diff != "" {
		t.Error(diff)
	}
}

// TestEveryCauseHasItsWords: each cause of a failure of ingest, and no other, has plain words.
func TestEveryCauseHasItsWords(t *testing.T) {
	want := []string{cause.Timeout, cause.Disk}
	for _, cause := range constants(t, "../cause.go", "Cause") {
		if cause != ingest.CauseJobs { // of batches
			want = append(want, cause)
		}
	}
	if !slices.Contains(want, ingest.CauseNotFound) || len(want) < 20 {
		t.Fatalf("control: the constants were not found: %v", want)
	}
	slices.Sort(want)
	if diff := cmp.Diff(want, report.Causes()); diff != "" {
		t.Error(diff)
	}
}

// constants gives the values of a file's string constants whose names begin with a prefix.
func constants(t *testing.T, name, prefix string) []string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || !strings.HasPrefix(spec.Names[0].Name, prefix) || len(spec.Values) != 1 {
			return true
		}
		if lit, ok := spec.Values[0].(*ast.BasicLit); ok {
			value, err := strconv.Unquote(lit.Value)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, value)
		}
		return true
	})
	return all
}
