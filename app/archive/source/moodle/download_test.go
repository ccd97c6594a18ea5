package moodle_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stagepost/stagepost/app/archive/source"
	"github.com/stagepost/stagepost/app/archive/source/moodle/replay"
	"github.com/stagepost/stagepost/app/archive/source/sourcetest"
)

// exception answers with an error of a function.
func exception(exception, code string) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) { replay.Fail(w, exception, code, "planned") }
}

// status answers with a status.
func status(n int) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) { http.Error(w, "<html>"+replay.Token+"</html>", n) }
}

// badAnswers are answers of a Moodle that fails, and whether a later attempt can succeed.
var badAnswers = map[string]struct {
	answer    func(http.ResponseWriter)
	temporary bool
	code      string
}{
	"token":       {exception("moodle_exception", "invalidtoken"), false, "invalidtoken"},
	"access":      {exception("webservice_access_exception", "accessexception"), false, "accessexception"},
	"right":       {exception("required_capability_exception", "nopermissions"), false, "nopermissions"},
	"record":      {exception("dml_missing_record_exception", "invalidrecord"), false, "invalidrecord"},
	"parameter":   {exception("invalid_parameter_exception", "invalidparameter"), false, "invalidparameter"},
	"database":    {exception("dml_connection_exception", "dbconnectionfailed"), true, "dbconnectionfailed"},
	"login":       {exception("require_login_exception", "requireloginerror"), false, "requireloginerror"},
	"policy":      {exception("moodle_exception", "sitepolicynotagreed"), false, "sitepolicynotagreed"},
	"suspended":   {exception("moodle_exception", "wsaccessusersuspended"), false, "wsaccessusersuspended"},
	"capability":  {exception("required_capability_exception", "somethingnew"), false, "somethingnew"},
	"maintenance": {exception("moodle_exception", "sitemaintenance"), true, "sitemaintenance"},
	"lock":        {exception("moodle_exception", "locktimeout"), true, "locktimeout"},
	"unknown":     {exception("coding_exception", "codingerror"), true, "codingerror"},
	"408":         {status(408), true, ""},
	"425":         {status(425), true, ""},
	"429":         {status(429), true, ""},
	"500":         {status(500), true, ""},
	"502":         {status(502), true, ""},
	"503":         {status(503), true, ""},
	"401":         {status(401), false, ""},
	"403":         {status(403), false, ""},
	"404":         {status(404), false, ""},
	"login page": {func(w http.ResponseWriter) {
		w.Header().Set("Location", "/login/index.php")
		w.WriteHeader(303)
	}, false, ""},
	"HTML":         {func(w http.ResponseWriter) { fmt.Fprint(w, "<html>maintenance</html>") }, true, ""},
	"cut":          {func(w http.ResponseWriter) { fmt.Fprint(w, `{"quizzes":[`) }, true, ""},
	"closed early": {func(http.ResponseWriter) { panic(http.ErrAbortHandler) }, true, ""},
}

// TestErrors has what a Moodle answers when it fails, and whether a later attempt can succeed.
func TestErrors(t *testing.T) {
	for name, c := range badAnswers {
		t.Run(name, func(t *testing.T) {
			site, s := open(t)
			a := activities(t, s)[replay.Quiz]
			site.Intercept(func(w http.ResponseWriter, _ *http.Request, what string) bool {
				if what == "mod_quiz_get_quizzes_by_courses" {
					c.answer(w)
					return true
				}
				return false
			})
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
	site.Intercept(func(w http.ResponseWriter, _ *http.Request, _ string) bool {
		w.Header().Set("Retry-After", "17") // seconds; a date is read as well
		w.WriteHeader(http.StatusServiceUnavailable)
		return true
	})
	_, err := s.Check(t.Context())
	var e *source.Error
	if !errors.As(err, &e) || e.After.Seconds() != 17 {
		t.Errorf("got %v", err)
	}
}

// lecture is the file of the activity File.
const lecture = "51/mod_resource/content/0/lecture ü 1.txt"

// lectureName is the name under which it is kept.
const lectureName = "files/lecture ü 1.txt"

// download fetches the lecture. before sees each request for it, and may answer it.
func download(
	t *testing.T, before func(http.ResponseWriter, *http.Request) bool,
) (*replay.Server, *sourcetest.Out, error) {
	t.Helper()
	site, s := open(t)
	a := activities(t, s)[replay.File]
	plan, err := s.Plan(t.Context(), a, source.Settings{})
	if err != nil {
		t.Fatal(err)
	}
	site.Intercept(func(w http.ResponseWriter, r *http.Request, what string) bool {
		return what == lecture && before(w, r)
	})
	out := &sourcetest.Out{}
	err = s.Fetch(t.Context(), a, plan.Items[1], source.Settings{}, out)
	if err != nil && (len(out.Names()) != 0 || strings.Contains(err.Error(), replay.Token)) {
		t.Errorf("%v: kept %q", err, out.Names())
	}
	return site, out, err
}

// right gives the content of the lecture.
func right(t *testing.T) string {
	t.Helper()
	site, out, err := download(t, func(http.ResponseWriter, *http.Request) bool { return false })
	if err != nil || len(out.Body(lectureName)) != 13000 || site.Calls(lecture) != 1 {
		t.Fatalf("got %q, %v", out.Names(), err)
	}
	return out.Body(lectureName)
}

func temporary(t *testing.T, err error, want bool) {
	t.Helper()
	var e *source.Error
	if !errors.As(err, &e) || e.Temporary() != want {
		t.Errorf("got %v", err)
	}
}

// TestContinuedDownload: a download continues after broken connections.
func TestContinuedDownload(t *testing.T) {
	n := 0
	site, out, err := download(t, func(w http.ResponseWriter, r *http.Request) bool {
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
	if err != nil || out.Body(lectureName) != right(t) {
		t.Errorf("got %q, %v", out.Names(), err)
	}
	if site.Calls(lecture) != 3 {
		t.Errorf("%d requests", site.Calls(lecture))
	}
}

// TestIdleDownload: a download that stands still is broken off, and continues.
func TestIdleDownload(t *testing.T) {
	site, s := open(t)
	s.SetIdle(time.Second)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // without the guard, it stands still until then
	defer cancel()
	a := activities(t, s)[replay.File]
	plan, err := s.Plan(t.Context(), a, source.Settings{})
	if err != nil {
		t.Fatal(err)
	}
	first, inner := true, false
	var ranges []string
	site.Intercept(func(w http.ResponseWriter, r *http.Request, what string) bool {
		if inner || what != lecture {
			return false
		}
		if ranges = append(ranges, r.Header.Get("Range")); !first {
			return false
		}
		first, inner = false, true
		rec := httptest.NewRecorder()
		site.ServeHTTP(rec, r)
		inner = false
		maps.Copy(w.Header(), rec.Header())
		_, _ = w.Write(rec.Body.Bytes()[:1000])
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done() // the client gave the connection up
		return true
	})
	out := &sourcetest.Out{}
	if err := s.Fetch(ctx, a, plan.Items[1], source.Settings{}, out); err != nil {
		t.Fatal(err)
	}
	if out.Body(lectureName) != right(t) || len(ranges) < 2 {
		t.Errorf("got %d bytes by %q", len(out.Body(lectureName)), ranges)
	}
}

// TestDownloads: no wrong byte is kept.
func TestDownloads(t *testing.T) {
	t.Run("other content", func(t *testing.T) {
		wrong := func(times int) (*replay.Server, *sourcetest.Out, error) {
			return download(t, func(w http.ResponseWriter, _ *http.Request) bool {
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
		if _, out, err := wrong(2); err != nil || out.Body(lectureName) != right(t) {
			t.Errorf("the third download: got %v", err)
		}
	})
	t.Run("changed meanwhile", func(t *testing.T) {
		n := 0
		_, _, err := download(t, func(w http.ResponseWriter, _ *http.Request) bool {
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
		if temporary(t, err, true); n != 2 {
			t.Errorf("%d requests", n)
		}
	})
}

// TestErrorsInPlaceOfFiles has answers that are no files.
func TestErrorsInPlaceOfFiles(t *testing.T) {
	t.Run("error in place of a file", func(t *testing.T) {
		_, _, err := download(t, func(w http.ResponseWriter, _ *http.Request) bool {
			replay.Fail(w, "moodle_exception", "invalidtoken", "Invalid token")
			return true
		})
		temporary(t, err, false)
	})
	t.Run("missing", func(t *testing.T) {
		_, _, err := download(t, func(w http.ResponseWriter, _ *http.Request) bool {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, `{"error":"not found","errorcode":"filenotfound"}`)
			return true
		})
		temporary(t, err, false)
	})
	t.Run("login page", func(t *testing.T) {
		_, _, err := download(t, func(w http.ResponseWriter, r *http.Request) bool {
			http.Redirect(w, r, "/login/index.php", http.StatusSeeOther)
			return true
		})
		temporary(t, err, false)
		if !strings.Contains(err.Error(), "login") {
			t.Errorf("got %v", err)
		}
	})
}
