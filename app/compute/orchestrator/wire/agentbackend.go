package wire

import (
	"context"
	"io"
)

// AgentBackend is what [Agent] needs of an agent. Its methods are called by many requests at once. Ids fit 32 bits, and
// an agent that lost its database must not use them again: they start at random or at the time, never at 1.
type AgentBackend interface {
	// Begin opens a payload; nothing of it is seen before Commit.
	Begin(ctx context.Context) (Submission, error)
	// Payload gives what the agent has, or ErrNotFound.
	Payload(ctx context.Context, id uint32) (Payload, error)
	// Result opens the ZIP of a Completed payload. The caller closes it.
	Result(ctx context.Context, id uint32) (Result, error)
	// Partial writes a ZIP of the payload's directory as it is now, in any state. w is as in [Backend].
	Partial(ctx context.Context, id uint32, w func() io.Writer) error
	// Kill has a payload ended and comes back at once; ErrNotFound when there is none. One that has ended is no error.
	Kill(ctx context.Context, id uint32) error
	// Load is the use of the machine's processors, 0 to 100.
	Load(ctx context.Context) (float64, error)
	// Health is nil if the store answers.
	Health(ctx context.Context) error
}

// Submission is a payload that is coming in. One that is [Keyed] receives the server's idempotency key before the first
// file, one that is [Guarded] the server's token.
type Submission interface {
	// File stores one file; a later one of the same name wins. Reading r may fail, and the error is passed on then.
	File(name string, r io.Reader) error
	// Commit takes the payload over: Prepared, with its id and its directory.
	Commit(ctx context.Context) (Payload, error)
	// Discard removes what Commit has not taken. It is always called, and does nothing after Commit.
	Discard()
}

// Guarded is a [Submission] that keeps a token. [Payload.Token] must give it back; later calls without it get 404.
type Guarded interface {
	Guard(token string)
}

// TokenHeader carries the random token of a payload from a server to our agent. The original ignores it.
const TokenHeader = "Stagepost-Payload-Token"
