// Package takeover takes over the jobs in the database of a job-orchestrator server, with their files and results.
package takeover

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/app/compute/orchestrator/wire"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/engine/operator"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// Jobs are the jobs of an original server, in the order of their ids.
type Jobs []oldJob

// Report counts what became of the original's jobs.
type Report struct {
	Taken int `json:"taken"`    // that were not here before
	There int `json:"there"`    // that were
	Left  int `json:"left_out"` // cleaned ones
	// of the taken ones, those that had not failed there: it is unknown how they ended, or their files are gone or
	// damaged
	Failed  int            `json:"failed"`
	ByWord  map[string]int `json:"by_status"` // of all
	Notices []string       `json:"notices,omitempty"`
	Unsaid  int            `json:"notices_left_out,omitempty"`
}

// mostNotices is how many notices are given.
const mostNotices = 1000

func (t *Report) notice(text string) {
	if len(t.Notices) >= mostNotices {
		t.Unsaid++
		return
	}
	t.Notices = append(t.Notices, text)
}

// Unserved lists the services that jobs name and that are not among those of the server.
func (all Jobs) Unserved(known []compute.Service) (missing []string) {
	for _, o := range all {
		lacks := !slices.ContainsFunc(known, func(s compute.Service) bool { return s.Name == o.service })
		if lacks && wire.ParseStored(o.word) != wire.Cleaned && !slices.Contains(missing, o.service) {
			missing = append(missing, o.service)
		}
	}
	return missing
}

// Target is where jobs are taken over to: a store, and an application that is bound to the engine on it. Without an
// engine nothing is taken, and without a store there are no jobs yet.
type Target struct {
	Store  job.Store
	App    *compute.App
	Engine *engine.Engine
}

// Into takes all jobs over that are not there. It may be repeated. The report is what was done also when there is an
// error, which names the job.
func (all Jobs) Into(ctx context.Context, to *Target) (*Report, error) {
	done := &Report{ByWord: map[string]int{}}
	for i := range all {
		if err := done.one(ctx, &all[i], to); err != nil {
			return done, fmt.Errorf("job %d: %w", all[i].id, err)
		}
	}
	return done, nil
}

// one takes a job over, or counts it, unless it is here already.
func (t *Report) one(ctx context.Context, o *oldJob, to *Target) error {
	word := wire.ParseStored(o.word)
	j, there, err := to.find(ctx, o)
	if err != nil {
		return err
	}
	if there {
		t.ByWord[string(word)]++
		t.There++
		return to.callOff(ctx, &j)
	}
	if word == wire.Cleaned {
		t.ByWord[string(word)]++
		t.Left++
		return nil
	}
	f, err := o.inspect(ctx)
	if err != nil {
		return err
	}
	w := o.will(&f, time.Now())
	if to.Engine != nil {
		if err := to.take(ctx, o, &w); err != nil {
			return err
		}
	}
	t.ByWord[string(word)]++
	t.Taken++
	if w.fails {
		t.Failed++
	}
	for _, n := range w.notices {
		t.notice(n)
	}
	return nil
}

// find gives the job that was made of a row before.
func (to *Target) find(ctx context.Context, o *oldJob) (j job.Job, there bool, err error) {
	if to.Store == nil {
		return j, false, nil
	}
	j, err = to.Store.Numbered(ctx, compute.JobKind, o.id)
	if job.KindOf(err) == job.NotFound {
		return j, false, nil
	}
	if err != nil {
		return j, false, err
	}
	if j.Key != o.key() || j.Owner != o.owner() {
		return j, false, job.Errorf(job.Conflict, "import", j.ID,
			"the id %d is another job's here: import into a data directory without compute jobs of its own", o.id)
	}
	return j, true, nil
}

// take makes a job of a row.
func (to *Target) take(ctx context.Context, o *oldJob, w *will) error {
	u, err := to.App.Begin(ctx)
	if err != nil {
		return err
	}
	defer u.Discard()
	if w.files {
		if err := o.copy(u, w.as != nil); err != nil {
			return err
		}
	}
	j, err := u.Commit(ctx, compute.Order{
		Owner: o.owner(), User: strconv.FormatInt(o.user, 10), Service: o.service, Key: o.key(), Number: o.id,
		Created: w.created, Imported: w.as, By: lifecycle.Operator, Actor: "import",
		Note: "it was " + strings.ToLower(string(wire.ParseStored(o.word))) + " at job-orchestrator",
	})
	if err != nil {
		return err
	}
	if j.Number != o.id {
		return job.Errorf(job.Conflict, "import", j.ID, "it is here under the id %d", j.Number)
	}
	return to.callOff(ctx, &j)
}

// callOff ends a job that was killed at the original. An earlier import may have ended before it could.
func (to *Target) callOff(ctx context.Context, j *job.Job) error {
	spec, err := compute.SpecOf(j)
	if err != nil || to.Engine == nil || j.Ended || spec.Imported == nil || spec.Imported.Word != compute.ImportKilled {
		return err
	}
	_, err = to.Engine.Do(ctx, operator.Act{Job: j.ID, Event: compute.Cancel, By: lifecycle.Operator, Actor: "import",
		Note: "it was killed at the original"})
	return err
}
