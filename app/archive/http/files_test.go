package archivehttp_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"html"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stagepost/stagepost/app/archive/audit"
	"github.com/stagepost/stagepost/app/archive/catalog"
	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/job"
)

// files gives the first files of an archive.
func (h *harness) files(id job.ID) []client.ArchiveArtifact {
	h.T.Helper()
	page, err := h.Client.ArchiveArtifacts(h.T.Context(), id, "", 0)
	if err != nil {
		h.T.Fatal(err)
	}
	return page.Artifacts
}

// check reads all copies again. Faults that nothing can heal are no failure.
func (h *harness) check() {
	h.T.Helper()
	checker := audit.New(audit.Options{Catalog: h.catalog, Copies: h.copies,
		Report: func(context.Context, string, string, string) error { return nil }})
	if err := checker.Start(h.T.Context(), nil); err != nil {
		h.T.Fatal(err)
	}
	if r, err := checker.Pass(h.T.Context()); r.Copies == 0 {
		h.T.Fatalf("no copy was checked: %v", err)
	}
}

// replace gives a stored file another content; without a text it removes the file.
func (h *harness) replace(location string, id job.ID, path, text string) (sha string) {
	h.T.Helper()
	name := filepath.Join(h.dir, location, string(id), filepath.FromSlash(path))
	err := os.Remove(name)
	if text != "" {
		err = errors.Join(err, os.WriteFile(name, []byte(text), 0o600))
	}
	if err != nil {
		h.T.Fatal(err)
	}
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// TestFilesAndCopies: the API and the page have the digest of each file in each location, with its last fixity check.
// Before a check it is that of the file; of a damaged copy it is what the check found there, and of one that is missing
// there is none until it is replaced. The other files are the control.
func TestFilesAndCopies(t *testing.T) {
	h := open(t)
	id := h.archive(order("maps")).ID
	page := "/jobs/" + string(id) + "/copies"
	for _, f := range h.files(id) {
		for i, location := range []string{"far", "near"} {
			if c := f.Copies[i]; c.Location != location || c.State != "verified" || c.SHA256 != f.SHA256 ||
				c.Verified.IsZero() || !c.Checked.IsZero() || c.Result != "" || c.Generation != 1 {
				t.Errorf("%s: got %+v", f.Path, c)
			}
		}
		contains(t, "the page", h.page(page), f.SHA256, "read back when it was stored")
	}
	before := h.files(id)
	found := map[string]string{}
	for _, location := range []string{"far", "near"} {
		found[location] = h.replace(location, id, before[0].Path, "damage in "+location)
	}
	h.replace("far", id, before[1].Path, "")
	h.check()
	after := h.files(id)
	if len(after[0].Copies) != 4 { // each with a replacement, for which there is no good copy to read
		t.Fatalf("got %+v", after[0].Copies)
	}
	for _, c := range after[0].Copies {
		want := client.ArchiveCopy{Location: c.Location, Generation: c.Generation, State: "planned", Detail: c.Detail}
		if c.Generation == 1 {
			want.State, want.SHA256, want.Result = "damaged", found[c.Location], "corrupt"
			want.Verified, want.Checked = c.Verified, c.Checked
		}
		if c != want || c.Generation == 1 && (!c.Checked.After(c.Verified) || c.Detail == "") {
			t.Errorf("got %+v, want %+v", c, want)
		}
	}
	if c := after[1].Copies[0]; c.Generation != 2 || c.State != "verified" || c.SHA256 != before[1].SHA256 ||
		!c.Checked.IsZero() {
		t.Errorf("the replacement: got %+v", c)
	}
	if c := after[1].Copies[1]; c.State != "verified" || c.Result != "ok" || !c.Checked.After(c.Verified) {
		t.Errorf("the control: got %+v", c)
	}
	for _, path := range []string{page, "/jobs/" + string(id)} {
		contains(t, path, h.page(path), found["far"], found["near"], "expected <code>"+before[0].SHA256,
			`<span class="badge bad">damaged</span>`, ": corrupt", ": ok", "replacement 2")
	}
}

// TestFilesOfLostCopies: a copy that a check did not find has no digest, and its location states that.
func TestFilesOfLostCopies(t *testing.T) {
	h := open(t)
	id := h.archive(order("maps")).ID
	path := h.files(id)[0].Path
	h.replace("far", id, path, "")
	h.replace("near", id, path, "")
	h.check()
	lost := h.files(id)[0]
	for _, c := range lost.Copies {
		if c.SHA256 != "" || c.Generation == 1 && (c.State != "missing" || c.Result != "missing") {
			t.Errorf("got %+v", c)
		}
	}
	text := h.page("/jobs/" + string(id) + "/copies")
	contains(t, "the page", text, `<span class="badge bad">missing</span>`, ": missing")
	if strings.Contains(text, "/content/"+path) {
		t.Error("the page has a link to a file that no location gives")
	}
}

// TestManyFiles: the page about the job has the first files alone, and the pages of all files have each once.
func TestManyFiles(t *testing.T) {
	h := open(t)
	id := h.archive(order("maps")).ID
	all := `<a href="/jobs/` + string(id) + `/copies">All files`
	if text := h.page("/jobs/" + string(id)); strings.Contains(text, all) {
		t.Error("the page of a job with few files leads to more")
	}
	var more []catalog.Artifact
	for i := range 130 {
		more = append(more, catalog.Artifact{Path: fmt.Sprintf("more/%04d & <b>", i), Size: 1,
			SHA256: strings.Repeat("a", 64), SHA512: strings.Repeat("b", 128), Created: time.Now()})
	}
	if err := h.catalog.PutArtifacts(t.Context(), string(id), more); err != nil {
		t.Fatal(err)
	}
	contains(t, "the page of the job", h.page("/jobs/"+string(id)), all)
	seen, pages := map[string]int{}, 0
	for path := "/jobs/" + string(id) + "/copies"; path != ""; pages++ {
		text := h.page(path)
		for _, name := range regexp.MustCompile(`<bdi>more/\d{4}`).FindAllString(text, -1) {
			seen[name]++
		}
		next := regexp.MustCompile(`rel="next" href="([^"]+)"`).FindStringSubmatch(text)
		if path = ""; next != nil {
			path = html.UnescapeString(next[1])
		}
	}
	if pages != 2 || len(seen) != len(more) {
		t.Errorf("got %d files on %d pages", len(seen), pages)
	}
	for name, n := range seen {
		if n != 1 {
			t.Errorf("%s is there %d times", name, n)
		}
	}
}
