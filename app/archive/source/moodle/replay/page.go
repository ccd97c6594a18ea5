package replay

import (
	"fmt"
	"html"
	"net/http"
	"slices"
	"strings"
)

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
	case filesPath:
		s.filesPage(w, r)
	case draftPath:
		s.draftPage(w, r)
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
			http.Redirect(w, r, s.Path+"/my/", http.StatusSeeOther)
			return
		}
		message = `<div class="alert alert-danger" role="alert">Invalid login, please try again</div>`
	}
	if cookie == "" {
		cookie = token()
		http.SetCookie(w, &http.Cookie{Name: cookieName, Value: cookie, Path: "/", HttpOnly: true})
	}
	show(w, http.StatusOK, message+`<form action="`+s.at(r)+loginPath+`" method="post" id="login">
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
		http.Redirect(w, r, s.Path+loginPath, http.StatusSeeOther)
		return
	case s.Backups.Policy:
		http.Redirect(w, r, s.Path+"/admin/tool/policy/index.php", http.StatusSeeOther)
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
	fmt.Fprintf(&out, `<form action="%s%s" method="post" id="mform1">`+"\n", s.at(r), backupPath)
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
		set, ok := s.Backups.Settings[name]
		if ok {
			now, locked = set[0], set[1] == "locked"
		}
		if set[1] == "absent" {
			continue
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
