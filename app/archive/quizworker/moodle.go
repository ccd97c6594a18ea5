package quizworker

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/stagepost/stagepost/app/archive/source"
	"github.com/stagepost/stagepost/internal/retryafter"
)

// Limits of the protocol.
const (
	callTimeout   = time.Minute
	fileTimeout   = 30 * time.Minute
	maxAnswer     = 256 << 20
	maxAttachment = 1_280_000_000
	maxBackup     = 5_000_000_000
	maxFile       = 10_000_000_000
	metadataBatch = 100
)

// moodle calls the functions of a plugin. Tokens are in bodies, not in addresses, which web servers log.
type moodle struct {
	http  *http.Client // follows no redirect: those of a Moodle lead to its login page
	spec  *Spec
	token string
}

// final are codes of errors that stay until a person changes something.
var final = map[string]bool{
	"invalidtoken": true, "accessexception": true, "nopermissions": true, "invalidrecord": true,
	"invalidparameter": true, "invalidrecordunknown": true, "requireloginerror": true, "servicenotavailable": true,
	"usernotfullysetup": true, "sitepolicynotagreed": true, "upload_error_ini_size": true, "filetoobig": true,
	"userquotalimit": true, "filenotfound": true,
}

// advice is what to change after an error.
var advice = map[string]string{
	"upload_error_ini_size": "raise upload_max_filesize and post_max_size of PHP, or archive fewer attempts at once",
	"filetoobig":            "raise maxbytes of the Moodle, or archive fewer attempts at once",
	"userquotalimit":        "raise the file quota of the account, or archive fewer attempts at once",
}

func wrong(op, code string, transient bool, format string, args ...any) error {
	err := fmt.Errorf(format, args...)
	if more := advice[code]; more != "" {
		err = fmt.Errorf("%w: %s", err, more)
	}
	return &source.Error{Op: op, Code: code, Err: err, Transient: transient}
}

// failed recognizes an error, which a Moodle sends with the status 200.
func failed(op string, body []byte) error {
	var f struct{ Exception, Errorcode, Message, Error string }
	if json.Unmarshal(body, &f) != nil || f.Exception == "" && f.Errorcode == "" && f.Error == "" {
		return nil
	}
	for _, text := range []string{f.Message, f.Error, f.Exception, f.Errorcode} {
		if text != "" {
			return wrong(op, f.Errorcode, !final[f.Errorcode], "%s", text)
		}
	}
	return nil
}

// do sends a request and returns the body of an answer with the status 200.
func (m *moodle) do(r *http.Request, op string) (*http.Response, error) {
	answer, err := m.http.Do(r)
	if err != nil {
		text := strings.ReplaceAll(err.Error(), m.token, "***")
		return nil, wrong(op, "", true, "%s", text)
	}
	if answer.StatusCode == http.StatusOK {
		return answer, nil
	}
	defer answer.Body.Close()
	s := answer.StatusCode
	if s >= 300 && s < 400 && strings.Contains(answer.Header.Get("Location"), "/login/") {
		return nil, wrong(op, "", false, "the Moodle asks for a login: the token does not give access")
	}
	e := &source.Error{Op: op, Err: fmt.Errorf("the Moodle answered %s", answer.Status)}
	e.Transient = s >= 500 || s == http.StatusTooManyRequests || s == http.StatusRequestTimeout
	e.After = retryafter.Parse(answer.Header.Get("Retry-After"), time.Now())
	return nil, e
}

// call calls a function of the web service.
func (m *moodle) call(ctx context.Context, function string, p url.Values, into any) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	form := url.Values{"wstoken": {m.token}, "moodlewsrestformat": {"json"}, "wsfunction": {function}}
	for key, value := range p {
		form[key] = value
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, m.spec.Moodle.Service, strings.NewReader(form.Encode()))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	answer, err := m.do(r, function)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	return read(answer.Body, function, into)
}

// read decodes an answer.
func read(from io.Reader, op string, into any) error {
	body, err := io.ReadAll(io.LimitReader(from, maxAnswer+1))
	switch {
	case err != nil:
		return wrong(op, "", true, "%w", err)
	case len(body) > maxAnswer:
		return wrong(op, "", false, "the answer has more than %d bytes", maxAnswer)
	}
	if err := failed(op, body); err != nil {
		return err
	}
	if err := json.Unmarshal(body, into); err != nil {
		return wrong(op, "", true, "the answer is not what the function gives: %w", err)
	}
	return nil
}

// function names a function of the plugin that sent the order.
func (m *moodle) function(name string) string {
	if m.spec.Legacy {
		return "quiz_archiver_" + strings.Replace(name, "update_task_status", "update_job_status", 1)
	}
	return "archivingmod_quiz_" + name
}

// identity are the parameters that name the job.
func (m *moodle) identity() url.Values {
	if m.spec.Legacy {
		return url.Values{"jobid": {m.spec.UUID}}
	}
	return url.Values{"uuid": {m.spec.UUID}, "taskid": {strconv.FormatInt(m.spec.Task, 10)}}
}

// quiz are the parameters that name the quiz: the plugin archivingmod_quiz has them in its task.
func (m *moodle) quiz() url.Values {
	if !m.spec.Legacy {
		return m.identity()
	}
	return url.Values{"courseid": {fmt.Sprint(m.spec.Course)}, "cmid": {fmt.Sprint(m.spec.Module)},
		"quizid": {fmt.Sprint(m.spec.Quiz)}}
}

// answered refuses a status word that is not OK. The legacy plugin leaves it out of some answers.
func (m *moodle) answered(function, status string) error {
	if status == "OK" || status == "" && m.spec.Legacy {
		return nil
	}
	return wrong(function, status, status == "E_UPDATE_FAILED" || status == "E_STORING_FAILED",
		"the Moodle answered %.80q", status)
}

// probe calls a function without parameters: that the Moodle complains about them shows that the token is valid.
func (m *moodle) probe(ctx context.Context) error {
	err := m.call(ctx, m.function("update_task_status"), nil, new(any))
	var e *source.Error
	if err == nil || errors.As(err, &e) && e.Code == "invalidparameter" {
		return nil
	}
	return err
}

// report is the answer of generate_attempt_report.
type report struct {
	Status      string
	Attempt     int64  `json:"attemptid"`
	Folder      string `json:"foldername"`
	File        string `json:"filename"`
	HTML        string `json:"report"`
	Attachments []struct {
		Slot int
		File string `json:"filename"`
		Size int64  `json:"filesize"`
		SHA1 string `json:"contenthash"`
		URL  string `json:"downloadurl"`
	}
}

func (m *moodle) report(ctx context.Context, attempt int64) (*report, error) {
	s, p := m.spec, m.quiz()
	p.Set("attemptid", strconv.FormatInt(attempt, 10))
	p.Set("filenamepattern", s.File)
	if s.Folder != "" {
		p.Set("foldernamepattern", s.Folder)
	}
	for _, name := range s.Sections {
		p.Set("sections["+name+"]", "1")
	}
	p.Set("attachments", number(s.Attached))
	var r report
	f := m.function("generate_attempt_report")
	if err := m.call(ctx, f, p, &r); err != nil {
		return nil, err
	}
	if err := m.answered(f, r.Status); err != nil {
		return nil, err
	}
	if r.Attempt != attempt {
		return nil, wrong(f, "", false, "the Moodle sent attempt %d instead of %d", r.Attempt, attempt)
	}
	return &r, nil
}

func number(b bool) string {
	if b {
		return "1"
	}
	return "0"
}

// metadata is a row of attempts_metadata.csv.
type metadata struct {
	Attempt   int64       `json:"attemptid"`
	User      int64       `json:"userid"`
	Username  string      `json:"username"`
	First     string      `json:"firstname"`
	Last      string      `json:"lastname"`
	Number    string      `json:"idnumber"`
	Start     json.Number `json:"timestart"`
	Finish    json.Number `json:"timefinish"`
	Try       json.Number `json:"attempt"`
	Condition string      `json:"state"`
}

// metadata gives the rows of up to 100 attempts.
func (m *moodle) metadata(ctx context.Context, attempts []int64) ([]metadata, error) {
	p := m.quiz()
	for i, id := range attempts {
		p.Set(fmt.Sprintf("attemptids[%d]", i), strconv.FormatInt(id, 10))
	}
	var a struct {
		Status   string
		Attempts []metadata
	}
	f := m.function("get_attempts_metadata")
	if err := m.call(ctx, f, p, &a); err != nil {
		return nil, err
	}
	return a.Attempts, m.answered(f, a.Status)
}

// update reports a status, and how far the work is in percent; -1: without.
func (m *moodle) update(ctx context.Context, s Status, progress int) error {
	p := m.identity()
	p.Set("status", strconv.Itoa(s.Number))
	if m.spec.Legacy {
		p.Set("status", s.Name)
	} else if progress >= 0 {
		p.Set("progress", strconv.Itoa(progress))
	}
	var a struct{ Status string }
	f := m.function("update_task_status")
	if err := m.call(ctx, f, p, &a); err != nil {
		return err
	}
	return m.answered(f, a.Status)
}

// download writes a file of the Moodle to w. sum is its SHA-1; empty: unknown.
func (m *moodle) download(ctx context.Context, address, sum string, most int64, w io.Writer) error {
	base, err := url.Parse(m.spec.Moodle.Base)
	if err != nil || !below(base, address) {
		return wrong("download", "", false, "an address is not below %s", m.spec.Moodle.Base)
	}
	ctx, cancel := context.WithTimeout(ctx, fileTimeout)
	defer cancel()
	form := url.Values{"token": {m.token}}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, address, strings.NewReader(form.Encode()))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	answer, err := m.do(r, "download")
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if strings.HasPrefix(answer.Header.Get("Content-Type"), "application/json") && answer.ContentLength < 4096 {
		body, err := io.ReadAll(io.LimitReader(answer.Body, 4096))
		if err == nil {
			err = failed("download", body)
		}
		if err != nil {
			return err
		}
		answer.Body = io.NopCloser(io.MultiReader(strings.NewReader(string(body)), answer.Body))
	}
	digest := sha1.New()
	n, err := io.Copy(io.MultiWriter(w, digest), io.LimitReader(answer.Body, most+1))
	switch got := hex.EncodeToString(digest.Sum(nil)); {
	case err != nil:
		return wrong("download", "", true, "%w", err)
	case n > most:
		return wrong("download", "", false, "a file has more than %d bytes", most)
	case sum != "" && !strings.EqualFold(got, sum):
		return wrong("download", "", true, "%w: its SHA-1 is %s, not %.40s", source.ErrContent, got, sum)
	}
	return nil
}

// artifact is an uploaded file, as upload.php describes it.
type artifact struct {
	Component string      `json:"component"`
	Context   json.Number `json:"contextid"`
	User      json.Number `json:"userid"`
	Area      string      `json:"filearea"`
	File      string      `json:"filename"`
	Path      string      `json:"filepath"`
	Item      json.Number `json:"itemid"`
	SHA256    string      `json:"sha256"`
}

// upload sends the ZIP file to the draft area of the account.
func (m *moodle) upload(ctx context.Context, name string, from io.Reader) (artifact, error) {
	ctx, cancel := context.WithTimeout(ctx, fileTimeout)
	defer cancel()
	read1, write := io.Pipe()
	defer read1.Close()
	form := multipart.NewWriter(write)
	go func() {
		err := errors.Join(form.WriteField("token", m.token), form.WriteField("filearea", "draft"),
			form.WriteField("itemid", "0"))
		var part io.Writer
		if err == nil {
			part, err = form.CreateFormFile("file_1", name)
		}
		if err == nil {
			_, err = io.Copy(part, from)
		}
		write.CloseWithError(errors.Join(err, form.Close()))
	}()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, m.spec.Moodle.Upload, read1)
	if err != nil {
		return artifact{}, err
	}
	r.Header.Set("Content-Type", form.FormDataContentType())
	answer, err := m.do(r, "upload")
	if err != nil {
		return artifact{}, err
	}
	defer answer.Body.Close()
	var all []struct {
		artifact
		Error string `json:"errortype"`
		Text  string `json:"error"`
	}
	if err := read(answer.Body, "upload", &all); err != nil {
		return artifact{}, err
	}
	switch {
	case len(all) != 1:
		return artifact{}, wrong("upload", "", true, "the Moodle has %d files, not 1", len(all))
	case all[0].Error != "":
		return artifact{}, wrong("upload", all[0].Error, !final[all[0].Error], "%s", all[0].Text)
	}
	return all[0].artifact, nil
}

// process has the plugin take the uploaded file.
func (m *moodle) process(ctx context.Context, a *artifact) error {
	p := m.identity()
	for key, value := range map[string]string{
		"component": a.Component, "contextid": a.Context.String(), "userid": a.User.String(), "filearea": a.Area,
		"filename": a.File, "filepath": a.Path, "itemid": a.Item.String(), "sha256sum": a.SHA256,
	} {
		p.Set("artifact_"+key, value)
	}
	var answer struct{ Status string }
	f := m.function("process_uploaded_artifact")
	if err := m.call(ctx, f, p, &answer); err != nil {
		return err
	}
	return m.answered(f, answer.Status)
}

// ready reports whether the Moodle has made a backup (legacy).
func (m *moodle) ready(ctx context.Context, id string) (bool, error) {
	p := m.identity()
	p.Set("backupid", id)
	var a struct{ Status string }
	f := m.function("get_backup_status")
	if err := m.call(ctx, f, p, &a); err != nil {
		return false, err
	}
	if strings.HasPrefix(a.Status, "E_") {
		if a.Status == "E_BACKUP_PENDING" {
			return false, nil
		}
		return false, wrong(f, a.Status, false, "the Moodle answered %.80q", a.Status)
	}
	return a.Status == "SUCCESS" || a.Status == "OK", nil
}
