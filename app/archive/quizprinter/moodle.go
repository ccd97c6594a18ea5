package quizprinter

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
)

// Names of the protocol.
const (
	servicePath = "/webservice/rest/server.php"
	uploadPath  = "/webservice/upload.php"
	functions   = "archivingmod_quiz_"
	attempt     = 1 // each order has one
	maxCall     = 1 << 20
	zipName     = "answer.zip"
)

// Moodle is the Moodle that workers see: it gives the documents of open orders, and takes their ZIP files.
type Moodle struct {
	mu     sync.Mutex // guards the rest
	orders map[string]*order
	tasks  int64
}

// order is a document that a worker prints.
type order struct {
	token string // of this order alone
	task  int64
	text  []byte
	root  *os.Root // the ZIP file is written there
	ended chan error
	valid func(context.Context) error // checks the claim of the document

	mu  sync.Mutex // guards sum
	sum string     // SHA-256 of the ZIP file; empty: there is none
}

// NewMoodle makes one without orders.
func NewMoodle() *Moodle { return &Moodle{orders: map[string]*order{}} }

// open makes an order. valid gives an error when the claim of the document is over: from then on, its token is refused.
func (s *Moodle) open(text []byte, root *os.Root, valid func(context.Context) error) *order {
	o := &order{token: rand.Text(), text: text, root: root, ended: make(chan error, 1), valid: valid}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tasks++
	o.task = s.tasks
	s.orders[o.token] = o
	return o
}

// close makes the token of an order invalid.
func (s *Moodle) close(o *order) {
	s.mu.Lock()
	delete(s.orders, o.token)
	s.mu.Unlock()
	o.mu.Lock() // an upload ends before the directory does
	defer o.mu.Unlock()
}

// find gives the order of a token; nil: there is none, or its claim is over.
func (s *Moodle) find(ctx context.Context, token string) *order {
	s.mu.Lock()
	o := s.orders[token]
	s.mu.Unlock()
	if o == nil || o.valid(ctx) != nil {
		return nil
	}
	return o
}

// end reports the end of an order; the first one counts.
func (o *order) end(err error) {
	select {
	case o.ended <- err:
	default:
	}
}

// Handler answers workers at the paths of a Moodle. As a Moodle, it answers mistakes with the status 200. refused gets
// the requests whose token is that of no open order; nil: nothing does.
func (s *Moodle) Handler(refused func(*http.Request, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		var answer any
		var err error
		switch r.URL.Path {
		case servicePath:
			r.Body = http.MaxBytesReader(w, r.Body, maxCall)
			answer, err = s.call(r)
		case uploadPath:
			answer, err = s.upload(w, r)
		default:
			http.NotFound(w, r)
			return
		}
		if err != nil && refused != nil {
			refused(r, err)
		}
		_ = json.NewEncoder(w).Encode(answer) // the worker is gone if this fails
	})
}

// Sender returns a name for the sender of a request whose query has the token of an open order, which does not show
// the token; "" for other requests.
func (s *Moodle) Sender(r *http.Request) string {
	q := r.URL.Query()
	o := s.find(r.Context(), cmp.Or(q.Get("wstoken"), q.Get("token")))
	if o == nil {
		return ""
	}
	return fmt.Sprintf("the quiz archive worker that prints document %d", o.task)
}

// errToken is why a request is refused.
var errToken = errors.New("the token is that of no document that a quiz archive worker prints now")

// noOrder is the answer to a request without the token of an open order. err is for the log; nil: there is no token.
func noOrder(token string) (answer any, err error) {
	if token != "" {
		err = errToken
	}
	return mistake("invalidtoken", "Invalid token - token not found"), err
}

// mistake is an error as Moodle sends it.
func mistake(code, message string) map[string]string {
	return map[string]string{
		"exception": "moodle_exception", "errorcode": code, "message": message, "debuginfo": message,
	}
}

// word is the answer of a function that has a status only.
func word(status string) map[string]string { return map[string]string{"status": status} }

// call answers a function of the web service. err is why the token is refused.
func (s *Moodle) call(r *http.Request) (answer any, err error) {
	token := r.FormValue("wstoken")
	o := s.find(r.Context(), token)
	if o == nil {
		return noOrder(token)
	}
	return o.call(r), nil
}

// call answers a function that has the token of the order.
func (o *order) call(r *http.Request) any {
	name, ours := strings.CutPrefix(r.FormValue("wsfunction"), functions)
	switch {
	case !ours:
		return mistake("accessexception", "the service has functions of archivingmod_quiz only")
	case r.FormValue("taskid") == "": // this is how workers probe the token
		return mistake("invalidparameter", "Invalid parameter value detected")
	case r.FormValue("taskid") != strconv.FormatInt(o.task, 10):
		return word("E_TASK_NOT_FOUND")
	}
	switch name {
	case "generate_attempt_report":
		if r.FormValue("attemptid") != strconv.Itoa(attempt) {
			return word("E_ATTEMPT_NOT_FOUND")
		}
		return map[string]any{
			"status": "OK", "attemptid": attempt, "foldername": "document", "filename": "document",
			"report": string(o.text), "attachments": []any{},
		}
	case "update_task_status":
		if code := r.FormValue("status"); code == "250" || code == "251" {
			o.end(failed("the order has the status %s", code))
		}
		return word("OK")
	case "process_uploaded_artifact":
		o.mu.Lock()
		defer o.mu.Unlock()
		if o.sum == "" || o.sum != r.FormValue("artifact_sha256sum") {
			return word("E_CHECKSUM_MISMATCH")
		}
		o.end(nil)
		return word("OK")
	}
	return mistake("invalidrecord", "there is no function "+name)
}

// upload takes a ZIP file. The token comes before the file, or in the query. What comes before the file is short: no
// more of a body is read before its token is checked. err is why the token is refused.
func (s *Moodle) upload(w http.ResponseWriter, r *http.Request) (answer any, err error) {
	body := &io.LimitedReader{R: http.MaxBytesReader(w, r.Body, maxPDF+maxAnswer), N: maxCall}
	r.Body = struct {
		io.Reader
		io.Closer
	}{body, r.Body}
	form, err := r.MultipartReader()
	if err != nil {
		return mistake("invalidparameter", err.Error()), nil
	}
	token := r.URL.Query().Get("token")
	for {
		part, err := form.NextPart()
		switch {
		case errors.Is(err, io.EOF):
			return mistake("nofile", "there is no file"), nil
		case err != nil:
			return mistake("upload_error_partial", err.Error()), nil
		case part.FileName() != "":
			o := s.find(r.Context(), token)
			if o == nil {
				return noOrder(token)
			}
			body.N = maxPDF + maxAnswer
			return s.keep(r.Context(), o, part), nil
		case part.FormName() == "token":
			text, err := io.ReadAll(io.LimitReader(part, 1000))
			if err != nil {
				return mistake("upload_error_partial", err.Error()), nil
			}
			token = string(text)
		}
	}
}

// keep writes the ZIP file of an order. An upload after the end of the order is refused.
func (s *Moodle) keep(ctx context.Context, o *order, part *multipart.Part) any {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.ended) > 0 || s.find(ctx, o.token) == nil {
		return mistake("invalidtoken", "the order has ended")
	}
	o.sum = ""
	f, err := o.root.Create(zipName)
	if err != nil {
		return mistake("storedfilenotcreated", "the file cannot be written")
	}
	sum := sha256.New()
	_, err = io.Copy(io.MultiWriter(f, sum), part)
	if err := errors.Join(err, f.Close()); err != nil {
		return mistake("upload_error_partial", "the file was not received in full length")
	}
	o.sum = hex.EncodeToString(sum.Sum(nil))
	return []any{map[string]any{
		"component": "user", "contextid": 1, "userid": 1, "filearea": "draft", "filename": part.FileName(),
		"filepath": "/", "itemid": o.task,
	}}
}
