package stagepost_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// securityChecks is how many checks docs/security.md has.
const securityChecks = 22

// TestSecurityChecks holds the table of docs/security.md to the tests that there are: each that it names is in its
// package, and each check has a line with tests, or with what is open.
func TestSecurityChecks(t *testing.T) {
	text, err := os.ReadFile("docs/security.md")
	if err != nil {
		t.Fatal(err)
	}
	wrong, checked := wrongChecks(string(text))
	for _, w := range wrong {
		t.Error(w)
	}
	if checked < securityChecks {
		t.Errorf("%d tests were found", checked)
	}
	for _, spoil := range [][2]string{ // the control
		{"TestHostileURLsAreRefusedWithoutADial", "TestOfNothing"}, {"| S22 |", "| S23 |"},
		{"| `store/zookeeper`: TestAccessLists, TestParse | nodes that Merritt's programs share stay open to every client |",
			"| | |"}, {"`edge/unpack`", "`edge/mail`"},
	} {
		if wrong, _ := wrongChecks(strings.Replace(string(text), spoil[0], spoil[1], 1)); len(wrong) == 0 {
			t.Errorf("%s instead of %s was not found", spoil[1], spoil[0])
		}
	}
}

var namedTest = regexp.MustCompile(`^Test\w+$`)

// wrongChecks returns what is wrong with the table, and how many tests it names.
func wrongChecks(text string) (wrong []string, checked int) {
	lines := map[string][]string{}
	for line := range strings.Lines(text) {
		if cells := strings.Split(strings.TrimSpace(line), "|"); len(cells) == 6 {
			lines[strings.TrimSpace(cells[1])] = cells[1:5]
		}
	}
	for n := 1; n <= securityChecks; n++ {
		cells, ok := lines[fmt.Sprintf("S%d", n)]
		if !ok {
			wrong = append(wrong, fmt.Sprintf("S%d has no line", n))
			continue
		}
		tests, open := strings.TrimSpace(cells[2]), strings.TrimSpace(cells[3])
		if tests == "" && open == "" {
			wrong = append(wrong, fmt.Sprintf("S%d has no test, and nothing is open", n))
		}
		for group := range strings.SplitSeq(tests, ";") {
			folder, names, _ := strings.Cut(strings.TrimSpace(group), ": ")
			for name := range strings.SplitSeq(names, ", ") {
				if names != "" && (!namedTest.MatchString(name) || !hasTest(strings.Trim(folder, "`"), name)) {
					wrong = append(wrong, fmt.Sprintf("S%d: %s has no %s", n, folder, name))
				}
				checked++
			}
		}
	}
	return wrong, checked
}

// hasTest reports whether a package has a test.
func hasTest(folder, name string) bool {
	files, _ := filepath.Glob(filepath.Join(folder, "*_test.go"))
	for _, file := range files {
		if text, err := os.ReadFile(file); err == nil && strings.Contains(string(text), "\nfunc "+name+"(") {
			return true
		}
	}
	return false
}
