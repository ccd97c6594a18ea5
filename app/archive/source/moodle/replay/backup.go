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
	NoDelete  bool                 // the account has no right to change the files of an area
	Reference bool                 // a file of each area is a reference to another file
	Alter     func(*Made)          // changes what the next backups contain
	Bytes     func([]byte) []byte  // changes the bytes of the next files
	ID        func() (id string)   // of the next form; nil: random
	Policy    bool                 // the account has to accept a policy first
	OtherHost string               // the login page is at another host
	Settings  map[string][2]string // check boxes of the form: value ("0", "1"), and "locked", "absent" or empty
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
	c := &controller{id: token(), course: Course, state: stateRunning, settings: map[string]string{"users": "1"}}
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
	if c.settings["users"] != "1" || c.settings["anonymize"] == "1" { // it is among the private files of the account
		c.state = stateDone
		return nil
	}
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
	if s.Backups.Forbidden || area == "automated" || context == "" || context == "-1" {
		return `{"parents":[],"files":[]}`, true
	}
	list, ok := s.listArea(context, area)
	for _, f := range list.Files {
		if f["url"] == nil {
			f["url"] = s.at(r) + "/pluginfile.php/" + context + "/backup/" + area + "/" + fmt.Sprint(f["filename"])
		}
	}
	out, err := json.Marshal(list)
	return string(out), ok && err == nil
}

// areaList is the answer of the function that lists files.
type areaList struct {
	Parents []map[string]any `json:"parents"`
	Files   []map[string]any `json:"files"`
}

// listArea lists the files of a context. Those that were not recorded have no address yet.
func (s *Server) listArea(context, area string) (list areaList, ok bool) {
	recorded, err := s.answer("core_files_get_files_backup")
	if err != nil || json.Unmarshal([]byte(recorded), &list) != nil {
		return list, false
	}
	if context != courseContext {
		list.Parents = append(list.Parents, map[string]any{"contextid": json.Number(context), "filename": "Activity"})
		list.Files = []map[string]any{}
	}
	list.Files = slices.DeleteFunc(list.Files, func(f map[string]any) bool {
		return s.removed[fmt.Sprint(f["filename"])]
	})
	for _, f := range list.Files {
		f["filesize"] = len(s.backup) // the recorded file is of another run than the list
	}
	for _, m := range s.areas[context] {
		list.Files = append(list.Files, map[string]any{
			"contextid": json.Number(context), "component": "backup", "filearea": area, "itemid": 0, "filepath": "/",
			"filename": m.name, "isdir": false, "timemodified": m.created.Unix(), "timecreated": m.created.Unix(),
			"filesize": m.size, "author": nil, "license": nil, "url": nil,
		})
	}
	return list, true
}

func token() string {
	b := make([]byte, 16)
	_, _ = rand.Read(b)
	return hex.EncodeToString(b)
}
