package ingest

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stagepost/stagepost/app/ingest/record"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/engine/clock"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/mem"
)

// replaced runs the application with other steps in some states of jobs, or of batches.
func replaced(t *testing.T, steps map[job.Kind]map[lifecycle.State]engine.Step) *harness {
	t.Helper()
	o := options(t, t.TempDir())
	a, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	works := a.Works()
	for i := range works {
		for s, step := range steps[job.Kind(works[i].Life.Name())] {
			works[i].Steps[s] = step
		}
	}
	store := mem.New()
	e, err := engine.New(store, works, engine.Options{Deliver: a.Deliver(), Clock: later{clock.System()}})
	if err != nil {
		t.Fatal(err)
	}
	a.Bind(e)
	w := &harness{App: a, t: t, dir: o.Dir, store: store, e: e}
	w.run()
	return w
}

// empty is a report of success without data.
func empty(context.Context, *engine.Run) error { return nil }

// TestCompletedOwesAVersion replaces the work of one state after the other, and of all, by an empty success: no such
// job completes, and each fails in the state that did nothing. Without replacement it completes: the control.
func TestCompletedOwesAVersion(t *testing.T) {
	all := map[lifecycle.State]engine.Step{}
	for _, s := range []lifecycle.State{record.Pending, record.Estimating, record.Provisioning, record.Downloading,
		record.Processing, record.Storing, record.Recording, record.Notify} {
		all[s] = empty
	}
	for name, c := range map[string]struct {
		steps map[lifecycle.State]engine.Step
		in    lifecycle.State
	}{
		"none": {nil, ""}, "all": {all,
			record.Processing}, "processing": {map[lifecycle.State]engine.Step{record.Processing: empty},
			record.Processing},
		"storing": {map[lifecycle.State]engine.Step{record.Storing: empty},
			record.Storing}, "recording": {map[lifecycle.State]engine.Step{record.Recording: empty}, record.Recording},
	} {
		t.Run(name, func(t *testing.T) {
			w := replaced(t, map[job.Kind]map[lifecycle.State]engine.Step{record.JobKind: c.steps})
			r := w.ingest(Submission{Filename: "x"}, "x")
			got := r.Jobs[0]
			if c.in == "" && r.State != record.Completed || c.in != "" &&
				(r.State != record.Failed || got.FailedIn != c.in || got.Cause != CauseStorage) {
				t.Errorf("got %s", r.Text())
			}
		})
	}
}

// TestPostconditionOfStorage takes a recorded version out of its storage location, or out of the inventory, before the
// job completes.
func TestPostconditionOfStorage(t *testing.T) {
	for name, spoil := range map[string]func(w *harness) error{
		"storage location": func(w *harness) error { return os.RemoveAll(filepath.Join(w.dir, "storage")) },
		"version": func(w *harness) error {
			names, err := filepath.Glob(filepath.Join(w.dir, "storage", "*", "*", "*", "*"))
			for _, name := range names {
				if err == nil {
					err = os.RemoveAll(name)
				}
			}
			return err
		},
		"nothing": func(*harness) error { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			var w *harness
			step := func(context.Context, *engine.Run) error { return spoil(w) }
			w = replaced(t, map[job.Kind]map[lifecycle.State]engine.Step{record.JobKind: {record.Notify: step}})
			r := w.ingest(Submission{Filename: "x"}, "x")
			if want := map[bool]lifecycle.State{true: record.Completed,
				false: record.Failed}[name == "nothing"]; r.State != want {
				t.Errorf("got %s", r.Text())
			}
		})
	}
}

// TestPostconditionOfBatches: a batch does not continue with a payload that was not read, nor complete without a
// report.
func TestPostconditionOfBatches(t *testing.T) {
	for name, c := range map[string]struct {
		steps map[lifecycle.State]engine.Step
		says  string
	}{
		"unread":   {map[lifecycle.State]engine.Step{record.Pending: empty}, "the payload was not read"},
		"reported": {map[lifecycle.State]engine.Step{record.Reporting: empty}, "no report was made"},
		"control":  {nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := replaced(t, map[job.Kind]map[lifecycle.State]engine.Step{record.BatchKind: c.steps})
			b := w.end(w.submit(Submission{Filename: "x"}, "x").ID)
			if c.says == "" && b.State != record.Completed || c.says != "" &&
				(b.State != record.Failed || !strings.Contains(b.Message, c.says)) {
				t.Errorf("it is %s (%s)", b.State, b.Message)
			}
		})
	}
}
