package moodle_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
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
	want := map[string][]string{
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
	all := activities(t, s)
	if len(all) != len(want) {
		t.Errorf("%d activities", len(all))
	}
	for id, names := range want {
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
	if o := out.Origin("submissions/user19/attempt-1/submission_files/essay0.pdf"); o.Person != "19" ||
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

// TestErrors has what a Moodle answers when it fails, and whether a later attempt can succeed.
func TestErrors(t *testing.T) {
	exception := func(exception, code string) func(http.ResponseWriter) {
		return func(w http.ResponseWriter) { replay.Fail(w, exception, code, "planned") }
	}
	status := func(n int) func(http.ResponseWriter) {
		return func(w http.ResponseWriter) { http.Error(w, "<html>"+replay.Token+"</html>", n) }
	}
	for name, c := range map[string]struct {
		answer    func(http.ResponseWriter)
		temporary bool
		code      string
	}{
		"token":     {exception("moodle_exception", "invalidtoken"), false, "invalidtoken"},
		"access":    {exception("webservice_access_exception", "accessexception"), false, "accessexception"},
		"right":     {exception("required_capability_exception", "nopermissions"), false, "nopermissions"},
		"record":    {exception("dml_missing_record_exception", "invalidrecord"), false, "invalidrecord"},
		"parameter": {exception("invalid_parameter_exception", "invalidparameter"), false, "invalidparameter"},
		"database":  {exception("dml_connection_exception", "dbconnectionfailed"), true, "dbconnectionfailed"},
		"unknown":   {exception("coding_exception", "codingerror"), true, "codingerror"},
		"408":       {status(408), true, ""},
		"425":       {status(425), true, ""},
		"429":       {status(429), true, ""},
		"500":       {status(500), true, ""},
		"502":       {status(502), true, ""},
		"503":       {status(503), true, ""},
		"401":       {status(401), false, ""},
		"403":       {status(403), false, ""},
		"404":       {status(404), false, ""},
		"login page": {func(w http.ResponseWriter) {
			w.Header().Set("Location", "/login/index.php")
			w.WriteHeader(303)
		}, false, ""},
		"HTML":         {func(w http.ResponseWriter) { fmt.Fprint(w, "<html>maintenance</html>") }, true, ""},
		"cut":          {func(w http.ResponseWriter) { fmt.Fprint(w, `{"quizzes":[`) }, true, ""},
		"closed early": {func(http.ResponseWriter) { panic(http.ErrAbortHandler) }, true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			site, s := open(t)
			a := activities(t, s)[replay.Quiz]
			site.Before = func(w http.ResponseWriter, _ *http.Request, what string) bool {
				if what == "mod_quiz_get_quizzes_by_courses" {
					c.answer(w)
					return true
				}
				return false
			}
			_, err := s.Fingerprint(t.Context(), a)
			var e *source.Error
			if !errors.As(err, &e) || e.Temporary() != c.temporary || e.Code != c.code {
				t.Fatalf("got %v", err)
			}
			if strings.Contains(err.Error(), replay.Token) {
				t.Errorf("%v contains the token", err)
			}
		})
	}
}

func TestRetryAfter(t *testing.T) {
	site, s := open(t)
	site.Before = func(w http.ResponseWriter, _ *http.Request, _ string) bool {
		w.Header().Set("Retry-After", "17")
		w.WriteHeader(http.StatusServiceUnavailable)
		return true
	}
	_, err := s.Check(t.Context())
	var e *source.Error
	if !errors.As(err, &e) || e.After.Seconds() != 17 {
		t.Errorf("got %v", err)
	}
}

// lecture is the file of the activity File.
const lecture = "51/mod_resource/content/0/lecture ü 1.txt"

// TestDownloads: no wrong byte is kept.
func TestDownloads(t *testing.T) {
	run := func(
		t *testing.T, before func(http.ResponseWriter, *http.Request) bool,
	) (*replay.Server, *sourcetest.Out, error) {
		t.Helper()
		site, s := open(t)
		a := activities(t, s)[replay.File]
		plan, err := s.Plan(t.Context(), a, source.Settings{})
		if err != nil {
			t.Fatal(err)
		}
		site.Before = func(w http.ResponseWriter, r *http.Request, what string) bool {
			return what == lecture && before(w, r)
		}
		out := &sourcetest.Out{}
		err = s.Fetch(t.Context(), a, plan.Items[1], source.Settings{}, out)
		if err != nil && (len(out.Names()) != 0 || strings.Contains(err.Error(), replay.Token)) {
			t.Errorf("%v: kept %q", err, out.Names())
		}
		return site, out, err
	}
	control, good, err := run(t, func(http.ResponseWriter, *http.Request) bool { return false })
	if err != nil || len(good.Body("files/lecture ü 1.txt")) != 13000 || control.Calls(lecture) != 1 {
		t.Fatalf("got %q, %v", good.Names(), err)
	}
	temporary := func(t *testing.T, err error, want bool) {
		t.Helper()
		var e *source.Error
		if !errors.As(err, &e) || e.Temporary() != want {
			t.Errorf("got %v", err)
		}
	}
	t.Run("broken connections", func(t *testing.T) {
		n := 0
		site, out, err := run(t, func(w http.ResponseWriter, r *http.Request) bool {
			if n++; n > 2 {
				return false
			}
			site, err := replay.New()
			if err != nil {
				t.Error(err)
			}
			rec := httptest.NewRecorder()
			site.ServeHTTP(rec, r)
			maps.Copy(w.Header(), rec.Header())
			w.WriteHeader(rec.Code)
			_, _ = w.Write(rec.Body.Bytes()[:1000])
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		})
		if err != nil || out.Body("files/lecture ü 1.txt") != good.Body("files/lecture ü 1.txt") {
			t.Errorf("got %q, %v", out.Names(), err)
		}
		if site.Calls(lecture) != 3 {
			t.Errorf("%d requests", site.Calls(lecture))
		}
	})
	t.Run("other content", func(t *testing.T) {
		wrong := func(times int) (*replay.Server, *sourcetest.Out, error) {
			return run(t, func(w http.ResponseWriter, _ *http.Request) bool {
				if times--; times < 0 {
					return false
				}
				w.Header().Set("ETag", `"dbf8db9095f2774c8aa3eccfe3c7915c4c72e78d"`)
				_, _ = w.Write(bytes.Repeat([]byte("x"), 13000))
				return true
			})
		}
		site, _, err := wrong(3)
		temporary(t, err, false)
		if !errors.Is(err, source.ErrContent) || site.Calls(lecture) != 3 {
			t.Errorf("got %v after %d requests", err, site.Calls(lecture))
		}
		const name = "files/lecture ü 1.txt"
		if _, out, err := wrong(2); err != nil || out.Body(name) != good.Body(name) {
			t.Errorf("the third download: got %v", err)
		}
	})
	t.Run("changed meanwhile", func(t *testing.T) {
		n := 0
		_, _, err := run(t, func(w http.ResponseWriter, _ *http.Request) bool {
			if n++; n > 1 {
				w.Header().Set("ETag", `"090e2e5c02176b562e47201c900bc2278d6bd232"`)
				_, _ = w.Write([]byte("other"))
				return true
			}
			w.Header().Set("ETag", `"dbf8db9095f2774c8aa3eccfe3c7915c4c72e78d"`)
			w.Header().Set("Content-Length", "13000")
			_, _ = w.Write(make([]byte, 500))
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		})
		temporary(t, err, true)
	})
	t.Run("error in place of a file", func(t *testing.T) {
		_, _, err := run(t, func(w http.ResponseWriter, _ *http.Request) bool {
			replay.Fail(w, "moodle_exception", "invalidtoken", "Invalid token")
			return true
		})
		temporary(t, err, false)
	})
	t.Run("missing", func(t *testing.T) {
		_, _, err := run(t, func(w http.ResponseWriter, _ *http.Request) bool {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, `{"error":"not found","errorcode":"filenotfound"}`)
			return true
		})
		temporary(t, err, false)
	})
	t.Run("login page", func(t *testing.T) {
		_, _, err := run(t, func(w http.ResponseWriter, r *http.Request) bool {
			http.Redirect(w, r, "/login/index.php", http.StatusSeeOther)
			return true
		})
		temporary(t, err, false)
		if !strings.Contains(err.Error(), "login") {
			t.Errorf("got %v", err)
		}
	})
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
	site.Before = func(w http.ResponseWriter, _ *http.Request, what string) bool {
		if what == "50/mod_page/content/0/a.png" {
			w.Header().Set("Content-Type", "image/png")
			fmt.Fprint(w, "\x89PNG\r\n\x1a\n")
			return true
		}
		return false
	}
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
