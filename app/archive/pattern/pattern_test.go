package pattern_test

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/stagepost/stagepost/app/archive/pattern"
	"github.com/stagepost/stagepost/app/archive/source"
)

// TestParse accepts the default patterns and refuses what a pattern must not have.
func TestParse(t *testing.T) {
	job, attempt := pattern.JobVariables(), pattern.AttemptVariables()
	for _, c := range []struct {
		kind pattern.Kind
		text string
		all  []string
		want string // a part of the error; "": valid
	}{
		{pattern.File, pattern.DefaultArchive, job, ""},
		{pattern.Folder, pattern.DefaultFolder, attempt, ""},
		{pattern.File, pattern.DefaultFile, attempt, ""},
		{pattern.File, "plain", job, ""},
		{pattern.File, "${ courseid }-${cmid  }", job, ""},
		{pattern.Folder, "a/b/${username}", attempt, ""},
		{pattern.File, "", job, "empty"},
		{pattern.File, "a/b", job, `"/" is not allowed`},
		{pattern.File, "a.b", job, `"." is not allowed`},
		{pattern.Folder, "../b", attempt, `"." is not allowed`},
		{pattern.Folder, `a\b`, attempt, "is not allowed"},
		{pattern.File, "a\x00", job, "is not allowed"},
		{pattern.File, "a\nb", job, "is not allowed"},
		{pattern.File, "a\xff", job, "is not allowed"},
		{pattern.File, "100%", job, `"%" is not allowed`},
		{pattern.File, "$courseid", job, "a $ begins a variable such as ${courseid}"},
		{pattern.File, "${courseid", job, "a $ begins"},
		{pattern.File, "$", job, "a $ begins"},
		{pattern.File, "${}", job, "there is no variable"},
		{pattern.File, "${curseid}", job, "similar: ${courseid}"},
		{pattern.File, "${attemptid}", job, "there is no variable"},
		{pattern.File, "${${courseid}}", job, "there is no variable"},
	} {
		_, err := pattern.Parse(c.kind, c.text, c.all)
		if (err == nil) != (c.want == "") || err != nil && (!errors.Is(err, pattern.ErrInvalid) ||
			!strings.Contains(err.Error(), c.want)) {
			t.Errorf("%q: got %v, want %q", c.text, err, c.want)
		}
	}
	for _, r := range `\.:;*?!"<>|` + "\x00/" {
		if _, err := pattern.Parse(pattern.File, "a"+string(r), job); err == nil {
			t.Errorf("%q is accepted", r)
		}
	}
}

func parse(t *testing.T, kind pattern.Kind, text string, all []string) pattern.Pattern {
	t.Helper()
	p, err := pattern.Parse(kind, text, all)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestDefectB17 shows the required behavior for a defect of local_archiving: a value was the replacement of a regular
// expression, and names were cut within a character.
func TestDefectB17(t *testing.T) {
	p := parse(t, pattern.File, "x-${coursename}-${cmid}", pattern.JobVariables())
	at := time.Date(2026, 5, 4, 1, 2, 3, 0, time.FixedZone("", 7200))
	for value, want := range map[string]string{
		"Price $1 and ${cmid} $0": "x-Price $1 and ${cmid} $0-7",
		"a/b\\c:d*e?f":            "x-abcdef-7",
		"../../etc/passwd":        "x-etcpasswd-7",
		"tab\tline\nend":          "x-tab line end-7",
		"100% ~ \x00\x07 \xff!":   "x-100   -7",
		"gro\u0308\u00dfe":        "x-größe-7",
		"":                        "x--7",
		strings.Repeat("ä", 500):  "x-" + strings.Repeat("ä", 84), // 170 bytes: the rest does not fit
		strings.Repeat("a", 500):  "x-" + strings.Repeat("a", 128) + "-7",
		strings.Repeat("語", 60):   "x-" + strings.Repeat("語", 56),
	} {
		values := pattern.JobValues(source.Course{Name: value}, source.Activity{ID: "7"}, at)
		if got := p.Name(values); got != want || !utf8.ValidString(got) || len(got) > 170 {
			t.Errorf("%.40q: got %q, want %q", value, got, want)
		}
	}
	long := parse(t, pattern.File, strings.Repeat("${coursename}", 3), pattern.JobVariables())
	if got := long.Name(map[string]string{"coursename": strings.Repeat("a", 200)}); len(got) != 170 {
		t.Errorf("got %d bytes", len(got))
	}
	empty := parse(t, pattern.File, "${coursename}", pattern.JobVariables())
	if got := empty.Name(map[string]string{"coursename": " .. "}); got != pattern.Unnamed {
		t.Errorf("got %q", got)
	}
}

func TestFolder(t *testing.T) {
	p := parse(t, pattern.Folder, " ${username} / ${idnumber}/ ${attemptid}-${date}_${time}", pattern.AttemptVariables())
	values := map[string]string{"username": "../anna/b", "attemptid": "9", "idnumber": " "}
	pattern.SetTime(values, time.Date(2026, 5, 4, 23, 2, 3, 0, time.FixedZone("", -7200)))
	if got, want := p.Name(values), "annab/9-2026-05-05_01-02-03"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := parse(t, pattern.Folder, "${username}/${idnumber}", pattern.AttemptVariables()).Name(nil); got !=
		pattern.Unnamed {
		t.Errorf("got %q", got)
	}
}

// TestEqualNames has attempts whose names are equal (B17: many attempts were called null.pdf).
func TestEqualNames(t *testing.T) {
	p := parse(t, pattern.File, "${idnumber}", pattern.AttemptVariables())
	names, got := source.Names{}, []string{}
	for _, id := range []string{"1", "2", "3", "2"} {
		got = append(got, names.For(id, p.Name(map[string]string{"attemptid": id})+".pdf"))
	}
	want := []string{"unnamed.pdf", "unnamed-2.pdf", "unnamed-3.pdf", "unnamed-2.pdf"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestDocumented compares the variables with those that docs/packages.md lists, in their order.
func TestDocumented(t *testing.T) {
	text, err := os.ReadFile("../../../docs/packages.md")
	if err != nil {
		t.Fatal(err)
	}
	for of, all := range map[string][]string{
		"packages": pattern.JobVariables(), "attempts and their folders": pattern.AttemptVariables(),
	} {
		if row := "| " + of + " | `" + strings.Join(all, "` `") + "`"; !strings.Contains(string(text), row) {
			t.Errorf("docs/packages.md lacks %s", row)
		}
	}
}

// FuzzName checks that a name is always valid, and that it does not depend on how often it is made.
func FuzzName(f *testing.F) {
	f.Add("${username}/${attemptid}", "../a", "\xff%0A")
	f.Add("x${ date }", "CON.", "~")
	f.Fuzz(func(t *testing.T, text, first, second string) {
		p, err := pattern.Parse(pattern.Folder, text, pattern.AttemptVariables())
		if err != nil {
			return
		}
		values := map[string]string{"username": first, "attemptid": second, "date": first + second}
		name := p.Name(values)
		if name != p.Name(values) || !utf8.ValidString(name) {
			t.Errorf("got %q and %q", name, p.Name(values))
		}
		for element := range strings.SplitSeq(name, "/") {
			if element == "" || len(element) > 170 || strings.TrimSpace(element) != element ||
				strings.ContainsAny(element, "\\.:;*?!\"<>|\x00%~\r\n") {
				t.Errorf("the element %q of %q", element, name)
			}
		}
	})
}
