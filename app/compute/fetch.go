package compute

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"path"
	"time"

	"github.com/stagepost/stagepost/edge/collect"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/job"
)

// mostFetches is how often a job's results are requested before its agent counts as unreachable again.
const mostFetches = 5

// fetch is the step of Retrieving: the job has ended at its executor, and what it left comes here. How it ended and
// whether that could be fetched are two things: a job that ran well and whose results are lost is not completed, and a
// bad ending is not mended by a good transfer (reliability hole J9).
func (a *App) fetch(ctx context.Context, r *engine.Run) error {
	j := r.Job()
	spec, d, err := RecordOf(&j)
	if err != nil {
		return failed(r, CauseLost, err.Error())
	}
	if spec.Imported != nil {
		return a.fetchImported(ctx, r, &j, &spec, &d)
	}
	if d.Notice == nil || d.Notice.Standing == Lost {
		reason := "its agent has no record of it any more"
		if d.Notice != nil && d.Notice.Reason != "" {
			reason = d.Notice.Reason
		}
		return failed(r, CauseLost, reason)
	}
	if d.Results == nil {
		switch err := a.take(ctx, &j, &d); {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, errCrowded):
			return a.crowded(r, &d)
		case job.IsFull(err): // this server's disk, not an executor's
			return engine.Wait(job.Blocker{Code: blockDisk,
				Sentence: "there is no space here for its results: " + shorten(bare(err).Error()),
				Until:    r.Now().Add(time.Minute)})
		case errors.Is(err, collect.ErrTooLarge): // it will not get smaller
			d.Fetches, d.Failures = mostFetches, mostFetches
			return a.unfetched(ctx, r, &d, err)
		case err != nil:
			return a.unfetched(ctx, r, &d, err)
		}
	}
	if d.Results != nil {
		r.SetBytes(j.Bytes - before(&j) + d.Results.Bytes)
	}
	if err := r.SetData(d); err != nil {
		return err
	}
	return a.conclude(r, &d)
}

// before gives the bytes of results that are counted in the record already.
func before(j *job.Job) int64 {
	d, err := DataOf(j)
	if err != nil || d.Results == nil {
		return 0
	}
	return d.Results.Bytes
}

// conclude ends a job as it ended at its executor. Results in part complete no job, except from an executor without
// tickets that cannot pack them whole.
func (a *App) conclude(r *engine.Run, d *Data) error {
	e := d.Notice.Ending
	switch {
	case e == nil:
		return failed(r, CauseLost, "its agent does not report how it ended")
	case e.Cause != "":
		return failed(r, e.Cause, d.Results.note(e.Sentence))
	case d.Results == nil:
		return failed(r, CauseResults, "it ended well, and its results could not be had whole")
	case d.Results.Partial && !a.ticketless(d):
		return failed(r, CauseResults, "it ended well, and its results are here in part only"+sentence(d.Results))
	case d.Results.Files == 0 && a.ticketless(d):
		// run.sh and its control files are among the results of such an executor
		return failed(r, CauseResults, "it ended well, and its results came without a single file"+sentence(d.Results))
	}
	why, err := lacking(a.root, r.Job().ID, d.Results)
	if err != nil {
		return engine.Retry(err)
	}
	if why != "" {
		return failed(r, CauseResults, "it ended well, and "+why)
	}
	r.SetMessage(d.Results.note(e.Note))
	return engine.Go(Finish)
}

// ticketless reports whether an executor without tickets has a job.
func (a *App) ticketless(d *Data) bool {
	if d.Instance != "" {
		return d.Instance == Ticketless
	}
	m, _ := a.registry.get(d.Agent)
	return m != nil && a.registry.ticketless(m)
}

func sentence(r *Results) string {
	if r.Sentence == "" {
		return ""
	}
	return ": " + r.Sentence
}

// failed takes the one failure transition that a state with several has for bad endings.
func failed(r *engine.Run, cause, sentence string) error {
	r.SetCause(cause)
	r.SetMessage(sentence)
	return engine.Go(Fail)
}

// take brings the results here: whole, or not at all. An executor that has none leaves d.Results empty.
func (a *App) take(ctx context.Context, j *job.Job, d *Data) error {
	m, _ := a.registry.get(d.Agent)
	if m == nil {
		return fmt.Errorf("%s is not known to this server any more", d.Agent)
	}
	if err := a.registry.enter(m); err != nil {
		return err
	}
	defer a.registry.leave(m)
	if !d.Notice.HasResult {
		return a.takePartial(ctx, j, d, m)
	}
	err := a.takeWhole(ctx, j, d, m)
	if errors.Is(err, ErrNoPayload) {
		return a.takePartial(ctx, j, d, m)
	}
	if err == nil || job.IsFull(err) {
		return err
	}
	if ctx.Err() == nil && (d.Fetches+1 >= mostFetches || a.ticketless(d)) { // what there is, rather than nothing
		if a.takePartial(ctx, j, d, m) == nil && d.Results != nil {
			d.Results.Sentence = "the regular results could not be had whole: " + plain(err)
			return nil
		}
	}
	return err
}

// takeWhole brings the regular results.
func (a *App) takeWhole(ctx context.Context, j *job.Job, d *Data, m *member) error {
	way := newMoving(ctx, a.options.Stall, a.counts(FromAgent, j.Group))
	defer way.end()
	from, err := m.executor.Results(way, d.Handle)
	if err != nil {
		return way.name(err)
	}
	want := collect.Expect{Bytes: -1}
	if d.Notice.SHA256 != "" {
		sum, err := digestOf(d.Notice.SHA256)
		if err != nil {
			return errors.Join(err, from.Close())
		}
		want = collect.Expect{Bytes: d.Notice.Bytes, SHA256: sum}
	}
	results, err := a.receive(ctx, j.ID, newBody(way, from), want)
	if err == nil {
		results.LeftOut = d.Notice.LeftOut
		d.Results = results
	}
	return err
}

// takePartial brings what there is, if anything.
func (a *App) takePartial(ctx context.Context, j *job.Job, d *Data, m *member) error {
	way := newMoving(ctx, a.options.Stall, a.counts(FromAgent, j.Group))
	defer way.end()
	from, err := m.executor.Partial(way, d.Handle)
	if errors.Is(err, ErrNoPayload) {
		return nil
	}
	if err != nil {
		return way.name(err)
	}
	results, err := a.receive(ctx, j.ID, newBody(way, from), collect.Expect{Bytes: -1})
	if err == nil {
		results.Partial = true
		d.Results = results
	}
	return err
}

// receive stores a ZIP as the results of a job: temporary name, sync, check of every entry, rename (reliability hole
// J11).
func (a *App) receive(ctx context.Context, id job.ID, body *body, want collect.Expect) (*Results, error) {
	defer body.Close()
	dir, err := a.root.OpenRoot(dirOf(id))
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	if err := collect.Sweep(dir); err != nil { // of a process that was killed in the middle
		return nil, err
	}
	got, err := collect.Receive(ctx, body, dir, resultsName, want, a.options.MaxResults)
	if err != nil {
		return nil, err
	}
	sum := hex.EncodeToString(got.SHA256[:])
	files, err := verified(ctx, dir, sum)
	if err != nil {
		return nil, errors.Join(err, dir.Remove(resultsName))
	}
	return &Results{Bytes: got.Bytes, SHA256: sum, Files: files}, nil
}

func digestOf(text string) (*collect.Digest, error) {
	var sum collect.Digest
	raw, err := hex.DecodeString(text)
	if err != nil || len(raw) != len(sum) {
		return nil, fmt.Errorf("the agent gave %q as the digest of the results", text)
	}
	copy(sum[:], raw)
	return &sum, nil
}

// unfetched is what becomes of a job whose results did not come: they are asked for again, and after some time its
// executor counts as silent.
func (a *App) unfetched(ctx context.Context, r *engine.Run, d *Data, reason error) error {
	d.Fetches++
	if d.Fetches < mostFetches {
		if err := r.SetData(d); err != nil {
			return err
		}
		return engine.Wait(job.Blocker{
			Code: blockSilent, Until: r.Now().Add(a.options.Poll << d.Fetches),
			Sentence: "its results did not come: " + plain(reason),
		})
	}
	d.Fetches = 0
	d.Failures++
	if d.Failures >= mostFetches { // it answers, and its results stay broken
		if err := r.SetData(d); err != nil {
			return err
		}
		if d.Notice.Ending != nil && d.Notice.Ending.Cause != "" {
			return failed(r, d.Notice.Ending.Cause, d.Notice.Ending.Sentence+"; its output could not be fetched: "+
				plain(reason))
		}
		return failed(r, CauseResults, "its results cannot be had whole: "+plain(reason))
	}
	if d.Silent++; d.Silent == 1 {
		d.Heard = r.Now()
	}
	if err := r.SetData(d); err != nil {
		return err
	}
	b := job.Blocker{Code: blockSilent, Until: r.Now().Add(a.options.Poll << 5),
		Sentence: "its results did not come: " + plain(reason)}
	err := r.Rest(ctx, Lose, b)
	if errors.Is(err, errConflict) {
		return engine.Go(Lose)
	}
	return err
}

// inputsOf gives the directory of a job's inputs, below the application's.
func inputsOf(id job.ID) string { return path.Join(dirOf(id), inputsName) }
