package wire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

// want is one row of the wire: the answer to a request, to the byte.
type want struct {
	method, path string
	code         int
	media, body  string
	header       string // "Name: value", if one matters
}

func (c want) check(t *testing.T, g got) {
	t.Helper()
	if g.Code != c.code || g.Body != c.body || g.Header.Get("Content-Type") != c.media {
		t.Errorf("%s %s:\ngot  %d %q %q\nwant %d %q %q", c.method, c.path, g.Code, g.Header.Get("Content-Type"), g.Body,
			c.code, c.media, c.body)
	}
	if name, value, ok := strings.Cut(c.header, ": "); ok && g.Header.Get(name) != value {
		t.Errorf("%s %s: %s is %q, want %q", c.method, c.path, name, g.Header.Get(name), value)
	}
	if g.Header.Get("Content-Disposition") != "" {
		t.Errorf("%s %s: there is a Content-Disposition", c.method, c.path)
	}
}

func TestUsersRows(t *testing.T) {
	b := newBoard()
	b.add(View{Status: Queued})    // 1
	b.add(View{Status: Completed}) // 2
	for _, s := range []Status{Processing, Submitted, Prepared, Running, Cleaned, Failed, Invalid, Unknown, Locked,
		Killed} {
		b.add(View{Status: s}) // 3 to 12
	}
	zip := string(b.jobs[2].zip)
	addr := listen(t, Users(b, Options{Compat: Strict}))
	cannot := func(s string) string { return "Invalid URL: Cannot parse `" + s + "` to a `u32`" }
	rows := []want{
		{"GET", "/", 200, jsonMedia, `{"message":"pong"}`, ""},
		{"HEAD", "/", 200, jsonMedia, "", "Content-Length: 18"},
		{"GET", "/health", 200, jsonMedia, `{"status":"ok","database":"ok"}`, ""},
		{"GET", "/download/9999", 404, jsonMedia, statusBody(0, "Unknown", "Job 9999 not found in the database"), ""},
		{"GET", "/download/1", 200, jsonMedia, statusBody(1, "Queued", ""), "Content-Length: 39"},
		{"GET", "/download/+1", 200, jsonMedia, statusBody(1, "Queued", ""), ""},
		{"GET", "/download/%2B1", 200, jsonMedia, statusBody(1, "Queued", ""), ""},
		{"GET", "/download/%31", 200, jsonMedia, statusBody(1, "Queued", ""), ""},
		{"GET", "/download/0001?x=y", 200, jsonMedia, statusBody(1, "Queued", ""), ""},
		{"GET", "/download/2", 200, zipMedia, zip, "Content-Length: 22"},
		{"HEAD", "/download/2", 200, zipMedia, "", "Content-Length: 22"},
		{"HEAD", "/download/1", 200, jsonMedia, "", "Content-Length: 39"},
		{"GET", "/download/abc", 400, textMedia, cannot("abc"), ""},
		{"GET", "/download/-1", 400, textMedia, cannot("-1"), ""},
		{"GET", "/download/+", 400, textMedia, cannot("+"), ""},
		{"GET", "/download/++1", 400, textMedia, cannot("++1"), ""},
		{"GET", "/download/1_0", 400, textMedia, cannot("1_0"), ""},
		{"GET", "/download/0x1", 400, textMedia, cannot("0x1"), ""},
		{"GET", "/download/4294967296", 400, textMedia, cannot("4294967296"), ""},
		{"GET", "/download/4294967295", 404, jsonMedia, statusBody(0, "Unknown", "Job 4294967295 not found in the database"), ""},
		{"GET", "/download/%61%20b", 400, textMedia, cannot("a b"), ""},
		{"GET", "/download/a%2Fb", 400, textMedia, cannot("a/b"), ""},
		{"GET", "/download_partial/x", 400, textMedia, cannot("x"), ""},
		{"POST", "/terminate/x", 400, textMedia, cannot("x"), ""},
		{"GET", "/download_partial/9999", 404, jsonMedia,
			statusBody(0, "Unknown", "Job 9999 not found in the database"), ""},
		{"POST", "/terminate/9999", 404, jsonMedia, statusBody(0, "Unknown", "Job 9999 not found in the database"), ""},
		{"GET", "/download/", 404, "", "", "Content-Length: 0"},
		{"GET", "/download/1/", 404, "", "", ""},
		{"GET", "/download//7", 404, "", "", ""},
		{"GET", "//7", 404, "", "", ""},
		{"GET", "//download/1", 404, "", "", ""},
		{"GET", "/nothing", 404, "", "", ""},
		{"GET", "/Download/1", 404, "", "", ""},
		{"GET", "/%64ownload/1", 404, "", "", ""},
		{"GET", "/download/../health", 404, "", "", ""},
		{"GET", "/swagger-ui/", 404, "", "", ""},
		{"GET", "/swagger", 303, "", "", "Location: /swagger/"},
		{"GET", "/upload", 405, "", "", "Allow: POST"},
		{"HEAD", "/upload", 405, "", "", "Allow: POST"},
		{"GET", "/terminate/1", 405, "", "", "Allow: POST"},
		{"GET", "/terminate/abc", 405, "", "", "Allow: POST"},
		{"POST", "/download/1", 405, "", "", "Allow: GET,HEAD"},
		{"DELETE", "/download/abc", 405, "", "", "Allow: GET,HEAD"},
		{"OPTIONS", "/health", 405, "", "", "Allow: GET,HEAD"},
		{"PUT", "/", 405, "", "", "Allow: GET,HEAD"},
	}
	for i, s := range []Status{Processing, Submitted, Prepared, Running, Cleaned, Failed, Invalid, Unknown, Locked,
		Killed} {
		rows = append(rows, want{"GET", fmt.Sprintf("/download/%d", i+3), 200, jsonMedia,
			statusBody(i+3, string(s), ""), ""})
	}
	for _, row := range rows {
		row.check(t, ask(t, addr, row.method, row.path))
	}
}

func TestUsersFaults(t *testing.T) {
	b := newBoard()
	b.add(View{Status: Completed})
	addr := listen(t, Users(b, Options{}))
	check := func(set *error, err error, row want) {
		t.Helper()
		*set = err
		row.check(t, ask(t, addr, row.method, row.path))
		*set = nil
	}
	check(&b.healthErr, errDisk, want{"GET", "/health", 503, "", "", "Content-Length: 0"})
	check(&b.jobErr, errDisk, want{"GET", "/download/1", 500, jsonMedia,
		statusBody(0, "Unknown", "Internal server error"), ""})
	check(&b.resultErr, errDisk, want{"GET", "/download/1", 500, jsonMedia,
		statusBody(1, "Completed", "Error reading output file"), ""})
	check(&b.terminateErr, errDisk, want{"POST", "/terminate/1", 500, jsonMedia,
		statusBody(1, "Unknown", "could not terminate job"), ""})
	for err, row := range map[error]want{
		ErrNotFound: {"GET", "/download_partial/1", 404, jsonMedia,
			statusBody(0, "Unknown", "Job 1 not found in the database"), ""},
		fmt.Errorf("x: %w", ErrNoPayload): {"GET", "/download_partial/1", 404, jsonMedia,
			statusBody(1, "Unknown", "Job payload not found on client"), ""},
		ErrNoService: {"GET", "/download_partial/1", 400, jsonMedia,
			statusBody(1, "Unknown", "Invalid service configuration"), ""},
		errDisk:    {"GET", "/download_partial/1", 500, jsonMedia, statusBody(1, "Unknown", "Error retrieving partial data from client"), ""},
		error(nil): {"GET", "/download_partial/1", 500, jsonMedia, statusBody(1, "Unknown", "Error retrieving partial data from client"), ""},
		&StatusError{"x", 404, "no trace"}: {"GET", "/download_partial/1", 404, jsonMedia,
			statusBody(0, "Unknown", "Job 1 not found in the database"), ""},
	} {
		b.partial = func(func() io.Writer) error { return err }
		row.check(t, ask(t, addr, row.method, row.path))
	}
}

// A job that was cleaned between the two questions has a state, not a fault.
func TestDownloadOfAJobThatIsCleaned(t *testing.T) {
	b := &cleaning{board: newBoard()}
	b.add(View{Status: Completed})
	addr := listen(t, Users(b, Options{Compat: Strict}))
	want{"GET", "/download/1", 200, jsonMedia, statusBody(1, "Cleaned", ""), ""}.check(t,
		ask(t, addr, "GET", "/download/1"))
}

type cleaning struct{ *board }

func (c *cleaning) Result(ctx context.Context, id uint32) (Result, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.jobs[id].view.Status = Cleaned
	return Result{}, ErrNotFound
}

func TestPartial(t *testing.T) {
	b := newBoard()
	b.add(View{Status: Running})
	addr := listen(t, Users(b, Options{}))
	b.partial = func(w func() io.Writer) error {
		_, err := io.WriteString(w(), "PK zip")
		return err
	}
	want{"GET", "/download_partial/1", 200, zipMedia, "PK zip", ""}.check(t, ask(t, addr, "GET", "/download_partial/1"))
	want{"HEAD", "/download_partial/1", 200, zipMedia, "", ""}.check(t, ask(t, addr, "HEAD", "/download_partial/1"))

	// A fault in the middle must not appear as an end.
	b.partial = func(w func() io.Writer) error {
		io.WriteString(w(), strings.Repeat("x", 10_000))
		return errDisk
	}
	if g := ask(t, addr, "GET", "/download_partial/1"); g.Code != 200 ||
		!strings.HasSuffix(g.Body, "<unexpected EOF>") {
		t.Errorf("a ZIP that broke off ends with %.40q (%d)", g.Body[max(0, len(g.Body)-40):], g.Code)
	}
}

func TestTerminate(t *testing.T) {
	for compat, already := range map[Compat]string{Full: "job already completed", Strict: "job terminated"} {
		b := newBoard()
		b.add(View{Status: Running})
		b.add(View{Status: Completed})
		addr := listen(t, Users(b, Options{Compat: compat}))
		want{"POST", "/terminate/1", 200, jsonMedia, statusBody(1, "Unknown", "job terminated"), ""}.check(t,
			ask(t, addr, "POST", "/terminate/1"))
		want{"GET", "/download/1", 200, jsonMedia, statusBody(1, "Killed", ""), ""}.check(t,
			ask(t, addr, "GET", "/download/1"))
		want{"POST", "/terminate/2", 200, jsonMedia, statusBody(2, "Unknown", already), ""}.check(t,
			ask(t, addr, "POST", "/terminate/2"))
		if g := ask(t, addr, "GET", "/download/2"); g.Header.Get("Content-Type") != zipMedia {
			t.Errorf("%q: a completed job has lost its results: %v", compat, g)
		}
	}
}

func TestExtraKeys(t *testing.T) {
	b := newBoard()
	code, at := 137, time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	v := View{Status: Failed, Reason: "oom", Message: "it used more than 1 GiB <memory> & was ended", ExitCode: &code,
		Signal: "KILL", QueuePosition: 3, Attempt: 2, Created: at, Started: at, Finished: at,
		Expires: at.Add(time.Hour),
		Public:  "abc", Owner: "secret"}
	b.add(v)
	zero := 0
	b.add(View{Status: Queued, Reason: "user_quota", ExitCode: &zero})
	full := `{"id":1,"status":"Failed","message":"it used more than 1 GiB <memory> & was ended","reason":"oom","exit_code":137,"signal":"KILL",` +
		`"queue_position":3,"attempt":2,"created_at":"2026-01-02T03:04:05Z","started_at":"2026-01-02T03:04:05Z",` +
		`"finished_at":"2026-01-02T03:04:05Z","expires_at":"2026-01-02T04:04:05Z","public_id":"abc"}`
	addr := listen(t, Users(b, Options{}))
	want{"GET", "/download/1", 200, jsonMedia, full, ""}.check(t, ask(t, addr, "GET", "/download/1"))
	want{"GET", "/download/2", 200, jsonMedia, `{"id":2,"status":"Queued","message":"user_quota","reason":"user_quota","exit_code":0}`, ""}.
		check(t, ask(t, addr, "GET", "/download/2"))
	for _, o := range []Options{{Compat: Strict}, {NoExtra: true}} {
		want{"GET", "/download/1", 200, jsonMedia, statusBody(1, "Failed", ""), ""}.check(t,
			ask(t, listen(t, Users(b, o)), "GET", "/download/1"))
	}
}

func TestRange(t *testing.T) {
	b := newBoard()
	b.add(View{Status: Completed})
	b.jobs[1].zip = []byte("0123456789")
	addr := listen(t, Users(b, Options{}))
	want{"GET", "/download/1", 200, zipMedia, "0123456789", `ETag: "abc"`}.check(t, ask(t, addr, "GET", "/download/1"))
	want{"GET", "/download/1", 206, zipMedia, "345", "Content-Range: bytes 3-5/10"}.check(t,
		ask(t, addr, "GET", "/download/1", "Range: bytes=3-5"))
	want{"GET", "/download/1", 200, zipMedia, "0123456789", ""}.
		check(t, ask(t, addr, "GET", "/download/1", "Range: bytes=3-5", `If-Range: "other"`))
	want{"GET", "/download/1", 304, "", "", ""}.check(t, ask(t, addr, "GET", "/download/1", `If-None-Match: "abc"`))
	got := ask(t, addr, "GET", "/download/1", "Range: bytes=-0")
	if got.Code != http.StatusRequestedRangeNotSatisfiable {
		t.Errorf("a suffix of no bytes: got %d", got.Code)
	}
	strict := listen(t, Users(b, Options{Compat: Strict}))
	want{"GET", "/download/1", 200, zipMedia, "0123456789", ""}.
		check(t, ask(t, strict, "GET", "/download/1", "Range: bytes=3-5", `If-None-Match: "abc"`))
}

func TestHealthIdentifies(t *testing.T) {
	b := newBoard()
	body := `{"status":"ok","database":"ok","impl":"stagepost","features":["a"]}`
	want{"GET", "/health", 200, jsonMedia, body, ""}.check(t,
		ask(t, listen(t, Users(b, Options{Features: []string{"a"}})), "GET", "/health"))
}

func TestOwners(t *testing.T) {
	b := newBoard()
	who := func(r *http.Request) (Caller, error) {
		switch name := r.Header.Get("X-Name"); name {
		case "":
			return Caller{}, errors.New("no token")
		case "operator":
			return Caller{All: true}, nil
		default:
			return Caller{Owner: name, All: name == "admin", Files: name == "admin"}, nil
		}
	}
	var refused []string
	addr := listen(t, Users(b, Options{Who: who, Compat: Strict, Refused: func(r *http.Request, err error) {
		refused = append(refused, r.Header.Get("X-Name")+": "+err.Error())
	}}))
	upload := form(`name="file"; filename="run.sh"`, "x", `name="service"`, "example")
	want{"POST", "/upload", 401, jsonMedia, statusBody(0, "Unknown", "Missing or invalid token"),
		"Www-Authenticate: Bearer"}.
		check(t, post(t, addr, "/upload", upload))
	want{"POST", "/upload", 201, jsonMedia, statusBody(1, "Queued", "Job successfully uploaded"), ""}.
		check(t, post(t, addr, "/upload", upload, "X-Name: ann"))
	if b.jobs[1].owner != "ann" {
		t.Errorf("the job belongs to %q", b.jobs[1].owner)
	}
	want{"POST", "/upload", 400, jsonMedia, statusBody(0, "Unknown", "Missing user_id field"), ""}.check(t,
		post(t, addr, "/upload", upload, "X-Name: operator"))
	b.partial = func(w func() io.Writer) error { w(); return nil }
	missing := statusBody(0, "Unknown", "Job 1 not found in the database")
	for _, call := range [][2]string{{"GET", "/download/1"}, {"GET", "/download_partial/1"}, {"POST", "/terminate/1"}} {
		want{call[0], call[1], 404, jsonMedia, missing, ""}.check(t, ask(t, addr, call[0], call[1], "X-Name: bob"))
		want{call[0], call[1], 401, jsonMedia, statusBody(0, "Unknown", "Missing or invalid token"), ""}.check(t,
			ask(t, addr, call[0], call[1]))
		for _, name := range []string{"ann", "admin", "operator"} { // the control: it is there
			code := 200
			if call[1] == "/download_partial/1" && name == "operator" { // the other download gives the state
				code = 403
			}
			if g := ask(t, addr, call[0], call[1], "X-Name: "+name); g.Code != code {
				t.Errorf("%v for %s: %v", call, name, g)
			}
		}
	}
	b.add(View{Status: Completed, Owner: "ann"})
	for name, code := range map[string]int{"ann": 200, "admin": 200, "operator": 403, "bob": 404} {
		if g := ask(t, addr, "GET", "/download/2", "X-Name: "+name); g.Code != code {
			t.Errorf("the results for %s: %v", name, g)
		}
	}
	if g := ask(t, addr, "GET", "/health"); g.Code != 200 {
		t.Errorf("health needs no token: %v", g)
	}
	for line, n := range map[string]int{": no token": 4, "bob: the job belongs to another user": 4,
		"operator: the job belongs to another user": 2, "ann: the job belongs to another user": 0} {
		if got := len(slices.DeleteFunc(slices.Clone(refused), func(s string) bool { return s != line })); got != n {
			t.Errorf("refused requests %q: got %d, want %d", line, got, n)
		}
	}
}

func TestSwagger(t *testing.T) {
	addr := listen(t, Users(newBoard(), Options{}))
	doc := ask(t, addr, "GET", "/api-docs/openapi.json")
	for _, part := range []string{`"openapi": "3.1.0"`, `"title": "job-orchestrator"`, `"/download/{id}"`,
		`"/download_partial/{id}"`, `"/health"`, `"/upload"`,
		`"Health"`, `"Job"`, `"Status"`, `"StatusBody"`, `"Locked"`} {
		if !strings.Contains(doc.Body, part) {
			t.Errorf("openapi.json lacks %s", part)
		}
	}
	if strings.Contains(doc.Body, "/terminate") || doc.Header.Get("Content-Type") != jsonMedia {
		t.Error("openapi.json is not as the original's")
	}
	page := ask(t, addr, "GET", "/swagger/")
	if page.Header.Get("Content-Type") != "text/html; charset=utf-8" || strings.Contains(page.Body, "<script") ||
		strings.Contains(page.Body, "http://") {
		t.Error("the page is no page, or needs something from elsewhere")
	}
	for _, part := range []string{"/download_partial/{id}", "StatusBody", "The job waits in the queue."} {
		if !strings.Contains(page.Body, part) {
			t.Errorf("the page lacks %s", part)
		}
	}
}
