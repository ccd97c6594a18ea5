package ingest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/app/ingest/profile"
	"github.com/stagepost/stagepost/app/ingest/record"
	"github.com/stagepost/stagepost/app/ingest/report"
	"github.com/stagepost/stagepost/app/ingest/workdir"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/internal/durable"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// standing is a report with what it has to do with the last one that went out.
type standing struct {
	now     report.Batch
	reports int  // that went out
	changed bool // the last one is different
}

// Report makes the report of a batch as it stands.
func (a *App) Report(ctx context.Context, batch job.ID) (report.Batch, error) {
	st, err := a.standing(ctx, batch)
	return st.now, err
}

func (a *App) standing(ctx context.Context, batch job.ID) (st standing, err error) {
	b, err := a.Batch(ctx, batch)
	if err != nil {
		return st, err
	}
	var s record.BatchHead
	var d record.BatchData
	if err := decodeBoth(&b, &s, &d); err != nil {
		return st, err
	}
	r := &st.now
	*r = report.Batch{BatchReport: api.BatchReport{
		Batch: b.ID, State: b.State, Profile: s.Profile, Type: d.Type, Filename: s.Filename, Submitter: s.Submitter,
		Note:      s.Note,
		Submitted: b.Created.UTC(), Generation: b.Retries, Expected: b.Children.Expected,
	}}
	if err := a.eachJob(ctx, batch, func(j *job.Job) error { return addJob(r, j) }); err != nil {
		return st, err
	}
	r.Conclude(d.Failure)
	err = st.compare(a, &d)
	r.Explain(d.Failure)
	return st, err
}

// Batch gives the record of a batch. Any other job is Invalid.
func (a *App) Batch(ctx context.Context, id job.ID) (job.Job, error) {
	b, err := a.engine.Store().Get(ctx, id)
	if err == nil && b.Kind != record.BatchKind {
		err = job.Errorf(job.Invalid, "report", id, "it is no batch but of kind %s", b.Kind)
	}
	return b, err
}

// eachJob calls do for the jobs of a batch in order of creation.
func (a *App) eachJob(ctx context.Context, batch job.ID, do func(*job.Job) error) error {
	q := job.Query{Kinds: []job.Kind{record.JobKind}, Parent: batch, Oldest: true, Limit: 1000}
	for {
		page, err := a.engine.Store().List(ctx, q)
		if err != nil {
			return err
		}
		for i := range page.Jobs {
			if err := do(&page.Jobs[i]); err != nil {
				return err
			}
		}
		if page.Next == "" {
			return nil
		}
		q.After = page.Next
	}
}

func decodeBoth[S, D any](j *job.Job, spec *S, data *D) error {
	err := json.Unmarshal(j.Spec, spec)
	if len(j.Data) > 0 {
		err = errors.Join(err, json.Unmarshal(j.Data, data))
	}
	if err != nil {
		return job.Errorf(job.Internal, "decode", j.ID, "%w", err)
	}
	return nil
}

// addJob takes a job into the report.
func addJob(r *report.Batch, j *job.Job) error {
	var s record.JobHead
	var d record.JobData
	if err := decodeBoth(j, &s, &d); err != nil {
		return err
	}
	one := report.Job{
		Job: j.ID, State: j.State, Outcome: j.Outcome, Row: s.Row, Filename: s.Filename, URL: s.URL,
		LocalIDs: s.LocalIDs,
		Title:    s.Title, Creator: s.Creator, Date: s.Date, Type: s.Type,
		Cause: j.Cause, Message: j.Message, Retries: j.Retries, Warnings: d.Warnings,
	}
	who, version := d.Object()
	if who != nil {
		one.ARK, one.Title, one.Creator, one.Date = who.ARK, who.Title, who.Creator, who.Date
		if len(who.LocalIDs) > 0 {
			one.LocalIDs = who.LocalIDs
		}
	}
	switch {
	case j.Gone:
		r.Deleted++
	case !j.Ended:
		r.Pending++
		one.Cause, one.Message = "", "" // what it waits for is no news for long
	case j.Outcome == lifecycle.OK:
		r.Completed++
		one.Version, one.Files, one.Bytes = version, d.Files, d.Size
	default:
		r.Failed++
		one.FailedIn = j.Origin
		if r.Message == "" {
			r.Message = j.Message
		}
	}
	if j.Ended && j.Entered.After(r.Ended) {
		r.Ended = j.Entered.UTC()
	}
	r.Jobs = append(r.Jobs, one)
	return nil
}

// compare finds out what changed since the last report that was sent. Without news the changes are those of the last
// report.
func (r *standing) compare(a *App, d *record.BatchData) error {
	if r.reports = d.Reports; r.reports == 0 {
		return nil
	}
	says, err := r.now.Digest()
	if err != nil {
		return err
	}
	before, err := a.lastSent(r.now.Batch, d)
	switch {
	case err != nil:
		return err
	case says == d.Reported && before != nil:
		r.now.Changes = before.Changes
	case says != d.Reported:
		r.changed = true
		r.now.Changes = r.now.Since(before, d.Last)
	}
	return nil
}

// lastSent reads the last report that was sent. It is nil when its file is missing or is not the one whose digest was
// kept.
func (a *App) lastSent(batch job.ID, d *record.BatchData) (*report.Batch, error) {
	text, err := a.readReport(batch, d.Last)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var before report.Batch
	if err := json.Unmarshal(text, &before); err != nil {
		a.log.Warn("a report cannot be read; the next one is complete", "batch", batch, "generation", d.Last, "error",
			err)
		return nil, nil
	}
	if says, err := before.Digest(); err != nil || says != d.Reported {
		a.log.Warn("a report is not the one that was sent; the next one is complete", "batch", batch, "generation",
			d.Last)
		return nil, err
	}
	return &before, nil
}

// readReport reads the report of a generation. It makes no directory: that of a deleted batch stays gone.
func (a *App) readReport(batch job.ID, generation int) ([]byte, error) {
	root, err := os.OpenRoot(filepath.Join(a.options.Dir, workdir.WorkName, string(batch)))
	if err != nil {
		return nil, err
	}
	defer root.Close()
	f, err := root.Open(reportFile(generation, "json"))
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(f)
	return text, errors.Join(err, f.Close())
}

// report is the step of Reporting and UpdateReporting: it writes the report into the batch's directory and puts the
// mail into the outbox. An update that finds nothing new sends no mail.
func (a *App) report(ctx context.Context, r *engine.Run) error {
	var s record.BatchSpec
	var d record.BatchData
	if err := errors.Join(r.Spec(&s), r.Data(&d)); err != nil {
		return err
	}
	p, err := a.profile(s.Profile)
	if err != nil {
		return err
	}
	rep, err := a.Report(ctx, r.Job().ID)
	if err != nil {
		return err
	}
	says, err := rep.Digest()
	if err != nil {
		return err
	}
	if says != d.Reported && (d.Failure == "" || rep.Expected > 0) {
		if err := a.publish(r, p, &s, &d, &rep); err != nil {
			return err
		}
		d.Reported, d.Reports, d.Last = says, d.Reports+1, rep.Generation
	}
	if err := r.SetData(d); err != nil {
		return err
	}
	switch {
	case d.Failure != "": // it never made its jobs, or not all of them: counting again changes nothing
		return fail(d.Cause, "%s", d.Failure)
	case rep.Failed > 0:
		return fail(CauseJobs, "%d of %d jobs failed: %s", rep.Failed, rep.Expected, rep.Message)
	case rep.Pending > 0: // its time was up before all were made, or before they ended
		return fail(CauseJobs, "%d of %d jobs have not ended", rep.Pending, rep.Expected)
	}
	return a.dropPayload(rep.Batch, len(s.More))
}

// dropPayload removes the files of a batch whose objects are all stored: they are not read again. more is how many
// there are after the first.
func (a *App) dropPayload(batch job.ID, more int) error {
	root, err := a.tree.Batch(batch)
	if err != nil {
		return err
	}
	for part := range more + 1 {
		err = errors.Join(err, workdir.IgnoreMissing(root.Remove(workdir.PartName(part))))
	}
	return errors.Join(err, root.Close())
}

// publish writes the files of a report and sends the mail about it.
func (a *App) publish(r *engine.Run, p *profile.Profile, s *record.BatchSpec, d *record.BatchData,
	rep *report.Batch) error {
	rep.State = record.Completed
	if rep.Bad() {
		rep.State = record.Failed
	}
	rep.Explain("")
	root, err := a.tree.Batch(rep.Batch)
	if err != nil {
		return err
	}
	err = a.writeReport(root, rep)
	if err = errors.Join(err, root.Close()); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	return a.sendReport(r, p, s, d, rep)
}

// reportFile names a file of the report of a generation.
func reportFile(generation int, ending string) string {
	return fmt.Sprintf("%s/%d.%s", workdir.ReportsName, generation, ending)
}

// writeReport writes the report of this generation, which the mail is made of, and then the newest report, for people
// who open the directory. A file appears whole or not at all; written again, it is the same.
func (a *App) writeReport(root *os.Root, rep *report.Batch) error {
	if err := root.MkdirAll(workdir.ReportsName, 0o750); err != nil {
		return err
	}
	text := []byte(rep.Text())
	data, err := json.MarshalIndent(rep, "", "  ")
	if err != nil {
		return err
	}
	for _, file := range []struct {
		name    string
		content []byte
	}{
		{reportFile(rep.Generation, "json"), data}, {reportFile(rep.Generation, "txt"), text}, {"report.json",
			data}, {"report.txt", text},
	} {
		err := a.putReport(root, file.name, func(w io.Writer) error {
			_, err := w.Write(append(file.content, '\n'))
			return err
		})
		if err != nil {
			return err
		}
	}
	return durable.SyncIn(root, ".")
}
