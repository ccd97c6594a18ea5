package wire

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

const uploaded = "Job successfully uploaded"

// fields are the two that matter.
var fields = []string{`name="user_id"`, "1", `name="service"`, "example"}

func withFile(parts ...string) string {
	return form(append([]string{`name="file"; filename="run.sh"`, "echo"}, parts...)...)
}

func TestUploadRows(t *testing.T) {
	long := strings.Repeat("n", 256)
	bad := func(message string) (int, string) { return 400, statusBody(0, "Unknown", message) }
	row := func(form string, code int, body string) {
		t.Helper()
		b := newBoard()
		addr := listen(t, Users(b, Options{Compat: Strict}))
		want{"POST", "/upload", code, jsonMedia, body, ""}.check(t, post(t, addr, "/upload", form))
		if b.opened() != 0 {
			t.Errorf("%d uploads are neither committed nor discarded", b.opened())
		}
		if (code == 201) != (len(b.jobs) == 1) {
			t.Errorf("%d jobs after %d", len(b.jobs), code)
		}
	}
	ok := statusBody(1, "Queued", uploaded)
	row(withFile(fields...), 201, ok)
	row(form(fields...), 201, ok) // no file at all
	row(form(append(slices.Clone(fields), `name="file"; filename="run.sh"`, "echo")...), 201, ok)
	for _, user := range []string{"-7", "+5", "007", "2147483647"} {
		row(withFile(`name="user_id"`, user, `name="service"`, "example"), 201, ok)
	}
	for _, user := range []string{"abc", " 1", "1 ", "", "2147483648", "1.0", "0x1"} {
		code, body := bad("Invalid user_id, should be a number")
		row(withFile(`name="user_id"`, user, `name="service"`, "example"), code, body)
	}
	code, body := bad("Missing user_id field")
	row(withFile(`name="service"`, "example"), code, body)
	row(withFile(), code, body)
	row("--BB--\r\n", code, body)
	row(withFile(`name="user_id"; filename="u"`, "1", `name="service"`, "example"), code, body) // that is a file
	code, body = bad("Missing service field")
	row(withFile(`name="user_id"`, "1"), code, body)
	code, body = bad("Invalid service")
	row(withFile(`name="user_id"`, "1", `name="service"`, "other"), code, body)
	row(withFile(`name="user_id"`, "1", `name="service"`, "EXAMPLE"), code, body)
	// the last one wins
	row(withFile(`name="service"`, "example", `name="user_id"`, "1", `name="service"`, "other"), code, body)
	row(withFile(`name="service"`, "other", `name="user_id"`, "1", `name="service"`, "example"), 201, ok)
	code, body = bad("Multipart error: Error parsing `multipart/form-data` request")
	row("", code, body)
	row("no form\r\n", code, body)
	row("--BB\r\nContent-Disposition: form-data; name=\"user_id\"\r\n\r\n1", code, body)
	row("--BB\r\nContent-Disposition: form-data; name=\"x\"; filename=\"\xff\"\r\n\r\n1\r\n--BB--\r\n", code, body)
	code, body = bad("Could not save file: Chunk read failed: Error parsing `multipart/form-data` request")
	row("--BB\r\nContent-Disposition: form-data; name=\"f\"; filename=\"run.sh\"\r\n\r\n1", code, body)
	row(withFile(`name="f"; filename="`+long+`"`, "x"), 500,
		statusBody(0, "Unknown", "Could not save file: File creation failed: File name too long (os error 36)"))
}

// A form that breaks off anywhere is none. Only the last line end may be missing.
func TestUploadThatBreaksOff(t *testing.T) {
	whole := withFile(fields...)
	b := newBoard()
	h := Users(b, Options{})
	for n := range len(whole) - 2 {
		r := httptest.NewRequest("POST", "/upload", strings.NewReader(whole[:n]))
		r.Header.Set("Content-Type", "multipart/form-data; boundary=BB")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != 400 || len(b.jobs) != 0 || b.opened() != 0 {
			t.Fatalf("after %d of %d bytes: %d %s", n, len(whole), w.Code, w.Body)
		}
	}
	if g := post(t, listen(t, h), "/upload", strings.TrimSuffix(whole, "\r\n")); g.Code != 201 {
		t.Errorf("without the last line end: %v", g)
	}
}

func TestUploadNeedsABoundary(t *testing.T) {
	b := newBoard()
	addr := listen(t, Users(b, Options{}))
	body := withFile(fields...)
	for _, media := range []string{"", "text/plain", "application/json", "multipart/form-data",
		"multipart/form-data; boundary=", "multipart/mixed; boundary=BB",
		"multipart/form-data; boundary=\"", ";;;"} {
		header := ""
		if media != "" {
			header = "Content-Type: " + media + "\r\n"
		}
		g := raw(t, addr, fmt.Sprintf("POST /upload HTTP/1.1\r\nHost: x\r\nConnection: close\r\n%sContent-Length: %d\r\n\r\n%s", header, len(body), body))
		want{"POST", "/upload " + media, 400, textMedia, "Invalid `boundary` for `multipart/form-data` request", ""}.check(t, g)
	}
	for _, media := range []string{"multipart/form-data; boundary=BB", "Multipart/Form-Data; charset=utf-8; boundary=\"BB\""} {
		g := raw(t, addr, fmt.Sprintf("POST /upload HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s", media, len(body), body))
		if g.Code != 201 {
			t.Errorf("%s: %v", media, g)
		}
	}
}

func TestUploadNames(t *testing.T) {
	for disposition, name := range map[string]string{
		`name="file"; filename="test.txt"`:                  "test.txt",
		`name="file"; filename="../../../etc/passwd"`:       "passwd",
		`name="file"; filename="dir/../file.txt"`:           "file.txt",
		`name="file"; filename="/etc/passwd"`:               "passwd",
		`name="file"; filename="C:\Windows\file.txt"`:       `C:\Windows\file.txt`,
		`name="file"; filename=""`:                          "file",
		`name="file"; filename="../../../"`:                 "file",
		`name="file"; filename="/"`:                         "file",
		`name="file"; filename="."`:                         "file",
		`name="file"; filename=".."`:                        "file",
		`name="file"; filename="a/.."`:                      "file",
		`name="file"; filename="a/."`:                       "a",
		`name="file"; filename="a/"`:                        "a",
		`name="file"; filename="文件.txt"`:                    "文件.txt",
		`name="file"; filename="a b%22c.txt"`:               "a b%22c.txt",
		`name="file"; filename="a\"b.txt"`:                  `a"b.txt`,
		`name="file"; filename="a;b=c.txt"`:                 "a;b=c.txt",
		`name="x; filename=y"; filename="right"`:            "right",
		`filename="first"; name="file"`:                     "first",
		`name="file"; filename=bare.txt`:                    "bare.txt",
		`name="file"; filename=a%5C`:                        `a\`,
		`name="file"; filename*=utf-8''%e6%96%87%20x`:       "文 x",
		`name*=utf-8''a%20b%2522c.txt; filename="a b%22c"`:  "a b%22c",
		`name="file";filename="tight"`:                      "tight",
		`name="file"; FileName="case"`:                      "case",
		`name="file"; filename="open`:                       "open",
		`name="user_id"; filename=".orchestrator.exit"`:     ".orchestrator.exit",
		`name="file"; notfilename="x"; filename="y"`:        "y",
		`name="file"; filename="` + "\u202e" + `gpj.exe"`:   "\u202egpj.exe",
		`name="file"; filename="` + "con\tpipe" + `"`:       "con\tpipe",
		`name="file"; filename="....//....//etc/cron.d/x"`:  "x",
		`name="file"; filename="..\..\windows"`:             `..\..\windows`,
		`name="file"; filename="a/././/."; x="y"; filename`: "a",
	} {
		b := newBoard()
		addr := listen(t, Users(b, Options{}))
		g := post(t, addr, "/upload", form(append([]string{disposition, "content"}, fields...)...))
		if g.Code != 201 {
			t.Errorf("%s: %v", disposition, g)
			continue
		}
		if diff := cmp.Diff(map[string]string{name: "content"}, b.jobs[1].files); diff != "" {
			t.Errorf("%s: %s", disposition, diff)
		}
	}
}

func TestUploadKeepsFiles(t *testing.T) {
	b := newBoard()
	addr := listen(t, Users(b, Options{}))
	odd := "line\r\n--B\r\n--BBx\r\nContent-Disposition: form-data; name=\"user_id\"\r\n\r\n\x00\xff"
	g := post(t, addr, "/upload", form(`name="file"; filename="a/same"`, "first", `name="file"; filename="b/same"`,
		"last",
		`name="user_id"`, "-7", `name="other"`, "ignored", `name="z"; filename="odd"`, odd, `name="service"`, "example",
		`name="e"; filename="empty"`, ""))
	if g.Code != 201 {
		t.Fatal(g)
	}
	j := b.jobs[1]
	if diff := cmp.Diff(map[string]string{"same": "last", "odd": odd, "empty": ""}, j.files); diff != "" ||
		j.user != -7 || j.service != "example" {
		t.Errorf("user %d, service %q: %s", j.user, j.service, diff)
	}
}

func TestUploadLimits(t *testing.T) {
	file := withFile(fields...)
	many := withFile(append(slices.Clone(fields), `name="a"`, "1", `name="b"`, "2")...)
	chunk := statusBody(0, "Unknown", "Could not save file: Chunk read failed: Error parsing `multipart/form-data` request")
	multi := statusBody(0, "Unknown", "Multipart error: Error parsing `multipart/form-data` request")
	big := form(append([]string{`name="f"; filename="big"`, strings.Repeat("x", 5000)}, fields...)...)
	header := "--BB\r\nContent-Disposition: form-data; name=\"f\"; filename=\"f\"\r\nX: " + strings.Repeat("h", 200_000) + "\r\n\r\nx\r\n--BB--\r\n"
	for _, c := range []struct {
		name string
		o    Options
		form string
		code int
		body string
	}{
		{"just fits", Options{Limits: Limits{Body: int64(len(big))}}, big, 201, statusBody(1, "Queued", uploaded)},
		{"announced", Options{Limits: Limits{Body: 4000}}, big, 413,
			statusBody(0, "Unknown", "Upload is larger than 4000 bytes")},
		{"announced, strict", Options{Limits: Limits{Body: 4000}, Compat: Strict}, big, 400, chunk},
		{"parts fit", Options{Limits: Limits{Parts: 5}}, many, 201, statusBody(1, "Queued", uploaded)},
		{"parts", Options{Limits: Limits{Parts: 4}}, many, 400,
			statusBody(0, "Unknown", "Multipart error: more than 4 parts")},
		{"header", Options{}, header, 400, multi},
		{"field", Options{Limits: Limits{Field: 6}}, file, 400, multi},
		{"field fits", Options{Limits: Limits{Field: 7}}, file, 201, statusBody(1, "Queued", uploaded)},
		{"name", Options{Limits: Limits{Name: 5}}, file, 500,
			statusBody(0, "Unknown", "Could not save file: File creation failed: File name too long (os error 36)")},
		{"script", Options{NeedScript: true}, file, 201, statusBody(1, "Queued", uploaded)},
		{"no script", Options{NeedScript: true}, form(fields...), 400, statusBody(0, "Unknown", "Missing run.sh")},
	} {
		b := newBoard()
		g := post(t, listen(t, Users(b, c.o)), "/upload", c.form)
		if g.Code != c.code || g.Body != c.body || b.opened() != 0 {
			t.Errorf("%s:\ngot  %d %s\nwant %d %s (%d left open)", c.name, g.Code, g.Body, c.code, c.body, b.opened())
		}
	}
}

// A body of unknown length is stopped where the limit is.
func TestUploadTooLargeWithoutALength(t *testing.T) {
	for compat, code := range map[Compat]int{Full: 413, Strict: 400} {
		b := newBoard()
		addr := listen(t, Users(b, Options{Limits: Limits{Body: 10_000}, Compat: compat}))
		var chunks strings.Builder
		head := "--BB\r\nContent-Disposition: form-data; name=\"f\"; filename=\"f\"\r\n\r\n"
		fmt.Fprintf(&chunks, "%x\r\n%s\r\n", len(head), head)
		for range 20 {
			fmt.Fprintf(&chunks, "%x\r\n%s\r\n", 1000, strings.Repeat("x", 1000))
		}
		g := raw(t, addr, "POST /upload HTTP/1.1\r\nHost: x\r\nContent-Type: multipart/form-data; boundary=BB\r\nTransfer-Encoding: chunked\r\n\r\n"+
			chunks.String()+"0\r\n\r\n")
		if g.Code != code || b.opened() != 0 || len(b.jobs) != 0 {
			t.Errorf("%q: %v, %d left open", compat, g, b.opened())
		}
	}
}

func TestUploadRefusals(t *testing.T) {
	internal := "Error while adding the job to the database"
	for _, c := range []struct {
		name    string
		set     func(*board)
		code    int
		message string
	}{
		{"begin", func(b *board) { b.beginErr = errDisk }, 500, "Could not create job directory"},
		{"file", func(b *board) { b.fileErr = errDisk }, 500, "Could not save file: File creation failed"},
		{"commit", func(b *board) { b.commitErr = errDisk }, 500, internal},
		{"quota", func(b *board) { b.commitErr = fmt.Errorf("x: %w", Quota("2 GiB are used")) }, 429, "2 GiB are used"},
		{"quota while it comes", func(b *board) { b.fileErr = Quota("2 GiB are used") }, 429, "2 GiB are used"},
		{"unsafe", func(b *board) { b.fileErr = Unsafe("a file name") }, 400, "a file name"},
		{"draining", func(b *board) { b.beginErr = Busy("no new jobs") }, 503, "no new jobs"},
		{"a foreign type", func(b *board) { b.commitErr = foreign{} }, 429, "foreign"},
	} {
		b := newBoard()
		c.set(b)
		g := post(t, listen(t, Users(b, Options{})), "/upload", withFile(fields...))
		want{"POST", c.name, c.code, jsonMedia, statusBody(0, "Unknown", c.message), ""}.check(t, g)
		if b.opened() != 0 || strings.Contains(g.Body, "secret") {
			t.Errorf("%s: %d left open, %s", c.name, b.opened(), g.Body)
		}
		if again := g.Header.Get("Retry-After"); (again != "") != (c.code == 429 || c.code == 503) {
			t.Errorf("%s: Retry-After is %q", c.name, again)
		}
	}
}

type foreign struct{}

func (foreign) Error() string { return "internal text" }
func (foreign) Quota() string { return "foreign" }

// TestIdempotencyKey: a request that is sent again gets the job of the first, with 201 as each upload to the original,
// and a header that the strict mode leaves out.
func TestIdempotencyKey(t *testing.T) {
	b := newBoard()
	addr, strict := listen(t, Users(b, Options{})), listen(t, Users(b, Options{Compat: Strict}))
	for _, c := range []struct{ addr, replayed string }{{addr, ""}, {addr, "true"}, {strict, ""}} {
		g := post(t, c.addr, "/upload", withFile(fields...), "Idempotency-Key: k1")
		want{"POST", "/upload", 201, jsonMedia, statusBody(1, "Queued", uploaded), ""}.check(t, g)
		if got := g.Header.Get("Idempotency-Replayed"); got != c.replayed {
			t.Errorf("Idempotency-Replayed: got %q, want %q", got, c.replayed)
		}
	}
	g := post(t, addr, "/upload", withFile(fields...), "Idempotency-Key: k2") // the control
	want{"POST", "/upload", 201, jsonMedia, statusBody(2, "Queued", uploaded), ""}.check(t, g)
	g = post(t, addr, "/upload", withFile(fields...), "Idempotency-Key: "+strings.Repeat("k", 256))
	want{"POST", "/upload", 400, jsonMedia, statusBody(0, "Unknown", "Invalid Idempotency-Key"), ""}.check(t, g)
}

// Expect: 100-continue is answered as soon as the body is wanted; a refusal comes instead of it.
func TestExpect(t *testing.T) {
	addr := listen(t, Users(newBoard(), Options{Limits: Limits{Body: 10_000}}))
	begin := func(length int) (net.Conn, *bufio.Reader) {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		conn.SetDeadline(time.Now().Add(time.Minute))
		fmt.Fprintf(conn, "POST /upload HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Type: multipart/form-data; boundary=BB\r\nContent-Length: %d\r\n\r\n", length)
		return conn, bufio.NewReader(conn)
	}
	body := withFile(fields...)
	conn, r := begin(len(body))
	line, err := r.ReadString('\n')
	if err != nil || line != "HTTP/1.1 100 Continue\r\n" {
		t.Fatalf("%q %v", line, err)
	}
	r.ReadString('\n')
	io.WriteString(conn, body)
	if res, err := http.ReadResponse(r, nil); err != nil || res.StatusCode != 201 {
		t.Fatalf("%v %v", res, err)
	}
	_, r = begin(20_000)
	if line, err := r.ReadString('\n'); err != nil || line != "HTTP/1.1 413 Request Entity Too Large\r\n" {
		t.Errorf("a body that is too large: %q %v", line, err)
	}
}

// Files reach the backend while they come in, and a silent sender is not waited for.
func TestUploadStreamsAndGivesUpOnSilence(t *testing.T) {
	b := &slow{board: newBoard(), first: make(chan string, 1)}
	addr := listen(t, Users(b, Options{Limits: Limits{Idle: time.Second}}))
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(time.Minute))
	io.WriteString(conn, "POST /upload HTTP/1.1\r\nHost: x\r\nContent-Type: multipart/form-data; boundary=BB\r\nContent-Length: 100000\r\n\r\n"+
		"--BB\r\nContent-Disposition: form-data; name=\"f\"; filename=\"f\"\r\n\r\n"+strings.Repeat("x", 8000))
	if got := <-b.first; !strings.HasPrefix(got, "xxx") {
		t.Errorf("the first bytes are %.10q", got)
	}
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil || res.StatusCode != 400 {
		t.Fatalf("%v %v", res, err)
	}
	if b.opened() != 0 {
		t.Error("the upload was not discarded")
	}
}

type slow struct {
	*board
	first chan string
}

type slowUpload struct {
	Upload
	s *slow
}

func (s *slow) Begin(ctx context.Context) (Upload, error) {
	u, err := s.board.Begin(ctx)
	return slowUpload{u, s}, err
}

func (u slowUpload) File(_ string, r io.Reader) error {
	p := make([]byte, 100)
	if _, err := io.ReadFull(r, p); err != nil {
		return err
	}
	u.s.first <- string(p)
	_, err := io.Copy(io.Discard, r)
	return err
}

func FuzzName(f *testing.F) {
	for _, s := range []string{`form-data; name="a"; filename="b"`, `filename*=utf-8''%41`, `;;;filename="\"`,
		"filename=%zz", `name="x`, `form-data; filename="a\\"`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, header string) {
		d := parseDisposition(header)
		name := basename(d.file)
		if name == "" || name == "." || name == ".." || strings.Contains(name, "/") {
			t.Errorf("%q: the file name is %q", header, name)
		}
	})
}

// What is written for a name is read as the same name, by our reader.
func FuzzNameRoundTrip(f *testing.F) {
	for _, s := range []string{"run.sh", `a"b`, `a\`, `a\"`, "文", "a b%22c.txt", "x;y=z", "a\tb", `\`, `"`, "'",
		"a\nb"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if name == "" || basename(name) != name || !utf8.ValidString(name) {
			return
		}
		head := string(formHeader(name))
		if strings.Count(head, "\n") != 2 || strings.Count(head, "\r") != 2 {
			t.Fatalf("%q: the header has other lines: %q", name, head)
		}
		d := parseDisposition(strings.TrimPrefix(strings.TrimSpace(head), "Content-Disposition: "))
		if !d.isFile || d.file != name || d.name != name {
			t.Errorf("%q is written %q and read as %q, field %q", name, head, d.file, d.name)
		}
	})
}
