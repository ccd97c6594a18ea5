package archiveserve_test

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stagepost/stagepost/app/archive"
	archiveserve "github.com/stagepost/stagepost/app/archive/serve"
	"github.com/stagepost/stagepost/app/archive/settings"
	"github.com/stagepost/stagepost/app/archive/source/moodle/replay"
	"github.com/stagepost/stagepost/job"
)

// TestPersonExport: the data of a person of a Moodle are exported from archives of each form through the server: the
// files of the person, and of no other one, a manifest that sha256sum checks, and the names of the files that are left
// out. The packages are not left behind.
func TestPersonExport(t *testing.T) {
	f := newFixture(t)
	site, err := replay.New()
	must(t, err)
	moodle := httptest.NewServer(site)
	t.Cleanup(moodle.Close)
	must(t, os.WriteFile(filepath.Join(f.data, "token"), []byte(replay.Token), 0o600))
	must(t, os.WriteFile(filepath.Join(f.data, archiveserve.ConfigName), fmt.Appendf(nil, "sources:\n"+
		"  campus: {moodle: {url: %q, token_file: token}}\nlocations:\n  near: {directory: {path: %s}}\n"+
		"presets: {default: {settings: {sign: false}}}\n", moodle.URL, f.near), 0o600))
	must(t, f.start())
	packs := map[job.ID]string{}
	for _, pack := range []string{settings.PackTarGz, settings.PackZip, settings.PackNone} {
		j, err := f.app.Submit(t.Context(), archive.Request{Source: "campus", Course: replay.Course,
			Settings: archive.Settings{Pack: pack}}, archive.Ordered{Owner: "ann"})
		must(t, err)
		f.completed(j.ID)
		packs[j.ID] = pack
	}
	dir := filepath.Join(t.TempDir(), "ann")
	call(t, "archive", "people", "export", "campus", "19", dir, "--note", "request 12", "--actor", "law", "--data",
		f.data)
	run(t, dir, "sha256sum", "--strict", "-c", "manifest-sha256.txt")
	got := map[string][]string{} // files of an archive, without the name of its package
	must(t, filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		parts := strings.SplitN(strings.TrimPrefix(name, dir+"/"), "/", 3)
		got[parts[0]] = append(got[parts[0]], parts[len(parts)-1])
		return nil
	}))
	want := []string{
		"assign-19/metadata/source-responses/mod_assign_get_submission_status-19.json",
		"assign-19/submissions/user19/attempt-1/submission_files/essay0.pdf",
		"assign-19/submissions/user19/submission.html",
		"quiz-20/attempts/M10010181/2-2026-11-20_10-23-02/attachments/3/calc0.txt",
		"quiz-20/attempts/M10010181/2-2026-11-20_10-23-02/attempt-2-M10010181_2026-11-20-10-23-02.html",
		"quiz-20/metadata/source-responses/mod_quiz_get_attempt_review-2.json",
	}
	for id, pack := range packs {
		if !slices.Equal(got[string(id)], want) {
			t.Errorf("%s: it has %q", pack, got[string(id)])
		}
	}
	if len(got) != len(packs)+2 || got["person.json"] == nil || got["manifest-sha256.txt"] == nil {
		t.Errorf("it has %v", got)
	}
	leftOut(t, dir, packs)
}

// leftOut checks what person.json has of the person, and of the files that are left out.
func leftOut(t *testing.T, dir string, packs map[job.ID]string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "person.json"))
	must(t, err)
	var p struct {
		Person struct {
			ID, Name string
		}
		Archives []any
		LeftOut  []struct {
			Job                  job.ID
			Path, Reason, SHA256 string
			Bytes                int64
		} `json:"left_out"`
	}
	must(t, json.Unmarshal(text, &p))
	if p.Person.ID != "19" || p.Person.Name == "" || len(p.Archives) != len(packs) {
		t.Errorf("person.json has %+v", p)
	}
	left := map[job.ID][]string{}
	for _, one := range p.LeftOut {
		left[one.Job] = append(left[one.Job], one.Path)
		if !strings.Contains(one.Reason, "not of one person") || len(one.SHA256) != 64 || one.Bytes == 0 {
			t.Errorf("left out: %+v", one)
		}
	}
	for id, pack := range packs {
		for path, want := range map[string]bool{
			"forum-21/discussions/1/discussion.html": true, "course/metadata/grades.csv": true,
			"quiz-20/metadata/attempts_metadata.csv":       true,
			"page-16/activity.html":                        false, // the person is no participant
			"assign-19/submissions/user20/submission.html": false, // it is of another person
		} {
			if slices.Contains(left[id], path) != want {
				t.Errorf("%s: %s is left out: %t; %q", pack, path, !want, left[id])
			}
		}
	}
}
