package moodle_test

import (
	"crypto/sha1"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stagepost/stagepost/app/archive/source"
	"github.com/stagepost/stagepost/app/archive/source/moodle"
	"github.com/stagepost/stagepost/app/archive/source/moodle/replay"
	"github.com/stagepost/stagepost/app/archive/source/sourcetest"
)

// answersDir has the answers as they came.
const answersDir = "metadata/source-responses/"

// attemptDir is the folder of the recorded attempt, by the pattern that applies if none is set.
const attemptDir = "attempts/M10010181/2-2026-11-20_10-23-02/"

func open(t *testing.T) (*replay.Server, *moodle.Source) {
	t.Helper()
	site, err := replay.New()
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(site)
	t.Cleanup(server.Close)
	s, err := moodle.New(moodle.Options{URL: server.URL + "/", Token: replay.Token})
	if err != nil {
		t.Fatal(err)
	}
	return site, s
}

func activities(t *testing.T, s *moodle.Source) map[string]source.Activity {
	t.Helper()
	list, err := s.Activities(t.Context(), replay.Course)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]source.Activity{}
	for _, a := range list {
		out[a.ID] = a
	}
	return out
}

func fetch(t *testing.T, s *moodle.Source, a source.Activity) (*source.Plan, *sourcetest.Out) {
	t.Helper()
	plan, err := s.Plan(t.Context(), a, source.Settings{})
	if err != nil {
		t.Fatal(err)
	}
	out := &sourcetest.Out{}
	for _, item := range plan.Items {
		if err := s.Fetch(t.Context(), a, item, source.Settings{}, out); err != nil {
			t.Fatalf("%s: %v", item.Key, err)
		}
	}
	return plan, out
}

// courseFiles are the files of each activity of the recorded course.
var courseFiles = map[string][]string{
	replay.Page: {"activity.html", "files/index.html", answersDir + "core_course_get_contents.json"},
	replay.File: {"activity.html", "files/lecture ü 1.txt", answersDir + "core_course_get_contents.json"},
	replay.Link: {"activity.html", answersDir + "core_course_get_contents.json"},
	replay.Assign: {"metadata/activity.json", answersDir + "mod_assign_get_grades.json",
		answersDir + "mod_assign_get_submission_status-19.json",
		answersDir + "mod_assign_get_submission_status-20.json",
		answersDir + "mod_assign_get_submission_status-21.json",
		answersDir + "mod_assign_get_submission_status-22.json",
		answersDir + "mod_assign_get_submissions.json", "metadata/submissions.csv",
		"submissions/user19/attempt-1/submission_files/essay0.pdf", "submissions/user19/submission.html",
		"submissions/user20/attempt-1/submission_files/essay1.pdf", "submissions/user20/submission.html",
		"submissions/user21/submission.html", "submissions/user22/submission.html"},
	replay.Quiz: {attemptDir + "attachments/3/calc0.txt",
		attemptDir + "attempt-2-M10010181_2026-11-20-10-23-02.html", "metadata/activity.json",
		"metadata/attempts_metadata.csv", answersDir + "mod_quiz_get_attempt_review-2.json",
		answersDir + "mod_quiz_get_user_attempts.json"},
	replay.Forum: {"discussions/1/discussion.html", "metadata/activity.json",
		answersDir + "mod_forum_get_discussion_posts-1.json"},
}

// TestCourse archives each activity of the recorded course.
func TestCourse(t *testing.T) {
	_, s := open(t)
	facts, err := s.Check(t.Context())
	if err != nil || facts.Kind != "moodle" || facts.Version != "4.3 (Build: 20231009)" {
		t.Fatalf("got %+v, %v", facts, err)
	}
	courses, err := s.Courses(t.Context(), []string{replay.Course})
	if err != nil || len(courses) != 1 || courses[0].ShortName != "ALG0181" || courses[0].Category != "Category 1" {
		t.Fatalf("got %+v, %v", courses, err)
	}
	all := activities(t, s)
	if name := all[replay.Forum].Name; name != "Q&A" { // Moodle gives HTML
		t.Errorf("got the name %q", name)
	}
	if len(all) != len(courseFiles) {
		t.Errorf("%d activities", len(all))
	}
	for id, names := range courseFiles {
		a := all[id]
		if reason := s.Archivable(a); reason != "" {
			t.Errorf("%s: %s", a.Name, reason)
		}
		_, out := fetch(t, s, a)
		if got := out.Names(); !slices.Equal(got, names) {
			t.Errorf("%s: got %q", a.Name, got)
		}
		checkPages(t, out)
	}
	a := all[replay.Assign]
	plan, err := s.Plan(t.Context(), a, source.Settings{})
	if err != nil || len(plan.Items) != 5 || len(plan.People) != 4 {
		t.Fatalf("got %+v, %v", plan, err)
	}
	_, out := fetch(t, s, a)
	const essay = "submissions/user19/attempt-1/submission_files/essay0.pdf"
	if o := out.Origin(essay); o.Person != "19" ||
		o.Name != "essay0.pdf" || o.SHA1 != sha1Of(out.Body(essay)) ||
		!strings.HasSuffix(o.URL, "/webservice/pluginfile.php/53/assignsubmission_file/submission_files/7/essay0.pdf") {
		t.Errorf("got %+v", o)
	}
	if !strings.Contains(out.Body("submissions/user19/submission.html"), "<p>My essay 0</p>") ||
		!strings.Contains(out.Body("submissions/user19/submission.html"), "87.50") {
		t.Errorf("got %s", out.Body("submissions/user19/submission.html"))
	}
	checkPages(t, out)
}

var outside = regexp.MustCompile(`(?i)<(script|iframe|object|embed|link|base)|\son\w+=|[^-]src="http|url\(`)

// checkPages: a page runs nothing and loads nothing.
func checkPages(t *testing.T, out *sourcetest.Out) {
	t.Helper()
	for _, name := range out.Names() {
		body := out.Body(name)
		if strings.HasSuffix(name, ".html") && !strings.HasPrefix(name, "files/") {
			if m := outside.FindString(body); m != "" {
				t.Errorf("%s contains %s", name, m)
			}
			if !strings.HasPrefix(body, "<!DOCTYPE html>") {
				t.Errorf("%s begins with %.30q", name, body)
			}
		}
		if strings.Contains(body, replay.Token) {
			t.Errorf("%s contains the token", name)
		}
	}
}

func TestAttempt(t *testing.T) {
	_, s := open(t)
	plan, out := fetch(t, s, activities(t, s)[replay.Quiz])
	if len(plan.Items) != 2 || plan.Items[1].Key != "attempt-2" || plan.Items[1].Person != "19" ||
		len(plan.People) != 1 || plan.People[0].Number != "M10010181" {
		t.Errorf("got %+v", plan)
	}
	text := out.Body(attemptDir + "attempt-2-M10010181_2026-11-20-10-23-02.html")
	for _, want := range []string{
		"<h1>Exam</h1>", "Stu1 Dent", "M10010181", "The answer is true.", "The correct answer is &#39;True&#39;.",
		`href="attachments/3/calc0.txt"`, "2026-11-20T",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in %s", want, text)
		}
	}
	var answers struct{ Questions []any }
	err := json.Unmarshal([]byte(out.Body(answersDir+"mod_quiz_get_attempt_review-2.json")), &answers)
	if err != nil || len(answers.Questions) != 3 {
		t.Errorf("got %d questions, %v", len(answers.Questions), err)
	}
	o := out.Origin(attemptDir + "attachments/3/calc0.txt")
	if strings.Contains(o.URL, "?") || o.Person != "19" {
		t.Errorf("got %+v", o)
	}
	const row = "2,19,,Stu1 Dent,M10010181,1,finished,2026-11-20T"
	if got := out.Body("metadata/attempts_metadata.csv"); !strings.Contains(got, row) {
		t.Errorf("got %s", got)
	}
}

func TestDescribe(t *testing.T) {
	_, s := open(t)
	out := &sourcetest.Out{}
	people, err := s.Describe(t.Context(), replay.Course, source.Settings{}, out)
	if err != nil || len(people) != 5 {
		t.Fatalf("got %+v, %v", people, err)
	}
	if got := out.Names(); !slices.Equal(got, []string{
		"metadata/course.json", "metadata/grades.csv", "metadata/people.csv",
		answersDir + "gradereport_user_get_grade_items.json"}) {
		t.Errorf("got %q", got)
	}
	const row = "19,,M10010181,Stu1 Dent,student10181@example.com,student,G1\r\n"
	if got := out.Body("metadata/people.csv"); !strings.Contains(got, row) {
		t.Errorf("got %s", got)
	}
	const mark = "19,Stu1 Dent,M10010181,19,Essay 1,assign,87.5,100,87.50,"
	if got := out.Body("metadata/grades.csv"); !strings.Contains(got, mark) {
		t.Errorf("got %s", got)
	}
}

// TestFingerprints: the same activity has the same one, and each change another one.
func TestFingerprints(t *testing.T) {
	for _, c := range []struct{ activity, answer, from, to string }{
		{replay.Quiz, "mod_quiz_get_user_attempts", `"timemodified": 1795170182`, `"timemodified": 1795170183`},
		{replay.Quiz, "mod_quiz_get_user_attempts", `"state": "finished"`, `"state": "abandoned"`},
		{replay.Quiz, "mod_quiz_get_user_attempts", `"sumgrades": null`, `"sumgrades": 2.5`},
		{replay.Assign, "mod_assign_get_submissions", `"status": "submitted"`, `"status": "draft"`},
		{replay.Assign, "mod_assign_get_submissions", `"filesize": 15`, `"filesize": 16`},
		{replay.Assign, "mod_assign_get_grades", `"87.50000"`, `"88.00000"`},
		{replay.Forum, "mod_forum_get_forum_discussions", `"numreplies": 1`, `"numreplies": 2`},
		{replay.Page, "core_course_get_contents", `"timemodified": 1795170182`, `"timemodified": 1795170183`},
		{replay.File, "core_course_get_contents", `"filesize": 13000`, `"filesize": 13001`},
	} {
		site, s := open(t)
		a := activities(t, s)[c.activity]
		before, err := s.Fingerprint(t.Context(), a)
		if err != nil || len(before) != 64 {
			t.Fatalf("got %q, %v", before, err)
		}
		if again, err := s.Fingerprint(t.Context(), a); err != nil || again != before {
			t.Errorf("%s: got %s and %s, %v", a.Name, before, again, err)
		}
		if err := site.Edit(c.answer, c.from, c.to); err != nil {
			t.Fatal(err)
		}
		if after, err := s.Fingerprint(t.Context(), a); err != nil || after == before {
			t.Errorf("%s: %s makes no difference: %v", a.Name, c.to, err)
		}
	}
}

// TestMissingFunctions: what is not in the web service is named, and what needs it is left out.
func TestMissingFunctions(t *testing.T) {
	site, s := open(t)
	if err := site.Edit("core_webservice_get_site_info", `"mod_assign_get_submission_status"`, `"other"`); err != nil {
		t.Fatal(err)
	}
	facts, err := s.Check(t.Context())
	if err != nil || !slices.ContainsFunc(facts.Warnings, func(w string) bool {
		return strings.HasPrefix(w, "mod_assign_get_submission_status is not in the web service")
	}) {
		t.Errorf("got %+v, %v", facts, err)
	}
	plan, out := fetch(t, s, activities(t, s)[replay.Assign])
	if len(plan.Warnings) == 0 || !strings.Contains(out.Body("submissions/user20/submission.html"), "essay1.pdf") {
		t.Errorf("got %+v, %q", plan.Warnings, out.Names())
	}
	if err := site.Edit("core_webservice_get_site_info", `"core_course_get_contents"`, `"other"`); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Check(t.Context()); err == nil || !strings.Contains(err.Error(), "core_course_get_contents") {
		t.Errorf("got %v", err)
	}
}

func TestUnknownKind(t *testing.T) {
	_, s := open(t)
	a := source.Activity{Course: "5", ID: "99", Module: "workshop", Name: "W"}
	if s.Archivable(a) == "" {
		t.Error("a workshop is archivable")
	}
	_, err := s.Plan(t.Context(), a, source.Settings{})
	var e *source.Error
	if !errors.As(err, &e) || e.Temporary() {
		t.Errorf("got %v", err)
	}
}

// TestImages: an image of the Moodle becomes part of the page; one of another server is not requested.
func TestImages(t *testing.T) {
	site, s := open(t)
	site.SetFile("50/mod_page/content/0/a.png", []byte("\x89PNG\r\n\x1a\n"))
	site.Intercept(func(w http.ResponseWriter, _ *http.Request, what string) bool {
		if what == "50/mod_page/content/0/a.png" {
			w.Header().Set("Content-Type", "image/png")
			fmt.Fprint(w, "\x89PNG\r\n\x1a\n")
			return true
		}
		return false
	})
	err := site.Edit("mod_page_get_pages_by_courses", "<p>Hello <b>world</b></p>", strings.ReplaceAll(
		`<p onclick='x()'>Hi`+
			`<img alt='a' src='http://127.0.0.1:18090/pluginfile.php/50/mod_page/content/0/a.png'>`+
			`<img alt='b' src='http://127.0.0.1:1/b.png'>`+
			`<img alt='gone' src='http://127.0.0.1:18090/pluginfile.php/50/gone.png'>`+
			`<script>alert(1)<\/script><a href='javascript:x()'>c</a>`+
			`<iframe src='//x'></iframe><form><input name='q'></form></p>`,
		`<\/`, `</`))
	if err != nil {
		t.Fatal(err)
	}
	_, out := fetch(t, s, activities(t, s)[replay.Page])
	text := out.Body("activity.html")
	checkPages(t, out)
	for _, want := range []string{
		`src="data:image/png;base64,iVBORw0KGgo="`, `data-src="http://127.0.0.1:1/b.png"`, `alt="gone"`, `<a>c</a>`,
		"disabled",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%s is not in %s", want, text)
		}
	}
}

func TestAddresses(t *testing.T) {
	for _, u := range []string{"", "moodle.example.org", "ftp://x", "https://a:b@x", "https://x/?a=b"} {
		if _, err := moodle.New(moodle.Options{URL: u, Token: "t"}); err == nil {
			t.Errorf("%q is accepted", u)
		}
	}
	if _, err := moodle.New(moodle.Options{URL: "https://x/moodle", Token: "t"}); err != nil {
		t.Error(err)
	}
}

// TestCoursesIn: courses are found by a category or one above it. An unknown category is an error, not no courses.
func TestCoursesIn(t *testing.T) {
	answers := map[string]string{
		"core_course_get_categories": `[{"id":1,"path":"/1"},{"id":7,"path":"/1/7"},{"id":8,"path":"/8"}]`,
		"core_course_get_courses_by_field": `{"courses":[
			{"id":2,"fullname":"A","categoryid":1},{"id":3,"fullname":"B","categoryid":7},
			{"id":4,"fullname":"C","categoryid":8}],"warnings":[]}`,
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write([]byte(answers[r.FormValue("wsfunction")]))
	}))
	defer server.Close()
	s, err := moodle.New(moodle.Options{URL: server.URL, Token: replay.Token, Categories: []int{1}})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ category, want string }{
		{"1", "2 3"}, {"7", "3"}, {"8", ""}, {"9", "error"}, {"x", "error"},
	} {
		courses, err := source.CoursesIn(t.Context(), s, []string{c.category})
		var ids []string
		for _, one := range courses {
			ids = append(ids, one.ID)
		}
		got := strings.Join(ids, " ")
		if err != nil {
			got = "error"
		}
		if got != c.want {
			t.Errorf("category %s: %s (%v), want %s", c.category, got, err, c.want)
		}
	}
}

// sha1Of is what a Moodle calls the contenthash of a file.
func sha1Of(text string) string {
	sum := sha1.Sum([]byte(text))
	return hex.EncodeToString(sum[:])
}
