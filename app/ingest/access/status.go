package access

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/stagepost/stagepost/app/ingest/record"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// The numbers of the original's tokens.
const (
	CodeReady    = 200
	CodeQueued   = 201
	CodeNotReady = 202
	CodeFailed   = 500
)

// Status is the state of a request.
type Status struct {
	Token     string
	Job       job.ID
	State     lifecycle.State
	Code      int    // CodeReady, CodeQueued, CodeNotReady or CodeFailed
	Message   string // the same in words
	Cause     string // of a failure
	Object    string // ARK
	Version   int
	Format    string
	File      string // name of the package as a file
	Files     int    // of the content
	Bytes     int64  // of the content
	Size      int64  // of the package, once it is ready
	ETag      string // of the package, once it is ready
	Queue     string // small or large
	Place     int    // in the queue, from 1; 0: not waiting, or behind lookAhead
	Done      int64  // bytes of content that were read
	Requested time.Time
	Ready     time.Time // zero until it is
	Expires   time.Time // when the package, or the failure, goes; zero: never, or not known yet
	Damaged   []string  // files that had to be taken from another storage location
}

// lookAhead is how many jobs of a queue are read to find the position of one.
const lookAhead = 100

// Status returns the state of the request of a token. A package that was removed is an error of kind Gone.
func (a *App) Status(ctx context.Context, token string) (Status, error) {
	j, s, err := a.find(ctx, token)
	if err != nil {
		return Status{}, err
	}
	return a.status(ctx, j, s, token)
}

func (a *App) status(ctx context.Context, j *job.Job, s *spec, token string) (Status, error) {
	st := Status{
		Token: token, Job: j.ID, State: j.State, Object: s.ARK, Version: s.Version, Format: s.Format, File: s.Name +
			formats[s.Format].ending,
		Files: s.Count, Bytes: s.Bytes, Queue: "small", Requested: j.Created, Cause: j.Cause,
	}
	if slices.Contains(j.Tags, LargeTag) {
		st.Queue = "large"
	}
	if err := a.past(j); err != nil {
		return Status{}, err
	}
	if j.Ended {
		st.Expires = a.expiry(j)
	}
	switch j.State {
	case record.Pending:
		return a.queued(ctx, j, st)
	case record.Processing:
		return a.working(ctx, j, st)
	case record.Completed:
		d, err := dataOf(j)
		if err != nil {
			return Status{}, err
		}
		st.Code, st.Message, st.Ready, st.Done = CodeReady, cmp.Or(j.Message, "ready"), j.Entered, s.Bytes
		st.Size, st.ETag, st.Damaged, st.Cause = d.Size, etag(d), d.Damaged, ""
	default:
		st.Code, st.Message = CodeFailed, cmp.Or(j.Message, "it failed")
	}
	return st, nil
}

// past returns the error about a package that was removed.
func (a *App) past(j *job.Job) error {
	if j.Gone {
		return job.Errorf(job.Gone, "access", j.ID, "the package was removed: ask for the object again")
	}
	if at := a.expiry(j); j.State == record.Completed && !at.IsZero() && !a.engine.Clock().Now().Before(at) {
		return job.Errorf(job.Gone, "access", j.ID, "the package expired on %s: ask for the object again",
			at.UTC().Format(time.RFC3339))
	}
	return nil
}

// expiry is when an ended job is cleared away.
func (a *App) expiry(j *job.Job) time.Time {
	if a.options.Keep <= 0 {
		return time.Time{}
	}
	return j.Entered.Add(a.options.Keep)
}

// queued states what a waiting job waits for.
func (a *App) queued(ctx context.Context, j *job.Job, st Status) (Status, error) {
	st.Code, st.Message = CodeQueued, fmt.Sprintf("queued with the %s ones", st.Queue)
	held, err := a.held(ctx, j)
	if err != nil {
		return st, err
	}
	q := job.Query{Kinds: []job.Kind{Kind}, States: []lifecycle.State{record.Pending}, Tag: "queue=access-" +
		st.Queue, Oldest: true, Limit: lookAhead}
	page, err := a.engine.Store().List(ctx, q)
	if err != nil {
		return st, err
	}
	if i := slices.IndexFunc(page.Jobs, func(o job.Job) bool { return o.ID == j.ID }); i >= 0 {
		if st.Place = i + 1; i == 0 {
			st.Message += "; it is the next"
		} else {
			st.Message += fmt.Sprintf("; %d are before it", i)
		}
	}
	if held != "" {
		st.Message = held
	}
	return st, nil
}

func (a *App) working(ctx context.Context, j *job.Job, st Status) (Status, error) {
	st.Code, st.Message = CodeNotReady, "being assembled"
	if p, ok := a.engine.Progress(j.ID); ok && p.State == j.State {
		st.Done = p.Done
	}
	if j.Claimed() {
		return st, nil
	}
	held, err := a.held(ctx, j)
	if st.Message = cmp.Or(held, j.Message, "it will be assembled when a worker is free"); j.Message != "" &&
		held == "" {
		st.Message = "it is tried again: " + j.Message
	}
	return st, err
}

// held names the hold that keeps a job waiting; "" if there is none.
func (a *App) held(ctx context.Context, j *job.Job) (string, error) {
	holds, err := a.engine.Store().Holds(ctx)
	if err != nil {
		return "", err
	}
	for i := range holds {
		if h := &holds[i]; h.Matches(j) && h.On(a.engine.Clock().Now()) {
			return fmt.Sprintf("paused: %s is on hold (%s)", h.Scope, h.Why), nil
		}
	}
	return "", nil
}

func dataOf(j *job.Job) (*data, error) {
	var d data
	if err := json.Unmarshal(j.Data, &d); err != nil {
		return nil, job.Errorf(job.Internal, "access", j.ID, "data: %w", err)
	}
	return &d, nil
}

// etag gives a strong entity tag (RFC 9110, section 8.8.3): the digest is of all that the bytes follow from.
func etag(d *data) string { return `"` + d.Digest + `"` }
