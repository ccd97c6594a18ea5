package ingest

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"reflect"

	"github.com/oklog/ulid/v2"
	"github.com/stagepost/stagepost/app/ingest/record"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/job"
)

// Submit hands in a payload: when it returns, payload and batch are on disk. A second call with the same key and submitter gives the batch
// of the first; if it hands in something else, the error is of kind Conflict. What could never be ingested is refused as Invalid.
func (a *App) Submit(ctx context.Context, s Submission, from io.Reader) (job.Job, error) {
	return a.SubmitFor(ctx, "", s, from)
}

// SubmitFor is Submit for the owner of a user token, who may use the profiles that name it and add versions to the objects that it may update. What
// it may not use is as unknown: a profile Invalid, an object NotFound. An empty user may do everything.
func (a *App) SubmitFor(ctx context.Context, user string, s Submission, from io.Reader) (job.Job, error) {
	p, err := checkSubmission(&s, permitted{a.options.Profiles, user})
	if err != nil {
		return job.Job{}, err
	}
	byUser := user != "" || isUser(ctx)
	if byUser && s.Priority != nil && p.Priority != nil && *s.Priority < *p.Priority {
		return job.Job{}, job.Errorf(job.Refused, "submit", "", "priority %d goes before that of profile %s, which is %d: only staff may order it", *s.Priority, p.ID, *p.Priority)
	}
	if err := a.mayUpdate(ctx, user, p, &s); err != nil {
		return job.Job{}, err
	}
	if a.engine == nil {
		return job.Job{}, job.Errorf(job.Unavailable, "submit", "", "no engine is bound")
	}
	now := a.engine.Clock().Now()
	made, err := ulid.New(ulid.Timestamp(now), rand.Reader)
	if err != nil {
		return job.Job{}, err
	}
	id := job.ID("bat_" + made.String())
	size, digest, err := a.tree.Stage(ctx, id, from, max(p.Limits.Bytes, p.Limits.Manifest))
	if err != nil {
		return job.Job{}, err
	}
	spec := record.BatchSpec{Submission: s, Payload: record.Payload{Size: size, SHA256: digest}, User: byUser, Bound: user}
	batch, err := a.engine.Submit(ctx, engine.Order{
		ID: id, Kind: record.BatchKind, Group: p.Group(), Owner: s.Submitter, Key: s.Key,
		Tags: []string{QueueTag}, Bytes: size,
		Spec: spec, Actor: s.Submitter,
	})
	if err != nil {
		if _, there := a.engine.Store().Get(ctx, id); there != nil && job.KindOf(there) == job.NotFound {
			err = errors.Join(err, a.tree.Unstage(id)) // otherwise its fate is not known, and the sweep sees to it
		}
		return batch, err
	}
	if batch.ID == id {
		return batch, nil
	}
	if err := a.tree.Unstage(id); err != nil {
		return batch, err
	}
	return batch, sameSubmission(&batch, spec)
}

type userKey struct{}

// AsUser marks what is submitted as handed in by a user rather than by staff: it may not go before others of its profile.
func AsUser(ctx context.Context) context.Context { return context.WithValue(ctx, userKey{}, true) }

func isUser(ctx context.Context) bool { return ctx.Value(userKey{}) != nil }

// sameSubmission refuses a key that was used for something else.
func sameSubmission(batch *job.Job, want record.BatchSpec) error {
	var got record.BatchSpec
	if err := json.Unmarshal(batch.Spec, &got); err != nil {
		return job.Errorf(job.Internal, "submit", batch.ID, "spec: %w", err)
	}
	if !reflect.DeepEqual(got, want) {
		return job.Errorf(job.Conflict, "submit", batch.ID, "the key %q was used for another submission", batch.Key)
	}
	return nil
}
