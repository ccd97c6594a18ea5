package ingest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stagepost/stagepost/app/ingest/record"
	"github.com/stagepost/stagepost/app/ingest/workdir"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/engine/clock"
	"github.com/stagepost/stagepost/lifecycle"
)

// unsyncedPhases are the phases after which a file of the work directory may not be on the disk.
var unsyncedPhases = map[lifecycle.State]struct {
	file      string
	directory bool
	do        func(*task, context.Context) error
}{
	record.Pending:      {manifestFile, true, (*task).begin},
	record.Provisioning: {manifestFile, false, (*task).provision},
	record.Processing:   {ownList, true, (*task).processing},
}

// tear is what a loss of power does to a file that was not synced.
type tear struct {
	state  lifecycle.State // after this phase
	damage func(name string) error
	trust  bool // the record has no digest of the file
}

// ingest ingests an object whose file is torn, and gives its files, without names of this run, or why there is none.
func (d tear) ingest(t *testing.T, text string) (map[string]string, string) {
	t.Helper()
	var w *harness
	var a *App
	phase, torn := unsyncedPhases[d.state], 0
	step := func(ctx context.Context, r *engine.Run) error {
		return a.phase(phase.directory, func(t *task, ctx context.Context) error {
			err := phase.do(t, ctx)
			if err != nil || d.damage == nil {
				return err
			}
			if d.trust {
				t.data.Unsynced = ""
			}
			torn++
			j := t.Job()
			return d.damage(filepath.Join(w.dir, workdir.WorkName, string(j.Parent), string(j.ID), phase.file))
		})(ctx, r)
	}
	w = begin(t, options(t, t.TempDir()), clock.System(), func(app *App) { a = app },
		map[lifecycle.State]engine.Step{d.state: step})
	r := w.ingest(Submission{Filename: "x.checkm"}, text)
	if d.damage != nil && torn != 1 {
		t.Errorf("%d files were damaged", torn)
	}
	if r.State != record.Completed {
		return nil, r.Text()
	}
	w.valid()
	files := w.files(r.Jobs[0].ARK, "v1")
	names := strings.NewReplacer(r.Jobs[0].ARK, "ARK", strings.TrimPrefix(r.Jobs[0].ARK, "ark:/"), "ARK")
	for name, text := range files {
		files[name] = names.Replace(text)
	}
	delete(files, workdir.SystemName+"/"+record.IngestName) // it names the job
	return files, ""
}

// TestTornFiles changes what a phase wrote without a sync as a loss of power may, before the next phase reads it. It is
// made again, and the object is the same. In the controls the record has no digest of the file.
func TestTornFiles(t *testing.T) {
	s := newSite(t, map[string]string{"a.txt": "alpha", "sub/b.txt": "beta"})
	s.put("one.checkm", s.manifest("a.txt", "sub/b.txt"))
	empty := func(name string) error { return os.Truncate(name, 0) }
	damages := map[string]func(name string) error{
		"empty": empty, "removed": os.Remove,
		"zeros": func(name string) error {
			text, err := os.ReadFile(name)
			return errors.Join(err, os.WriteFile(name, bytes.Repeat([]byte{0}, len(text)), 0o640))
		},
	}
	for kind, text := range map[string]string{
		"uploaded": s.manifest("a.txt", "sub/b.txt"),
		"fetched":  manifest("mrt-batch-manifest", s.row("one.checkm", "l1", "One")),
	} {
		want, failure := tear{state: record.Pending}.ingest(t, text)
		if want["producer/a.txt"] != "alpha" || want["producer/sub/b.txt"] != "beta" {
			t.Fatalf("%s: got %q, %s", kind, want, failure)
		}
		for state := range unsyncedPhases {
			for name, damage := range damages {
				t.Run(fmt.Sprintf("%s/%s/%s", kind, state, name), func(t *testing.T) {
					got, failure := tear{state: state, damage: damage}.ingest(t, text)
					if diff := cmp.Diff(want, got); diff != "" || failure != "" {
						t.Errorf("%s%s", failure, diff)
					}
				})
			}
			if got, _ := (tear{state: state, damage: empty, trust: true}).ingest(t, text); cmp.Equal(want, got) {
				t.Errorf("control: %s, %s: an empty file changes nothing", kind, state)
			}
		}
	}
}

// TestManifestIsFetchedOnce: what was not synced and is as it was written is not made again.
func TestManifestIsFetchedOnce(t *testing.T) {
	s := newSite(t, map[string]string{"a.txt": "alpha"})
	s.put("one.checkm", s.manifest("a.txt"))
	w := begin(t, options(t, t.TempDir()), clock.System(), nil, nil)
	w.one(Submission{Filename: "x.checkm"}, manifest("mrt-batch-manifest", s.row("one.checkm", "l1", "One")))
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := s.gets["one.checkm"]; n != 1 {
		t.Errorf("the manifest was fetched %d times", n)
	}
}
