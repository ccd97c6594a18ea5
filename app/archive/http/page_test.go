package archivehttp_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/server"
	"github.com/stagepost/stagepost/server/identity"
	"github.com/stagepost/stagepost/server/servertest"
	"github.com/stagepost/stagepost/web"
)

// browse does a request as a browser does.
func (h *harness) browse(method, path string, fields ...string) (*http.Response, string) {
	h.T.Helper()
	q := url.Values{}
	for i := 0; i < len(fields); i += 2 {
		q.Set(fields[i], fields[i+1])
	}
	r := h.Request(method, path, q.Encode())
	r.Header.Set("Accept", "text/html")
	if len(fields) > 0 {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	answer, text := h.Ask(r)
	servertest.CheckHeaders(h.T, answer)
	return answer, text
}

func (h *harness) page(path string) string {
	h.T.Helper()
	answer, text := h.browse(http.MethodGet, path)
	if answer.StatusCode != http.StatusOK {
		h.T.Fatalf("%s: got %s: %s", path, answer.Status, text)
	}
	return text
}

func contains(t *testing.T, what, text string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if !strings.Contains(text, p) {
			t.Errorf("%s lacks %q: %s", what, p, text)
		}
	}
}

// TestPagesOfArchives: the list of courses, a course whose activity changes, and the package of a job with its copies.
func TestPagesOfArchives(t *testing.T) {
	h := open(t)
	contains(t, "the empty list", h.page("/archive"), "No archive matches")
	var o client.ArchiveOrder
	o.Course = "maps"
	j := h.archive(o)
	o.Course = "notes"
	h.archive(o)
	contains(t, "the list", h.page("/archive"), `href="/archive/disk/maps"`, "near: verified", "far: verified",
		`<span class="badge good">complete</span>`, `<span class="sub">none</span>`)
	if text := h.page("/archive?source=disk&course=maps"); strings.Contains(text, "/archive/disk/notes") {
		t.Errorf("the filter shows other courses: %s", text)
	}
	contains(t, "the webhooks", h.page("/archive/hooks"), "<bdi>lms</bdi>", "lms.example")
	contains(t, "the course", h.page("/archive/disk/maps"), "1 archived", `href="/jobs/`+string(j.ID)+`"`, "Archive it")
	if err := os.WriteFile(filepath.Join(h.dir, "root/maps/a.txt"), []byte("other"), 0o600); err != nil {
		t.Fatal(err)
	}
	contains(t, "the changed course", h.page("/archive/disk/maps"), "1 changed", `<span class="badge held">changed</span>`)
	h.disk.down.Store(true)
	contains(t, "a course whose source is down", h.page("/archive/disk/maps"), "The source does not answer",
		`href="/jobs/`+string(j.ID)+`"`)
	h.disk.down.Store(false)
	if answer, _ := h.browse(http.MethodGet, "/archive/disk/none"); answer.StatusCode < 400 {
		t.Errorf("a course that does not exist: got %s", answer.Status)
	}
	files, err := h.Client.ArchiveArtifacts(t.Context(), j.ID, "", 0)
	if err != nil {
		t.Fatal(err)
	}
	a := files.Artifacts[0]
	text := h.page("/jobs/" + string(j.ID))
	contains(t, "the job", text, "kept indefinitely", a.SHA256, "/content/"+a.Path,
		`<th scope="row"><bdi>near</bdi></th>`,
		"Preservation metadata")
	if answer, _ := h.browse(http.MethodGet, "/api/v1/archive/archives/"+string(j.ID)+"/content/"+a.Path); answer.
		StatusCode != http.StatusOK {
		t.Errorf("the link to the file: got %s", answer.Status)
	}
}

// TestCourseIsArchivedByTheForm: a form that is sent twice makes one job.
func TestCourseIsArchivedByTheForm(t *testing.T) {
	h := open(t)
	to := ""
	for range 2 {
		answer, text := h.browse(http.MethodPost, "/archive/disk/maps", "note", "term is over", "key", "k")
		if answer.StatusCode != http.StatusSeeOther || to != "" && answer.Header.Get("Location") != to {
			t.Fatalf("got %s to %q: %s", answer.Status, answer.Header.Get("Location"), text)
		}
		to = answer.Header.Get("Location")
	}
	id := job.ID(strings.TrimPrefix(to, "/jobs/"))
	if _, err := h.Await(t.Context(), id, func(j *job.Job) bool { return j.Ended }); err != nil {
		t.Fatal(err)
	}
	contains(t, "the job", h.page(to), "term is over")
	if answer, _ := h.browse(http.MethodPost, "/archive/none/maps", "note", "x", "key", "l"); answer.StatusCode < 400 {
		t.Errorf("a source that does not exist: got %s", answer.Status)
	}
}

// TestProblemsOfCopies: a legal hold, a damaged copy and a deletion are stated on the pages.
func TestProblemsOfCopies(t *testing.T) {
	h := open(t)
	var o client.ArchiveOrder
	o.Course = "maps"
	id := h.archive(o).ID
	if _, err := h.Client.HoldArchive(t.Context(), id, client.HoldArchive{Name: "case 7", Note: "court " + hostile,
		Actor: "ann"}); err != nil {
		t.Fatal(err)
	}
	text := h.page("/jobs/" + string(id))
	contains(t, "the held archive", text, "Legal hold", "case 7", "court &#34;&gt;")
	if _, err := h.Client.ReleaseArchive(t.Context(), id, "case 7", "ann", "over"); err != nil {
		t.Fatal(err)
	}
	if text := h.page("/jobs/" + string(id)); strings.Contains(text, "Legal hold") {
		t.Errorf("a released hold is shown: %s", text)
	}
	if _, err := h.Client.DeleteArchive(t.Context(), id, client.DeleteArchive{Note: "mistake",
		Actor: "ann"}); err != nil {
		t.Fatal(err)
	}
	contains(t, "the list", h.page("/archive"), "Requests to delete that wait for a decision", "mistake")
}

const hostile = `"><script>alert(1)</script><img src=x onerror=alert(1)>` + "\u202e"

// TestWhoseArchives: a user sees its own archives without the pages of operators, which are the control.
func TestWhoseArchives(t *testing.T) {
	inner := open(t)
	var o client.ArchiveOrder
	o.Course, o.Owner = "maps", "ann"
	inner.archive(o)
	o.Course, o.Owner = "notes", "bob"
	inner.archive(o)
	g := servertest.GuardWith(t, func(_ *servertest.Guarded, o *server.Options) { o.Engine = inner.Engine },
		func(w *servertest.Harness) server.Part { return web.Part(w.Server) }, inner.part)
	for role, want := range map[identity.Role][2]bool{identity.Depositor: {true, false}, identity.Operator: {true,
		true},
		identity.Auditor: {true, true}} {
		r := g.With(g.Tokens[role], http.MethodGet, "/archive", "")
		r.Header.Set("Accept", "text/html")
		_, text := g.Ask(r)
		if strings.Contains(text, "maps") != want[0] || strings.Contains(text, "notes") != want[1] ||
			strings.Contains(text, "Storage locations") != want[1] || strings.Contains(text,
			"/archive/disk/") != want[1] {
			t.Errorf("%s: want %v: %s", role, want, text)
		}
	}
}

// TestWhoseContent: the files of an archive are for its owner and for admins, on its page and by the API. An operator
// requests that it is deleted, and an admin approves it.
func TestWhoseContent(t *testing.T) {
	inner := open(t)
	var o client.ArchiveOrder
	o.Course, o.Owner = "maps", "ann"
	j := inner.archive(o)
	content := "/api/v1/archive/archives/" + string(j.ID) + "/content/" + inner.files(j.ID)[0].Path
	g := servertest.GuardWith(t, func(_ *servertest.Guarded, o *server.Options) { o.Engine = inner.Engine },
		func(w *servertest.Harness) server.Part { return web.Part(w.Server) }, inner.part)
	for role, may := range map[identity.Role]bool{identity.Depositor: true, identity.Admin: true,
		identity.Operator: false, identity.Auditor: false} {
		if answer, text := g.Ask(g.With(g.Tokens[role], http.MethodGet, content, "")); may &&
			answer.StatusCode != http.StatusOK || !may && (answer.StatusCode != http.StatusForbidden ||
			!strings.Contains(text, "their owner and admins may")) {
			t.Errorf("%s: got %s: %s", role, answer.Status, text)
		}
		for _, path := range []string{"/jobs/" + string(j.ID), "/jobs/" + string(j.ID) + "/copies"} {
			r := g.With(g.Tokens[role], http.MethodGet, path, "")
			r.Header.Set("Accept", "text/html")
			_, text := g.Ask(r)
			if strings.Contains(text, content) != may || !strings.Contains(text, inner.files(j.ID)[0].SHA256) {
				t.Errorf("%s for %s: there is a link: %t: %s", path, role, !may, text)
			}
		}
	}
	send := func(role identity.Role, path, body string) (int, string) {
		answer, text := g.Ask(g.With(g.Tokens[role], http.MethodPost, "/api/v1/archive"+path, body))
		return answer.StatusCode, text
	}
	status, text := send(identity.Operator, "/archives/"+string(j.ID)+"/deletion", `{"note":"wrong course"}`)
	var d client.ArchiveDeletion
	if err := json.Unmarshal([]byte(text), &d); err != nil || status != http.StatusAccepted || d.State != "requested" {
		t.Fatalf("a request of an operator: got %d %s, %v", status, text, err)
	}
	if status, text := send(identity.Operator, "/deletions/"+d.Request, `{"approve":true}`); status !=
		http.StatusForbidden {
		t.Errorf("an operator approves: got %d %s", status, text)
	}
	if status, text := send(identity.Admin, "/deletions/"+d.Request, `{"approve":true}`); status !=
		http.StatusAccepted {
		t.Errorf("an admin approves: got %d %s", status, text)
	}
}

// browsed is a server with archives of two courses.
func browsed(t *testing.T) (*harness, map[string]any) {
	h := open(t)
	var o client.ArchiveOrder
	o.Course, o.Owner, o.Note = "maps", "ann", "term is over"
	id := h.archive(o).ID
	o.Course = "notes"
	h.archive(o)
	return h, map[string]any{"archive": id, "digest": h.files(id)[0].SHA256, "pages": []string{"/archive",
		"/archive/disk/maps", "/jobs/" + string(id), "/jobs/" + string(id) + "/copies"}}
}

// TestBrowser runs scripts/browser/archive.mjs.
func TestBrowser(t *testing.T) {
	h, set := browsed(t)
	if _, err := h.Client.HoldArchive(t.Context(), set["archive"].(job.ID), client.HoldArchive{Name: hostile[:40],
		Note: hostile, Actor: hostile[:40]}); err != nil {
		t.Fatal(err)
	}
	h.Browser(t, "archive.mjs", set)
}
