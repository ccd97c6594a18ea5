package compute

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/job"
)

// send is the step of Processing for a claim that finds a job there: an earlier one ended in the middle of handing it
// over, and it may have arrived.
func (a *App) send(ctx context.Context, r *engine.Run) error {
	j := r.Job()
	spec, d, err := RecordOf(&j)
	if err != nil {
		return engine.Fail(CauseRejected, err)
	}
	if spec.Imported != nil {
		return nil
	}
	if d.Agent == "" { // again was decided, and its commit did not come through
		return a.again(ctx, r, &d, "", errors.New("the server was stopped after an attempt that failed"))
	}
	m, _ := a.registry.get(d.Agent)
	if m == nil {
		return a.doubt(ctx, r, &d, fmt.Errorf("the agent %s is not known to this server any more", d.Agent))
	}
	return a.hand(ctx, r, &spec, &d, m, false)
}

// hand passes a job over to an executor. first means that it was not done before: then a parcel that cannot have
// arrived may go to another executor. The caller has reserved a slot if it is the first.
func (a *App) hand(ctx context.Context, r *engine.Run, spec *Spec, d *Data, m *member, first bool) error {
	r.Changed() // news that come while it is on its way are not missed
	taken := false
	defer func() {
		if first {
			a.registry.settle(ctx, m, taken)
		}
	}()
	if a.registry.ticketless(m) && !first && !a.options.Resend {
		return a.doubt(ctx, r, d,
			errors.New("the agent supports no tickets: whether it has the job cannot be found out"))
	}
	notice, err := a.submit(ctx, r, spec, d, m, first)
	var no *Refusal
	switch {
	case err == nil && notice.Standing == Lost:
		return a.doubt(ctx, r, d, errors.New(notice.Reason))
	case err == nil:
		taken = true
		d.take(&notice, r.Now())
		d.Tried, d.Tries, d.Full = nil, 0, 0
		if err := r.SetData(d); err != nil {
			return err
		}
		return a.handed(ctx, r, d, &notice)
	case errors.As(err, &no) && !no.Here:
		return engine.Fail(CauseRejected, errors.New(cut(err.Error(), mostReport)))
	case errors.As(err, &no), errors.Is(err, ErrNotSent) && first:
		if ctx.Err() != nil { // what is known for sure is kept: no executor has it
			d.Agent = ""
			return errors.Join(ctx.Err(), r.SetData(d))
		}
		return a.again(ctx, r, d, m.name, err)
	case ctx.Err() != nil: // the next claim asks the same executor under the same ticket
		return ctx.Err()
	}
	return a.doubt(ctx, r, d, err)
}

// take remembers what an executor reported, and when this server first learned that the job runs, and that it does not
// any more: some executors do not know.
func (d *Data) take(n *Notice, now time.Time) {
	n.bound()
	if n.Standing == Works && d.Began.IsZero() {
		d.Began = now
	}
	if n.Standing == Ended && d.Over.IsZero() {
		d.Over = now
	}
	if n.Remote != "" {
		d.Remote = n.Remote
	}
	if n.Instance != "" {
		d.Instance = n.Instance
	}
	d.Notice, d.Silent = n, 0
}

// Times are when a job began to run and when it ended: as its executor reports, else as this server learned. Zero: it
// is not known, or not so yet.
func (d *Data) Times() (started, finished time.Time) {
	if d.Notice == nil {
		return d.Began, d.Over
	}
	if started = d.Notice.Started; started.IsZero() {
		started = d.Began
	}
	if finished = d.Notice.Finished; finished.IsZero() {
		finished = d.Over
	}
	return started, finished
}

// handed goes on with a job that an executor has.
func (a *App) handed(ctx context.Context, r *engine.Run, d *Data, n *Notice) error {
	if err := r.Move(ctx, Sent); err != nil {
		return err
	}
	select {
	case <-r.Changed(): // news came before that commit, which a Rest takes for seen now: the notice may be older
		return a.query(ctx, r)
	default:
	}
	return a.follow(ctx, r, d, n)
}

// awaits is what a job waits for that an executor has.
func (a *App) awaits(r *engine.Run, agent string, n *Notice) job.Blocker {
	pause := a.options.Poll
	if _, live := a.registry.get(agent); live {
		pause = a.options.Recheck
	}
	sentence := "the agent has it and will report how it ended"
	switch {
	case n.Standing == Waits && n.Reason != "":
		sentence = "it waits there: " + shorten(n.Reason)
	case n.Standing == Waits:
		sentence = "it waits there for a free slot"
	case n.Standing == Works && n.Place != "":
		sentence = "it runs on " + n.Place
	case n.Standing == Works:
		sentence = "it runs there"
	}
	return job.Blocker{Code: blockAgent, Sentence: sentence, Until: r.Now().Add(pause)}
}

// doubt leaves it open whether an executor has a job: it is Unknown until it answers (a lost answer is an unknown
// result).
func (a *App) doubt(ctx context.Context, r *engine.Run, d *Data, reason error) error {
	if d.Silent == 0 {
		d.Heard = r.Now()
	}
	d.Sent, d.Silent = true, d.Silent+1
	if err := r.SetData(d); err != nil {
		return err
	}
	if r.Job().State == Processing {
		if err := r.Move(ctx, Sent); err != nil {
			return err
		}
	}
	return a.silent(ctx, r, d, reason)
}

// silent is what becomes of a job whose executor does not answer.
func (a *App) silent(ctx context.Context, r *engine.Run, d *Data, reason error) error {
	b := job.Blocker{
		Code: blockSilent, Until: r.Now().Add(min(a.options.Poll<<min(d.Silent, 6), 30*time.Second)),
		Sentence: fmt.Sprintf("%s does not answer: %s", d.Agent, plain(reason)),
	}
	if err := r.SetData(d); err != nil {
		return err
	}
	switch j := r.Job(); j.State {
	case Killing:
		b.Sentence = "cancellation requested: " + a.unanswered(d, j.Entered) + " (" + plain(reason) + ")"
		if end := a.patienceEnds(d, j.Entered).Add(time.Millisecond); end.Before(b.Until) {
			// records cut times to milliseconds: not before the end
			b.Until = end
		}
		return engine.Wait(b)
	case Unknown, Retrieving:
		return engine.Wait(b)
	}
	err := r.Rest(ctx, Lose, b)
	if errors.Is(err, errConflict) {
		return engine.Go(Lose)
	}
	return err
}
