package compute_test

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/engine/remote"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// losing is an executor whose results do not stay where they were put.
type losing struct {
	*fake
	file func(job.ID) string
}

func (l losing) Results(ctx context.Context, h compute.Handle) (io.ReadCloser, error) {
	r, err := l.fake.Results(ctx, h)
	return removing{r, l.file(h.Job)}, err
}

// removing removes a file when it is closed, which is after its content was stored.
type removing struct {
	io.ReadCloser
	file string
}

func (r removing) Close() error {
	if r.file != "" {
		_ = os.Remove(r.file)
	}
	return r.ReadCloser.Close()
}

// TestCompletedHasResults: a job that ended well, and whose results are not here when it is to be completed, ends as
// results-lost. One that keeps them is the control.
func TestCompletedHasResults(t *testing.T) {
	for _, c := range []struct {
		name  string
		loses bool
		want  lifecycle.State
		cause string
	}{{"lost", true, compute.Failed, compute.CauseResults}, {"kept", false, compute.Completed, ""}} {
		runInBubble(t, c.name, func(t *testing.T) {
			o, f := quick(t), newFake()
			file := func(id job.ID) string {
				if !c.loses {
					return ""
				}
				return filepath.Join(o.Dir, "compute", compute.DirOf(id), "results.zip")
			}
			w := newHarness(t, o, one(losing{f, file}))
			j := w.until(w.upload("ada", hello).ID, compute.Completed, compute.Failed)
			if j.State != c.want || j.Cause != c.cause {
				t.Errorf("%s, cause %q: %s", j.State, j.Cause, j.Message)
			}
		})
	}
}

// TestCompletedIsOwed: whatever completes a job, the engine asks whether its results are here. Workers elsewhere get no
// job of this kind.
func TestCompletedIsOwed(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := newHarness(t, quick(t), one(newFake()))
		done := w.until(w.upload("ada", hello).ID, compute.Completed)
		d, err := compute.DataOf(&done)
		if err != nil {
			t.Fatal(err)
		}
		results := *d.Results
		longer, unnamed := results, results
		longer.Bytes++
		unnamed.SHA256 = ""
		owes, j := w.app.Works()[0].Owes, done
		j.State, j.Ended = compute.Retrieving, false
		asked := func(r *compute.Results, e *compute.Ending) error {
			of := d
			of.Results, of.Notice = r, &compute.Notice{Standing: compute.Ended, Ending: e}
			text, err := json.Marshal(of)
			if err != nil {
				t.Fatal(err)
			}
			c := job.Change{Event: compute.Finish, From: compute.Retrieving,
				To: lifecycle.Position{State: compute.Completed}}
			c.Set.Data = text
			return owes(t.Context(), &j, &c)
		}
		for name, err := range map[string]error{
			"no results": asked(nil, &compute.Ending{}), "another size": asked(&longer, &compute.Ending{}),
			"no digest":    asked(&unnamed, &compute.Ending{}),
			"no ending":    asked(&results, nil),
			"a bad ending": asked(&results, &compute.Ending{Exit: 1, Cause: compute.CauseExit}),
		} {
			if job.KindOf(err) != job.Refused {
				t.Errorf("%s: got %v", name, err)
			}
		}
		if err := asked(&results, &compute.Ending{}); err != nil {
			t.Errorf("control: %v", err)
		}
		at := []job.KindState{{Kind: compute.JobKind, State: compute.Retrieving}}
		if _, err := w.eng.Remote().Claim(t.Context(), remote.Claim{Worker: "ann", From: at, N: 1}); job.KindOf(err) != job.Refused {
			t.Errorf("a worker elsewhere: got %v", err)
		}
	})
}

// TestComparison: results that are not where they were put are named, those of a cleaned job are not missed.
func TestComparison(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := newHarness(t, quick(t), one(newFake()))
		var ids []job.ID
		for range 4 {
			ids = append(ids, w.until(w.upload("ada", hello).ID, compute.Completed).ID)
		}
		if c, err := compare(t, w); len(c.Faults) != 0 || c.Jobs != 4 || err != nil {
			t.Fatalf("control: %+v, %v", c, err)
		}
		zip := func(id job.ID) string { return filepath.Join(w.dir, "compute", compute.DirOf(id), "results.zip") }
		if err := os.Remove(zip(ids[0])); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(zip(ids[1]), 1); err != nil {
			t.Fatal(err)
		}
		if _, err := w.app.Clean(t.Context(), ids[2], compute.Request{By: lifecycle.Operator, Actor: "op"}); err !=
			nil {
			t.Fatal(err)
		}
		c, err := compare(t, w)
		if err != nil || len(c.Faults) != 2 || !names(c.Faults, ids[0], "not where they were put") ||
			!names(c.Faults, ids[1], "1 bytes") {
			t.Errorf("%+v, %v", c, err)
		}
	})
}

func compare(t *testing.T, w *harness) (compute.Comparison, error) {
	return compute.Compare(t.Context(), w.store, w.dir)
}

// names reports whether one of some faults is about a job and contains a text.
func names(faults []string, id job.ID, text string) bool {
	return slices.ContainsFunc(faults, func(f string) bool {
		return strings.Contains(f, string(id)) && strings.Contains(f, text)
	})
}
