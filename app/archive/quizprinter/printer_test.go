package quizprinter

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stagepost/stagepost/app/archive/pdf"
)

// worker is a quiz archive worker: it takes one order and does it as the real one, from the probe to the upload.
type worker struct {
	*httptest.Server
	t    *testing.T
	work sync.WaitGroup

	refuse int                        // status of the answer to an order; 0: it takes it
	forget bool                       // it does nothing, and does not know the order afterwards
	fails  bool                       // it reports a failure
	dies   bool                       // it does nothing more, and has the status FAILED
	file   func(report string) []byte // makes the PDF file
	files  func(map[string][]byte)    // changes the files of the ZIP file; nil: does not
	digest func(sum string) string    // of the ZIP file, as it is reported

	mu    sync.Mutex // guards order
	order struct {
		Task int64 `json:"taskid"`
		API  struct {
			Token   string `json:"wstoken"`
			Base    string `json:"base_url"`
			Service string `json:"webservice_url"`
			Upload  string `json:"upload_url"`
		} `json:"moodle_api"`
		Job struct {
			Attempts []int  `json:"attemptids"`
			Paper    string `json:"paper_format"`
		} `json:"job"`
	}
}

// good is a PDF file as Ghostscript writes it, of a report.
func good(report string) []byte {
	return []byte("%PDF-1.7\n" + strings.ToUpper(report) + "\npdfaid:part='3' pdfaid:conformance='B'\n/ID [<" +
		strings.Repeat("A", 32) + "><" + strings.Repeat("A", 32) + ">]\n%%EOF\n")
}

func newWorker(t *testing.T) *worker {
	w := &worker{t: t, file: good, digest: func(sum string) string { return sum }}
	w.Server = httptest.NewServer(w)
	t.Cleanup(func() {
		w.Close()
		w.work.Wait()
	})
	return w
}

func (w *worker) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	w.mu.Lock()
	defer w.mu.Unlock()
	say := func(code int, v any) { rw.WriteHeader(code); _ = json.NewEncoder(rw).Encode(v) }
	switch {
	case r.Method == http.MethodGet && w.forget:
		say(http.StatusNotFound, map[string]string{"error": "no such job"})
	case r.Method == http.MethodGet:
		say(http.StatusOK, map[string]string{"id": "j-1",
			"status": map[bool]string{true: "FAILED", false: "RUNNING"}[w.dies]})
	case r.URL.Path != "/archive/archivingmod_quiz" || r.Header.Get("Authorization") != "Bearer door":
		say(http.StatusNotFound, map[string]string{"error": "no such page"})
	case w.refuse != 0:
		say(w.refuse, map[string]string{"error": "the queue is full"})
	default:
		if err := json.NewDecoder(r.Body).Decode(&w.order); err != nil {
			w.t.Error(err)
		}
		probe, err := w.call("update_task_status", nil)
		if err != nil || probe["errorcode"] != "invalidparameter" {
			w.t.Errorf("probe: %v, %v", probe, err)
		}
		say(http.StatusOK, map[string]string{"jobid": "j-1", "status": "AWAITING_PROCESSING"})
		if !w.forget && !w.dies {
			w.work.Go(w.do)
		}
	}
}

// call calls a function of the Moodle.
func (w *worker) call(name string, v url.Values) (answer map[string]any, err error) {
	q := url.Values{"wstoken": {w.order.API.Token}, "wsfunction": {functions + name}, "moodlewsrestformat": {"json"}}
	for key, value := range v {
		q[key] = value
	}
	r, err := http.Get(w.order.API.Service + "?" + q.Encode())
	if err != nil {
		return nil, err
	}
	defer r.Body.Close()
	return answer, json.NewDecoder(r.Body).Decode(&answer)
}

// do does the order.
func (w *worker) do() {
	task := url.Values{"uuid": {"j-1"}, "taskid": {fmt.Sprint(w.order.Task)}}
	with := func(more ...string) url.Values {
		v := url.Values{}
		for key := range task {
			v[key] = task[key]
		}
		for i := 0; i < len(more); i += 2 {
			v.Set(more[i], more[i+1])
		}
		return v
	}
	_, err := w.call("update_task_status", with("status", "100", "progress", "0"))
	if w.fails {
		_, err = w.call("update_task_status", with("status", "250"))
	}
	if err != nil || w.fails {
		return
	}
	report, err := w.call("generate_attempt_report", with("attemptid", fmt.Sprint(w.order.Job.Attempts[0])))
	text, _ := report["report"].(string)
	if err != nil || text == "" {
		w.t.Errorf("got %v, %v", report, err)
		return
	}
	body := w.pack(text)
	sum := sha256.Sum256(body)
	up := w.upload(body)
	answer, err := w.call("process_uploaded_artifact", with("artifact_itemid", fmt.Sprint(up["itemid"]),
		"artifact_sha256sum", w.digest(hex.EncodeToString(sum[:]))))
	if err != nil || answer["status"] != "OK" {
		_, _ = w.call("update_task_status", with("status", "250"))
	}
}

// pack makes the ZIP file.
func (w *worker) pack(report string) []byte {
	file := w.file(report)
	sum := sha256.Sum256(file)
	files := map[string][]byte{
		"attempts/document/document.pdf":        file,
		"attempts/document/document.pdf.sha256": []byte(hex.EncodeToString(sum[:])),
	}
	if w.files != nil {
		w.files(files)
	}
	var body bytes.Buffer
	z := zip.NewWriter(&body)
	for name, text := range files {
		f, err := z.Create(name)
		if err == nil {
			_, err = f.Write(text)
		}
		if err != nil {
			w.t.Error(err)
		}
	}
	if err := z.Close(); err != nil {
		w.t.Error(err)
	}
	return body.Bytes()
}

func (w *worker) upload(body []byte) map[string]any {
	var form bytes.Buffer
	m := multipart.NewWriter(&form)
	_ = m.WriteField("token", w.order.API.Token)
	_ = m.WriteField("itemid", "0")
	f, _ := m.CreateFormFile("file_1", "document.zip")
	_, _ = f.Write(body)
	_ = m.Close() // into memory
	r, err := http.Post(w.order.API.Upload, m.FormDataContentType(), &form)
	if err != nil {
		w.t.Error(err)
		return nil
	}
	defer r.Body.Close()
	var all []map[string]any
	if err := json.NewDecoder(r.Body).Decode(&all); err != nil || len(all) != 1 {
		w.t.Errorf("got %v, %v", all, err)
		return nil
	}
	return all[0]
}

// print prints a document by a worker.
func (w *worker) print(page pdf.Page, document string) (string, error) {
	door := NewMoodle()
	moodle := httptest.NewServer(door.Handler(nil))
	defer moodle.Close()
	p, err := New(Options{URL: w.URL, Token: "door", Callback: moodle.URL, Moodle: door, Ask: 10 * time.Millisecond})
	if err != nil {
		w.t.Fatal(err)
	}
	var out bytes.Buffer
	err = p.Render(w.t.Context(), w.t.TempDir(), page, strings.NewReader(document), &out)
	if len(door.orders) > 0 {
		w.t.Error("the token of the order is still valid")
	}
	return out.String(), err
}

// TestPrinter: a document is printed by a worker that has nothing of this server but the protocol.
func TestPrinter(t *testing.T) {
	w := newWorker(t)
	got, err := w.print(pdf.Page{Paper: "A5", Title: "attempt-2"}, "<p>Answer")
	if err != nil || !strings.Contains(got, "<P>ANSWER") || !strings.Contains(got, "CONTENT-SECURITY-POLICY") {
		t.Errorf("got %s, %v", got, err)
	}
	if w.order.Job.Paper != "A5" || len(w.order.Job.Attempts) != 1 || w.order.API.Token == "" {
		t.Errorf("got %+v", w.order)
	}
	var e *pdf.Error
	if _, err := w.print(pdf.Page{}, " "); !errors.As(err, &e) || e.Temporary() || e.Cause() != pdf.CauseDocument {
		t.Errorf("an empty document: %v", err)
	}
}

// TestFailures: every failure of a worker is one that another attempt can pass, and no PDF file comes of it.
func TestFailures(t *testing.T) {
	for name, c := range map[string]struct {
		damage func(*worker)
		want   string
	}{
		"busy":      {func(w *worker) { w.refuse = http.StatusTooManyRequests }, "429"},
		"restarted": {func(w *worker) { w.forget = true }, "lost the order"},
		"crashed":   {func(w *worker) { w.dies = true }, "FAILED"},
		"failed":    {func(w *worker) { w.fails = true }, "status 250"},
		"digest": {func(w *worker) {
			w.digest = func(string) string { return strings.Repeat("0", 64) }
		}, "status 250"},
		"no PDF/A": {func(w *worker) { w.file = func(string) []byte { return []byte("%PDF-1.7\n%%EOF\n") } }, "PDF/A"},
		"no file": {func(w *worker) {
			w.files = func(f map[string][]byte) { delete(f, "attempts/document/document.pdf") }
		}, "no PDF file"},
		"damaged": {func(w *worker) {
			w.files = func(f map[string][]byte) { f["attempts/document/document.pdf"] = good("other") }
		}, "not the one of its digest"},
		"several": {func(w *worker) {
			w.files = func(f map[string][]byte) { f["attempts/x/x.pdf"] = good("other") }
		}, "several"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorker(t)
			c.damage(w)
			got, err := w.print(pdf.Page{}, "<p>Answer")
			var e *pdf.Error
			if got != "" || !errors.As(err, &e) || !e.Temporary() || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %q, %v; want %s", got, err, c.want)
			}
		})
	}
}

// TestMoodle: a request needs the token of an open order and its task; nothing is given or taken after its end.
func TestMoodle(t *testing.T) {
	door := NewMoodle()
	root, err := os.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	o := door.open([]byte("text"), root, pdf.ClaimOf(t.Context()))
	get := func(v ...string) string {
		q := url.Values{"wsfunction": {functions + "generate_attempt_report"}, "attemptid": {"1"}}
		for i := 0; i < len(v); i += 2 {
			q.Set(v[i], v[i+1])
		}
		w := httptest.NewRecorder()
		door.Handler(nil).ServeHTTP(w, httptest.NewRequest(http.MethodGet, servicePath+"?"+q.Encode(), nil))
		text, _ := io.ReadAll(w.Body)
		return string(text)
	}
	task := fmt.Sprint(o.task)
	for want, v := range map[string][]string{
		"invalidtoken":        {"wstoken", "x", "taskid", task},
		"invalidparameter":    {"wstoken", o.token},
		"E_TASK_NOT_FOUND":    {"wstoken", o.token, "taskid", "99"},
		"E_ATTEMPT_NOT_FOUND": {"wstoken", o.token, "taskid", task, "attemptid", "2"},
		"accessexception":     {"wstoken", o.token, "taskid", task, "wsfunction", "core_user_get_users"},
		"E_CHECKSUM_MISMATCH": {"wstoken", o.token, "taskid", task, "wsfunction",
			functions + "process_uploaded_artifact"},
		"invalidrecord":   {"wstoken", o.token, "taskid", task, "wsfunction", functions + "other"},
		`"report":"text"`: {"wstoken", o.token, "taskid", task},
	} {
		if got := get(v...); !strings.Contains(got, want) {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	for size, want := range map[int]string{1000: `"report":"text"`, 2 * maxCall: "invalidtoken"} {
		body := &bytes.Buffer{}
		form := multipart.NewWriter(body)
		for _, f := range [][2]string{
			{"long", strings.Repeat("x", size)}, {"wstoken", o.token}, {"taskid", task}, {"attemptid", "1"},
			{"wsfunction", functions + "generate_attempt_report"},
		} {
			_ = form.WriteField(f[0], f[1]) // in memory
		}
		_ = form.Close()
		w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, servicePath, body)
		r.Header.Set("Content-Type", form.FormDataContentType())
		if door.Handler(nil).ServeHTTP(w, r); !strings.Contains(w.Body.String(), want) {
			t.Errorf("a call of %d bytes: got %s, want %s", size, w.Body, want)
		}
	}
	door.close(o)
	if got := get("wstoken", o.token, "taskid", task); !strings.Contains(got, "invalidtoken") {
		t.Errorf("after its end: %s", got)
	}
}

// TestMoodleAfterClaim: the token of an order is refused as soon as the claim of its document is over, although the
// printer has not ended the order yet. The controls are the same requests before.
func TestMoodleAfterClaim(t *testing.T) {
	door, over := NewMoodle(), false
	root, err := os.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	o := door.open([]byte("text"), root, pdf.ClaimOf(pdf.WithClaim(t.Context(), func(context.Context) error {
		if over {
			return errors.New("the claim is over")
		}
		return nil
	})))
	ask := func(r *http.Request) string {
		w := httptest.NewRecorder()
		door.Handler(nil).ServeHTTP(w, r)
		return w.Body.String()
	}
	get := func() string {
		q := url.Values{"wsfunction": {functions + "generate_attempt_report"}, "attemptid": {"1"},
			"wstoken": {o.token}, "taskid": {fmt.Sprint(o.task)}}
		return ask(httptest.NewRequest(http.MethodGet, servicePath+"?"+q.Encode(), nil))
	}
	send := func() string {
		var form bytes.Buffer
		m := multipart.NewWriter(&form)
		f, _ := m.CreateFormFile("file", "x.zip")
		_, _ = f.Write([]byte("zip"))
		_ = m.Close() // into memory
		r := httptest.NewRequest(http.MethodPost, uploadPath+"?token="+o.token, &form)
		r.Header.Set("Content-Type", m.FormDataContentType())
		return ask(r)
	}
	if document, file := get(), send(); !strings.Contains(document, `"text"`) || !strings.Contains(file, "itemid") {
		t.Errorf("control: %s, %s", document, file)
	}
	over = true
	for _, got := range []string{get(), send()} {
		if !strings.Contains(got, "invalidtoken") {
			t.Errorf("after the end of the claim: %s", got)
		}
	}
}

// endless is a body without an end, which counts what is read of it.
type endless struct {
	io.Reader // the beginning
	read      int64
}

func (e *endless) Read(p []byte) (n int, err error) {
	if n, err = e.Reader.Read(p); errors.Is(err, io.EOF) {
		clear(p)
		n, err = len(p), nil
	}
	e.read += int64(n)
	return n, err
}

// TestMoodleRefuses: the log gets each request with a token of no open order, without more of its body being read than
// precedes a file. The controls are requests with the token of the order, which count for a name of their own, and one
// without a token, which is no attempt.
func TestMoodleRefuses(t *testing.T) {
	door := NewMoodle()
	root, err := os.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	o := door.open([]byte("text"), root, pdf.ClaimOf(t.Context()))
	var refused []string
	h := door.Handler(func(r *http.Request, err error) { refused = append(refused, r.URL.Path+": "+err.Error()) })
	ask := func(r *http.Request) string {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Body.String()
	}
	call := func(token string) *http.Request {
		return httptest.NewRequest(http.MethodGet, servicePath+"?wsfunction=x&wstoken="+token, nil)
	}
	upload := func(token, field string, body *endless) *http.Request {
		body.Reader = strings.NewReader("--b\r\nContent-Disposition: form-data; " + field + "\r\n\r\n")
		r := httptest.NewRequest(http.MethodPost, uploadPath+"?token="+token, body)
		r.Header.Set("Content-Type", "multipart/form-data; boundary=b")
		return r
	}
	file, other := &endless{}, &endless{}
	for name, c := range map[string]struct {
		answer, want string
		line         string // empty: none
	}{
		"call":            {ask(call("wrong")), "invalidtoken", servicePath},
		"file":            {ask(upload("wrong", `name="f"; filename="f"`, file)), "invalidtoken", uploadPath},
		"before the file": {ask(upload(o.token, `name="other"`, other)), "nofile", ""},
		"valid":           {ask(call(o.token)), "accessexception", ""},
		"none":            {ask(call("")), "invalidtoken", ""},
	} {
		if !strings.Contains(c.answer, c.want) {
			t.Errorf("%s: got %s, want %s", name, c.answer, c.want)
		}
		lines := strings.Join(refused, "\n")
		if c.line != "" && strings.Count(lines, c.line+": "+errToken.Error()) != 1 {
			t.Errorf("%s: the log has %q", name, refused)
		}
	}
	if len(refused) != 2 || strings.Contains(strings.Join(refused, ""), "wrong") {
		t.Errorf("the log has %q", refused)
	}
	if file.read > 2*maxCall || other.read > 2*maxCall {
		t.Errorf("%d bytes of a file and %d before one were read", file.read, other.read)
	}
	for _, r := range []*http.Request{call(o.token), upload(o.token, `name="f"`, &endless{})} {
		if name := door.Sender(r); name == "" || strings.Contains(name, o.token) {
			t.Errorf("%s counts for %q", r.URL.Path, name)
		}
	}
	if name := door.Sender(call("wrong")); name != "" {
		t.Errorf("a wrong token counts for %q", name)
	}
}
