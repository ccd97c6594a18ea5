package moodle_test

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stagepost/stagepost/app/archive/source"
	"github.com/stagepost/stagepost/app/archive/source/moodle"
	"github.com/stagepost/stagepost/app/archive/source/moodle/replay"
	"github.com/stagepost/stagepost/app/archive/source/sourcetest"
)

// breaker cuts the n-th answer in the middle.
type breaker struct {
	to http.Handler

	mu sync.Mutex
	n  int
}

func (b *breaker) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b.mu.Lock()
	b.n--
	cut := b.n == 0
	b.mu.Unlock()
	if !cut {
		b.to.ServeHTTP(w, r)
		return
	}
	rec := httptest.NewRecorder()
	b.to.ServeHTTP(rec, r)
	maps.Copy(w.Header(), rec.Header())
	w.Header().Del("Content-Length")
	w.WriteHeader(rec.Code)
	_, _ = w.Write(rec.Body.Bytes()[:rec.Body.Len()/2])
	_ = http.NewResponseController(w).Flush()
	panic(http.ErrAbortHandler)
}

func (b *breaker) set(n int) (reached func() bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.n = n
	return func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		reached := b.n <= 0
		b.n = 0
		return reached
	}
}

func TestContract(t *testing.T) {
	const contents = "core_course_get_contents"
	type edit struct{ answer, from, to string }
	attempts := edit{"mod_quiz_get_user_attempts", `"state": "finished"`, `"state": "abandoned"`}
	discussions := edit{"mod_forum_get_forum_discussions", `"numreplies": 1`, `"numreplies": 2`}
	for activity, edits := range map[string][2]edit{ // of the content, and of something else
		replay.Page:   {{contents, `"timemodified": 1795170182`, `"timemodified": 1795170183`}, attempts},
		replay.File:   {{"core_course_get_contents", `"filesize": 13000`, `"filesize": 13001`}, attempts},
		replay.Link:   {{"core_course_get_contents", `https://example.org/`, `https://example.org/other`}, attempts},
		replay.Assign: {{"mod_assign_get_submissions", `"status": "submitted"`, `"status": "draft"`}, attempts},
		replay.Quiz:   {attempts, discussions},
		replay.Forum:  {discussions, attempts},
	} {
		t.Run(activity, func(t *testing.T) {
			var now atomic.Pointer[breaker] // answers contain the address, which stays the same
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				now.Load().ServeHTTP(w, r)
			}))
			defer server.Close()
			sourcetest.Run(t, func(t testing.TB) sourcetest.Fixture {
				site, err := replay.New()
				if err != nil {
					t.Fatal(err)
				}
				b := &breaker{to: site}
				now.Store(b)
				s, err := moodle.New(moodle.Options{URL: server.URL, Token: replay.Token})
				if err != nil {
					t.Fatal(err)
				}
				change := func(e edit) func(testing.TB) {
					return func(t testing.TB) {
						t.Helper()
						if err := site.Edit(e.answer, e.from, e.to); err != nil {
							t.Fatal(err)
						}
					}
				}
				return sourcetest.Fixture{
					Source: s, Course: replay.Course, Activity: activity, Break: b.set,
					Change: change(edits[0]), Other: change(edits[1]),
				}
			})
		})
	}
}

// TestNewFunctions: a Moodle that has only the functions of later versions is archived as well.
func TestNewFunctions(t *testing.T) {
	site, s := open(t)
	const old, other = `"mod_quiz_get_user_attempts"`, `"mod_quiz_get_user_quiz_attempts"`
	if err := site.Edit("core_webservice_get_site_info", old, other); err != nil {
		t.Fatal(err)
	}
	early := `{"id":9,"userid":19,"attempt":2,"preview":0,"state":"notstarted","timestart":0,"timefinish":0},`
	if err := site.Edit("mod_quiz_get_user_attempts", `"attempts": [`, `"attempts": [`+early); err != nil {
		t.Fatal(err)
	}
	plan, out := fetch(t, s, activities(t, s)[replay.Quiz])
	if table := out.Body("metadata/attempts_metadata.csv"); !strings.Contains(table, "\n9,19,") {
		t.Errorf("the table lacks the attempt that was not started: %s", table)
	}
	if len(plan.Items) != 2 || site.Calls("mod_quiz_get_user_attempts") != 0 {
		t.Errorf("got %+v, %d calls of the old function", plan, site.Calls("mod_quiz_get_user_attempts"))
	}
}

// TestNeeds: a kind of activity without one of its functions has a message that names it, and the others are archived.
func TestNeeds(t *testing.T) {
	for function, activity := range map[string]string{
		"mod_quiz_get_attempt_review": replay.Quiz, "mod_quiz_get_user_attempts": replay.Quiz,
		"mod_assign_get_submissions": replay.Assign, "mod_forum_get_discussion_posts": replay.Forum,
	} {
		site, s := open(t)
		if err := site.Edit("core_webservice_get_site_info", `"`+function+`"`, `"other"`); err != nil {
			t.Fatal(err)
		}
		all := activities(t, s)
		_, err := s.Fingerprint(t.Context(), all[activity])
		var e *source.Error
		if !asError(err, &e) || e.Temporary() || e.Code != "accessexception" ||
			!strings.Contains(err.Error(), function) {
			t.Errorf("%s: got %v", function, err)
		}
		fetch(t, s, all[replay.Page])
	}
}

// TestParallel: people are asked for in parallel, but not more than four at once; the first error ends the rest.
func TestParallel(t *testing.T) {
	site, s := open(t)
	var users strings.Builder
	for id := 100; id < 140; id++ {
		fmt.Fprintf(&users, `{"id": %d, "fullname": "Person %d"},`, id, id)
	}
	text := strings.TrimRight(users.String(), ",")
	var now, most, calls atomic.Int64
	fail := false
	site.Intercept(func(w http.ResponseWriter, _ *http.Request, what string) bool {
		switch what {
		case "core_enrol_get_enrolled_users":
			fmt.Fprintf(w, "[%s]", text)
			return true
		case "mod_quiz_get_user_attempts":
			n := now.Add(1)
			for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
			}
			calls.Add(1)
			runtime.Gosched()
			now.Add(-1)
			if fail {
				replay.Fail(w, "moodle_exception", "invalidtoken", "Invalid token")
				return true
			}
		}
		return false
	})
	a := source.Activity{Course: replay.Course, ID: replay.Quiz, Module: "quiz", Instance: "4", Name: "Exam"}
	if _, err := s.Fingerprint(t.Context(), a); err != nil || calls.Load() != 40 || most.Load() > 4 {
		t.Errorf("%d calls, %d at once, %v", calls.Load(), most.Load(), err)
	}
	fail = true
	_, err := s.Fingerprint(t.Context(), a)
	var e *source.Error
	if !asError(err, &e) || e.Code != "invalidtoken" || calls.Load() > 44 {
		t.Errorf("%d calls, %v", calls.Load()-40, err)
	}
}

// FuzzAnswers: no answer of a Moodle makes a panic, or a file outside the directory of the activity.
func FuzzAnswers(f *testing.F) {
	for _, text := range []string{
		`null`, `[]`, `{}`, `""`, `1`, `[null]`,
		`{"attempts":[null],"questions":[{"responsefileareas":[{"files":[{}]}]}]}`,
		`{"parents":[],"files":[{"filename":"x.mbz"}]}`,
		`[{"modules":[{"id":16,"contents":[{"type":"file","filename":"../a",` +
			`"filepath":"/../../","fileurl":"/x"}]}]}]`,
		`{"posts":[{"author":null,"attachments":[{"filename":".."}]}]}`,
		`{"lastattempt":{"submission":null,"teamsubmission":{"plugins":[{"fileareas":[{"files":[{}]}]}]}}}`,
		`{"assignments":[{"submissions":[{"userid":-1}]}]}`, `{"exception":1}`, `{"errorcode":"x","error":"y"}`,
	} {
		f.Add(text)
	}
	site, err := replay.New()
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text string) {
		site.Intercept(func(w http.ResponseWriter, _ *http.Request, what string) bool {
			if what == "core_webservice_get_site_info" {
				return false
			}
			_, _ = w.Write([]byte(text))
			return true
		})
		s, err := moodle.New(moodle.Options{
			URL: "http://moodle.example.org", Token: replay.Token, HTTP: &http.Client{Transport: direct{site}},
		})
		if err != nil {
			t.Fatal(err)
		}
		out := &sourcetest.Out{}
		_, _ = s.Courses(t.Context(), nil)
		_, _ = s.Activities(t.Context(), replay.Course)
		_, _ = s.Backups(t.Context(), replay.Course, "")
		_, _ = s.BackupState(t.Context(), &source.BackupRequest{ID: strings.Repeat("0", 32)})
		_, _ = s.Describe(t.Context(), replay.Course, source.Settings{}, out)
		for id, kind := range map[string]string{
			replay.Page: "page", replay.Quiz: "quiz", replay.Assign: "assign", replay.Forum: "forum",
		} {
			a := source.Activity{Course: replay.Course, ID: id, Module: kind, Instance: "4"}
			_, _ = s.Fingerprint(t.Context(), a)
			_, _ = sourcetest.Archive(t.Context(), s, a, out)
		}
		for _, name := range out.Names() {
			if !filepath.IsLocal(name) {
				t.Errorf("the name %q", name)
			}
		}
	})
}

// direct is a transport without a network.
type direct struct{ to http.Handler }

func (d direct) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	d.to.ServeHTTP(w, r)
	return w.Result(), nil
}

// TestHiddenActivities: activities that the page of a course does not show are asked for.
func TestHiddenActivities(t *testing.T) {
	site, s := open(t)
	asked := 0
	site.Intercept(func(_ http.ResponseWriter, r *http.Request, what string) bool {
		if what == "core_course_get_contents" && r.Form.Get("options[1][name]") == "includestealthmodules" &&
			r.Form.Get("options[1][value]") == "1" {
			asked++
		}
		return false
	})
	if err := site.Edit("core_course_get_contents", `"visible": 1`, `"visible": 0`); err != nil {
		t.Fatal(err)
	}
	all := activities(t, s)
	fetch(t, s, all[replay.Page])
	if calls := site.Calls("core_course_get_contents"); asked != calls || !all[replay.Page].Hidden {
		t.Errorf("%d of %d requests; hidden: %t", asked, calls, all[replay.Page].Hidden)
	}
}

// TestSecrets: neither tokens nor keys in addresses are kept.
func TestSecrets(t *testing.T) {
	site, s := open(t)
	const key = "aaaabbbbccccddddeeeeffff00001111"
	for _, e := range [][3]string{
		{"mod_quiz_get_quizzes_by_courses", `"introfiles": []`,
			`"introfiles": [{"u": "http:\/\/x\/tokenpluginfile.php\/` + key + `\/1\/a", "t": "` + replay.Token + `"}]`},
		{"core_course_get_contents", "/webservice/pluginfile.php/51", "/tokenpluginfile.php/" + key + "/51"},
	} {
		if err := site.Edit(e[0], e[1], e[2]); err != nil {
			t.Fatal(err)
		}
	}
	for _, id := range []string{replay.Quiz, replay.File} {
		_, out := fetch(t, s, activities(t, s)[id])
		for _, name := range out.Names() {
			text := out.Body(name) + out.Origin(name).URL
			if strings.Contains(text, key) || strings.Contains(text, replay.Token) {
				t.Errorf("%s has a secret", name)
			}
		}
	}
}

// TestOtherServer: a file that is on another server is left out with a warning, and no request leaves the Moodle.
func TestOtherServer(t *testing.T) {
	site, s := open(t)
	const from, to = "http://127.0.0.1:18090/webservice/pluginfile.php/51", "http://127.0.0.1:1/51"
	err := site.Edit("core_course_get_contents", from, to)
	if err != nil {
		t.Fatal(err)
	}
	plan, out := fetch(t, s, activities(t, s)[replay.File])
	if len(plan.Warnings) != 1 || !strings.Contains(plan.Warnings[0], "127.0.0.1:1") || len(out.Names()) != 2 {
		t.Errorf("got %q, %q", plan.Warnings, out.Names())
	}
}

// TestPathParameter: a Moodle whose addresses have the path of a file as a parameter.
func TestPathParameter(t *testing.T) {
	site, s := open(t)
	err := site.Edit("core_course_get_contents",
		"webservice/pluginfile.php/51/mod_resource/content/0/lecture%20%C3%BC%201.txt?",
		"pluginfile.php?file=%2F51%2Fmod_resource%2Fcontent%2F0%2Flecture%20%C3%BC%201.txt&")
	if err != nil {
		t.Fatal(err)
	}
	_, out := fetch(t, s, activities(t, s)[replay.File])
	if got := len(out.Body("files/lecture ü 1.txt")); got != 13000 {
		t.Errorf("got %d bytes", got)
	}
}

// TestWrongAddress: a Moodle that names itself by another address gives files that cannot be fetched.
func TestWrongAddress(t *testing.T) {
	site, s := open(t)
	if err := site.Edit("core_webservice_get_site_info", `"siteurl": "http://127.0.0.1:18090"`,
		`"siteurl": "https://moodle.example.org"`); err != nil {
		t.Fatal(err)
	}
	_, err := s.Check(t.Context())
	var e *source.Error
	if !asError(err, &e) || e.Temporary() || !strings.Contains(err.Error(), "https://moodle.example.org") {
		t.Errorf("got %v", err)
	}
}

// asError is errors.As for errors of sources.
func asError(err error, to **source.Error) bool {
	e, ok := err.(*source.Error)
	*to = e
	return ok
}
