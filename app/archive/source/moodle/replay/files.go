package replay

import (
	"encoding/json"
	"fmt"
	"html"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

const (
	filesPath = "/backup/backupfilesedit.php"
	draftPath = "/repository/draftfiles_ajax.php"
)

// draft is a copy of the list of an area, which a person changes and sends back.
type draft struct {
	key           string // of the forms of the session that made it
	context, area string
	files         map[string]int64 // sizes in bytes by name
}

// Deleted lists the names of the backups that were deleted by the page, in their order.
func (s *Server) Deleted() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.deleted)
}

// BackupFiles lists the names of the backups of the course, or of an activity.
func (s *Server) BackupFiles(activity string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	context := courseContext
	if activity != "" {
		context = moduleContext[activity]
	}
	return slices.Sorted(maps.Keys(s.sizes(context)))
}

// sizes gives the files of an area.
func (s *Server) sizes(context string) map[string]int64 {
	all := map[string]int64{}
	list, _ := s.listArea(context, "")
	for _, f := range list.Files {
		size, _ := strconv.ParseInt(fmt.Sprint(f["filesize"]), 10, 64)
		all[fmt.Sprint(f["filename"])] = size
	}
	return all
}

// filesPage shows the form of the files of an area, with a new draft of them, or makes the area equal to a draft.
func (s *Server) filesPage(w http.ResponseWriter, r *http.Request) {
	_, key := s.session(r)
	get := r.Form.Get
	context, area := get("contextid"), get("filearea")
	known := context == courseContext || slices.Contains(slices.Collect(maps.Values(moduleContext)), context)
	switch {
	case key == "":
		http.Redirect(w, r, s.Path+loginPath, http.StatusSeeOther)
		return
	case !known || get("currentcontext") != context || get("component") != "backup":
		fatal(w, "invalidcontext", "Invalid context")
		return
	case s.Backups.NoDelete:
		fatal(w, "nopermissions", "Sorry, but you do not currently have permissions to do that (Upload backup files).")
		return
	case r.Method == http.MethodPost && get("sesskey") != key:
		fatal(w, "invalidsesskey", "Incorrect sesskey submitted, form not accepted!")
		return
	case r.Method == http.MethodPost && get("submitbutton") != "" && get("_qf__backup_files_edit_form") == "1":
		if d := s.drafts[get("files_filemanager")]; d != nil && d.key == key {
			s.keep(context, area, d.files)
			http.Redirect(w, r, get("returnurl"), http.StatusSeeOther)
			return
		}
	}
	id := strconv.Itoa(400_000_000 + len(s.drafts))
	s.drafts[id] = &draft{key, context, area, s.sizes(context)}
	var out strings.Builder
	fmt.Fprintf(&out, `<form action="%s%s" method="post">`+"\n", s.at(r), filesPath)
	for _, pair := range [][2]string{
		{"contextid", context}, {"currentcontext", context}, {"filearea", area}, {"component", "backup"},
		{"returnurl", get("returnurl")}, {"sesskey", key}, {"_qf__backup_files_edit_form", "1"},
		{"files_filemanager", id},
	} {
		fmt.Fprintf(&out, `<input type="hidden" name="%s" value="%s">`+"\n", pair[0], html.EscapeString(pair[1]))
	}
	out.WriteString(`<input type="submit" name="submitbutton" value="Save changes">
<input type="submit" name="cancel" value="Cancel"></form>`)
	show(w, http.StatusOK, out.String())
}

// keep deletes the files of an area that a draft does not have, whenever they came.
func (s *Server) keep(context, area string, files map[string]int64) {
	for _, name := range slices.Sorted(maps.Keys(s.sizes(context))) {
		if _, ok := files[name]; ok {
			continue
		}
		s.areas[context] = slices.DeleteFunc(s.areas[context], func(m made) bool { return m.name == name })
		s.removed[name] = true
		delete(s.files, context+"/backup/"+area+"/"+name)
		s.deleted = append(s.deleted, name)
	}
}

// draftPage answers scripts of the form.
func (s *Server) draftPage(w http.ResponseWriter, r *http.Request) {
	_, key := s.session(r)
	get := r.Form.Get
	d := s.drafts[get("itemid")]
	var out any = false
	switch {
	case key == "":
		out = map[string]string{"error": "You are not logged in", "errorcode": "requireloginerror"}
	case get("sesskey") != key:
		out = map[string]string{"error": "Incorrect sesskey submitted", "errorcode": "invalidsesskey"}
	case d == nil || d.key != key || get("filepath") != "/":
	case get("action") == "delete":
		if _, ok := d.files[get("filename")]; ok {
			delete(d.files, get("filename"))
			out = map[string]string{"filepath": "/"}
		}
	case get("action") == "list":
		list := []map[string]any{}
		for _, name := range slices.Sorted(maps.Keys(d.files)) {
			list = append(list, map[string]any{
				"filename": name, "filepath": "/", "size": strconv.FormatInt(d.files[name], 10), // as databases give it
				"isref": s.Backups.Reference,
			})
		}
		out = map[string]any{"list": list, "filecount": len(list)}
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	_ = json.NewEncoder(w).Encode(out)
}
