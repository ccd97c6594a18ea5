// Package process runs the commands of flow files, confined or not.
package process

import (
	"context"
	"time"
)

// Command is a command to be run.
type Command struct {
	Argv  []string
	Env   []string      // all of it, as NAME=value; HOME is added if it is missing: the directory
	Stdin []byte        // all that it can read
	Dir   string        // where it runs; empty: an empty directory of its own, removed afterwards
	Most  int           // bytes of standard output; more is an error
	Grace time.Duration // that it gets to end after SIGTERM
}

// Output is what became of a command that was run to its end.
type Output struct {
	Stdout []byte
	Stderr []byte // its end
	Exit   int    // -1: it was ended by a signal
	Signal string // "SIGKILL"; empty: it ended by itself
	// the sentence about the limit that ended it, which makes it a failure whatever its exit; empty: none did
	Limit string
}

// Commander runs commands. The contract: when Run returns, no process of the command is left, as far as the commander
// confines it; the command has no environment but Env; when ctx ends it gets SIGTERM, and SIGKILL
// after Grace. Errors are about running it, not about its exit: the cause of ctx, [OutputError], whatever kept it from
// starting.
type Commander interface {
	Run(ctx context.Context, c *Command) (*Output, error)
}

// keptStderr is how many bytes at the end of standard error are kept.
const keptStderr = 4 << 10

// OutputError states what is wrong with what a command wrote, or a server answered.
type OutputError struct{ Type, Text string }

// Error is part of error.
func (e *OutputError) Error() string { return e.Text }

// FailureType is part of flow.Typed.
func (e *OutputError) FailureType() string { return e.Type }

// TypeOutputTooLarge is the type of failure of a command or an answer with more bytes than allowed.
const TypeOutputTooLarge = "OutputTooLarge"
