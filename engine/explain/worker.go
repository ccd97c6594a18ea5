package explain

import (
	"context"
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
type RemoteWorkers func(ctx context.Context, p job.KindState, labels []string) Takes

// UseWorkers makes the explainer report jobs that no live worker takes. It is called before the first explanation.
func (e *Explainer) UseWorkers(workers RemoteWorkers) { e.workers = workers }

// takenHere reports whether the slots of this engine take jobs of the kind and state that require the same labels.
func (e *Explainer) takenHere(j *job.Job) bool {
	next := e.engine.Status().Pool(j.Kind).Next
	return slices.Contains(next.From, job.KindState{Kind: j.Kind, State: j.State}) &&
		len(job.Lacking(j.Requires, next.Labels)) == 0
}

// requires are the labels that a worker must have for a job.
func requires(w *engine.Work, j *job.Job) []string {
	return job.Tagged(slices.Concat(w.Requires[j.State], j.Requires)...)
}

// withLabels states labels behind "for" a state; none: nothing.
func withLabels(labels []string) string {
	if len(labels) == 0 {
		return ""
	}
	return " with labels " + strings.Join(labels, ", ")
}

// noWorker returns the blocker of a job that waits for a worker, while no live one takes jobs of its state; nil: one
// does, or that is not known.
func (e *Explainer) noWorker(ctx context.Context, w *engine.Work, j *job.Job) *job.Blocker {
	kind := w.Life.Kind(j.State)
	if e.workers == nil || j.Claimed() || kind == lifecycle.Wait || kind == "" || e.takenHere(j) {
		return nil
	}
	p, labels := job.KindState{Kind: j.Kind, State: j.State}, requires(w, j)
	t := e.workers(ctx, p, labels)
	if t.Unknown || len(t.Live) > len(t.Drained) {
		return nil
	}
	b := &job.Blocker{Code: BlockNoWorker, Since: j.Entered, Until: j.Expires, Holder: "workers outside"}
	b.Sentence = fmt.Sprintf("no live worker for %s/%s", j.Kind, j.State) + withLabels(labels)
	if none := e.lackedByAll(ctx, w, p, labels); len(none) > 0 && len(labels) > 1 {
		b.Sentence += "; none has " + strings.Join(none, " or ")
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
	if slices.Contains(w.Programs, j.State) {
		b.Remedy = fmt.Sprintf("start the program that works on %s/%s", j.Kind, j.State) + withLabels(labels)
	} else {
		b.Remedies = append(b.Remedies, startWorker(w, j, labels))
	}
	if len(t.Drained) > 0 {
		b.Remedy = "resume a worker that is drained, or start another one"
	}
	return b
}

// lacksLabels returns the blocker of a job that has a step here, while the slots lack labels that it requires; nil:
// they lack none. It is not known whether another engine has them.
func (e *Explainer) lacksLabels(w *engine.Work, j *job.Job) *job.Blocker {
	lacking := job.Lacking(requires(w, j), e.engine.Status().Labels)
	if w.Steps[j.State] == nil || len(lacking) == 0 {
		return nil
	}
	words := strings.Join(lacking, ", ")
	return &job.Blocker{Code: BlockOutside, Since: j.Entered, Until: j.Expires,
		Holder:   "workers with labels " + words,
		Sentence: fmt.Sprintf("%s requires the labels %s, which this engine does not have", j.State, words),
		Remedy:   "start an engine with these labels (Options.Labels), or a server or worker",
		Remedies: []job.Remedy{startWorker(w, j, requires(w, j))}}
}

// lackedByAll returns those of the labels that no live worker for the state has, elsewhere or here.
func (e *Explainer) lackedByAll(
	ctx context.Context, w *engine.Work, p job.KindState, labels []string,
) (none []string) {
	slots := e.engine.Status().Labels
	for _, l := range labels {
		t := e.workers(ctx, p, []string{l})
		here := w.Steps[p.State] != nil && slices.Contains(slots, l)
		if !here && len(t.Live) == len(t.Drained) {
			none = append(none, l)
		}
	}
	return none
}

// startWorker is the command that starts a worker for a job: a server, if only servers work on its state.
func startWorker(w *engine.Work, j *job.Job, labels []string) job.Remedy {
	with, list := "", strings.Join(labels, ",")
	if list != "" {
		with = " --labels " + list
	}
	if w.Steps[j.State] != nil && !slices.Contains(w.Shared, j.State) {
		if list == "" {
			return job.Running("serve", "starts a server")
		}
		return job.Running("serve --labels "+list,
			"starts the server with these labels, if its machine has what they name")
	}
	return job.Running(fmt.Sprintf("work --kinds %s/%s", j.Kind, j.State)+with, "starts a worker for such jobs")
}
