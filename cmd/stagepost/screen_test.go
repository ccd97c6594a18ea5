package main

import (
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

// control matches what moves the cursor or clears: the sequences that the program writes.
var control = regexp.MustCompile("\x1b\\[\\??([0-9;]*)([A-Za-z])|\r|\n|[^\x1b\r\n]+")

// screenOf gives what a terminal shows after a text was written to it. Lines are not wrapped.
func screenOf(text string) string {
	lines, row, column := [][]rune{nil}, 0, 0
	for _, m := range control.FindAllStringSubmatch(text, -1) {
		switch {
		case m[0] == "\r":
			column = 0
		case m[0] == "\n":
			if row, column = row+1, 0; row == len(lines) {
				lines = append(lines, nil)
			}
		case m[2] == "A":
			n, _ := strconv.Atoi(m[1])
			row = max(0, row-max(1, n))
		case m[2] == "K":
			lines[row] = lines[row][:min(column, len(lines[row]))]
		case m[2] == "J":
			lines = append(lines[:row], lines[row][:min(column, len(lines[row]))])
		case m[2] != "": // colors
		default:
			for len(lines[row]) < column+utf8.RuneCountInString(m[0]) {
				lines[row] = append(lines[row], ' ')
			}
			column += copy(lines[row][column:], []rune(m[0]))
		}
	}
	var out []string
	for _, line := range lines {
		out = append(out, strings.TrimRight(string(line), " "))
	}
	return strings.TrimRight(strings.Join(out, "\n"), "\n")
}

// TestScreenOf is the control of what documents are compared with.
func TestScreenOf(t *testing.T) {
	for text, want := range map[string]string{
		"a\r\nb\r\n":                               "a\nb",
		"  0%\r 50%\r\x1b[K100%\r\n":               "100%",
		"a\x1b[K\r\nb\x1b[K\r\n\x1b[2Ac\x1b[K\r\n": "c\nb",
		"a\r\nb\r\n\x1b[2A\x1b[J":                  "",
		"\x1b[1mID\x1b[0m  \x1b[32mok\x1b[0m\r\n":  "ID  ok",
		"long line\rshort\x1b[K":                   "short",
	} {
		if diff := cmp.Diff(want, screenOf(text)); diff != "" {
			t.Errorf("%q (-want +got):\n%s", text, diff)
		}
	}
}
