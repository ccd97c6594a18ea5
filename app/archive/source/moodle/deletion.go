package moodle

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"os"
	"regexp"
	"strconv"
	"time"

	"github.com/stagepost/stagepost/app/archive/source"
	"github.com/stagepost/stagepost/app/archive/source/moodle/page"
)

// No web service deletes a backup. A person does it with a page: it copies the list of the files of an area into a
// draft, the person removes a file from the draft, and the form makes the area equal to the draft. A file that comes
// into the area after the page was made is therefore deleted by the form as well. So the area is listed immediately
// before the form is sent, and nothing is sent if anything but the one file differs.
const (
	filesPath = "/backup/backupfilesedit.php"
	draftPath = "/repository/draftfiles_ajax.php"
	component = "backup"
	draftName = "files_filemanager" // field of the form with the number of the draft
)

var number = regexp.MustCompile(`^[0-9]{1,19}$`)

// DeleteBackup implements [source.Backups]. It needs the right moodle/restore:uploadfile besides those of backups.
func (s *Source) DeleteBackup(ctx context.Context, r *source.BackupRequest, scratch *os.Root) error {
	reason, err := s.CanBackup(ctx)
	switch {
	case err != nil:
		return err
	case reason != "":
		return &source.Error{Op: filesPath, Code: "unsupported", Err: errors.New(reason)}
	}
	if r.File == nil {
		_, err := s.FetchBackup(ctx, r, scratch, nowhere{})
		if errors.Is(err, source.ErrBackupGone) {
			return nil
		}
		if err != nil {
			return err
		}
	}
	if err := s.lock(ctx); err != nil {
		return err
	}
	defer s.unlock()
	for try := 0; ; try++ {
		if err := s.deleteFile(ctx, r); !errors.Is(err, errLoggedOut) || try > 0 {
			return err
		}
	}
}

// nowhere is an Out for a file that is only identified.
type nowhere struct{ source.Out }

func (nowhere) Put(context.Context, string, *source.Origin, func(w io.Writer) error) error {
	return nil
}

// deleteFile deletes the file of a request. A repetition after any of its requests changes nothing else.
func (s *Source) deleteFile(ctx context.Context, r *source.BackupRequest) error {
	before, err := s.areaOf(ctx, r)
	if err != nil {
		return err
	}
	if _, ok := before[r.File.Name]; !ok {
		return nil
	}
	d, err := s.openDraft(ctx, r)
	if err != nil {
		return err
	}
	if err := s.isFetched(ctx, r, before[r.File.Name]); err != nil {
		return err
	}
	if err := d.remove(ctx, r.File.Name); err != nil {
		return err
	}
	if err := d.lacksOnly(ctx, r, before); err != nil {
		return err
	}
	now, err := s.areaOf(ctx, r)
	if err != nil {
		return err
	}
	if !maps.Equal(before, now) {
		return changed(r)
	}
	sent := d.send(ctx)
	after, err := s.areaOf(ctx, r) // the answer to the form may have been lost
	if err != nil {
		return cmp.Or(sent, err)
	}
	if _, ok := after[r.File.Name]; ok {
		return cmp.Or(sent, error(&source.Error{Op: filesPath, Transient: true,
			Err: fmt.Errorf("the Moodle did not delete %s", r.File.Name)}))
	}
	return nil
}

// changed is the error of an area that another one changes at the moment.
func changed(r *source.BackupRequest) error {
	return &source.Error{Op: filesPath, Code: "changed", Transient: true, Err: fmt.Errorf(
		"the backups of the %s changed while %s was to be deleted", r.File.Area, r.File.Name)}
}

// entry is a file of an area.
type entry struct {
	size    int64
	created int64 // seconds since 1970
	url     string
}

// areaOf lists the area that has the file of a request, by names. Folders are refused: the form would delete them.
func (s *Source) areaOf(ctx context.Context, r *source.BackupRequest) (map[string]entry, error) {
	all, at, err := s.list(ctx, r.Course, r.Activity, r.File.Area)
	if err != nil {
		return nil, err
	}
	if at != r.Context {
		return nil, &source.Error{Op: filesFunction, Err: fmt.Errorf("%w: the backups of the %s have the context %s, "+
			"not %s", source.ErrBackupOther, r.File.Area, at, r.Context)}
	}
	out := map[string]entry{}
	for _, f := range all {
		if f.Dir {
			return nil, &source.Error{Op: filesFunction, Err: fmt.Errorf("the backups of the %s have a folder, %s, "+
				"which the page would delete", r.File.Area, f.Name)}
		}
		out[f.Name] = entry{f.Size, f.Created, f.URL}
	}
	return out, nil
}

// isFetched compares a file with the one that was fetched: its size, time and content.
func (s *Source) isFetched(ctx context.Context, r *source.BackupRequest, e entry) error {
	other := func(what string, now, then any) error {
		return &source.Error{Op: r.File.Name, Err: fmt.Errorf("%w: its %s is %v, not %v", source.ErrBackupOther, what,
			now, then)}
	}
	switch {
	case e.size != r.File.Size:
		return other("size", e.size, r.File.Size)
	case !stamp(e.created).Equal(r.File.Created):
		return other("time", stamp(e.created).Format(time.RFC3339), r.File.Created.Format(time.RFC3339))
	}
	u, err := s.c.fileURL(e.url)
	if err != nil {
		return &source.Error{Op: r.File.Name, Err: err}
	}
	answer, err := s.c.open(ctx, u, 0, "")
	if err != nil {
		return err
	}
	answer.Body.Close()
	if sum := etag(answer.Header); sum != r.File.SHA1 {
		return other("SHA-1", cmp.Or(sum, "unknown"), r.File.SHA1)
	}
	return nil
}

// draft is the copy of an area's list that its page made.
type draft struct {
	s    *session
	form *page.Form
}

// openDraft requests the page.
func (s *Source) openDraft(ctx context.Context, r *source.BackupRequest) (*draft, error) {
	if err := s.browse(); err != nil {
		return nil, err
	}
	query := url.Values{
		"currentcontext": {r.Context}, "contextid": {r.Context}, "filearea": {r.File.Area}, "component": {component},
		"returnurl": {s.c.base.String() + "/my/"},
	}
	_, f, err := s.session.form(ctx, filesPath+"?"+query.Encode(), draftName)
	var refused *source.Error
	if errors.As(err, &refused) && refused.Code == "nopermissions" {
		return nil, &source.Error{Op: filesPath, Code: refused.Code, Err: fmt.Errorf(
			"the account may not delete backups: give it moodle/restore:uploadfile: %w", refused.Err)}
	}
	if err != nil {
		return nil, err
	}
	bad := func(why string) error { return &source.Error{Op: filesPath, Err: errors.New(why)} }
	switch {
	case f == nil:
		return nil, bad("the page has no form for files")
	case f.Fields.Get("contextid") != r.Context || f.Fields.Get("filearea") != r.File.Area ||
		f.Fields.Get("component") != component:
		return nil, bad("the form is of other files")
	case !number.MatchString(f.Fields.Get(draftName)) || f.Fields.Get("sesskey") == "":
		return nil, bad("the form has no number of a draft, or no key")
	}
	if _, ok := f.Buttons["submitbutton"]; !ok {
		return nil, bad("the form has no button submitbutton")
	}
	return &draft{s.session, f}, nil
}

// call asks for an action on the draft.
func (d *draft) call(ctx context.Context, action string, more url.Values, into any) error {
	form := url.Values{
		"sesskey": {d.form.Fields.Get("sesskey")}, "itemid": {d.form.Fields.Get(draftName)}, "filepath": {"/"},
	}
	maps.Copy(form, more)
	return d.s.call(ctx, draftPath+"?action="+action, form, into)
}

// remove removes a file from the draft. The area does not change.
func (d *draft) remove(ctx context.Context, name string) error {
	var answer json.RawMessage // false, or the folder
	if err := d.call(ctx, "delete", url.Values{"filename": {name}}, &answer); err != nil {
		return err
	}
	if string(answer) == "false" {
		return &source.Error{Op: draftPath, Transient: true, Err: fmt.Errorf("the draft has no file %s", name)}
	}
	return nil
}

// lacksOnly reports an error unless the draft has every file of the area except that of the request.
func (d *draft) lacksOnly(ctx context.Context, r *source.BackupRequest, area map[string]entry) error {
	var answer struct {
		List []struct {
			Name string      `json:"filename"`
			Path string      `json:"filepath"`
			Size json.Number `json:"size"`  // null: 0
			Ref  bool        `json:"isref"` // its content is elsewhere: the form would delete it
		} `json:"list"`
	}
	if err := d.call(ctx, "list", nil, &answer); err != nil {
		return err
	}
	have := map[string]int64{}
	for _, f := range answer.List {
		if f.Ref || f.Path != "/" {
			return &source.Error{Op: draftPath, Err: fmt.Errorf("the backups of the %s have a folder or a reference, "+
				"%s, which the page would delete", r.File.Area, f.Name)}
		}
		size, err := strconv.ParseInt(cmp.Or(f.Size.String(), "0"), 10, 64)
		if err != nil {
			return &source.Error{Op: draftPath, Err: err}
		}
		have[f.Name] = size
	}
	want := map[string]int64{}
	for name, e := range area {
		if name != r.File.Name {
			want[name] = e.size
		}
	}
	if !maps.Equal(have, want) {
		return changed(r)
	}
	return nil
}

// send sends the form: the area becomes equal to the draft.
func (d *draft) send(ctx context.Context) error {
	d.form.Fields.Set("submitbutton", d.form.Buttons["submitbutton"])
	p, err := d.s.page(ctx, filesPath, d.form.Fields)
	var refused *source.Error
	if errors.As(err, &refused) && loginCodes[refused.Code] || err == nil && p.loggedOut() {
		return &source.Error{Op: filesPath, Err: errLoggedOut, Transient: true}
	}
	return err
}
