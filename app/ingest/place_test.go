package ingest

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stagepost/stagepost/app/ingest/record"
	"github.com/stagepost/stagepost/format/ocfl"
	"github.com/stagepost/stagepost/store/mem"
)

// TestPlacesCatchUp lets a job fail between two storage locations, and another one continue. The second location gets
// what it missed, in the same order, the second job keeps the files of the first, and when the first is sent back it
// finds its version everywhere.
func TestPlacesCatchUp(t *testing.T) {
	p := testProfile()
	p.Storage = []string{"storage", "second"}
	dir := t.TempDir()
	if root, err := ocfl.InitRoot(filepath.Join(dir, "second"), ocfl.DefaultLayout()); err != nil ||
		root.Close() != nil {
		t.Fatal(err)
	}
	obstacle := filepath.Join(dir, "second", "extensions", "stagepost-staging") // nothing can be staged there
	if err := os.WriteFile(obstacle, []byte("no directory"), 0o600); err != nil {
		t.Fatal(err)
	}
	w := startOn(t, mem.New(), options(t, dir, p))
	ark := "ark:/99999/fk4places"
	r := w.ingest(Submission{PrimaryID: ark, Filename: "a.txt", Update: true}, "alpha")
	if j := r.Jobs[0]; j.FailedIn != record.Storing || j.Cause != CauseStorage {
		t.Fatalf("got %s", r.Text())
	}
	w.awaitLocks("after the failure", none)
	root, err := ocfl.OpenRoot(filepath.Join(w.dir, "storage"))
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	if err := os.Remove(obstacle); err != nil {
		t.Fatal(err)
	}
	o, err := root.Object(ark)
	if err != nil || o.Head() != "v1" {
		t.Fatalf("control: the first location must have the version of the failed job: %v", err)
	}
	w.one(Submission{PrimaryID: ark, Filename: "b.txt", Update: true}, "beta")
	if diff := cmp.Diff(map[string]string{"a.txt": "alpha", "b.txt": "beta"}, w.produced(ark, "v2")); diff != "" {
		t.Error(diff)
	}
	if err := w.do(r.Jobs[0].Job, record.Retry); err != nil {
		t.Fatal(err)
	}
	if got := w.end(r.Jobs[0].Job); got.State != record.Completed {
		t.Fatalf("got %s: %s", got.State, got.Message)
	}
	stored := w.object(ark)
	if len(stored.Versions) != 2 || stored.Head != 2 || stored.Versions[0].Job != string(r.Jobs[0].Job) {
		t.Errorf("got %+v", stored)
	}
	for _, v := range stored.Versions {
		if len(v.Places) != 2 || v.Places[0].Name != v.Places[1].Name {
			t.Errorf("version %d is %+v", v.Number, v.Places)
		}
	}
	w.valid("storage", "second")
}
