package ingest

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stagepost/stagepost/app/ingest/record"
	"github.com/stagepost/stagepost/app/ingest/report"
	"github.com/stagepost/stagepost/app/ingest/workdir"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/engine/operator"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/mem"
)

// chronicle is a store that writes down what happened in the order in which it did.
type chronicle struct {
	job.Store
	mu     sync.Mutex // guards the rest, and the order
	events []job.Change
}

func (c *chronicle) Commit(ctx context.Context, changes ...job.Change) ([]job.Result, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	results, err := c.Store.Commit(ctx, changes...)
	for i := range results {
		if err == nil && results[i].Err == nil && changes[i].Event != "" {
			c.events = append(c.events, changes[i])
		}
	}
	return results, err
}

// lies compares every report with how the jobs stood in the moment when it became valid, which is the commit that ends
// Reporting or UpdateReporting.
func (c *chronicle) lies(dir string, batch job.ID) (wrong []string, reports int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	states, generation, at := map[job.ID]lifecycle.State{}, 0, lifecycle.State("")
	for _, e := range c.events {
		if e.Job != batch {
			states[e.Job] = e.To.State
			continue
		}
		if e.Event == record.Update {
			generation++
		}
		if was := at; (was == record.Reporting || was == record.UpdateReporting) && e.To.State != was {
			wrong = append(wrong, untrue(dir, batch, generation, states)...)
			reports++
		}
		at = e.To.State
	}
	return wrong, reports
}

// untrue compares the report of a generation with the states of the jobs. No file means that nothing had changed.
func untrue(dir string, batch job.ID, generation int, states map[job.ID]lifecycle.State) (wrong []string) {
	text, err := os.ReadFile(filepath.Join(dir, workdir.WorkName, string(batch), reportFile(generation, "json")))
	if os.IsNotExist(err) {
		return nil
	}
	var r report.Batch
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	if err != nil {
		return []string{err.Error()}
	}
	for i := range r.Jobs {
		if j := &r.Jobs[i]; states[j.Job] != j.State {
			wrong = append(wrong, fmt.Sprintf("in report %d %s is %s, it is %s", generation, j.Job, j.State,
				states[j.Job]))
		}
	}
	return wrong
}

// disturbed is a batch of two jobs that fail at first. At a point of its reporting another call does something to the
// second job.
type disturbed struct {
	*crashHarness
	log   *chronicle
	act   operator.Act // Job is the second one
	twist func([]engine.Work)

	mu      sync.Mutex // guards the rest
	refused error
	done    bool
	ended   chan struct{} // closed when done is set
}

func (c *disturbed) run(ctx context.Context, a *App, e *engine.Engine) (batch job.ID, err error) {
	row := func(name string) string { return fmt.Sprintf("%s/%s |  |  |  |  | %s", c.site.URL, name, name) }
	b, err := a.Submit(ctx, Submission{Profile: "test", Submitter: "ann"},
		strings.NewReader(manifest("mrt-single-file-batch-manifest", row("a"), row("b"))))
	if err != nil {
		return "", err
	}
	batch = b.ID
	ended := func(j *job.Job) bool { return j.Ended }
	for round := range 4 {
		if b, err = e.Await(ctx, batch, ended); err != nil || b.State == record.Completed {
			return batch, err
		}
		c.site.put("a", "alpha")
		if round > 0 {
			c.site.put("b", "beta")
		}
		page, err := c.log.List(ctx, job.Query{Parent: batch, Oldest: true})
		if err != nil || len(page.Jobs) != 2 {
			return batch, fmt.Errorf("%d jobs, %w", len(page.Jobs), err)
		}
		for i := range page.Jobs[:min(round+1, 2)] { // the second job is retried after the second report
			j := &page.Jobs[i]
			if j.State == record.Failed {
				_, err := e.Do(ctx, operator.Act{Job: j.ID, Event: record.Retry, By: lifecycle.Operator, Actor: "op"})
				if err != nil && job.KindOf(err) != job.Refused { // who disturbs may have been faster
					return batch, err
				}
			}
		}
		for again := true; again; { // who disturbs may set a job going in between: then the update is refused
			for i := range page.Jobs {
				if _, err := e.Await(ctx, page.Jobs[i].ID, ended); err != nil {
					return batch, err
				}
			}
			_, err := e.Do(ctx, operator.Act{Job: batch, Event: record.Update, By: lifecycle.Operator, Actor: "op"})
			if again = job.KindOf(err) == job.Refused; err != nil && !again {
				return batch, err
			}
		}
	}
	return batch, fmt.Errorf("no end after four reports")
}

// play runs the batch to its end with the act at a point, and gives what is wrong with its reports.
func (c *disturbed) play(t *testing.T, at string) (r *reaper, wrong []string, last report.Batch) {
	t.Helper()
	r = newReaper(at)
	a, err := New(c.o)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	a.putReport = r.put
	works := a.Works()
	if c.twist != nil {
		c.twist(works)
	}
	e, err := engine.New(reaped{c.log, r}, works,
		engine.Options{Deliver: a.Deliver(), Sweep: 10 * time.Millisecond, Grace: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	a.Bind(e)
	ctx, stop := context.WithTimeout(t.Context(), 2*time.Minute)
	r.do = func() { c.interfere(ctx, e) }
	ran := make(chan error, 1)
	go func() { ran <- e.Run(ctx) }()
	batch, err := c.run(ctx, a, e)
	if err != nil {
		t.Errorf("%q: %v", at, err)
	}
	if r.comes(at) { // who waits for the end of the batch may see a commit before the point after it
		select {
		case <-c.ended:
		case <-ctx.Done():
			t.Errorf("%q: there was no disturbance", at)
		}
	}
	last, err = a.Report(ctx, batch)
	if err != nil {
		t.Error(err)
	}
	stop()
	<-ran
	wrong, _ = c.log.lies(c.o.Dir, batch)
	return r, wrong, last
}

func (c *disturbed) interfere(ctx context.Context, e *engine.Engine) {
	c.site.put("b", "beta")
	page, err := c.log.List(ctx, job.Query{Kinds: []job.Kind{record.JobKind}, Oldest: true})
	act := c.act
	if err == nil && len(page.Jobs) == 2 {
		act.Job = page.Jobs[1].ID
		_, err = e.Do(ctx, act)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refused, c.done = err, true
	close(c.ended)
}

func disturb(t *testing.T, act operator.Act) *disturbed {
	w := newCrashHarness(t)
	act.By, act.Actor = lifecycle.Operator, "op"
	return &disturbed{crashHarness: w, log: &chronicle{Store: mem.New()}, act: act, ended: make(chan struct{})}
}

// commits leaves the points that are before or after a commit of the batch, or within a file.
func commits(points []string) []string {
	return slices.DeleteFunc(slices.Clone(points), func(p string) bool {
		reporting := slices.ContainsFunc([]string{"commit report", "commit fail", "commit finish", "commit update",
			".json"}, func(s string) bool { return strings.Contains(p, s) })
		return !reporting || strings.Contains(p, "report.json") || strings.Contains(p, " since ")
	})
}

// TestReportIsNotDisturbed retries and deletes a job before and after every commit, and between the files, of Reporting
// and UpdateReporting: it is refused, or a later report has it. No report has a state of a job that was out of date
// when the report became valid.
func TestReportIsNotDisturbed(t *testing.T) {
	r, wrong, last := disturb(t, operator.Act{Event: record.Retry}).play(t, "")
	if len(wrong) > 0 || last.Completed != 2 {
		t.Fatalf("without a disturbance: %v, %s", wrong, last.Text())
	}
	var mu sync.Mutex // guards the counts
	refused, accepted := 0, 0
	t.Run("points", func(t *testing.T) {
		for _, act := range []operator.Act{{Event: record.Retry}, {Event: record.Delete, Confirm: true}} {
			for _, at := range commits(r.points) {
				t.Run(fmt.Sprintf("%s %s", act.Event, at), func(t *testing.T) {
					t.Parallel()
					c := disturb(t, act)
					_, wrong, last := c.play(t, at)
					for _, w := range wrong {
						t.Error(w)
					}
					mu.Lock()
					defer mu.Unlock()
					switch deleted := last.Deleted == 1; {
					case !c.done: // the point did not come about
					case c.refused == nil:
						accepted++
						if deleted != (act.Event == record.Delete) || last.Completed+last.Deleted != 2 {
							t.Errorf("the last report does not have it: %s", last.Text())
						}
					case job.KindOf(c.refused) != job.Refused && job.KindOf(c.refused) != job.Conflict:
						t.Errorf("got %v", c.refused)
					default:
						refused++
					}
				})
			}
		}
	})
	if refused == 0 || accepted == 0 {
		t.Errorf("%d refused, %d accepted", refused, accepted)
	}
	t.Logf("%d refused, %d accepted", refused, accepted)
}

// TestReportIsNotDisturbedSees is the control: without the application's rules a report comes to lie, and it is seen.
func TestReportIsNotDisturbedSees(t *testing.T) {
	for _, act := range []operator.Act{{Event: record.Retry}, {Event: record.Delete, Confirm: true}} {
		c := disturb(t, act)
		c.twist = func(works []engine.Work) { works[1].Allow = nil }
		if _, wrong, _ := c.play(t, "before commit fail 1"); len(wrong) == 0 {
			t.Errorf("%s: nothing was seen", act.Event)
		}
	}
}
