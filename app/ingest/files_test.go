package ingest

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stagepost/stagepost/app/ingest/record"
	"github.com/stagepost/stagepost/engine/operator"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// listedFiles reads all pages of a job's files as "state path", without what Stagepost adds.
func listedFiles(t *testing.T, a *App, id job.ID, limit int) (source string, files []string, note string) {
	t.Helper()
	for after := ""; ; {
		page, err := a.JobFiles(t.Context(), id, after, limit)
		if err != nil {
			t.Fatal(err)
		}
		if len(page.Files) > limit {
			t.Errorf("a page of %d has %d files", limit, len(page.Files))
		}
		for _, f := range page.Files {
			if f.From != "stagepost" {
				files = append(files, f.State+" "+f.Path)
			}
		}
		if source, note, after = page.Source, page.Note, page.Next; after == "" {
			return source, files, note
		}
	}
}

func manifestOf(a *App, t *testing.T, id job.ID) (string, error) {
	t.Helper()
	f, err := a.Manifest(t.Context(), id)
	if err != nil {
		return "", err
	}
	text, err := io.ReadAll(f)
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	return string(text), err
}

// TestFilesInEveryState reads a job's files, manifest and metadata in every state, and after it was deleted.
func TestFilesInEveryState(t *testing.T) {
	s := newSite(t, map[string]string{"a.txt": "alpha", "b.txt": "beta", "c.txt": "gamma"})
	text := s.manifest("a.txt", "b.txt", "c.txt")
	wanted := []string{"wanted a.txt", "wanted b.txt", "wanted c.txt"}
	fetched := []string{"fetched producer/a.txt", "fetched producer/b.txt", "fetched producer/c.txt"}
	for _, c := range []struct {
		state          lifecycle.State
		source, meta   string
		files          []string
		batchWithFiles bool
	}{
		{record.Pending, "manifest", "submission", wanted, true},
		{record.Estimating, "manifest", "submission", wanted, true},
		{record.Provisioning, "manifest", "submission", wanted, true},
		{record.Downloading, "manifest", "submission", wanted, true},
		{record.Processing, "manifest", "submission", []string{"fetched a.txt", "fetched b.txt", "fetched c.txt"},
			true},
		{record.Storing, "work", "work", fetched, true},
		{record.Recording, "work", "work", fetched, true},
		{record.Notify, "inventory", "storage",
			[]string{"stored producer/a.txt", "stored producer/b.txt", "stored producer/c.txt"}, true},
		{record.Completed, "inventory", "storage",
			[]string{"stored producer/a.txt", "stored producer/b.txt", "stored producer/c.txt"}, false},
	} {
		t.Run(string(c.state), func(t *testing.T) {
			t.Parallel()
			w := start(t)
			if c.state != record.Completed {
				if _, err := w.e.Operator().Hold(t.Context(), job.Scope{Kind: record.JobKind, State: c.state},
					"op", "test",
					time.Time{}); err != nil {
					t.Fatal(err)
				}
			}
			b := w.submit(Submission{Title: "The title", Note: "why"}, text)
			j := w.children(b.ID, 1)[0]
			w.until(j.ID, func(j *job.Job) bool { return j.State == c.state && !j.Claimed() })
			if c.state == record.Completed {
				w.end(b.ID)
			}
			for _, limit := range []int{2, 100} {
				source, files, note := listedFiles(t, w.App, j.ID, limit)
				if diff := cmp.Diff(c.files, files); diff != "" || source != c.source || note != "" {
					t.Errorf("pages of %d from %s, note %q: %s", limit, source, note, diff)
				}
			}
			for _, id := range []job.ID{j.ID, b.ID} {
				got, err := manifestOf(w.App, t, id)
				if gone := id == b.ID && !c.batchWithFiles; gone != (job.KindOf(err) == job.Gone) || !gone &&
					got != text {
					t.Errorf("the manifest of %s: got %q, %v", id, got, err)
				}
			}
			m, err := w.Metadata(t.Context(), j.ID)
			if err != nil || m.Source != c.meta || !strings.Contains(m.ERC, "The title") ||
				!strings.Contains(m.DublinCore, "The title") {
				t.Errorf("got %+v, %v", m, err)
			}
			h, err := w.Submission(t.Context(), b.ID)
			if err != nil || h.Submission.Note != "why" || h.Staged != c.batchWithFiles || h.Size != int64(len(text)) {
				t.Errorf("got %+v, %v", h, err)
			}
		})
	}
}

// TestFilesHaveDigestsAndOrigins: what is shown of a file is what the manifest says first, then what came.
func TestFilesHaveDigestsAndOrigins(t *testing.T) {
	s := newSite(t, map[string]string{"a.txt": "alpha"})
	w := start(t)
	j := w.one(Submission{}, s.manifest("a.txt"))
	page, err := w.JobFiles(t.Context(), j.Job, "", 10)
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(page.Files, func(f JobFile) bool { return f.Path == "producer/a.txt" })
	if i < 0 {
		t.Fatalf("got %+v", page.Files)
	}
	if f := page.Files[i]; f.Size != 5 || f.Digests["sha256"] != sha256Hex("alpha") || f.From != s.URL+"/a.txt" ||
		f.Type == "" || len(f.Digests["sha512"]) != 128 {
		t.Errorf("got %+v", f)
	}
	page, err = w.JobFiles(t.Context(), w.one(Submission{Type: TypeFile, Filename: "f.txt"}, "payload").Job, "", 10)
	if err != nil || page.Files[0].Path != "producer/f.txt" || page.Files[0].From != "payload" {
		t.Errorf("got %+v, %v", page.Files, err)
	}
}

// TestFilesOfDeleted: a deleted job shows what stays and what was removed.
func TestFilesOfDeleted(t *testing.T) {
	s := newSite(t, map[string]string{"a.txt": "alpha"})
	s.put("good.checkm", s.manifest("a.txt"))
	s.put("bad.checkm", s.manifest("missing.txt"))
	w := start(t)
	r := w.ingest(Submission{}, manifest("mrt-batch-manifest", s.row("good.checkm", "l1", "One"),
		s.row("bad.checkm", "l2", "Two")))
	w.awaitMails(2)
	for i := range r.Jobs {
		if _, err := w.e.Do(t.Context(), operator.Act{Job: r.Jobs[i].Job, Event: record.Delete, By: lifecycle.Operator,
			Actor: "op", Confirm: true}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	source, files, note := listedFiles(t, w.App, r.Jobs[0].Job, 10)
	if source != fromInventory || !slices.Equal(files, []string{"stored producer/a.txt"}) ||
		!strings.Contains(note, "stays") {
		t.Errorf("got %s %v %q", source, files, note)
	}
	if text, err := manifestOf(w.App, t, r.Jobs[0].Job); err != nil || text != s.files["good.checkm"] {
		t.Errorf("got %q, %v", text, err)
	}
	source, files, note = listedFiles(t, w.App, r.Jobs[1].Job, 10)
	if source != "" || len(files) > 0 || !strings.Contains(note, "it stored nothing") {
		t.Errorf("got %s %v %q", source, files, note)
	}
	if _, err := manifestOf(w.App, t, r.Jobs[1].Job); job.KindOf(err) != job.Gone {
		t.Errorf("got %v", err)
	}
}

// TestFilesRefuseHostileNames: ids, cursors and paths that lead elsewhere.
func TestFilesRefuseHostileNames(t *testing.T) {
	s := newSite(t, map[string]string{"a.txt": "alpha"})
	w := start(t)
	j := w.one(Submission{}, s.manifest("a.txt"))
	batch := w.reported(w.mustGet(j.Job).Parent).Batch
	for _, id := range []job.ID{"", "..", "../../../etc/passwd", "a/b", "ing_00000000000000000000000000",
		job.ID("x\x00y"), job.ID(strings.Repeat("a", 5000))} {
		for name, err := range looks(t, w.App, id) {
			if job.KindOf(err) != job.NotFound {
				t.Errorf("%s of %.20q: got %v", name, id, err)
			}
		}
	}
	if _, err := w.JobFiles(t.Context(), batch, "", 0); job.KindOf(err) != job.Invalid {
		t.Errorf("the files of a batch: got %v", err)
	}
	if _, err := w.Submission(t.Context(), j.Job); job.KindOf(err) != job.Invalid {
		t.Errorf("the submission of a job: got %v", err)
	}
	for cursor, want := range map[string]job.ErrorKind{
		"x": job.Invalid, "work:": job.Invalid, "work:-1": job.Invalid, "work:1e9": job.Invalid,
		"manifest:99999999999999999999": job.Invalid,
		"elsewhere:3":                   job.Invalid, "inventory:": job.Invalid, "work:3": job.Conflict,
		"manifest:3":        job.Conflict,
		"inventory:../../x": "",
	} {
		if _, err := w.JobFiles(t.Context(), j.Job, cursor, 0); job.KindOf(err) != want {
			t.Errorf("cursor %q: got %v, want %s", cursor, err, want)
		}
	}
	for _, name := range []string{"../../evil", "/etc/passwd", "a\\..\\b"} {
		text := manifest("mrt-ingest-manifest", fmt.Sprintf("%s/a.txt | | | | | %s", s.URL, name))
		b := w.end(w.submit(Submission{Type: TypeObjectManifest}, text).ID)
		page, err := w.JobFiles(t.Context(), w.reported(b.ID).Jobs[0].Job, "", 0)
		if err != nil || len(page.Files) > 0 || page.Note == "" {
			t.Errorf("%q: got %+v, %v", name, page, err)
		}
	}
}

func looks(t *testing.T, a *App, id job.ID) map[string]error {
	t.Helper()
	_, manifest := a.Manifest(t.Context(), id)
	_, files := a.JobFiles(t.Context(), id, "", 0)
	_, metadata := a.Metadata(t.Context(), id)
	_, submission := a.Submission(t.Context(), id)
	return map[string]error{"manifest": manifest, "files": files, "metadata": metadata, "submission": submission}
}

func (w *harness) mustGet(id job.ID) job.Job {
	w.t.Helper()
	j, err := w.store.Get(w.t.Context(), id)
	if err != nil {
		w.t.Fatal(err)
	}
	return j
}
