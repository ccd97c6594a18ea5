package quizworker

import (
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stagepost/stagepost/app/archive/pdf"
	"github.com/stagepost/stagepost/job"
)

const (
	base  = "https://moodle.example.org/lms"
	token = "0123456789abcdef"
)

// plugin is the side of the Moodle plugins: two attempts in one folder under one name, one of them with files.
type plugin struct {
	mu       sync.Mutex
	legacy   bool
	calls    []string // functions, in order
	statuses []string
	times    []time.Time // of statuses
	uploads  map[string][]byte
	taken    [][]byte // files that were accepted
	reports  map[int]string
	pending  int // times that a backup is not ready
	damaged  bool
	wander   bool                          // the folder of attempt 2 has another name in each answer
	words    map[string]string             // status word by function, instead of OK
	fail     func(n int, name string) fate // may be nil
}

// fate is what happens to a call.
type fate int

const (
	works fate = iota
	lost       // the answer is lost
	refusedCall
)

func newPlugin() *plugin {
	return &plugin{uploads: map[string][]byte{}, words: map[string]string{}, reports: map[int]string{
		2: "<h1>Attempt 2</h1>", 3: "<h1>Attempt 3</h1>", 7: "<h1>Attempt 7</h1>",
	}}
}

var errLost = errors.New("connection reset while token=" + token)

// RoundTrip is part of http.RoundTripper.
func (p *plugin) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	name := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
	var body string
	if name == "upload.php" {
		body = p.upload(r)
	} else {
		if err := r.ParseForm(); err != nil {
			return nil, err
		}
		if f := r.Form.Get("wsfunction"); f != "" {
			name = f[strings.LastIndex(f, "quiz_")+len("quiz_"):]
			name = strings.TrimPrefix(name, "archiver_")
		}
	}
	n := len(p.calls)
	p.calls = append(p.calls, name)
	now := works
	if p.fail != nil {
		now = p.fail(n, name)
	}
	if now == refusedCall {
		return nil, errLost
	}
	w := httptest.NewRecorder()
	switch {
	case body != "":
		_, _ = io.WriteString(w, body)
	case r.URL.RawQuery != "":
		http.Error(w, "a parameter is in the address", http.StatusBadRequest)
	case name == "essay.txt":
		p.file(w, r, "essay")
	case name == "course.mbz":
		p.file(w, r, "backup")
	default:
		p.answer(w, r, name)
	}
	if now == lost {
		return nil, errLost
	}
	answer := w.Result()
	answer.ContentLength = int64(w.Body.Len())
	return answer, nil
}

func (p *plugin) file(w http.ResponseWriter, r *http.Request, text string) {
	if r.Form.Get("token") != token {
		http.Redirect(w, r, base+"/login/index.php", http.StatusSeeOther)
		return
	}
	if p.damaged {
		text = "<html>Log in"
	}
	_, _ = io.WriteString(w, text)
}

func (p *plugin) upload(r *http.Request) string {
	if err := r.ParseMultipartForm(1 << 20); err != nil || r.FormValue("token") != token {
		return `{"error":"Invalid token","errorcode":"invalidtoken"}`
	}
	f, h, err := r.FormFile("file_1")
	if err != nil {
		return `{"error":"no file","errorcode":"nofile"}`
	}
	text, _ := io.ReadAll(f)
	item := fmt.Sprint(100 + len(p.uploads))
	p.uploads[item] = text
	return fmt.Sprintf(`[{"component":"user","contextid":5,"userid":"2","filearea":"draft","filename":%q,`+
		`"filepath":"/","itemid":%s}]`, h.Filename, item)
}

func (p *plugin) answer(w io.Writer, r *http.Request, name string) {
	say := func(v any) { _ = json.NewEncoder(w).Encode(v) }
	switch {
	case r.Form.Get("wstoken") != token:
		say(map[string]string{"exception": "moodle_exception", "errorcode": "invalidtoken", "message": "Invalid token"})
	case len(r.Form) == 3:
		say(map[string]string{"exception": "invalid_parameter_exception", "errorcode": "invalidparameter",
			"message": "Invalid parameter value detected"})
	case p.words[name] != "":
		say(map[string]string{"status": p.words[name]})
	default:
		p.function(say, r, name)
	}
}

func (p *plugin) function(say func(any), r *http.Request, name string) {
	get := r.Form.Get
	switch name {
	case "update_task_status", "update_job_status":
		p.statuses, p.times = append(p.statuses, get("status")), append(p.times, time.Now())
		say(map[string]string{"status": "OK"})
	case "generate_attempt_report":
		var id int
		_, _ = fmt.Sscan(get("attemptid"), &id)
		a := map[string]any{"status": "OK", "attemptid": id, "foldername": "ann/Try", "filename": "null",
			"report": p.reports[id], "attachments": []any{}}
		if p.legacy {
			delete(a, "status")
		}
		if p.wander {
			a["foldername"] = fmt.Sprint("call-", len(p.calls))
		}
		if id == 3 {
			sum := sha1.Sum([]byte("essay"))
			one := map[string]any{"slot": 1, "filename": "../a:b.txt", "filesize": 5, "mimetype": "text/plain",
				"contenthash": hex.EncodeToString(sum[:]),
				"downloadurl": base + "/webservice/pluginfile.php/1/essay.txt"}
			a["attachments"], a["foldername"] = []any{one, one}, "ANN/try"
		}
		say(a)
	case "get_attempts_metadata":
		var rows []any
		for key, id := range r.Form {
			if strings.HasPrefix(key, "attemptids[") {
				var n int
				_, _ = fmt.Sscan(id[0], &n)
				rows = append(rows, map[string]any{"attemptid": n, "userid": 19, "username": "ann", "firstname": "Ann",
					"lastname": "Ünger, B.", "idnumber": "007", "timestart": 1, "timefinish": "2", "attempt": 1,
					"state": "finished"})
			}
		}
		say(map[string]any{"status": "OK", "courseid": 1, "cmid": 2, "quizid": 3, "attempts": rows})
	case "get_backup_status":
		if p.pending--; p.pending >= 0 {
			say(map[string]string{"status": "E_BACKUP_PENDING"})
		} else {
			say(map[string]string{"status": "SUCCESS"})
		}
	case "process_uploaded_artifact":
		file, ok := p.uploads[get("artifact_itemid")]
		sum := sha256.Sum256(file)
		switch {
		case len(p.taken) > 0:
			say(map[string]string{"status": "E_ALREADY_COMPLETED"})
		case !ok || get("artifact_sha256sum") != hex.EncodeToString(sum[:]) || get("artifact_component") != "user":
			say(map[string]string{"status": "E_CHECKSUM_MISMATCH"})
		default:
			p.taken = append(p.taken, file)
			say(map[string]string{"status": "OK"})
		}
	default:
		say(map[string]string{"exception": "x", "errorcode": "invalidrecord", "message": "no function " + name})
	}
}

// printer makes a text of the report.
type printer struct {
	slow    time.Duration
	pages   []pdf.Page
	removed []job.ID
	before  func() error
	mu      sync.Mutex
}

func (p *printer) Remove(_ context.Context, j job.ID) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.removed = append(p.removed, j)
	return nil
}

func (p *printer) Print(ctx context.Context, _ job.ID, page pdf.Page, in io.Reader, out io.Writer) error {
	p.mu.Lock()
	p.pages = append(p.pages, page)
	p.mu.Unlock()
	if p.before != nil {
		if err := p.before(); err != nil {
			return err
		}
	}
	select {
	case <-time.After(p.slow):
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	text, err := io.ReadAll(in)
	if err == nil {
		_, err = fmt.Fprintf(out, "%%PDF %s", text)
	}
	return err
}

// modern is an order of archivingmod_quiz; change replaces or, with nil, removes keys of the job.
func modern(change map[string]any) string {
	one := map[string]any{
		"attemptids": []int{3, 2, 3}, "paper_format": "A4", "archive_filename": "archive-x",
		"report_sections":    map[string]any{"header": "1", "question": "1", "history": "0"},
		"foldername_pattern": "${username}/${attemptid}", "filename_pattern": "attempt-${attemptid}",
		"image_optimize": map[string]int{"width": 1280, "height": 1280, "quality": 85}, "fetch_metadata": true,
		"fetch_attachments": "1", "keep_html_files": true,
	}
	for key, value := range change {
		if one[key] = value; value == nil {
			delete(one, key)
		}
	}
	text, _ := json.Marshal(map[string]any{"api_version": 1, "taskid": 7, "job": one, "moodle_api": map[string]string{
		"wstoken": token, "base_url": base, "webservice_url": base + "/webservice/rest/server.php",
		"upload_url": base + "/webservice/upload.php",
	}})
	return string(text)
}

func legacyText() string {
	text, _ := json.Marshal(map[string]any{
		"api_version": 7, "moodle_base_url": base, "moodle_ws_url": base + "/webservice/rest/server.php",
		"moodle_upload_url": base + "/webservice/upload.php", "wstoken": token, "courseid": 1, "cmid": 2, "quizid": 3,
		"archive_filename": "archive-y", "task_archive_quiz_attempts": map[string]any{
			"attemptids": []int{2}, "paper_format": "A5", "filename_pattern": "attempt-${attemptid}",
			"sections": map[string]any{"header": true}, "fetch_metadata": true, "keep_html_files": false,
			"image_optimize": false,
		},
		"task_moodle_backups": []any{map[string]any{"backupid": "b1", "filename": "course.mbz",
			"file_download_url": base + "/webservice/pluginfile.php/1/course.mbz"}},
	})
	return string(text)
}

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
