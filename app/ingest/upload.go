package ingest

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"math"
	"slices"

	"github.com/oklog/ulid/v2"

	"github.com/stagepost/stagepost/app/ingest/profile"
	"github.com/stagepost/stagepost/app/ingest/record"
	"github.com/stagepost/stagepost/app/ingest/workdir"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/job"
)

// mostFiles bounds the files of one submission. Batch manifests have no such bound.
const mostFiles = 500

// typeMixed is the type of a batch whose files are of several types.
const typeMixed = "files"

// Upload stages the files of a submission before its description is known. Its methods are for one goroutine.
type Upload struct {
	app   *App
	user  string
	id    job.ID
	most  int64 // bytes of a file
	files []record.Payload
}

// Upload begins a submission for the owner of a user token, as [App.SubmitFor] has it. Submit or Discard ends it.
func (a *App) Upload(user string) (*Upload, error) {
	if a.engine == nil {
		return nil, job.Errorf(job.Unavailable, "submit", "", "no engine is bound")
	}
	made, err := ulid.New(ulid.Timestamp(a.engine.Clock().Now()), rand.Reader)
	if err != nil {
		return nil, err
	}
	u := &Upload{app: a, user: user, id: job.ID("bat_" + made.String())}
	profiles := permitted{Source: a.options.Profiles, user: user}
	for _, id := range profiles.IDs() {
		if p, ok := profiles.Get(id); ok {
			u.most = max(u.most, p.Limits.Bytes, p.Limits.Manifest)
		}
	}
	if p, ok := profiles.Get(""); ok {
		u.most = max(u.most, p.Limits.Bytes, p.Limits.Manifest)
	}
	return u, nil
}

// Add stages a file: when it returns, the file is on disk. After an error the upload is at its end.
func (u *Upload) Add(ctx context.Context, name string, from io.Reader) error {
	if len(u.files) == mostFiles {
		return errors.Join(job.Errorf(job.Invalid, "submit", "", "more than %d files: submit a batch manifest",
			mostFiles), u.Discard())
	}
	size, digest, err := u.app.tree.Stage(ctx, u.id, len(u.files), from, u.most)
	if err != nil {
		return err
	}
	u.files = append(u.files, record.Payload{Size: size, SHA256: digest, Filename: name})
	return nil
}

// Discard removes what was staged.
func (u *Upload) Discard() error {
	u.files = nil
	return u.app.tree.Unstage(u.id)
}

// Submit makes the batch of the files, as [App.SubmitFor] does: one job for each file, or one for each row of a batch
// manifest. A name in s is that of the first file. After an error nothing is staged.
func (u *Upload) Submit(ctx context.Context, s Submission) (job.Job, error) {
	if len(u.files) == 0 {
		return job.Job{}, job.Errorf(job.Invalid, "submit", "", "there is no file")
	}
	if s.Filename == "" {
		s.Filename = u.files[0].Filename
	}
	p, err := u.app.admit(ctx, u.user, &s)
	if err == nil {
		err = u.check(p, &s)
	}
	if err != nil {
		return job.Job{}, errors.Join(err, u.Discard())
	}
	return u.enter(ctx, p, s)
}

// check refuses files that the profile does not allow, and what cannot hold for several files.
func (u *Upload) check(p *profile.Profile, s *Submission) error {
	u.files[0].Filename = ""
	for i := range u.files {
		f := &u.files[i]
		if f.Size > max(p.Limits.Bytes, p.Limits.Manifest) {
			return job.Errorf(job.Invalid, "submit", "", "file %d has %d bytes, more than profile %s allows", i+1,
				f.Size,
				p.ID)
		}
		if i == 0 {
			continue
		}
		name, err := p.Names.Rules().Clean(f.Filename)
		if err != nil {
			return job.Errorf(job.Invalid, "submit", "", "the name of file %d: %w", i+1, err)
		}
		f.Filename = name
	}
	if len(u.files) == 1 {
		return nil
	}
	switch {
	case s.PrimaryID != "" || len(s.LocalIDs) > 0:
		return job.Errorf(job.Invalid, "submit", "", "%d files and an identifier: it belongs to one object",
			len(u.files))
	case s.DigestType != "":
		return job.Errorf(job.Invalid, "submit", "", "%d files and a digest: it belongs to one file", len(u.files))
	case batchProfiles[s.Type] != nil:
		return job.Errorf(job.Invalid, "submit", "", "%d files of the type %s: submit each by itself", len(u.files),
			s.Type)
	}
	return nil
}

// enter makes the batch of the staged files.
func (u *Upload) enter(ctx context.Context, p *profile.Profile, s Submission) (job.Job, error) {
	a := u.app
	spec := record.BatchSpec{Submission: s, Payload: u.files[0], User: u.user != "" || isUser(ctx), Bound: u.user,
		Within: within(ctx)}
	if len(u.files) > 1 {
		spec.More = slices.Clone(u.files[1:])
	}
	batch, err := a.engine.Submit(ctx, engine.Order{
		ID: u.id, Kind: record.BatchKind, Group: p.Group(), Owner: s.Submitter, Key: s.Key,
		Tags: []string{QueueTag}, Words: spec.Texts(), Bytes: spec.Bytes(),
		Spec: spec, Actor: s.Submitter,
	})
	if err != nil {
		if _, there := a.engine.Store().Get(ctx, u.id); there != nil && job.KindOf(there) == job.NotFound {
			err = errors.Join(err, a.tree.Unstage(u.id)) // otherwise its fate is not known, and the sweep sees to it
		}
		return batch, err
	}
	if batch.ID == u.id {
		return batch, nil
	}
	if err := a.tree.Unstage(u.id); err != nil {
		return batch, err
	}
	return batch, sameSubmission(&batch, spec)
}

// examineParts finds out what each file of a submission of several is. Each becomes an object, so that none is a batch
// manifest.
func (a *App) examineParts(batch job.ID, s *record.BatchSpec) (d record.BatchData, err error) {
	for part := range len(s.More) + 1 {
		name, size := s.Filename, s.Payload.Size
		if part > 0 {
			name, size = s.More[part-1].Filename, s.More[part-1].Size
		}
		typ, err := a.typeOfPart(batch, part, size, name, s.Type)
		if final(err) {
			err = fail(causeOf(err), "file %d, %s: %w", part+1, name, err)
		}
		if err != nil {
			return d, err
		}
		d.Types = append(d.Types, typ)
	}
	d.Jobs = len(d.Types)
	if d.Type = d.Types[0]; slices.ContainsFunc(d.Types, func(t string) bool { return t != d.Type }) {
		d.Type = typeMixed
	}
	return d, nil
}

func (a *App) typeOfPart(batch job.ID, part int, size int64, name, given string) (typ string, err error) {
	f, err := a.openPart(batch, part, size)
	if err != nil || given != "" {
		if f != nil {
			err = f.Close()
		}
		return given, err
	}
	defer f.Close()
	if typ, err = detect(f, name); err == nil && batchProfiles[typ] != nil {
		err = fail(CauseWrongType, "a %s beside other files: submit it by itself", typ)
	}
	return typ, err
}

// StagePart brings a further file of a batch to its directory, the payload of a job whose specification names the part.
func (a *App) StagePart(ctx context.Context, batch job.ID, part int, from io.Reader) (size int64, err error) {
	root, err := a.tree.Batch(batch)
	if err != nil {
		return 0, err
	}
	err = workdir.PutFile(root, workdir.PartName(part), func(to io.Writer) (err error) {
		size, err = io.Copy(to, workdir.LimitReader(ctx, from, math.MaxInt64-1))
		return err
	})
	return size, errors.Join(err, root.Close())
}
