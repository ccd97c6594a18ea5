package ingest

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stagepost/stagepost/app/ingest/profile"
	"github.com/stagepost/stagepost/app/ingest/record"
	"github.com/stagepost/stagepost/app/ingest/report"
	"github.com/stagepost/stagepost/app/ingest/workdir"
	"github.com/stagepost/stagepost/edge/fetch/ftptest"
	"github.com/stagepost/stagepost/job"
)

// upload stages files, given as names and contents in turn.
func (w *harness) upload(files ...string) *Upload {
	w.t.Helper()
	u, err := w.Upload("")
	if err != nil {
		w.t.Fatal(err)
	}
	for i := 0; i < len(files); i += 2 {
		if err := u.Add(w.t.Context(), files[i], strings.NewReader(files[i+1])); err != nil {
			w.t.Fatal(err)
		}
	}
	return u
}

// workIsEmpty requires that nothing of a refused submission stays.
func (w *harness) workIsEmpty() {
	w.t.Helper()
	left, err := os.ReadDir(filepath.Join(w.dir, workdir.WorkName))
	if err != nil && !errors.Is(err, os.ErrNotExist) || len(left) > 0 {
		w.t.Errorf("what was staged stays: %v, %v", left, err)
	}
}

// TestFilesOfOneSubmission submits several files at once: each becomes the object of a job of its own, whatever it is.
func TestFilesOfOneSubmission(t *testing.T) {
	s := newSite(t, map[string]string{"fetched.txt": "fetched"})
	w := start(t)
	u := w.upload("letter.txt", "Dear Anna", "box.zip", zipOf(t, "in/box.txt", "boxed"), "list.checkm",
		s.manifest("fetched.txt"), "letter.txt", "a second of its name")
	b, err := u.Submit(t.Context(), Submission{Profile: "test", Submitter: "ann", Creator: "A. Person"})
	if err != nil {
		t.Fatal(err)
	}
	if done := w.end(b.ID); done.State != record.Completed {
		r := w.reported(b.ID)
		t.Fatal(done.Cause, done.Message, r.Text())
	}
	r := w.reported(b.ID)
	want := map[string]string{"letter.txt": "Dear Anna", "in/box.txt": "boxed", "fetched.txt": "fetched"}
	texts := []string{}
	for _, j := range r.Jobs {
		for name, text := range w.files(j.ARK, "v1") {
			if name, ours := strings.CutPrefix(name, "producer/"); ours {
				if text != want[name] && text != "a second of its name" {
					t.Errorf("%s: %q", name, text)
				}
				texts = append(texts, text)
			}
		}
	}
	slices.Sort(texts)
	if !slices.Equal(texts, []string{"Dear Anna", "a second of its name", "boxed", "fetched"}) {
		t.Errorf("got %q", texts)
	}
	handed, err := w.Submission(t.Context(), b.ID)
	if err != nil || len(handed.More) != 3 || handed.More[0].Filename != "box.zip" || handed.Jobs != 4 ||
		handed.Submission.Filename != "letter.txt" {
		t.Errorf("got %+v, %v", handed, err)
	}
	left, err := filepath.Glob(filepath.Join(w.dir, workdir.WorkName, string(b.ID), workdir.PayloadName+"*"))
	if err != nil || len(left) > 0 {
		t.Errorf("files of a completed batch stay: %v, %v", left, err)
	}
	w.valid()
}

// TestOneOfSeveralFilesFails keeps the files until all objects are stored: the one that failed is retried with its own.
func TestOneOfSeveralFilesFails(t *testing.T) {
	s := newSite(t, map[string]string{"a.txt": "right"})
	list := s.manifest("a.txt")
	s.put("a.txt", "wrong")
	w := start(t)
	b, err := w.upload("first.txt", "1", "list.checkm", list).Submit(t.Context(), Submission{Profile: "test"})
	if err != nil {
		t.Fatal(err)
	}
	if done := w.end(b.ID); done.State != record.Failed {
		r := w.reported(b.ID)
		t.Fatal(done.Cause, done.Message, r.Text())
	}
	r := w.reported(b.ID)
	i := slices.IndexFunc(r.Jobs, func(j report.Job) bool { return j.State == record.Failed })
	if i < 0 || r.Jobs[i].Filename != "list.checkm" || r.Jobs[i].Cause != CauseBadDigest || r.Completed != 1 {
		t.Fatal(r.Text())
	}
	s.put("a.txt", "right")
	if err := w.do(r.Jobs[i].Job, record.Retry); err != nil {
		t.Fatal(err)
	}
	if j := w.end(r.Jobs[i].Job); j.State != record.Completed {
		t.Errorf("got %s: %s", j.Cause, j.Message)
	}
}

// TestRefusedFiles refuses what cannot hold for several files, and keeps none of them.
func TestRefusedFiles(t *testing.T) {
	small := testProfile()
	small.ID, small.Limits = "small", profile.Limits{Bytes: 3, Manifest: 3}
	w := start(t, testProfile(), small)
	batch := manifest("mrt-batch-manifest", "http://example.org/x | | | | | x.checkm | | a")
	for name, c := range map[string]struct {
		s     Submission
		files []string
		has   string
	}{
		"no file": {Submission{}, nil, "there is no file"},
		"a primary id": {Submission{PrimaryID: "ark:/99999/fk4a"}, []string{"a", "1", "b", "2"},
			"belongs to one object"},
		"local ids": {Submission{LocalIDs: []string{"x"}}, []string{"a", "1", "b", "2"},
			"belongs to one object"},
		"a digest": {Submission{DigestType: "md5", DigestValue: md5Hex("1")}, []string{"a", "1", "b", "2"},
			"one file"},
		"a batch type": {Submission{Type: TypeBatchManifest}, []string{"a", batch, "b", batch},
			"submit each by itself"},
		"a hostile name":   {Submission{}, []string{"a", "1", "../../b", "2"}, "the name of file 2"},
		"no such profile":  {Submission{Profile: "none"}, []string{"a", "1"}, "there is no profile"},
		"too large for it": {Submission{Profile: "small"}, []string{"a", "1", "b", "1234"}, "file 2 has 4 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			if c.s.Profile == "" {
				c.s.Profile = "test"
			}
			_, err := w.upload(c.files...).Submit(t.Context(), c.s)
			if job.KindOf(err) != job.Invalid || !strings.Contains(fmt.Sprint(err), c.has) {
				t.Errorf("got %v, want %q", err, c.has)
			}
			w.workIsEmpty()
		})
	}
	u := w.upload("a", "1")
	for range mostFiles - 1 {
		if err := u.Add(t.Context(), "b", strings.NewReader("")); err != nil {
			t.Fatal(err)
		}
	}
	if err := u.Add(t.Context(), "one too many", strings.NewReader("")); job.KindOf(err) != job.Invalid {
		t.Errorf("got %v", err)
	}
	w.workIsEmpty()
	cut, stop := context.WithCancel(t.Context())
	stop()
	if err := w.upload("a", "1").Add(cut, "b", strings.NewReader("2")); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	w.workIsEmpty()
	control := w.upload("a", "1", "b", "2")
	if _, err := control.Submit(t.Context(), Submission{Profile: "test"}); err != nil {
		t.Errorf("control: %v", err)
	}
}

// TestBatchManifestAmongFiles refuses a batch manifest that is found among other files: it has to be submitted by
// itself.
func TestBatchManifestAmongFiles(t *testing.T) {
	w := start(t)
	batch := manifest("mrt-batch-manifest", "http://example.org/x | | | | | x.checkm | | a")
	b, err := w.upload("a.txt", "1", "batch.checkm", batch).Submit(t.Context(), Submission{Profile: "test"})
	if err != nil {
		t.Fatal(err)
	}
	done := w.end(b.ID)
	if done.Cause != CauseWrongType || !strings.Contains(done.Message, "file 2, batch.checkm") {
		t.Errorf("got %s: %s", done.Cause, done.Message)
	}
}

// TestUploadOfAUser binds the submission to the owner of the token.
func TestUploadOfAUser(t *testing.T) {
	p := testProfile()
	p.Submitters = []string{"ann"}
	w := start(t, p)
	for user, ok := range map[string]bool{"ann": true, "eve": false} {
		u, err := w.Upload(user)
		if err == nil {
			err = u.Add(t.Context(), "a.txt", strings.NewReader("a"))
		}
		if err == nil {
			_, err = u.Submit(t.Context(), Submission{Profile: "test", Submitter: user})
		}
		if (err == nil) != ok {
			t.Errorf("%s: got %v", user, err)
		}
	}
}

// TestDescriptionsOfSubmissions accepts and refuses what describes an object.
func TestDescriptionsOfSubmissions(t *testing.T) {
	w := start(t)
	for name, c := range map[string]struct {
		s   Submission
		has string
	}{
		"control": {Submission{DublinCore: map[string][]string{"subject": {"a", " "}}, ResourceType: "dataset/Survey",
			Embargo: "2031-12-31"}, ""},
		"unknown element":    {Submission{DublinCore: map[string][]string{"colour": {"red"}}}, `"colour" is none of`},
		"control characters": {Submission{DublinCore: map[string][]string{"subject": {"a\x00"}}}, "control character"},
		"many values": {Submission{DublinCore: map[string][]string{"subject": strings.Split(strings.Repeat("a,", 300),
			",")}},
			"more than 200 values"},
		"unknown type": {Submission{ResourceType: "Film"}, "resource type"},
		"no date":      {Submission{Embargo: "next summer"}, "neither a date"},
	} {
		c.s.Profile = "test"
		_, err := w.Submit(t.Context(), c.s, strings.NewReader("x"))
		if c.has == "" && err != nil || c.has != "" && !strings.Contains(fmt.Sprint(err), c.has) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	for text, want := range map[string]string{"Dataset": "Dataset", "dataset / Survey": "Dataset/Survey",
		"Film": "Audiovisual/Film", "a/b": "Other/a b", "": ""} {
		if got := LooseResourceType(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

// TestFormDescribesTheObject merges what the form and the files have about an object: every element of Dublin Core
// once, the embargo of the file before that of the form, and the resource type of the form.
func TestFormDescribesTheObject(t *testing.T) {
	p := testProfile()
	p.Collections, p.Role, p.Aggregate = []string{"post", "maps"}, "MRT-class", "MRT-none"
	w := start(t, p)
	box := zipOf(t, "map.txt", "a map", "mrt-dc.xml", `<metadata xmlns:dc="http://purl.org/dc/elements/1.1/">`+
		`<dc:title>Of the file</dc:title><dc:subject>maps</dc:subject><dc:rights>&lt;none&gt;</dc:rights></metadata>`)
	s := Submission{Filename: "box.zip", Title: "Of the form", Creator: "A. Person", Date: "1857",
		LocalIDs:     []string{"m-1"},
		DublinCore:   map[string][]string{"subject": {"maps", "roads"}, "description": {"A map & more"}},
		ResourceType: "Dataset/Survey", Embargo: "2031-12-31", Note: "n"}
	j := w.one(s, box)
	files := w.files(j.ARK, "v1")
	core := files["system/mrt-dc.xml"]
	for _, has := range []string{"<dc:title>Of the file</dc:title>", "<dc:rights>&lt;none&gt;</dc:rights>",
		"<dc:subject>roads</dc:subject>", "<dc:description>A map &amp; more</dc:description>"} {
		if !strings.Contains(core, has) {
			t.Errorf("mrt-dc.xml lacks %s:\n%s", has, core)
		}
	}
	if n := strings.Count(core, "<dc:subject>maps</dc:subject>"); n != 1 {
		t.Errorf("one element stands %d times:\n%s", n, core)
	}
	if cite := files["system/mrt-datacite.xml"]; !strings.Contains(cite, `resourceTypeGeneral="Dataset">Survey<`) {
		t.Errorf("mrt-datacite.xml: %s", cite)
	}
	if got, want := files["system/mrt-mom.txt"], "primaryIdentifier: "+j.ARK+"\ntype: MRT-curatorial\nrole: MRT-class\n"+
		"aggregate: MRT-none\nlocalIdentifier: m-1\n"; got != want {
		t.Errorf("mrt-mom.txt: got %q, want %q", got, want)
	}
	if got := files["system/mrt-membership.txt"]; got != "maps\npost\n" {
		t.Errorf("mrt-membership.txt: %q", got)
	}
	for _, line := range []string{"userAgent: ann", "file: box.zip", "collection: maps; post",
		"suppliedIdentifier: (:unas)",
		"assignedIdentifier: " +
			j.ARK, "localIdentifier: m-1", "title: Of the file", "creator: A. Person", "date: 1857",
		"note: n", "embargoEndDate: 2031-12-31T00:00:00Z"} {
		if !strings.Contains("\n"+files["system/mrt-ingest.txt"], "\n"+line+"\n") {
			t.Errorf("mrt-ingest.txt lacks %q:\n%s", line, files["system/mrt-ingest.txt"])
		}
	}
	s.Title, s.LocalIDs, s.Embargo = "Another", []string{"m-2"}, "2031-12-31"
	j = w.one(s, zipOf(t, "map.txt", "b", "mrt-embargo.txt", "embargoEndDate: none\n"))
	if got := w.files(j.ARK, "v1")["system/mrt-ingest.txt"]; !strings.Contains(got, "embargoEndDate: none\n") {
		t.Errorf("the file's embargo does not go before that of the form:\n%s", got)
	}
}

// TestRowsShareTheDescription gives each object of a batch manifest what the form has about all of them.
func TestRowsShareTheDescription(t *testing.T) {
	s := newSite(t, map[string]string{"a.txt": "a", "b.txt": "b"})
	w := start(t)
	list := manifest("mrt-single-file-batch-manifest", s.row("a.txt", "a", "A"), s.row("b.txt", "b", "B"))
	r := w.ingest(Submission{DublinCore: map[string][]string{"rights": {"free"}}}, list)
	if r.State != record.Completed || len(r.Jobs) != 2 {
		t.Fatal(r.Text())
	}
	for _, j := range r.Jobs {
		if got := w.files(j.ARK, "v1")["system/mrt-dc.xml"]; !strings.Contains(got, "<dc:rights>free</dc:rights>") {
			t.Errorf("%s: %s", j.Filename, got)
		}
	}
}

// TestMuchDublinCore is merged up to its bound, with a warning.
func TestMuchDublinCore(t *testing.T) {
	w := start(t)
	var b strings.Builder
	b.WriteString(`<metadata xmlns:dc="http://purl.org/dc/elements/1.1/">`)
	for i := range mostElements + 100 {
		fmt.Fprintf(&b, "<dc:subject>%d</dc:subject>", i)
	}
	b.WriteString("</metadata>")
	j := w.one(Submission{Filename: "box.zip"}, zipOf(t, "a", "a", "mrt-dc.xml", b.String()))
	if n := strings.Count(w.files(j.ARK, "v1")["system/mrt-dc.xml"], "<dc:"); n != mostElements {
		t.Errorf("got %d elements", n)
	}
	if !slices.ContainsFunc(j.Warnings, func(s string) bool { return strings.Contains(s, "has not all elements") }) {
		t.Errorf("got %q", j.Warnings)
	}
}

// TestFilesOverFTP fetches the files of a manifest from an FTP server, with their sizes before.
func TestFilesOverFTP(t *testing.T) {
	s := &ftptest.Server{Files: map[string]string{"maps/a.txt": "alpha", "b.txt": "beta"}, User: "ann",
		Password: "s3cret"}
	at := "ftp://ann:s3cret@" + s.Start(t)
	w := start(t)
	j := w.one(Submission{}, manifest("mrt-ingest-manifest", at+"/maps/a.txt | md5 | "+md5Hex("alpha")+" | 5 | | a.txt",
		at+"/b.txt | | | | | b.txt"))
	if got := w.files(j.ARK, "v1"); got["producer/a.txt"] != "alpha" || got["producer/b.txt"] != "beta" {
		t.Errorf("got %q", got)
	}
	r := w.ingest(Submission{}, manifest("mrt-ingest-manifest", at+"/none.txt | | | | | a.txt"))
	if len(r.Jobs) != 1 || r.Jobs[0].Cause != CauseNotFound || strings.Contains(r.Text(), "s3cret") {
		t.Errorf("got %s", r.Text())
	}
}

// TestLinksOfAContainer stores a link inside a tar as a copy, with a warning.
func TestLinksOfAContainer(t *testing.T) {
	w := start(t)
	box := tarOf(t, []tar.Header{{Name: "a.txt", Mode: 0o600}, {Name: "d/l", Typeflag: tar.TypeSymlink,
		Linkname: "../a.txt"}},
		"alpha")
	j := w.one(Submission{Filename: "box.tar"}, box)
	if got := w.files(j.ARK, "v1"); got["producer/d/l"] != "alpha" {
		t.Errorf("got %q", got)
	}
	if !slices.ContainsFunc(j.Warnings,
		func(s string) bool { return strings.Contains(s, "stored as a copy of its file") }) {
		t.Errorf("got %q", j.Warnings)
	}
}
