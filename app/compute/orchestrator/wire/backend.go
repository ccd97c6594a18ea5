package wire

import (
	"context"
	"errors"
	"io"
	"time"
)

// Errors of backends that have an answer of their own. They may be wrapped; any other error is the server's own fault
// and its text stays there.
var (
	// ErrNotFound: there is no such job or payload, or not for this caller.
	ErrNotFound = errors.New("no such job")
	// ErrNoPayload: the job is not at an agent yet, or its agent has it no longer.
	ErrNoPayload = errors.New("job payload not found on client")
	// ErrNoService: the job's service is not configured any more.
	ErrNoService = errors.New("invalid service configuration")
	// ErrService: an upload names a service that there is not.
	ErrService = errors.New("invalid service")
)

// Refusal is a backend's error whose sentence the user should read. [Quota], [Unsafe] and [Busy] make one; errors of
// other packages may have a method Quota, Unsafe or Busy that gives the sentence.
type Refusal struct {
	Sentence string
	Code     int // 429, 400 or 503
}

func (r *Refusal) Error() string { return r.Sentence }

// Quota refuses because the user has enough already: 429.
func Quota(sentence string) error { return &Refusal{sentence, 429} }

// Unsafe refuses what was uploaded: 400.
func Unsafe(sentence string) error { return &Refusal{sentence, 400} }

// Busy refuses for now: 503 with Retry-After.
func Busy(sentence string) error { return &Refusal{sentence, 503} }

// refusal finds the sentence and the status code of a refusal.
func refusal(err error) (code int, sentence string, ok bool) {
	if r, is := errors.AsType[*Refusal](err); is {
		return r.Code, r.Sentence, true
	}
	if q, is := errors.AsType[interface {
		error
		Quota() string
	}](err); is {
		return 429, q.Quota(), true
	}
	if u, is := errors.AsType[interface {
		error
		Unsafe() string
	}](err); is {
		return 400, u.Unsafe(), true
	}
	if b, is := errors.AsType[interface {
		error
		Busy() string
	}](err); is {
		return 503, b.Busy(), true
	}
	return 0, "", false
}

// Backend is what [Users] needs of a server. Its methods are called by many requests at once.
type Backend interface {
	// Begin opens an upload; nothing of it is seen before Commit.
	Begin(ctx context.Context) (Upload, error)
	// Job gives the state of a job or ErrNotFound.
	Job(ctx context.Context, id uint32) (View, error)
	// Result opens the ZIP of a Completed job. The caller closes it.
	Result(ctx context.Context, id uint32) (Result, error)
	// Partial writes a ZIP of what the job has made so far. It calls w once, when the ZIP begins and nothing but the
	// network can fail any more; before, it may give ErrNotFound, ErrNoPayload, ErrNoService or another error. An error
	// afterwards cuts the connection, so that the part is not taken for the whole.
	Partial(ctx context.Context, id uint32, w func() io.Writer) error
	// Terminate cancels a job. already is the status of a job that had ended before; it stays as it is.
	Terminate(ctx context.Context, id uint32) (already Status, err error)
	// Health is nil if the store answers.
	Health(ctx context.Context) error
}

// Upload is a job that is coming in.
type Upload interface {
	// File stores one file; a later one of the same name wins. Reading r may fail, and the error is passed on then.
	File(name string, r io.Reader) error
	// Commit makes a job of it that outlives a crash. ErrService when the service is unknown, a Refusal (also one of
	// another package) when it may not be; a job without run.sh or with an unsafe one is taken, and is Invalid at once.
	Commit(ctx context.Context, user int32, service string) (id uint32, err error)
	// Discard removes what Commit has not taken. It is always called, and does nothing after Commit.
	Discard()
}

// Keyed is an [Upload] or [Submission] that takes an idempotency key. Key is called at most once, before the first
// file. Commit then gives the job that was made under the same key before, if there is one.
type Keyed interface {
	Key(key string) error
}

// Replaying is a [Keyed] upload that reports, after Commit, whether an earlier request made its job under the key.
type Replaying interface {
	Replayed() bool
}

// View is what a user may know of a job. Zero fields are not reported.
type View struct {
	Status          Status
	Reason, Message string // a word for programs, a sentence for people
	ExitCode        *int
	Signal          string
	QueuePosition   int // 1 is next
	Attempt         int

	Created, Started, Finished, Expires time.Time

	Public string // the job's unguessable id
	Owner  string // compared with the Caller
}

// Result is a finished ZIP that is read from a file.
type Result struct {
	File     io.ReadSeekCloser
	Size     int64
	ETag     string // with or without quotes; empty: none
	Modified time.Time
}

// Caller is who sends a request: an owner who sees the own jobs, an operator who sees all, or an admin who also
// downloads the files of all.
type Caller struct {
	Owner string // whose an upload is; empty: an operator's for the user of its user_id
	All   bool
	Files bool
}

// reads reports whether the sender of a request may download the files of an owner.
func reads(ctx context.Context, owner string) bool {
	c, known := CallerOf(ctx)
	return !known || c.Files || c.Owner == owner
}

type callerKey struct{}

// CallerOf gives who Options.Who found for the request that ctx belongs to; known is false when authentication is off.
func CallerOf(ctx context.Context) (c Caller, known bool) {
	c, known = ctx.Value(callerKey{}).(Caller)
	return c, known
}
