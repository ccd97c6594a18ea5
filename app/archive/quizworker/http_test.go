package quizworker

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestInvalid: each order that is not as the protocol states is refused with the reason, and makes no job.
func TestInvalid(t *testing.T) {
	p := newPlugin()
	bubble(t, p, func(o *Options) { o.Moodles = []string{base} }, func(h *harness) {
		good := modern(nil)
		for name, c := range map[string]struct{ body, want string }{
			"no JSON":    {"{", "invalid request"},
			"list":       {"[]", "invalid request"},
			"empty":      {"{}", "api_version is missing"},
			"version":    {strings.Replace(good, `"api_version":1`, `"api_version":2`, 1), "version 1"},
			"no task":    {strings.Replace(good, `"taskid"`, `"task"`, 1), "taskid is missing"},
			"no token":   {strings.Replace(good, `"wstoken"`, `"token"`, 1), "wstoken is missing"},
			"no name":    {modern(map[string]any{"archive_filename": nil}), "archive_filename is missing"},
			"no paper":   {modern(map[string]any{"paper_format": nil}), "paper_format is missing"},
			"paper":      {modern(map[string]any{"paper_format": "A9"}), "A9"},
			"attempts":   {modern(map[string]any{"attemptids": []int{}}), "attemptids is empty"},
			"negative":   {modern(map[string]any{"attemptids": []int{-1}}), "-1"},
			"images":     {modern(map[string]any{"image_optimize": map[string]int{"width": 1}}), "quality"},
			"other host": {strings.Replace(good, base+"/webservice/upload", "https://evil.example/up", 1), "base_url"},
			"above": {strings.Replace(good, base+"/webservice/upload", base+"/../up", 1),
				"base_url"},
			"not served":  {strings.ReplaceAll(good, "moodle.example.org", "other.example.org"), "this Moodle"},
			"wrong token": {strings.Replace(good, token, "ffff", 1), "Invalid token"},
			"legacy":      {legacyText(), "version 1"},
		} {
			code, answer := h.ask("POST", "/archive/archivingmod_quiz", c.body)
			if text, _ := answer["error"].(string); code != 400 || !strings.Contains(text, c.want) {
				t.Errorf("%s: got %d %v, want %s", name, code, answer, c.want)
			}
		}
		if code, answer := h.ask("POST", "/archive", good); code != 400 {
			t.Errorf("got %d %v", code, answer)
		}
		if working, queued, err := h.open(t.Context()); err != nil || len(working)+len(queued) > 0 {
			t.Errorf("there are jobs: %v %v %v", working, queued, err)
		}
		h.end(h.order("/archive/archivingmod_quiz", good)) // control
	})
}

// TestStatus: the routes for queries, a full queue, and what a plugin reads.
func TestStatus(t *testing.T) {
	p := newPlugin()
	small := func(o *Options) { o.Printer, o.Jobs, o.Queue = &printer{slow: time.Minute}, 1, 2 }
	bubble(t, p, small, func(h *harness) {
		check := func(path string, want map[string]any) {
			t.Helper()
			code, answer := h.ask("GET", path, "")
			if code != 200 {
				t.Errorf("%s: got %d %v", path, code, answer)
			}
			for key, value := range want {
				if got := fmt.Sprint(answer[key]); got != fmt.Sprint(value) {
					t.Errorf("%s: %s is %s, want %v", path, key, got, value)
				}
			}
		}
		check("/", map[string]any{"app": appName, "version": "1.2.3"})
		check("/version", map[string]any{"version": "1.2.3"})
		check("/status", map[string]any{"status": "IDLE", "jobs_processing": "[]", "queue_len": 0, "jobs_max": 1,
			"queue_max": 2})
		var all []string
		for i := range 3 {
			all = append(all, h.order("/archive/archivingmod_quiz", modern(map[string]any{
				"archive_filename": fmt.Sprint("archive-", i)})))
			synctest.Wait()
			if i == 0 {
				check("/status", map[string]any{"status": "ACTIVE"})
			}
		}
		check("/status", map[string]any{"status": "BUSY", "jobs_processing": all[:1], "jobs_queued": all[1:],
			"queue_len": 2})
		check("/status/"+all[0], map[string]any{"id": all[0], "status": "RUNNING", "status_code": 100})
		check("/status/"+all[2], map[string]any{"status": "AWAITING_PROCESSING", "status_code": 40})
		more := modern(map[string]any{"archive_filename": "one too many"})
		if code, answer := h.ask("POST", "/archive/archivingmod_quiz", more); code != http.StatusTooManyRequests {
			t.Errorf("got %d %v", code, answer)
		}
		for _, path := range []string{"/status/x", "/status/00000000-0000-8000-8000-000000000000"} {
			if code, answer := h.ask("GET", path, ""); code != 404 || answer["error"] == nil {
				t.Errorf("got %d %v", code, answer)
			}
		}
		for _, uuid := range all {
			h.end(uuid)
			p.mu.Lock()
			p.taken = nil
			p.mu.Unlock()
		}
	})
	bubble(t, p, func(o *Options) { o.Printer = nil }, func(h *harness) {
		if _, answer := h.ask("GET", "/status", ""); answer["status"] != "UNAVAILABLE" {
			t.Errorf("got %v", answer)
		}
		code, answer := h.ask("POST", "/archive/archivingmod_quiz", modern(nil))
		if text, _ := answer["error"].(string); code != 503 || !strings.Contains(text, "chromium") {
			t.Errorf("got %d %v", code, answer)
		}
	})
}

// TestTokens: a request needs a token; without configured tokens only this machine may send requests.
func TestTokens(t *testing.T) {
	p := newPlugin()
	without := func(r *http.Request) { r.Header.Del("Authorization") }
	header := func(name, value string) func(*http.Request) {
		return func(r *http.Request) { without(r); r.Header.Set(name, value) }
	}
	from := func(peer, host string) func(*http.Request) {
		return func(r *http.Request) { without(r); r.RemoteAddr, r.Host = peer, host }
	}
	bubble(t, p, func(o *Options) { o.Tokens = []string{"other", "secret"} }, func(h *harness) {
		for _, c := range []struct {
			path   string
			change func(*http.Request)
			want   int
		}{
			{"/version", func(*http.Request) {}, 200}, {"/version", header("X-Worker-Token", "other"), 200},
			{"/secret/version", without, 200}, {"/secret", without, 200}, {"/secret/", without, 200},
			{"/version", without, 401}, {"/", without, 401}, {"/secre/version", without, 401},
			{"/version", header("Authorization", "Bearer "), 401},
			{"/version", header("Authorization", "Bearer x"), 401},
			{"//version", without, 401}, {"/version", from("127.0.0.1:1", "localhost"), 401},
		} {
			if code, _ := h.ask("GET", c.path, "", c.change); code != c.want {
				t.Errorf("%s: got %d, want %d", c.path, code, c.want)
			}
		}
	})
	bubble(t, p, func(o *Options) { o.Tokens = nil }, func(h *harness) {
		for _, c := range []struct {
			peer, host string
			want       int
		}{
			{"127.0.0.1:1", "127.0.0.1:8080", 200}, {"[::1]:1", "[::1]:8080", 200}, {"127.0.0.1:1", "localhost", 200},
			{"192.0.2.1:1", "localhost", 401}, {"127.0.0.1:1", "evil.example", 401}, {"", "localhost", 401},
		} {
			if code, _ := h.ask("GET", "/version", "", from(c.peer, c.host)); code != c.want {
				t.Errorf("%s %s: got %d, want %d", c.peer, c.host, code, c.want)
			}
		}
		page := func(r *http.Request) {
			from("127.0.0.1:1", "localhost")(r)
			r.Header.Set("Origin", "https://evil.example")
		}
		if code, _ := h.ask("GET", "/version", "", page); code != 401 {
			t.Errorf("a page of another origin: got %d", code)
		}
	})
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(modern(nil)), false)
	f.Add([]byte(legacyText()), true)
	f.Fuzz(func(t *testing.T, text []byte, legacy bool) {
		s, secret, err := parse(text, legacy)
		if err != nil {
			return
		}
		if !uuidRule.MatchString(s.UUID) || secret == "" || s.Archive == "" || len(s.Attempts)+len(s.Backups) == 0 {
			t.Errorf("got %+v", s)
		}
		spec, err := json.Marshal(s)
		if err != nil || len(secret) >= 16 && strings.Contains(string(spec), secret) &&
			strings.Count(string(text), secret) == 1 {
			t.Errorf("the spec has the token: %s, %v", spec, err)
		}
	})
}

// TestSender: a valid token has a name that does not show it, wherever it is. The control is requests without one,
// which are reported without their path.
func TestSender(t *testing.T) {
	const secret = "the-token-of-the-Moodle"
	h := &App{}
	h.Admit([]string{secret}, nil)
	request := func(path, bearer string) *http.Request {
		r := httptest.NewRequest(http.MethodGet, path, nil)
		if bearer != "" {
			r.Header.Set("Authorization", "Bearer "+bearer)
		}
		return r
	}
	inHeader, inPath := h.Sender(request("/status", secret)), h.Sender(request("/"+secret+"/status", ""))
	if inHeader == "" || inHeader != inPath || strings.Contains(inHeader, secret) {
		t.Errorf("got %q and %q", inHeader, inPath)
	}
	var seen []string
	handler := h.Handler(func(r *http.Request, err error) { seen = append(seen, r.URL.String()+" "+err.Error()) })
	for _, r := range []*http.Request{request("/wrong/status?x=1", ""), request("/status", "wrong"),
		request("/version", secret)} {
		handler.ServeHTTP(httptest.NewRecorder(), r)
	}
	if h.Sender(request("/wrong/status", "")) != "" || len(seen) != 2 ||
		strings.Contains(strings.Join(seen, ""), "wrong") {
		t.Errorf("got %q", seen)
	}
}
