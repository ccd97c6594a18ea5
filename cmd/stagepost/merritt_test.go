package main

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stagepost/stagepost/cli"
)

var (
	codeSpan = regexp.MustCompile("`([^`]+)`")
	testName = regexp.MustCompile(`(?m)^func (Test\w+)\(`)
)

// TestMerrittPage holds docs/merritt.md against the program: each row of its tables names a command or route, all of
// which exist with their flags, and a test that exists.
func TestMerrittPage(t *testing.T) {
	text, err := os.ReadFile("../../docs/merritt.md")
	if err != nil {
		t.Fatal(err)
	}
	p := newPage(t)
	rows := 0
	for n, line := range strings.Split(string(text), "\n") {
		for _, span := range spans(line) {
			if fault := p.wrong(span); fault != "" {
				t.Errorf("docs/merritt.md:%d: %s", n+1, fault)
			}
		}
		if cells := strings.Split(line, "|"); len(cells) == 7 || len(cells) == 8 {
			if strings.Contains(cells[1], "---") || strings.TrimSpace(cells[len(cells)-2]) == "Shown by" {
				continue
			}
			rows++
			if fault := row(cells); fault != "" {
				t.Errorf("docs/merritt.md:%d: %s", n+1, fault)
			}
		}
	}
	if rows < 60 {
		t.Errorf("only %d rows were found: the form of the page has changed", rows)
	}
}

// TestMerrittPageSees is the control: names that do not exist are noticed.
func TestMerrittPageSees(t *testing.T) {
	p := newPage(t)
	for span, ok := range map[string]bool{
		"stagepost retry": true, "stagepost conjure": false, "stagepost ingest locks break": true,
		"stagepost list --group --state": true, "stagepost retry --group": false,
		"stagepost ingest locks mend": false, "GET /api/v1/jobs": true, "GET /api/v1/conjure": false,
		"PUT /api/v1/jobs": false, "TestMerrittPage": true, "TestConjure": false,
		"TestScript/hold": true, "TestScript/conjure": false, "bid0000000042": true,
	} {
		if fault := p.wrong(span); (fault == "") != ok {
			t.Errorf("%s: got %q", span, fault)
		}
	}
	for line, ok := range map[string]bool{
		"| a | `stagepost retry` | | | `TestX` |": true, "| a | none: why | | | `TestX` |": true,
		"| a | | | | `TestX` |": false, "| a | `stagepost retry` | | | |": false,
	} {
		if fault := row(strings.Split(line, "|")); (fault == "") != ok {
			t.Errorf("%s: got %q", line, fault)
		}
	}
}

// page is what names on the page are held against.
type page struct {
	cli    *cli.Call
	routes []string
	tests  map[string]bool
}

func newPage(t *testing.T) *page {
	t.Helper()
	p := &page{cli: newCall(&bytes.Buffer{}, &bytes.Buffer{}, &bytes.Buffer{}), tests: map[string]bool{}}
	for _, r := range newSettings().Routes() {
		p.routes = append(p.routes, r.Method+" "+r.Pattern)
	}
	err := filepath.WalkDir("../..", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(name, "_test.go") {
			return err
		}
		text, err := os.ReadFile(name)
		for _, m := range testName.FindAllSubmatch(text, -1) {
			p.tests[string(m[1])] = true
		}
		return err
	})
	if err != nil || len(p.tests) < 100 {
		t.Fatalf("found %d tests, %v", len(p.tests), err)
	}
	return p
}

func spans(line string) []string {
	var all []string
	for _, m := range codeSpan.FindAllStringSubmatch(line, -1) {
		all = append(all, m[1])
	}
	return all
}

// wrong returns the fault of a code span that is a command, a route or a test.
func (p *page) wrong(span string) string {
	words := strings.Fields(span)
	switch {
	case words[0] == "stagepost":
		return p.command(words[1:])
	case len(words) == 2 && strings.HasPrefix(words[1], "/") && strings.ToUpper(words[0]) == words[0] &&
		!slices.Contains(p.routes, span):
		return "there is no route " + span
	case strings.HasPrefix(span, "TestScript/"):
		if _, err := os.Stat(filepath.Join("testdata/script",
			strings.TrimPrefix(span, "TestScript/")+".txt")); err != nil {
			return "there is no script " + span
		}
	case strings.HasPrefix(span, "Test") && !p.tests[span]:
		return "there is no test " + span
	}
	return ""
}

func (p *page) command(words []string) string {
	cmd, rest, err := p.cli.Root().Find(words)
	if err != nil || !cmd.HasParent() {
		return "there is no command " + strings.Join(words, " ")
	}
	_ = cmd.InheritedFlags() // takes the flags of the root over
	for i, word := range rest {
		switch name, flag := strings.CutPrefix(word, "--"); {
		case flag && cmd.Flags().Lookup(name) == nil && cmd.InheritedFlags().Lookup(name) == nil:
			return cmd.CommandPath() + " has no flag " + word
		case !flag && !strings.HasPrefix(word, "-") && (i > 0 || cmd.HasSubCommands()):
			return cmd.CommandPath() + " does not take " + word
		}
	}
	return ""
}

// row returns what a row of a table lacks.
func row(cells []string) string {
	last := len(cells) - 2
	of := strings.Join(cells[2:last], "|")
	named := slices.ContainsFunc(spans(of),
		func(s string) bool { return strings.HasPrefix(s, "stagepost ") || strings.Contains(s, " /") })
	if !named && !strings.Contains(of, "none:") {
		return "a row without a command or route"
	}
	if !slices.ContainsFunc(spans(cells[last]), func(s string) bool { return strings.HasPrefix(s, "Test") }) {
		return "a row without a test"
	}
	return ""
}
