package ingest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/stagepost/stagepost/app/ingest/profile"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// BatchReport says what became of a batch. It follows from the records alone: whoever makes it, and however often, it is the same.
type BatchReport struct {
	Batch      job.ID          `json:"batch"`
	State      lifecycle.State `json:"state"`
	Status     string          `json:"status"`         // COMPLETED, Failed or Pending
	Message    string          `json:"status_message"` // Success, or that of the first failed job
	Profile    string          `json:"profile"`
	Type       string          `json:"type,omitempty"`
	Filename   string          `json:"filename,omitempty"`
	Submitter  string          `json:"submitter,omitempty"`
	Note       string          `json:"note,omitempty"`
	Submitted  time.Time       `json:"submitted"`
	Ended      time.Time       `json:"ended,omitzero"` // of its last job
	Generation int             `json:"generation"`     // 0 for the first report, 1 after the first update
	Expected   int             `json:"expected"`
	Pending    int             `json:"pending"`
	Completed  int             `json:"completed"`
	Failed     int             `json:"failed"`
	Deleted    int             `json:"deleted"`
	Summary    string          `json:"summary"` // what happened, for the depositor
	Next       string          `json:"next"`    // what there is to do, for the depositor
	Changes    *Changes        `json:"changes,omitempty"`
	Jobs       []JobReport     `json:"jobs"` // in the order of the manifest
}

// JobReport says what became of one object.
type JobReport struct {
	Job      job.ID            `json:"job"`
	State    lifecycle.State   `json:"state"`
	Outcome  lifecycle.Outcome `json:"outcome,omitempty"`
	Row      int               `json:"row,omitempty"`
	Filename string            `json:"filename,omitempty"`
	URL      string            `json:"url,omitempty"`
	ARK      string            `json:"ark,omitempty"`
	LocalIDs []string          `json:"local_ids,omitempty"`
	Title    string            `json:"title,omitempty"`
	Version  int               `json:"version,omitempty"`
	Files    int               `json:"files,omitempty"`
	Bytes    int64             `json:"bytes,omitempty"`
	FailedIn lifecycle.State   `json:"failed_in,omitempty"`
	Cause    string            `json:"cause,omitempty"`
	Message  string            `json:"message,omitempty"`
	Retries  int               `json:"retries,omitempty"`
	Reason   string            `json:"reason,omitempty"` // why it failed, in plain words
	Remedy   Remedy            `json:"remedy,omitempty"` // who can bring it into storage after all
	Next     string            `json:"next,omitempty"`   // the same for the depositor, as a sentence
}

// standing is a report with what it has to do with the last one that went out.
type standing struct {
	BatchReport
	reports int  // that went out
	changed bool // the last one says something else
}

// Report makes the report of a batch as it stands.
func (a *App) Report(ctx context.Context, batch job.ID) (BatchReport, error) {
	st, err := a.standing(ctx, batch)
	return st.BatchReport, err
}

func (a *App) standing(ctx context.Context, batch job.ID) (st standing, err error) {
	store := a.engine.Store()
	b, err := store.Get(ctx, batch)
	if err != nil {
		return st, err
	}
	if b.Kind != BatchKind {
		return st, job.Errorf(job.Invalid, "report", batch, "it is a %s, not a batch", b.Kind)
	}
	var s batchSpec
	var d batchData
	if err := decodeBoth(&b, &s, &d); err != nil {
		return st, err
	}
	r := &st.BatchReport
	*r = BatchReport{
		Batch: b.ID, State: b.State, Profile: s.Profile, Type: d.Type, Filename: s.Filename, Submitter: s.Submitter, Note: s.Note,
		Submitted: b.Created.UTC(), Generation: b.Retries, Expected: b.Children.Expected,
	}
	q := job.Query{Kinds: []job.Kind{JobKind}, Parent: batch, Oldest: true, Limit: 1000}
	for {
		page, err := store.List(ctx, q)
		if err != nil {
			return st, err
		}
		for i := range page.Jobs {
			if err := r.add(&page.Jobs[i]); err != nil {
				return st, err
			}
		}
		if page.Next == "" {
			break
		}
		q.After = page.Next
	}
	r.conclude(&d)
	err = st.compare(a, &d)
	r.explain(d.Failure)
	return st, err
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

// add takes a job into the report.
func (r *BatchReport) add(j *job.Job) error {
	var s jobSpec
	var d jobData
	if err := decodeBoth(j, &s, &d); err != nil {
		return err
	}
	one := JobReport{
		Job: j.ID, State: j.State, Outcome: j.Outcome, Row: s.Row, Filename: s.Filename, URL: s.URL, LocalIDs: s.LocalIDs,
		Title: s.Title, Cause: j.Cause, Message: j.Message, Retries: j.Retries,
	}
	if who := d.Identity; who != nil {
		one.ARK, one.Title = who.ARK, who.Title
	}
	switch {
	case j.Gone:
		r.Deleted++
	case !j.Ended:
		r.Pending++
		one.Cause, one.Message = "", "" // what it waits for is no news for long
	case j.Outcome == lifecycle.OK:
		r.Completed++
		one.Version, one.Files, one.Bytes = d.Version, d.Files, d.Size
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

func (r *BatchReport) conclude(d *batchData) {
	r.Pending += max(0, r.Expected-r.Pending-r.Completed-r.Failed-r.Deleted)
	switch {
	case d.Failure != "":
		r.Status, r.Message = "Failed", d.Failure
	case r.Failed > 0:
		r.Status = "Failed"
	case r.Pending > 0 || r.Expected == 0:
		r.Status = "Pending"
	default:
		r.Status, r.Message = "COMPLETED", "Success"
	}
}

// bad tells whether the batch is not all stored.
func (r *BatchReport) bad() bool { return r.Failed > 0 || r.Pending > 0 }

// digest names what the report says of the jobs, to see whether anything changed. A retry that failed in the same way again is no news, and
// the plain words follow from the rest.
func (r *BatchReport) digest() (string, error) {
	facts := slices.Clone(r.Jobs)
	for i := range facts {
		facts[i] = facts[i].facts()
	}
	text, err := json.Marshal(facts)
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), err
}

// report is the step of Reporting and UpdateReporting: it writes the report into the batch's directory and puts the mail into the outbox.
// An update that finds nothing new sends no mail.
func (a *App) report(ctx context.Context, r *engine.Run) error {
	var s batchSpec
	var d batchData
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
	says, err := rep.digest()
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
	case d.Failure != "": // it never made its jobs, or not all of them: looking again changes nothing
		return fail(d.Cause, "%s", d.Failure)
	case rep.Failed > 0:
		return fail(CauseJobs, "%d of %d jobs failed: %s", rep.Failed, rep.Expected, rep.Message)
	case rep.Pending > 0: // its time was up before all were made, or before they ended
		return fail(CauseJobs, "%d of %d jobs have not ended", rep.Pending, rep.Expected)
	}
	return a.dropPayload(rep.Batch)
}

// dropPayload removes the payload of a batch whose objects are all stored: nobody will read it again.
func (a *App) dropPayload(batch job.ID) error {
	root, err := a.batchDir(batch)
	if err != nil {
		return err
	}
	return errors.Join(ignoreMissing(root.Remove(payloadName)), root.Close())
}

// publish writes the files of a report and sends the mail about it.
func (a *App) publish(r *engine.Run, p *profile.Profile, s *batchSpec, d *batchData, rep *BatchReport) error {
	rep.State = Completed
	if rep.bad() {
		rep.State = Failed
	}
	rep.explain("")
	root, err := a.batchDir(rep.Batch)
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
	return fmt.Sprintf("%s/%d.%s", reportsName, generation, ending)
}

// writeReport writes the report of this generation, which the mail is made of, and then the newest report, for whoever looks into the
// directory. A file appears whole or not at all; written again, it is the same.
func (a *App) writeReport(root *os.Root, rep *BatchReport) error {
	if err := root.MkdirAll(reportsName, 0o750); err != nil {
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
		{reportFile(rep.Generation, "json"), data}, {reportFile(rep.Generation, "txt"), text}, {"report.json", data}, {"report.txt", text},
	} {
		err := a.putReport(root, file.name, func(w io.Writer) error {
			_, err := w.Write(append(file.content, '\n'))
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}
