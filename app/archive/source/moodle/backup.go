package moodle

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stagepost/stagepost/app/archive/source"
	"github.com/stagepost/stagepost/app/archive/source/moodle/page"
	"github.com/stagepost/stagepost/format/mbz"
)

// Moodle gives a backup its id with the form, before it starts. The id is in the file as well, so that the file of
// another backup is never taken. A file can be replaced by another backup of the same minute: their names are equal.

// BackupFile is a file in the backup area of a course or an activity.
type BackupFile struct {
	Course   string    `json:"course"`
	Activity string    `json:"activity,omitempty"`
	Name     string    `json:"name"`
	URL      string    `json:"url"`
	Size     int64     `json:"size"`
	Created  time.Time `json:"created"`
	Area     string    `json:"area"` // course, automated, activity
}

// Limits of backups.
const (
	// startGrace is how long a start that was sent can take to arrive. A second one within this time could make a
	// second backup.
	startGrace = 2 * time.Minute
	// clockSkew is by how much the times of files can differ from those of pages.
	clockSkew = time.Minute
	// states of a backup in the Moodle (backup_controllers.status)
	statusAwaiting, statusFailed, statusDone = 700, 900, 1000
)

const (
	backupPath       = "/backup/backup.php"
	filesFunction    = "core_files_get_files"
	progressFunction = "core_backup_get_async_backup_progress"
)

var backupID = regexp.MustCompile(`^[0-9a-f]{32}$`)

// CanBackup implements [source.Backups].
func (s *Source) CanBackup(ctx context.Context) (reason string, err error) {
	if s.o.Login.User == "" || s.o.Login.Password == "" {
		return "backups are started by the pages of the Moodle: set the name and the password of an account", nil
	}
	lacks, err := s.lacks(ctx, filesFunction, progressFunction)
	if err != nil || lacks == "" {
		return "", err
	}
	return "add to the web service of the token: " + lacks, nil
}

// PrepareBackup implements [source.Backups]. It requests the form of a backup, which has the id.
func (s *Source) PrepareBackup(ctx context.Context, course, activity string) (*source.BackupRequest, error) {
	reason, err := s.CanBackup(ctx)
	switch {
	case err != nil:
		return nil, err
	case reason != "":
		return nil, &source.Error{Op: "backup of " + course, Code: "unsupported", Err: errors.New(reason)}
	}
	r := &source.BackupRequest{Course: course, Activity: activity}
	if _, r.Context, err = s.area(ctx, course, activity, "course"); err != nil {
		return nil, err
	}
	if err := s.lock(ctx); err != nil {
		return nil, err
	}
	defer s.unlock()
	p, f, err := s.backupForm(ctx, r)
	if err != nil {
		return nil, err
	}
	r.ID, r.Asked = f.Fields.Get("backup"), p.date.UTC()
	if p.date.IsZero() {
		r.Asked = s.now().UTC()
	}
	if !backupID.MatchString(r.ID) || f.Fields.Get("id") != course {
		return nil, &source.Error{Op: backupPath, Err: errors.New("the form has no id, or is of another course")}
	}
	if err := personal(f, r); err != nil {
		return nil, err
	}
	r.Warnings = lacksOf(f)
	return r, nil
}

// personal refuses a backup without data of people, or with other names of people: Moodle puts both into the private
// files of the account instead of the backup area, where they are not found and stay.
func personal(f *page.Form, r *source.BackupRequest) error {
	var why, remedy string
	switch {
	case f.Fields.Get("setting_root_users") != "1":
		why, remedy = "no data of people", "give the account moodle/backup:userinfo in the course; if it has it, an "+
			"administrator locked Include enrolled users (backup_general_users): unlock it"
	case f.Fields.Get("setting_root_anonymize") == "1":
		why, remedy = "other names of people", "an administrator locked Anonymize information "+
			"(backup_general_anonymize): unlock it"
	default:
		return nil
	}
	return &source.Error{Op: "backup of " + cmp.Or(r.Activity, r.Course), Code: "nouserinfo", Err: fmt.Errorf(
		"it would have %s, and the Moodle would put it into the private files of the account: %s, or set "+
			"course_backup and activity_backups to false", why, remedy)}
}

// lacksOf names what a backup will not contain.
func lacksOf(f *page.Form) (warnings []string) {
	for _, name := range []string{"activities", "files"} {
		if f.Fields.Get("setting_root_"+name) == "0" {
			warnings = append(warnings, "the backup will have no "+name+": an administrator locked the setting")
		}
	}
	return warnings
}

// browse makes the session of the account, which logs in when it is needed. The caller holds the lock.
func (s *Source) browse() (err error) {
	if s.session == nil {
		s.session, err = newSession(s.c, s.o.Login)
	}
	return err
}

// backupForm requests the form of a backup: of a new one if the request has no id.
func (s *Source) backupForm(ctx context.Context, r *source.BackupRequest) (*webPage, *page.Form, error) {
	if err := s.browse(); err != nil {
		return nil, nil, err
	}
	query := url.Values{"id": {r.Course}}
	if r.Activity != "" {
		query.Set("cm", r.Activity)
	}
	if r.ID != "" {
		query.Set("backup", r.ID)
	}
	p, f, err := s.session.form(ctx, backupPath+"?"+query.Encode(), "backup")
	if err != nil {
		return nil, nil, err
	}
	if f == nil { // Moodle shows no form while an asynchronous backup of the same account waits
		return nil, nil, &source.Error{Op: backupPath, Code: "pendingasync", Transient: true, After: time.Minute,
			Err: errors.New("another backup that the account started is not done")}
	}
	if _, ok := f.Buttons["oneclickbackup"]; !ok {
		return nil, nil, &source.Error{Op: backupPath, Err: errors.New("the form has no button oneclickbackup")}
	}
	complete(f)
	return p, f, nil
}

// complete ticks everything that a backup can contain. What an administrator locked stays.
func complete(f *page.Form) {
	for _, name := range strings.Fields("users role_assignments activities blocks files filters comments badges " +
		"calendarevents userscompletion logs grade_histories groups contentbankcontent legacyfiles questionbank " +
		"competencies customfield xapistate") {
		if value, ok := f.Boxes["setting_root_"+name]; ok {
			f.Fields.Set("setting_root_"+name, value)
		}
	}
	if _, ok := f.Boxes["setting_root_anonymize"]; ok {
		f.Fields.Set("setting_root_anonymize", "0")
	}
}

// BackupState implements [source.Backups].
func (s *Source) BackupState(ctx context.Context, r *source.BackupRequest) (source.BackupState, error) {
	var answer []struct {
		Status   int     `json:"status"`
		Progress float64 `json:"progress"`
		ID       string  `json:"backupid"`
	}
	_, err := s.c.call(ctx, progressFunction, params{"backupids": []string{r.ID}, "contextid": r.Context}, &answer)
	var failed *source.Error
	switch {
	case errors.As(err, &failed) && strings.HasPrefix(failed.Code, "invalidrecord"):
		return "", gone(r, "the Moodle has no record of it any more")
	case err != nil:
		return "", err
	case len(answer) != 1 || answer[0].ID != r.ID:
		err = errors.New("the answer is of another backup")
		return "", &source.Error{Op: progressFunction, Err: err, Transient: true}
	}
	switch status := answer[0].Status; {
	case status >= statusDone:
		return source.BackupDone, nil
	case status >= statusFailed:
		return "", &source.Error{Op: "backup " + r.ID, Code: "backupfailed", Err: fmt.Errorf(
			"%w (status %d): ask the administrator of the Moodle for the log of the task", source.ErrBackupFailed,
			status)}
	case status >= statusAwaiting:
		return source.BackupRunning, nil
	}
	switch awaited, err := s.answered(r.ID); {
	case err != nil:
		return "", err
	case awaited, !r.Posted.IsZero() && s.now().Sub(r.Posted) < startGrace:
		return source.BackupRunning, nil
	}
	return source.BackupNew, nil
}

// gone is the error after which only a new request helps. A later attempt of the caller makes one.
func gone(r *source.BackupRequest, why string) error {
	return &source.Error{Op: "backup " + r.ID, Code: "backupgone", Err: fmt.Errorf("%w: %s", source.ErrBackupGone, why),
		Transient: true}
}

// StartBackup implements [source.Backups]. A Moodle that makes backups at once answers when the backup is done: the
// call does not wait for that. Then it starts no other backup until the answer is there.
func (s *Source) StartBackup(ctx context.Context, r *source.BackupRequest, save func() error) error {
	if err := s.lock(ctx); err != nil {
		return err
	}
	defer s.unlock()
	for try := 0; ; try++ {
		state, err := s.BackupState(ctx, r)
		if err != nil || state != source.BackupNew || s.starting() {
			return err
		}
		_, f, err := s.backupForm(ctx, r)
		if err != nil {
			return err
		}
		if f.Fields.Get("backup") != r.ID { // with another id, the form would start another backup
			return gone(r, "the Moodle dropped the request")
		}
		if err := personal(f, r); err != nil { // the right was taken away meanwhile
			return err
		}
		f.Fields.Set("oneclickbackup", f.Buttons["oneclickbackup"])
		r.Posted = s.now().UTC()
		if err := save(); err != nil {
			return err
		}
		p, err := s.send(ctx, r.ID, f.Fields)
		switch {
		case err != nil || p == nil:
			return err
		case p.loggedOut() && try == 0: // the session ended after the form was read: the Moodle did not read the start
			r.Posted = time.Time{}
			continue
		case p.loggedOut():
			return &source.Error{Op: backupPath, Transient: true, Err: errors.New("the Moodle ended the session")}
		}
		return nil
	}
}

// Backups lists the finished backups of a course, with those that the Moodle makes on a schedule, or of an activity.
// The latest is first.
func (s *Source) Backups(ctx context.Context, course, activity string) ([]BackupFile, error) {
	areas := []string{"course", "automated"}
	if activity != "" {
		areas = []string{"activity"}
	}
	var all []BackupFile
	for _, area := range areas {
		list, _, err := s.area(ctx, course, activity, area)
		if err != nil {
			return nil, err
		}
		all = append(all, list...)
	}
	slices.SortStableFunc(all, func(a, b BackupFile) int {
		return cmp.Or(b.Created.Compare(a.Created), cmp.Compare(b.Name, a.Name))
	})
	return all, nil
}

// listed is a file or folder of a file area.
type listed struct {
	Name    string `json:"filename"`
	Dir     bool   `json:"isdir"`
	URL     string `json:"url"`
	Created int64  `json:"timecreated"` // seconds since 1970
	Size    int64  `json:"filesize"`
}

// area lists the backups of a file area, and gives its context.
func (s *Source) area(ctx context.Context, course, activity, area string) ([]BackupFile, string, error) {
	if activity != "" {
		area = "activity"
	}
	all, at, err := s.list(ctx, course, activity, area)
	var out []BackupFile
	for _, f := range all {
		if !f.Dir && strings.HasSuffix(f.Name, ".mbz") {
			out = append(out, BackupFile{Course: course, Activity: activity, Name: f.Name, URL: f.URL, Size: f.Size,
				Created: stamp(f.Created), Area: area})
		}
	}
	return out, at, err
}

// list lists everything in a file area of backups, and gives its context.
func (s *Source) list(ctx context.Context, course, activity, area string) ([]listed, string, error) {
	level, instance := "course", course
	if activity != "" {
		level, instance = "module", activity
	}
	var answer struct {
		Parents []struct {
			Context int `json:"contextid"`
		} `json:"parents"`
		Files []listed `json:"files"`
	}
	_, err := s.c.call(ctx, filesFunction, params{
		"contextid": -1, "contextlevel": level, "instanceid": instance, "component": component, "filearea": area,
		"itemid": 0, "filepath": "/", "filename": "",
	}, &answer)
	if err != nil {
		return nil, "", err
	}
	if len(answer.Parents) == 0 {
		if area == "automated" { // needs moodle/restore:userinfo as well
			return nil, "", nil
		}
		return nil, "", &source.Error{Op: filesFunction, Code: "nopermissions", Err: fmt.Errorf("the account cannot "+
			"view the backups of %s %s (moodle/backup:backupcourse, moodle/backup:downloadfile)", level, instance)}
	}
	return answer.Files, strconv.Itoa(answer.Parents[len(answer.Parents)-1].Context), nil
}

// FetchBackup implements [source.Backups].
func (s *Source) FetchBackup(
	ctx context.Context, r *source.BackupRequest, scratch *os.Root, out source.Out,
) (*source.Backup, error) {
	all, err := s.Backups(ctx, r.Course, r.Activity)
	if err != nil {
		return nil, err
	}
	var damaged error
	for _, f := range all {
		if f.Area == "automated" || f.Created.Before(r.Asked.Add(-clockSkew)) {
			continue
		}
		b, sum, err := s.fetchFile(ctx, f, r.ID, scratch, out)
		switch {
		case errors.Is(err, errOther):
		case errors.Is(err, errDamaged): // it may be of another request
			damaged = cmp.Or(damaged, err)
		case err != nil:
			return nil, err
		default:
			r.File = &source.BackupFile{Name: f.Name, Area: f.Area, Size: f.Size, SHA1: sum, Created: f.Created}
			return b, nil
		}
	}
	return nil, cmp.Or(damaged, gone(r, "the Moodle has no file of it: another backup of the same minute replaced it, "+
		"or it was deleted"))
}

// FetchListed writes a file of [Source.Backups] to backups/NAME of out.
func (s *Source) FetchListed(
	ctx context.Context, f BackupFile, scratch *os.Root, out source.Out,
) (*source.Backup, error) {
	b, _, err := s.fetchFile(ctx, f, "", scratch, out)
	return b, err
}

var (
	errOther   = errors.New("it is another backup")
	errDamaged = errors.New("damaged on the Moodle")
)

// fetchFile downloads and verifies a backup, and writes it to out if it has the id; an empty id is any. sum is
// the SHA-1 of its content.
func (s *Source) fetchFile(
	ctx context.Context, f BackupFile, id string, scratch *os.Root, out source.Out,
) (b *source.Backup, sum string, err error) {
	got, body, err := s.c.downloadTo(ctx, f.URL, scratch)
	if err != nil {
		return nil, "", err
	}
	defer body.Close()
	b, err = f.verify(body, got.Size, id)
	if err != nil {
		return nil, "", errors.Join(err, scratch.Remove(path.Base(body.Name())))
	}
	u, err := s.c.fileURL(f.URL)
	if err != nil {
		return nil, "", err
	}
	o := source.Origin{
		URL: publicURL(u), SHA1: got.SHA1, Type: "application/vnd.moodle.backup", Modified: f.Created,
	}
	err = out.Put(ctx, b.Name, &o, func(w io.Writer) error {
		_, err := io.Copy(w, io.NewSectionReader(body, 0, got.Size))
		return err
	})
	if err != nil {
		return nil, "", err // the scratch file serves the repetition
	}
	return b, got.SHA1, scratch.Remove(path.Base(body.Name()))
}

// verify reads a backup to its end.
func (f *BackupFile) verify(r io.ReaderAt, size int64, id string) (*source.Backup, error) {
	facts, err := mbz.Check(r, size)
	var faults mbz.Damage
	switch {
	case errors.As(err, &faults): // the bytes are those that the Moodle has: a repetition gets the same
		return nil, &source.Error{Op: f.Name, Err: fmt.Errorf("%w: %w", errDamaged, err)}
	case err != nil:
		return nil, &source.Error{Op: f.Name, Err: err, Transient: true}
	case id != "" && facts.ID != id:
		return nil, &source.Error{Op: f.Name, Err: errOther}
	}
	if err := f.matches(facts); err != nil {
		return nil, err
	}
	b := &source.Backup{Backup: *facts, Name: path.Join("backups", source.SafeName(f.Name))}
	if !facts.Users {
		b.Warnings = append(b.Warnings, "the backup has no data of people")
	}
	if facts.External > 0 {
		b.Warnings = append(b.Warnings, fmt.Sprintf("the backup names %d files whose content is on other servers",
			facts.External))
	}
	return b, nil
}

// matches compares a backup with what was asked for.
func (f *BackupFile) matches(b *mbz.Backup) error {
	kind, modules := "course", b.Modules
	if f.Activity != "" {
		kind = "activity"
	}
	switch {
	case strconv.Itoa(b.CourseID) != f.Course:
		return f.wrong("it is of the course %d, not %s", b.CourseID, f.Course)
	case b.Type != kind:
		return f.wrong("it is of the type %s, not %s", b.Type, kind)
	case kind == "activity" && (len(modules) != 1 || strconv.Itoa(modules[0]) != f.Activity):
		return f.wrong("it has the activities %v, not %s", modules, f.Activity)
	}
	return nil
}

func (f *BackupFile) wrong(format string, args ...any) error {
	return &source.Error{Op: f.Name, Err: fmt.Errorf("%w: %s", source.ErrContent, fmt.Sprintf(format, args...))}
}
