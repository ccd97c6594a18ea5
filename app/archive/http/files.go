package archivehttp

import (
	"html/template"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/server"
	"github.com/stagepost/stagepost/web"
	"github.com/stagepost/stagepost/web/amount"
)

// fileRow is a file of an archive with its copies.
type fileRow struct {
	api.ArchiveArtifact
	Link   string // to its content; empty: no copy can be read
	Copies []copyRow
}

// copyRow is a file in one storage location.
type copyRow struct {
	api.ArchiveCopy
	Tone  web.Tone
	Since string // how long ago it was checked, or read back when it was stored
}

// copyTones are how the states of copies appear.
var copyTones = map[string]web.Tone{"planned": web.Working, "verified": web.Good, "damaged": web.Bad,
	"missing": web.Bad, "deleted": web.Quiet}

// objectRow is a version of an OCFL object with its last fixity check.
type objectRow struct {
	api.ArchiveObject
	Tone  web.Tone
	State string
	Since string
}

// copiesView is what the page with the files of an archive shows.
type copiesView struct {
	List     template.HTML // empty: there are no files
	NextPage string
}

// copiesPath gives the address of a page of the files of an archive.
func copiesPath(id job.ID, after string) string {
	return web.With(web.JobPath(id)+"/copies", web.Given(url.Values{"after": {after}}))
}

// copiesPage shows the files of an archive and where each is.
func (s *Handlers) copiesPage(r *http.Request) (*web.Frame, error) {
	p := server.Params(r)
	after := p.Text("after")
	if err := p.Err(); err != nil {
		return nil, err
	}
	id := server.JobID(r)
	list, next, err := s.fileList(r, id, after, pageFiles)
	if err != nil {
		return nil, err
	}
	v := copiesView{List: list}
	if next != "" {
		v.NextPage = copiesPath(id, next)
	}
	return &web.Frame{Title: "Files and copies", Body: v,
		Up:   server.Link{Title: "The archive", Path: web.JobPath(id)},
		Lead: "Each copy has the digest that it had when it was read last: by a check, or when it was stored."}, nil
}

// fileList shows files of an archive after a path. next is the path of the last one; empty: there are no more.
func (s *Handlers) fileList(
	r *http.Request, id job.ID, after string, limit int,
) (list template.HTML, next string, err error) {
	path := prefix + "/archives/" + url.PathEscape(string(id))
	var files api.ArchiveArtifacts
	q := web.Given(url.Values{"after": {after}, "limit": {strconv.Itoa(limit)}})
	if err := s.pages.Get(r, web.With(path+"/artifacts", q), &files); err != nil || len(files.Artifacts) == 0 {
		return "", "", err
	}
	j, _ := s.Store.Get(r.Context(), id) // an archive without a record has no owner
	reads := s.PermitsFor(r, http.MethodGet, prefix+"/archives/{id}/content/{path...}", j.Owner)
	now := s.Engine.Clock().Now()
	rows := make([]fileRow, len(files.Artifacts))
	for i, f := range files.Artifacts {
		rows[i] = fileRow{ArchiveArtifact: f}
		for _, c := range f.Copies {
			since := c.Checked
			if since.IsZero() {
				since = c.Verified
			}
			rows[i].Copies = append(rows[i].Copies, copyRow{c, copyTones[c.State], amount.Ago(now, since)})
			if c.State == "verified" && reads {
				rows[i].Link = path + "/content/" + web.EscapePath(f.Path)
			}
		}
	}
	list, err = s.pages.Fragment("filelist.html", rows)
	return list, files.Next, err
}

// objectsOf states in words how the versions of OCFL objects are.
func objectsOf(all []api.ArchiveObject, now time.Time) []objectRow {
	rows := make([]objectRow, len(all))
	for i, o := range all {
		rows[i] = objectRow{o, web.Good, "verified", amount.Ago(now, o.Stored)}
		if o.Faults > 0 {
			rows[i].Tone, rows[i].State = web.Bad, "damaged"
		}
		if !o.Checked.IsZero() {
			rows[i].Since = amount.Ago(now, o.Checked)
		}
	}
	return rows
}
