package replay

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"
)

// User and Password are of the account that can log in by the login page.
const (
	User     = "backup"
	Password = "correct horse"
)

const (
	loginPath     = "/login/index.php"
	backupPath    = "/backup/backup.php"
	cookieName    = "MoodleSession"
	courseContext = "44"
)

// moduleContext gives the context of an activity.
var moduleContext = map[string]string{Page: "50", File: "51", Link: "52", Assign: "53", Quiz: "54", Forum: "55"}

// Backups is how the Moodle makes backups. It may be changed between requests.
type Backups struct {
	Async     bool                 // in the background: [Server.Cron] does the work
	Fails     bool                 // backups end with the status 900
	Forbidden bool                 // the account has no right to make backups
	NoUsers   bool                 // the account has no right to include data of people
	Alter     func(*Made)          // changes what the next backups contain
	Bytes     func([]byte) []byte  // changes the bytes of the next files
	ID        func() (id string)   // of the next form; nil: random
	Policy    bool                 // the account has to accept a policy first
	OtherHost string               // the login page is at another host
	Settings  map[string][2]string // check boxes of the form: value in the form ("0", "1") and "locked" or empty
}

// Made is what a backup states of itself.
type Made struct {
	ID, Type, Course, Activity string
}

// The states of a backup in a Moodle.
const (
	stateForm, stateAwaiting, stateRunning, stateFailed, stateDone = 500, 700, 800, 900, 1000
)

// controller is a backup from its form on.
type controller struct {
	id, course, activity string
	state                int
	settings             map[string]string
}

// made is a file of a backup area.
type made struct {
	name    string
	created time.Time
	size    int
}

// Started lists the ids of the backups that were started, in their order.
func (s *Server) Started() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.started)
}

// Settings gives the settings with which a backup was started.
func (s *Server) Settings(id string) map[string]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.control[id]; c != nil {
		return c.settings
	}
	return nil
}

// Expire ends all logins.
func (s *Server) Expire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.sessions)
}

// Drop forgets the backups that were not done, as a Moodle does after some days.
func (s *Server) Drop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.control)
}

// Cron does one step of the work in the background: a backup that waits runs, and one that runs ends.
func (s *Server) Cron() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.control {
		switch c.state {
		case stateAwaiting:
			c.state = stateRunning
		case stateRunning:
			if err := s.finish(c); err != nil {
				return err
			}
		}
	}
	return nil
}

// Backup makes a backup of the course by another account, as of now.
func (s *Server) Backup() (id string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := &controller{id: token(), course: Course, state: stateRunning}
	return c.id, s.finish(c)
}

// finish makes the file. Two backups of the same minute have the same name: the second one replaces the first.
func (s *Server) finish(c *controller) error {
	if s.Backups.Fails {
		c.state = stateFailed
		return nil
	}
	m := Made{ID: c.id, Type: "course", Course: c.course, Activity: c.activity}
	area, place, kind := courseContext, "course", "course-5-alg0181"
	if c.activity != "" {
		m.Type = "activity"
		area, place, kind = moduleContext[c.activity], "activity", "activity-"+c.activity
	}
	if s.Backups.Alter != nil {
		s.Backups.Alter(&m)
	}
	body, err := s.mbz(m)
	if err != nil {
		return err
	}
	if s.Backups.Bytes != nil {
		body = s.Backups.Bytes(body)
	}
	now := s.Now().UTC().Truncate(time.Second)
	name := fmt.Sprintf("backup-moodle2-%s-%s.mbz", kind, now.Format("20060102-1504"))
	s.areas[area] = slices.DeleteFunc(s.areas[area], func(m made) bool { return m.name == name })
	s.areas[area] = append(s.areas[area], made{name, now, len(body)})
	s.files[area+"/backup/"+place+"/"+name] = stored{body, "application/vnd.moodle.backup", false}
	c.state = stateDone
	return nil
}

var (
	detailOf   = regexp.MustCompile(`<detail backup_id="[0-9a-f]{32}">\s*<type>[a-z]+</type>`)
	activityOf = regexp.MustCompile(`(?s)\s*<activity>\s*<moduleid>(\d+)</moduleid>.*?</activity>`)
)

// mbz makes a backup of the recorded one.
func (s *Server) mbz(m Made) ([]byte, error) {
	zipped, err := gzip.NewReader(bytes.NewReader(s.backup))
	if err != nil {
		return nil, err
	}
	var headers []*tar.Header
	var bodies [][]byte
	facts, index := -1, -1
	for r := tar.NewReader(zipped); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		body, err := io.ReadAll(r)
		if err != nil {
			return nil, err
		}
		switch h.Name {
		case "moodle_backup.xml":
			facts = len(headers)
		case ".ARCHIVE_INDEX":
			index = len(headers)
		}
		headers, bodies = append(headers, h), append(bodies, body)
	}
	if facts < 0 || index < 0 {
		return nil, errors.New("the recorded backup has no facts or no index")
	}
	text := detailOf.ReplaceAllString(string(bodies[facts]),
		fmt.Sprintf(`<detail backup_id="%s"><type>%s</type>`, m.ID, m.Type))
	text = strings.ReplaceAll(text, "<original_course_id>5<", "<original_course_id>"+m.Course+"<")
	if m.Activity != "" {
		text = activityOf.ReplaceAllStringFunc(text, func(one string) string {
			if strings.Contains(one, "<moduleid>"+m.Activity+"<") {
				return one
			}
			return ""
		})
	}
	size := regexp.MustCompile(`(?m)^(moodle_backup\.xml\tf\t)\d+`)
	bodies[facts] = []byte(text)
	bodies[index] = size.ReplaceAll(bodies[index], fmt.Appendf(nil, "${1}%d", len(text)))
	return pack(headers, bodies)
}

func pack(headers []*tar.Header, bodies [][]byte) ([]byte, error) {
	var out bytes.Buffer
	zip := gzip.NewWriter(&out)
	w := tar.NewWriter(zip)
	for i, h := range headers {
		h.Size = int64(len(bodies[i]))
		if err := w.WriteHeader(h); err != nil {
			return nil, err
		}
		if _, err := w.Write(bodies[i]); err != nil {
			return nil, err
		}
	}
	err := errors.Join(w.Close(), zip.Close())
	return out.Bytes(), err
}

// made answers functions about backups. The lock is held.
func (s *Server) made(r *http.Request, name string) (text string, ok bool) {
	switch name {
	case "core_backup_get_async_backup_progress":
		c := s.control[r.Form.Get("backupids[0]")]
		if c == nil {
			return `{"exception":"dml_missing_record_exception","errorcode":"invalidrecord",` +
				`"message":"Can't find data record in database table backup_controllers."}`, true
		}
		return fmt.Sprintf(`[{"status":%d,"progress":%g,"backupid":"%s","operation":"backup"}]`, c.state,
			float64(max(c.state-stateAwaiting, 0))/300, c.id), true
	case "core_files_get_files_backup":
		return s.area(r)
	case "mod_assign_get_submission_status":
		return s.status(r.Form.Get("userid"))
	}
	return "", false
}

// status makes the answer for a person whose status was not recorded, of the list of submissions.
func (s *Server) status(person string) (text string, ok bool) {
	const recordedPerson = "19"
	list, err := s.answer("mod_assign_get_submissions")
	if person == recordedPerson || err != nil {
		return "", false
	}
	var all struct {
		Assignments []struct {
			Submissions []map[string]any `json:"submissions"`
		} `json:"assignments"`
	}
	if json.Unmarshal([]byte(list), &all) != nil {
		return "", false
	}
	last := map[string]any{"submissionsenabled": true, "graded": false, "gradingstatus": "notgraded"}
	for _, a := range all.Assignments {
		for _, one := range a.Submissions {
			if fmt.Sprint(one["userid"]) == person {
				last["submission"] = one
			}
		}
	}
	out, err := json.Marshal(map[string]any{"lastattempt": last, "previousattempts": []any{}, "warnings": []any{}})
	return string(out), err == nil
}

// area lists a backup area: the two recorded backups, and those that were made since.
func (s *Server) area(r *http.Request) (text string, ok bool) {
	get := r.Form.Get
	context, area := get("contextid"), get("filearea")
	if context == "-1" && get("contextlevel") == "course" && get("instanceid") == Course {
		context = courseContext
	}
	if context == "-1" && get("contextlevel") == "module" {
		context = moduleContext[get("instanceid")]
	}
	var list struct {
		Parents []map[string]any `json:"parents"`
		Files   []map[string]any `json:"files"`
	}
	recorded, err := s.answer("core_files_get_files_backup")
	if err != nil || json.Unmarshal([]byte(recorded), &list) != nil {
		return "", false
	}
	if s.Backups.Forbidden || area == "automated" || context == "" || context == "-1" {
		return `{"parents":[],"files":[]}`, true
	}
	if context != courseContext {
		list.Parents = append(list.Parents, map[string]any{"contextid": json.Number(context), "filename": "Activity"})
		list.Files = []map[string]any{}
	}
	for _, f := range list.Files {
		f["filesize"] = len(s.backup) // the recorded file is of another run than the list
	}
	for _, m := range s.areas[context] {
		list.Files = append(list.Files, map[string]any{
			"contextid": json.Number(context), "component": "backup", "filearea": area, "itemid": 0, "filepath": "/",
			"filename": m.name, "isdir": false, "timemodified": m.created.Unix(), "timecreated": m.created.Unix(),
			"filesize": m.size, "author": nil, "license": nil,
			"url": "http://" + r.Host + "/pluginfile.php/" + context + "/backup/" + area + "/" + m.name,
		})
	}
	out, err := json.Marshal(list)
	return string(out), err == nil
}

func token() string {
	b := make([]byte, 16)
	_, _ = rand.Read(b)
	return hex.EncodeToString(b)
}

// page answers requests of browsers.
func (s *Server) page(w http.ResponseWriter, r *http.Request) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch r.URL.Path {
	case loginPath:
		s.loginPage(w, r)
	case "/my/":
		show(w, http.StatusOK, "<h1>Dashboard</h1>")
	case "/admin/tool/policy/index.php":
		show(w, http.StatusOK, `<h1>Policy</h1><form action="/admin/tool/policy/index.php"></form>`)
	case backupPath:
		s.backupPage(w, r)
	default:
		return false
	}
	return true
}

func show(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	fmt.Fprintf(w, "<!DOCTYPE html><html><head><title>Moodle</title></head><body>%s</body></html>", body)
}

// session gives the cookie of a request and the key of its forms, which is empty without a login.
func (s *Server) session(r *http.Request) (cookie, key string) {
	c, err := r.Cookie(cookieName)
	if err != nil {
		return "", ""
	}
	return c.Value, s.sessions[c.Value]
}

func (s *Server) loginPage(w http.ResponseWriter, r *http.Request) {
	if s.Backups.OtherHost != "" {
		http.Redirect(w, r, s.Backups.OtherHost, http.StatusSeeOther)
		return
	}
	cookie, _ := s.session(r)
	message := ""
	if r.Method == http.MethodPost {
		if r.PostForm.Get("logintoken") == "login-"+cookie && cookie != "" &&
			r.PostForm.Get("username") == User && r.PostForm.Get("password") == Password {
			fresh := token() // a login changes the cookie
			s.sessions[fresh] = token()[:10]
			http.SetCookie(w, &http.Cookie{Name: cookieName, Value: fresh, Path: "/", HttpOnly: true})
			http.Redirect(w, r, "/my/", http.StatusSeeOther)
			return
		}
		message = `<div class="alert alert-danger" role="alert">Invalid login, please try again</div>`
	}
	if cookie == "" {
		cookie = token()
		http.SetCookie(w, &http.Cookie{Name: cookieName, Value: cookie, Path: "/", HttpOnly: true})
	}
	show(w, http.StatusOK, message+`<form action="http://`+r.Host+loginPath+`" method="post" id="login">
<input type="hidden" name="logintoken" value="login-`+cookie+`"><input type="text" name="username" value="">
<input type="password" name="password" value=""><button type="submit" id="loginbtn">Log in</button></form>
<form action="`+loginPath+`" id="guestlogin"><input type="hidden" name="username" value="guest"></form>`)
}

// fatal shows an error as Moodle does.
func fatal(w http.ResponseWriter, code, message string) {
	show(w, http.StatusNotFound, `<div class="box errorbox alert alert-danger" data-rel="fatalerror">`+
		`<p class="errormessage">`+html.EscapeString(message)+`</p><p class="errorcode">`+
		`<a href="https://docs.moodle.org/403/en/error/moodle/`+code+`">More information</a></p></div>`)
}

// backupPage shows the form, or starts a backup. An id without a backup that can be loaded gets a new id.
func (s *Server) backupPage(w http.ResponseWriter, r *http.Request) {
	_, key := s.session(r)
	get := r.Form.Get
	switch {
	case key == "":
		http.Redirect(w, r, loginPath, http.StatusSeeOther)
		return
	case s.Backups.Policy:
		http.Redirect(w, r, "/admin/tool/policy/index.php", http.StatusSeeOther)
		return
	case get("id") != Course:
		fatal(w, "invalidcourseid", "You are trying to use an invalid course ID")
		return
	case s.Backups.Forbidden:
		fatal(w, "nopermissions", "Sorry, but you do not currently have permissions to do that (Backup courses).")
		return
	}
	for _, c := range s.control {
		if s.Backups.Async && (c.state == stateAwaiting || c.state == stateRunning) && c.activity == get("cm") {
			show(w, http.StatusOK, `<div class="alert alert-danger">Pending backup</div>`)
			return
		}
	}
	c := s.control[get("backup")]
	if c == nil || c.state == stateDone {
		c = &controller{id: token(), course: get("id"), activity: get("cm"), state: stateForm}
		if s.Backups.ID != nil {
			c.id = s.Backups.ID()
		}
		s.control[c.id] = c
	}
	if r.Method != http.MethodPost || get("oneclickbackup") == "" {
		s.backupForm(w, r, c, key)
		return
	}
	s.start(w, r, c, key)
}

// start starts a backup by its form.
func (s *Server) start(w http.ResponseWriter, r *http.Request, c *controller, key string) {
	switch {
	case r.PostForm.Get("sesskey") != key:
		fatal(w, "invalidsesskey", "Incorrect sesskey submitted, form not accepted!")
		return
	case c.state != stateForm:
		fatal(w, "cannot_finish_ui_if_not_setting_ui", "error/cannot_finish_ui_if_not_setting_ui")
		return
	}
	c.settings = map[string]string{}
	for name, values := range r.PostForm {
		if short, ok := strings.CutPrefix(name, "setting_root_"); ok {
			c.settings[short] = values[len(values)-1]
		}
	}
	s.started = append(s.started, c.id)
	if s.Backups.Async {
		c.state = stateAwaiting
		show(w, http.StatusOK, `<div class="backup_progress" data-backupid="`+c.id+`">The backup is pending</div>`)
		return
	}
	if err := s.finish(c); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	if c.state == stateFailed {
		fatal(w, "backupfailed", "The backup did not finish")
		return
	}
	show(w, http.StatusOK, `<div class="alert alert-success">The backup file was successfully created.</div>`)
}

// backupForm shows the settings. A box that is not locked has a hidden field before it, as Moodle's forms have.
func (s *Server) backupForm(w http.ResponseWriter, r *http.Request, c *controller, key string) {
	var out strings.Builder
	hidden := func(name, value string) {
		fmt.Fprintf(&out, `<input type="hidden" name="%s" value="%s">`+"\n", name, html.EscapeString(value))
	}
	fmt.Fprintf(&out, `<form action="http://%s%s" method="post" id="mform1">`+"\n", r.Host, backupPath)
	hidden("id", c.course)
	if c.activity != "" {
		hidden("cm", c.activity)
	}
	for _, pair := range [][2]string{
		{"stage", "1"}, {"backup", c.id}, {"sesskey", key}, {"_qf__backup_initial_form", "1"},
	} {
		hidden(pair[0], pair[1])
	}
	for _, name := range strings.Fields("imscc11 users anonymize activities files logs grade_histories") {
		now, locked := "1", false
		if slices.Contains([]string{"imscc11", "anonymize", "logs", "grade_histories"}, name) {
			now = "0"
		}
		if set, ok := s.Backups.Settings[name]; ok {
			now, locked = set[0], set[1] == "locked"
		}
		if name == "users" && s.Backups.NoUsers {
			now, locked = "0", true
		}
		full := "setting_root_" + name
		if locked {
			hidden(full, now)
			continue
		}
		hidden(full, "0")
		checked := map[string]string{"1": " checked"}[now]
		fmt.Fprintf(&out, `<input type="checkbox" name="%s" value="1" id="id_%s"%s>`+"\n", full, full, checked)
	}
	out.WriteString(`<input type="submit" name="oneclickbackup" value="Jump to final step">
<input type="submit" name="submitbutton" value="Next"><input type="submit" name="cancel" value="Cancel"></form>`)
	show(w, http.StatusOK, out.String())
}
