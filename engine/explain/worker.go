package explain

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// Takes describes the remote workers that take jobs of a state.
type Takes struct {
	Live    []string  // workers that claim such jobs now, by name
	Drained []string  // of Live, those that are drained
	Last    string    // the worker that claimed such jobs last; empty: none is known
	Seen    time.Time // its last request
	Unknown bool      // other workers may take them: not all are known yet, or other servers have them
}

// RemoteWorkers returns the remote workers that claim jobs of a state and have the labels.
type RemoteWorkers func(p job.KindState, labels []string) Takes

// UseWorkers makes the explainer report jobs that no live worker takes. It is called before the first explanation.
func (e *Explainer) UseWorkers(workers RemoteWorkers) { e.workers = workers }

// takenHere reports whether the slots of this engine take jobs of the kind and state.
func (e *Explainer) takenHere(j *job.Job) bool {
	from := e.engine.Status().Pool(j.Kind).Next.From
	return slices.Contains(from, job.KindState{Kind: j.Kind, State: j.State})
}

// noWorker returns the blocker of a job that waits for a worker, while no live one takes jobs of its state; nil: one
// does, or that is not known.
func (e *Explainer) noWorker(w *engine.Work, j *job.Job) *job.Blocker {
	stage, _ := w.Life.Stage(j.State)
	if e.workers == nil || j.Claimed() || stage.Kind == lifecycle.Wait || e.takenHere(j) {
		return nil
	}
	labels := w.Requires[j.State]
	t := e.workers(job.KindState{Kind: j.Kind, State: j.State}, labels)
	if t.Unknown || len(t.Live) > len(t.Drained) {
		return nil
	}
	b := &job.Blocker{Code: BlockNoWorker, Since: j.Entered, Until: j.Expires, Holder: "workers outside"}
	b.Sentence = fmt.Sprintf("no live worker for %s/%s", j.Kind, j.State)
	with := ""
	if len(labels) > 0 {
		b.Sentence += " with labels " + strings.Join(labels, ", ")
		with = " --labels " + strings.Join(labels, ",")
	}
	if t.Last != "" {
		b.Holder = t.Last
		b.Sentence += fmt.Sprintf("; the last one was %s, seen %s", t.Last, t.Seen.UTC().Format(time.RFC3339))
		if t.Seen.After(b.Since) {
			b.Since = t.Seen
		}
	}
	for _, name := range t.Drained {
		b.Remedies = append(b.Remedies, job.Running("workers resume "+job.Quoted(name),
			"lets "+name+" take jobs again"))
	}
	b.Remedies = append(b.Remedies, job.Running(fmt.Sprintf("work --kinds %s/%s", j.Kind, j.State)+with,
		"starts a worker for such jobs"))
	b.Remedy = "start a worker for such jobs"
	if len(t.Drained) > 0 {
		b.Remedy = "resume a worker that is drained, or start another one"
	}
	return b
}
