package moodle_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stagepost/stagepost/app/archive/pattern"
	"github.com/stagepost/stagepost/app/archive/source"
	"github.com/stagepost/stagepost/app/archive/source/moodle"
	"github.com/stagepost/stagepost/app/archive/source/moodle/replay"
	"github.com/stagepost/stagepost/app/archive/source/sourcetest"
)

// TestSameNames: files whose names become equal are both kept, in each kind of activity (B17).
func TestSameNames(t *testing.T) {
	site, s := open(t)
	const contents = "core_course_get_contents"
	if err := site.Edit(contents, `"filename": "lecture \u00fc 1.txt",`, `"filename": "a:b.txt",`); err != nil {
		t.Fatal(err)
	}
	const file = `{"type":"file","filename":"a_b.txt","filepath":"/","filesize":5,"timemodified":1,` +
		`"fileurl":"http://127.0.0.1:18090/webservice/pluginfile.php/51/mod_resource/content/0/second"},`
	if err := site.Edit(contents, `"contents": [
                    {
                        "type": "file",
                        "filename": "a:b.txt",`, `"contents": [`+file+`
                    {
                        "type": "file",
                        "filename": "a:b.txt",`); err != nil {
		t.Fatal(err)
	}
	site.SetFile("51/mod_resource/content/0/second", []byte("other"))
	_, out := fetch(t, s, activities(t, s)[replay.File])
	if got := out.Names(); !slices.Equal(got[:3], []string{"activity.html", "files/a_b-2.txt", "files/a_b.txt"}) {
		t.Errorf("got %q", got)
	}
	if out.Body("files/a_b.txt") != "other" || len(out.Body("files/a_b-2.txt")) != 13000 {
		t.Errorf("got %d and %d bytes", len(out.Body("files/a_b.txt")), len(out.Body("files/a_b-2.txt")))
	}
	for _, link := range []string{`href="files/a_b.txt"`, `href="files/a_b-2.txt"`} {
		if !strings.Contains(out.Body("activity.html"), link) {
			t.Errorf("the page has no %s", link)
		}
	}
}

// TestSameNamesOfOnePerson: the files of one answer, and of one submission, stay apart as well.
func TestSameNamesOfOnePerson(t *testing.T) {
	const prefix = "http://127.0.0.1:18090/webservice/pluginfile.php/"
	site, s := open(t)
	for answer, file := range map[string]string{
		"mod_quiz_get_attempt_review":      "calc0.txt",
		"mod_assign_get_submission_status": "essay0.pdf",
	} {
		first := fmt.Sprintf(`"filename": %q,`, file)
		second := fmt.Sprintf(`"filename": %q, "filepath": "/", "fileurl": "%s50/second/%s"}, {`,
			strings.ToUpper(file), prefix, file)
		if err := site.Edit(answer, first, second+first); err != nil {
			t.Fatal(err)
		}
		site.SetFile("50/second/"+file, []byte("second"))
	}
	for id, names := range map[string][2]string{
		replay.Quiz: {attemptDir + "attachments/3/CALC0.TXT", attemptDir + "attachments/3/calc0-2.txt"},
		replay.Assign: {"submissions/user19/attempt-1/submission_files/ESSAY0.PDF",
			"submissions/user19/attempt-1/submission_files/essay0-2.pdf"},
	} {
		_, out := fetch(t, s, activities(t, s)[id])
		if first, other := out.Body(names[0]), out.Body(names[1]); first != "second" || other == "" || other == first {
			t.Errorf("%s: got %q and %q of %q", id, first, other, out.Names())
		}
	}
}

// TestAttemptNames: names follow the patterns, and attempts with equal names stay apart.
func TestAttemptNames(t *testing.T) {
	site, s := open(t)
	second := `{"id":9,"userid":19,"attempt":2,"preview":0,"state":"finished","timestart":1795170182,` +
		`"timefinish":1795170182,"timemodified":1795170182,"sumgrades":null},`
	if err := site.Edit("mod_quiz_get_user_attempts", `"attempts": [`, `"attempts": [`+second); err != nil {
		t.Fatal(err)
	}
	site.Intercept(func(w http.ResponseWriter, r *http.Request, what string) bool {
		if what == "mod_quiz_get_attempt_review" && r.Form.Get("attemptid") == "9" {
			r.Form.Set("attemptid", "2")
		}
		return false
	})
	set := source.Settings{FolderName: "${idnumber}", FileName: "try of ${ username }: $1"}
	a := activities(t, s)[replay.Quiz]
	if _, err := s.Plan(t.Context(), a, set); err == nil || !strings.Contains(err.Error(), "$1") {
		t.Errorf("got %v", err)
	}
	set.FileName = "try of ${ username }"
	plan, err := s.Plan(t.Context(), a, set)
	if err != nil {
		t.Fatal(err)
	}
	out := &sourcetest.Out{}
	for _, item := range plan.Items {
		if err := s.Fetch(t.Context(), a, item, set, out); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{
		"attempts/M10010181-2/attachments/3/calc0.txt", "attempts/M10010181-2/try of M10010181.html",
		"attempts/M10010181/attachments/3/calc0.txt", "attempts/M10010181/try of M10010181.html",
	}
	if got := out.Names()[:4]; !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

// TestVariables: each variable of a pattern has its value (docs/packages.md lists them). A function that only a pattern
// needs is called for that pattern alone, and is a warning if it is missing.
func TestVariables(t *testing.T) {
	old, without := open(t)
	if err := old.Edit("core_webservice_get_site_info", "core_group_get_course_groups", "other"); err != nil {
		t.Fatal(err)
	}
	site, s := open(t)
	a := activities(t, without)[replay.Quiz]
	values := map[string]string{
		"courseid": "5", "coursename": "Algebra I", "courseshortname": "ALG0181", "cmid": replay.Quiz,
		"groupids": "4", "groupidnumbers": "G-01", "groupnames": "G1", "quizid": a.Instance, "quizname": "Exam",
		"attemptid": "2", "username": "M10010181", "firstname": "", "lastname": "", "idnumber": "M10010181",
		"timestart": "1795170182", "timefinish": "1795170182", "date": "2026-11-20", "time": "10-23-02",
		"timestamp": "1795170182",
	}
	name := func(s *moodle.Source, variable string) (string, []string) {
		set := source.Settings{FolderName: "x${" + variable + "}y", FileName: "f"}
		plan, err := s.Plan(t.Context(), a, set)
		if err != nil {
			t.Fatal(err)
		}
		var item struct{ Folder string }
		if err := json.Unmarshal(plan.Items[1].Data, &item); err != nil {
			t.Fatal(err)
		}
		return item.Folder, plan.Warnings
	}
	if got, warnings := name(without, "groupidnumbers"); got != "attempts/xy" ||
		!strings.Contains(warnings[0], "core_group_get_course_groups") {
		t.Errorf("without the function: got %q, %q", got, warnings)
	}
	site.Intercept(func(w http.ResponseWriter, _ *http.Request, what string) bool {
		if what != "core_group_get_course_groups" {
			return false
		}
		fmt.Fprint(w, `[{"id":4,"name":"G1","idnumber":"G-01"},{"id":5,"name":"G2","idnumber":""}]`)
		return true
	})
	for _, variable := range pattern.AttemptVariables() {
		want, ok := values[variable]
		if !ok {
			t.Errorf("there is no value of %s", variable)
		}
		if got, _ := name(s, variable); got != "attempts/x"+want+"y" {
			t.Errorf("%s: got %q", variable, got)
		}
	}
}

// TestSections: a report has the parts that were chosen, and nil is all of them.
func TestSections(t *testing.T) {
	_, s := open(t)
	a := activities(t, s)[replay.Quiz]
	texts := map[string]string{
		"header": "M10010181", "question": "qtext", "rightanswer": "The correct answer is", "attachments": "calc0.txt",
		"question_feedback": "specificfeedback",
	}
	for _, sections := range [][]string{
		nil, {}, {"header"}, {"question"}, {"question", "rightanswer"}, {"question", "attachments"},
		{"question", "question_feedback", "general_feedback", "history", "quiz_feedback"},
	} {
		set := source.Settings{Sections: sections, FolderName: "x", FileName: "report"}
		plan, err := s.Plan(t.Context(), a, set)
		if err != nil {
			t.Fatal(err)
		}
		out := &sourcetest.Out{}
		if err := s.Fetch(t.Context(), a, plan.Items[1], set, out); err != nil {
			t.Fatal(err)
		}
		report := out.Body("attempts/x/report.html")
		for name, text := range texts {
			want := sections == nil || slices.Contains(sections, name)
			if name == "attachments" { // its name is also in the question
				if kept := out.Body("attempts/x/attachments/3/calc0.txt") != ""; kept != want {
					t.Errorf("%q: attachments kept: %t", sections, kept)
				}
			} else if strings.Contains(report, text) != want {
				t.Errorf("%q: %q: %t", sections, text, !want)
			}
		}
	}
	if _, err := s.Plan(t.Context(), a, source.Settings{Sections: []string{"questions"}}); err == nil {
		t.Error("an unknown section is accepted")
	}
}
