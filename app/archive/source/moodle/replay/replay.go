// Package replay is a small Moodle for tests and demonstrations. It gives the recorded answers of a Moodle 4.3 with
// one course, and the files of the backup of the course.
package replay

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha1"
	"embed"
	"encoding/hex"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Token is the token that the Moodle accepts.
const Token = "0123456789abcdef0123456789abcdef"

// Course and the activities of the course.
const (
	Course = "5"
	Page   = "16"
	File   = "17"
	Link   = "18"
	Assign = "19"
	Quiz   = "20"
	Forum  = "21"
)

// recorded is the address in the answers.
const recorded = "http://127.0.0.1:18090"

//go:embed answers
var answers embed.FS

// Server is the Moodle. Its methods may be called concurrently.
type Server struct {
	// Now is the clock of the Moodle. Defaults to time.Now.
	Now func() time.Time
	// Path is that of the address of the Moodle, such as /moodle. Defaults to none.
	Path string
	// Backups is how the Moodle makes backups.
	Backups Backups

	before atomic.Pointer[Interceptor]

	mu       sync.Mutex
	files    map[string]stored // by the path below pluginfile.php
	edits    map[string]string // answers that differ from the recorded ones
	calls    map[string]int
	backup   []byte
	sessions map[string]string // keys of forms, by cookie; empty: not logged in
	control  map[string]*controller
	areas    map[string][]made // by context
	started  []string
	drafts   map[string]*draft // by number
	removed  map[string]bool   // recorded backups, by name
	deleted  []string
}

type stored struct {
	body      []byte
	kind      string
	generated bool // made for each request: no ETag, no ranges
}

// New makes a Moodle.
func New() (*Server, error) {
	s := &Server{
		files: map[string]stored{}, edits: map[string]string{}, calls: map[string]int{}, Now: time.Now,
		sessions: map[string]string{}, control: map[string]*controller{}, areas: map[string][]made{},
		drafts: map[string]*draft{}, removed: map[string]bool{},
	}
	var err error
	if s.backup, err = answers.ReadFile("answers/course.mbz"); err != nil {
		return nil, err
	}
	if err := s.unpack(); err != nil {
		return nil, fmt.Errorf("the recorded backup: %w", err)
	}
	s.files["50/mod_page/content/index.html"] = stored{[]byte("<p>Hello <b>world</b></p>"), "text/html", true}
	for _, name := range []string{"1024", "1025"} {
		s.files["44/backup/course/backup-moodle2-course-5-alg0181-20261120-"+name+".mbz"] =
			stored{s.backup, "application/vnd.moodle.backup", false}
	}
	return s, nil
}

// unpack takes the files of the course from its backup.
func (s *Server) unpack() error {
	zipped, err := gzip.NewReader(bytes.NewReader(s.backup))
	if err != nil {
		return err
	}
	contents := map[string][]byte{}
	var list struct {
		Files []struct {
			Sum       string `xml:"contenthash"`
			Context   string `xml:"contextid"`
			Component string `xml:"component"`
			Area      string `xml:"filearea"`
			Item      string `xml:"itemid"`
			Path      string `xml:"filepath"`
			Name      string `xml:"filename"`
			Type      string `xml:"mimetype"`
		} `xml:"file"`
	}
	for r := tar.NewReader(zipped); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		switch {
		case h.Name == "files.xml":
			err = xml.NewDecoder(r).Decode(&list)
		case strings.HasPrefix(h.Name, "files/") && h.Typeflag == tar.TypeReg:
			contents[path.Base(h.Name)], err = io.ReadAll(r)
		}
		if err != nil {
			return err
		}
	}
	for _, f := range list.Files {
		if body, ok := contents[f.Sum]; ok {
			item := f.Item
			if f.Component == "question" { // usage and slot are before the step
				item = map[string]string{"9": "2/3/9", "18": "3/3/18"}[item]
			}
			name := path.Join(f.Context, f.Component, f.Area, item, f.Path, f.Name)
			s.files[name] = stored{body, f.Type, false}
		}
	}
	return nil
}

// Listen serves the Moodle on this machine until ctx ends; port 0 is any free one. It returns the address at once, and
// done is closed when the server has ended. The Moodle has known passwords: it is never served to other machines.
func (s *Server) Listen(ctx context.Context, port int) (address string, done <-chan struct{}, err error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return "", nil, err
	}
	server := &http.Server{Handler: s, ReadHeaderTimeout: time.Minute}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = server.Serve(listener) // ends by Close
	}()
	context.AfterFunc(ctx, func() { _ = server.Close() })
	return "http://" + listener.Addr().String(), ended, nil
}

// Interceptor sees a request with the function, the path of the file or the page that it asks for, and may answer it.
type Interceptor func(w http.ResponseWriter, r *http.Request, what string) (answered bool)

// Intercept gives each request to f before it is answered; nil ends that.
func (s *Server) Intercept(f Interceptor) { s.before.Store(&f) }

// Files lists the paths of the files, as they follow pluginfile.php.
func (s *Server) Files() (all []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name := range s.files {
		all = append(all, name)
	}
	return all
}

// Edit replaces a text in an answer, from now on. name is that of the file of the answer, without .json.
func (s *Server) Edit(name, from, to string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	text, err := s.answer(name)
	if err != nil {
		return err
	}
	if !strings.Contains(text, from) {
		return fmt.Errorf("the answer %s does not contain %q", name, from)
	}
	s.edits[name] = strings.ReplaceAll(text, from, to)
	return nil
}

// SetFile replaces the content of a file.
func (s *Server) SetFile(name string, body []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.files[name] = stored{body, "application/octet-stream", false}
}

// Calls counts the requests for a function or a file.
func (s *Server) Calls(what string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls[what]
}

func (s *Server) answer(name string) (string, error) {
	if text, ok := s.edits[name]; ok {
		return text, nil
	}
	text, err := answers.ReadFile("answers/" + name + ".json")
	return string(text), err
}

// ServeHTTP answers as a Moodle does: errors of functions with the status 200.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if err := r.ParseForm(); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if r = s.below(r); r == nil {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	name, isFile := strings.CutPrefix(r.URL.Path, "/webservice/pluginfile.php/")
	if r.URL.Path == "/webservice/pluginfile.php" { // the path can also be a parameter
		name, isFile = strings.CutPrefix(r.Form.Get("file"), "/")
	}
	what := r.Form.Get("wsfunction")
	switch {
	case isFile:
		what = name
	case what == "":
		what = r.URL.Path
	}
	w.Header().Set("Date", s.Now().UTC().Format(http.TimeFormat))
	s.mu.Lock()
	s.calls[what]++
	s.mu.Unlock()
	before := s.before.Load()
	switch {
	case before != nil && *before != nil && (*before)(w, r, what):
	case strings.HasPrefix(r.URL.Path, "/pluginfile.php/"):
		http.Redirect(w, r, s.Path+loginPath, http.StatusSeeOther)
	case s.page(w, r):
	case isFile && r.Form.Get("token") != Token, !isFile && r.Form.Get("wstoken") != Token:
		Fail(w, "moodle_exception", "invalidtoken", "Invalid token - token not found")
	case isFile:
		s.file(w, r, name)
	case r.URL.Path == "/webservice/rest/server.php":
		s.function(w, r, what)
	default:
		http.NotFound(w, r)
	}
}

// at is the address of the Moodle.
func (s *Server) at(r *http.Request) string { return "http://" + r.Host + s.Path }

// below gives a request with the path below that of the Moodle; nil: it is for another path.
func (s *Server) below(r *http.Request) *http.Request {
	rest, ok := strings.CutPrefix(r.URL.Path, s.Path)
	if !ok {
		return nil
	}
	if s.Path == "" {
		return r
	}
	out := r.WithContext(r.Context())
	u := *r.URL
	u.Path, u.RawPath = rest, ""
	out.URL = &u
	return out
}

// Fail answers with an exception.
func Fail(w http.ResponseWriter, exception, code, message string) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	_ = json.NewEncoder(w).Encode(map[string]string{"exception": exception, "errorcode": code, "message": message})
}

// choose gives the name of the recorded answer to a call.
func choose(r *http.Request, function string) (name string, ok bool) {
	get := r.Form.Get
	switch function {
	case "mod_quiz_get_user_attempts", "mod_quiz_get_user_quiz_attempts": // the second name is of Moodle 5
		if get("userid") != "19" {
			return "mod_quiz_get_user_attempts_none", true
		}
		return "mod_quiz_get_user_attempts", true
	case "mod_quiz_get_attempt_review":
		switch get("attemptid") {
		case "2":
		case "4":
			return function + "_inprogress", true
		default:
			return "", false
		}
	case "core_files_get_files":
		switch {
		case get("component") == "backup":
			return function + "_backup", true
		case get("contextid") != courseContext:
			return "", false
		}
		return function + "_coursectx", true
	case "core_course_get_courses_by_field":
		if v := get("value"); v != "" && v != Course {
			return noCourses, true
		}
	case "core_course_get_contents", "core_enrol_get_enrolled_users", "gradereport_user_get_grade_items":
		if get("courseid") != Course {
			return "", false
		}
	}
	return function, true
}

// noCourses is the name of the answer to a search for a course that does not exist, which Moodle does not refuse.
const noCourses = "core_course_get_courses_by_field_none"

func (s *Server) function(w http.ResponseWriter, r *http.Request, function string) {
	name, ok := choose(r, function)
	if !ok {
		Fail(w, "dml_missing_record_exception", "invalidrecord", "Can't find data record in database.")
		return
	}
	s.mu.Lock()
	text, err := s.answer(name)
	if name == noCourses {
		text, err = `{"courses":[],"warnings":[]}`, nil
	}
	if made, ok := s.made(r, name); ok && err == nil {
		text, err = made, nil
	}
	s.mu.Unlock()
	if err != nil {
		Fail(w, "webservice_access_exception", "accessexception", "Access control exception")
		return
	}
	text = strings.ReplaceAll(text, recorded, s.at(r))
	if name == "core_files_get_files_backup" { // the backup is of another run than the list
		text = strings.NewReplacer("19532", fmt.Sprint(len(s.backup)), "19498", fmt.Sprint(len(s.backup))).Replace(text)
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, []byte(text)); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	_, _ = w.Write(compact.Bytes())
}

func (s *Server) file(w http.ResponseWriter, r *http.Request, name string) {
	s.mu.Lock()
	f, ok := s.files[name]
	s.mu.Unlock()
	if !ok {
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		w.WriteHeader(http.StatusNotFound)
		_ = json.NewEncoder(w).Encode(map[string]string{
			"error": "Sorry, the requested file could not be found", "errorcode": "filenotfound",
		})
		return
	}
	w.Header().Set("Content-Type", f.kind)
	if f.generated {
		w.Header().Set("Accept-Ranges", "none")
		_, _ = w.Write(f.body)
		return
	}
	sum := sha1.Sum(f.body)
	w.Header().Set("ETag", `"`+hex.EncodeToString(sum[:])+`"`)
	if r.Method == http.MethodPost { // ServeContent honours ranges of GET only
		r = r.Clone(r.Context())
		r.Method = http.MethodGet
	}
	http.ServeContent(w, r, "", time.Unix(1795170182, 0), bytes.NewReader(f.body))
}
