package ingest

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"os"
	"path"

	"github.com/stagepost/stagepost/app/ingest/profile"
	"github.com/stagepost/stagepost/app/ingest/record"
	"github.com/stagepost/stagepost/app/ingest/workdir"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/engine/cause"
	"github.com/stagepost/stagepost/engine/operator"
	"github.com/stagepost/stagepost/format/checkm"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// readPayload is the step of a pending batch: it finds out what the payload is, reads a batch manifest through to its
// end and counts its rows. A batch whose payload is wrong makes no jobs.
func (a *App) readPayload(ctx context.Context, r *engine.Run) error {
	var s record.BatchSpec
	if err := r.Spec(&s); err != nil {
		return err
	}
	p, err := a.profile(s.Profile)
	if err != nil {
		return err
	}
	d, err := a.examine(ctx, r, p, &s)
	if err = named(err); err != nil {
		if final(err) {
			d.Cause, d.Failure = causeOf(err), err.Error()
			err = errors.Join(err, r.SetData(d), a.sendQueued(r, p, &s, &d, err))
		}
		return err
	}
	d.Priority = priority(d.Jobs, p, &s)
	return errors.Join(r.SetData(d), a.sendQueued(r, p, &s, &d, nil))
}

func (a *App) examine(ctx context.Context, r *engine.Run, p *profile.Profile, s *record.BatchSpec) (record.BatchData,
	error) {
	if len(s.More) > 0 {
		return a.examineParts(r.Job().ID, s)
	}
	f, err := a.openPayload(r.Job().ID, s)
	if err != nil {
		return record.BatchData{}, err
	}
	defer f.Close()
	d := record.BatchData{Type: s.Type, Jobs: 1}
	if d.Type == "" {
		if d.Type, err = detect(f, s.Filename); err != nil {
			return d, err
		}
	}
	want := batchProfiles[d.Type]
	if want == nil {
		return d, nil // its one job reads it
	}
	if s.Payload.Size > p.Limits.Manifest {
		return d, fail(CauseTooLarge, "the manifest has %d bytes, profile %s allows %d", s.Payload.Size, p.ID,
			p.Limits.Manifest)
	}
	if err := matches(ctx, f, record.Digest{Type: s.DigestType, Value: s.DigestValue}); err != nil {
		return d, err
	}
	d.Jobs = 0
	for _, err := range rows(f, s.Filename, want, p.Strict, nil) {
		if err != nil {
			return d, err
		}
		if d.Jobs++; d.Jobs%1000 == 0 {
			r.Progress(int64(d.Jobs), 0, "rows")
			if err := ctx.Err(); err != nil {
				return d, err
			}
		}
	}
	if d.Jobs == 0 {
		return d, errNoObject()
	}
	return d, nil
}

// openPayload opens the staged payload and sees that it is whole.
func (a *App) openPayload(batch job.ID, s *record.BatchSpec) (*os.File, error) {
	return a.openPart(batch, 0, s.Payload.Size)
}

// openPart opens a staged file of a batch and sees that it is whole.
func (a *App) openPart(batch job.ID, part int, size int64) (*os.File, error) {
	root, err := a.tree.Batch(batch)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	f, err := root.Open(workdir.PartName(part))
	if errors.Is(err, os.ErrNotExist) {
		return nil, fail(CausePayloadMissing, "the staged payload is gone")
	}
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && info.Size() != size {
		err = fail(CausePayloadMissing, "the staged payload has %d bytes, %d were handed in", info.Size(), size)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// matches reads a payload through and compares its digest with the given one, if there is one.
func matches(ctx context.Context, f *os.File, want record.Digest) error {
	if want.Type == "" {
		return nil
	}
	h, err := checkm.NewHash(checkm.Algorithm(want.Type))
	if err != nil {
		return fail(CausePayloadDigest, "digest type %q: %w", want.Type, err)
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	if _, err := io.Copy(h, workdir.LimitReader(ctx, f, math.MaxInt64-1)); err != nil {
		return err
	}
	if sum := h.Sum(nil); !(checkm.Digest{Value: want.Value}).Matches(sum) {
		return fail(CausePayloadDigest, "submission package checksum mismatch: its %s is %s, not %s", want.Type,
			hex.EncodeToString(sum), want.Value)
	}
	return nil
}

// priority of the jobs of a batch: that of the depositor or the profile, else lower the more there are (Merritt's
// formula). A user's choice goes before neither.
func priority(jobs int, p *profile.Profile, s *record.BatchSpec) int {
	usual := min(max(int(10*math.Log(float64(jobs))+5), job.FirstPriority), job.LastPriority)
	if p.Priority != nil {
		usual = *p.Priority
	}
	switch {
	case s.Priority == nil:
		return usual
	case s.User:
		return max(*s.Priority, usual)
	}
	return *s.Priority
}

// makeJobs is the step of a batch in Processing: it creates one job of each object and waits until all have ended. If
// they cannot all be created, those that were are abandoned, so that no incomplete batch continues, and the report
// states it.
func (a *App) makeJobs(ctx context.Context, r *engine.Run) error {
	var s record.BatchSpec
	var d record.BatchData
	if err := errors.Join(r.Spec(&s), r.Data(&d)); err != nil {
		return err
	}
	if d.Failure != "" {
		return a.giveUp(ctx, r, &d)
	}
	if c := r.Job().Children; c.Expected == d.Jobs && c.Created() == d.Jobs {
		return r.WaitChildren()
	}
	p, err := a.profile(s.Profile)
	if err != nil {
		return err
	}
	if err = named(a.spawn(ctx, r, p, &s, &d)); err == nil {
		return r.WaitChildren()
	}
	if ctx.Err() != nil || job.KindOf(err) == job.Stale || !final(err) && cause.Temporary(err) && !r.Last() {
		return err
	}
	if fresh := r.Fresh(ctx); fresh != nil {
		return fresh
	}
	d.Cause, d.Failure = causeOf(err), err.Error()
	if r.Job().Children.Created() == 0 {
		return errors.Join(engine.Fail(d.Cause, err), r.SetData(d), a.sendQueued(r, p, &s, &d, err))
	}
	if err := errors.Join(r.SetData(d), r.Save(ctx)); err != nil {
		return err
	}
	return a.giveUp(ctx, r, &d)
}

// spawn creates the jobs of a batch that are not there yet.
func (a *App) spawn(ctx context.Context, r *engine.Run, p *profile.Profile, s *record.BatchSpec,
	d *record.BatchData) error {
	f, err := a.openPayload(r.Job().ID, s)
	if err != nil {
		return err
	}
	defer f.Close()
	next, stop := jobSpecs(f, p, s, d)
	defer stop()
	return r.Spawn(ctx, d.Jobs, func(i int) (engine.Order, error) {
		one, err := next()
		if err != nil {
			return engine.Order{}, fmt.Errorf("row %d: %w", i+1, err)
		}
		r.Progress(int64(i+1), int64(d.Jobs), "jobs")
		return engine.Order{
			Kind: record.JobKind, Priority: new(d.Priority), Group: p.Group(), Owner: r.Job().Owner, Actor: s.Submitter,
			Spec: one,
			Tags: tags(p), Words: one.Texts(), Bytes: max(one.Size, 0),
		}, nil
	})
}

// giveUp ends the jobs of a batch whose jobs could not all be created, and lets it go on to its report. What they
// stored until then stays stored.
func (a *App) giveUp(ctx context.Context, r *engine.Run, d *record.BatchData) error {
	if err := r.Abandon(ctx); err != nil {
		return err
	}
	open := false
	q := job.Query{Kinds: []job.Kind{record.JobKind}, Parent: r.Job().ID, Ended: &open, Oldest: true, Limit: 1000}
	for {
		page, err := a.engine.Store().List(ctx, q)
		if err != nil {
			return err
		}
		for i := range page.Jobs {
			if err := a.abandon(ctx, page.Jobs[i].ID, "its batch could not be completed: "+d.Failure); err != nil {
				return err
			}
		}
		if page.Next == "" {
			break
		}
		q.After = page.Next
	}
	if err := r.Fresh(ctx); err != nil {
		return err
	}
	return r.WaitChildren()
}

// abandon ends a job of a batch that is abandoned. A hold or its release may move it meanwhile; then it is read again.
func (a *App) abandon(ctx context.Context, id job.ID, why string) error {
	for try := 1; ; try++ {
		j, err := a.engine.Store().Get(ctx, id)
		if err != nil || j.Ended {
			return err
		}
		act := operator.Act{Job: id, Event: record.Fail, By: lifecycle.Worker, Actor: "ingest", Note: why}
		if j.State == record.Held {
			act.Event, act.By, act.Confirm = record.Delete, lifecycle.Operator, true
		}
		if _, err = a.engine.Do(ctx, act); job.KindOf(err) != job.Refused {
			return err
		}
		if try == 5 {
			return nil // it ends by itself, and the batch waits for it
		}
	}
}

// batchProfiles gives the manifest of each batch type.
var batchProfiles = map[string]*checkm.Profile{
	TypeBatchManifest: checkm.BatchManifests, TypeContainerBatchManifest: checkm.BatchContainers,
	TypeFileBatchManifest: checkm.BatchFiles,
}

// rowTypes gives the type of the jobs that a batch makes.
var rowTypes = map[string]string{
	TypeBatchManifest: TypeObjectManifest, TypeContainerBatchManifest: TypeContainer, TypeFileBatchManifest: TypeFile,
}

// rows reads a manifest from its beginning. It ends after the first error. Afterwards warn, if it is not nil, is called
// with what is odd but no reason to refuse it. A manifest without any header is taken for one of the profile that is
// wanted.
func rows(f io.ReadSeeker, name string, want *checkm.Profile, strict bool,
	warn func([]*checkm.Error)) iter.Seq2[checkm.Row, error] {
	return func(yield func(checkm.Row, error) bool) {
		if _, err := f.Seek(0, io.SeekStart); err != nil {
			yield(checkm.Row{}, err)
			return
		}
		if name == "" {
			name = "manifest"
		}
		o := checkm.Options{Strict: strict, Allow: []*checkm.Profile{want}, Assume: want}
		if want == checkm.ContainerObject {
			o.Assume = nil // its type was not given: it may have the name by chance
		}
		r := checkm.NewReader(name, f, o)
		if warn != nil {
			defer func() { warn(r.Warnings()) }()
		}
		for {
			row, err := r.Read()
			if errors.Is(err, io.EOF) {
				return
			}
			if !yield(row, err) || err != nil {
				return
			}
		}
	}
}

// jobSpecs gives what the jobs of a batch are created with, one after the other and always the same. stop must be
// called.
func jobSpecs(f io.ReadSeeker, p *profile.Profile, s *record.BatchSpec,
	d *record.BatchData) (next func() (record.JobSpec, error), stop func()) {
	want := batchProfiles[d.Type]
	if want == nil {
		part := -1
		return func() (record.JobSpec, error) { part++; return single(s, d, part) }, func() {}
	}
	pull, stop := iter.Pull2(rows(f, s.Filename, want, p.Strict, nil))
	return func() (record.JobSpec, error) {
		row, err, ok := pull()
		if !ok && err == nil {
			err = fail(CauseCorruptManifest, "the manifest has become shorter")
		}
		return ofRow(row, s, rowTypes[d.Type]), err
	}, stop
}

// single is the job of a file that is an object itself.
func single(s *record.BatchSpec, d *record.BatchData, part int) (record.JobSpec, error) {
	if part > len(s.More) || part > 0 && part >= len(d.Types) {
		return record.JobSpec{}, fail(CausePayloadMissing, "the batch has no file %d", part+1)
	}
	j := record.JobSpec{
		Type: d.Type, Profile: s.Profile, Submitter: s.Submitter, Filename: s.Filename, Size: s.Payload.Size,
		Digest: record.Digest{Type: s.DigestType,
			Value: s.DigestValue}, Title: s.Title, Creator: s.Creator, Date: s.Date,
		PrimaryID: s.PrimaryID, LocalIDs: s.LocalIDs, Note: s.Note, Update: s.Update, Bound: s.Bound,
		Within: s.Within,
		Part:   part, Described: s.Described(),
	}
	if len(d.Types) > 0 {
		j.Type = d.Types[part]
	}
	if part > 0 {
		j.Filename, j.Size = s.More[part-1].Filename, s.More[part-1].Size
	}
	return j, nil
}

// ofRow is the job of a row. What the row leaves out is the batch's, but for identifiers, which belong to one object.
func ofRow(row checkm.Row, s *record.BatchSpec, typ string) record.JobSpec {
	j := record.JobSpec{
		Type: typ, Profile: s.Profile, Submitter: s.Submitter, URL: row.URL, Row: row.Line, Filename: row.FileName,
		Size: row.Size,
		Digest: record.Digest{Type: string(row.Digest.Algorithm),
			Value: row.Digest.Value}, Title: record.OneLine(row.Title), Creator: record.OneLine(row.Creator),
		Date:      record.OneLine(row.Date),
		PrimaryID: row.PrimaryID, LocalIDs: row.LocalIDs(), Note: s.Note, Update: s.Update, Bound: s.Bound,
		Within:    s.Within,
		Described: s.Described(),
	}
	if j.Title == "" {
		j.Title = s.Title
	}
	if j.Creator == "" {
		j.Creator = s.Creator
	}
	if j.Date == "" {
		j.Date = s.Date
	}
	if typ == TypeContainer {
		j.Filename = path.Base(j.Filename) // the kind follows from its suffix
	}
	return j
}
