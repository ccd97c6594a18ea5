package cli

import (
	"context"
	"slices"

	"github.com/spf13/cobra"

	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/lifecycle/notation"
)

// Part is what a package adds to the command line: commands, and what the commands of others need to know of its jobs.
// Every function may be nil.
type Part struct {
	// Groups are groups of commands, made by [Group]. Groups of one name are merged: the first one gives the texts.
	Groups []*cobra.Command

	// Daily, More and Server are commands without a group. The help of the program has a line for each daily command,
	// names the others for jobs (More), and has a line for each about servers and the program itself.
	Daily, More, Server []*cobra.Command

	// Hidden are commands that no list shows.
	Hidden []*cobra.Command

	// Cause causes an event by the application's own operation. known is false if the event takes the common one.
	Cause func(ctx context.Context, api *client.Client, id job.ID, e lifecycle.Event, a *client.Act) (j client.Job,
		known bool, err error)

	// Done returns what an event did to a job, for the summary of a command; empty: as for other jobs.
	Done func(e lifecycle.Event, j *client.Job) string

	// Logs adds flags to the command logs. The function that it returns shows the log of a job; known is false if the
	// job is of another application.
	Logs func(cmd *cobra.Command) func(ctx context.Context, api *client.Client, id job.ID, v LogView) (known bool,
		err error)

	// Code gives the exit code of an error. For these errors Report prints the error instead of the kernel.
	Code   func(err error) (code int, known bool)
	Report func(err error, code int)

	// Hint returns the next step after an error, or "" if the application has none.
	Hint func(err error, code int) string

	// Lint gives what is wrong with a file; known is false if it is only a lifecycle.
	Lint func(file string, text []byte) (faults []notation.Problem, known bool)

	// Missing names the command that lists what was not found; path are the words of the command that was called,
	// without the name of the program and with the group.
	Missing func(path []string, e *job.Error) string

	// Ready is called when all parts are there.
	Ready func()

	// Scopes are flags of the commands hold and release that name jobs of the application.
	Scopes []Scope

	// Words are the values of flags, and Ask asks the server for them.
	Words map[string][]string
	Ask   map[string]cobra.CompletionFunc
}

// LogView is what the command logs shows of a log.
type LogView struct {
	Tail   int  // begins with the last so many lines; 0: with the first line
	Follow bool // goes on until the job has ended
}

// Scope is a flag that names jobs of an application for a hold. A flag with a tag takes a value: it names the jobs that
// have TAG=VALUE, by default those of a kind and in a state. A flag without a tag names the jobs of a kind.
type Scope struct {
	Flag, Doc string
	Tag       string
	Kind      job.Kind
	State     lifecycle.State
}

// hintOf returns the hint of the last part that has one: those of applications follow the generic ones.
func (c *Call) hintOf(err error, code int) string {
	for _, p := range slices.Backward(c.Parts) {
		if p.Hint != nil {
			if hint := p.Hint(err, code); hint != "" {
				return hint
			}
		}
	}
	return ""
}

// missing gives the first answer of an application.
func (c *Call) missing(path []string, e *job.Error) string {
	for _, p := range c.Parts {
		if p.Missing != nil {
			if text := p.Missing(path, e); text != "" {
				return text
			}
		}
	}
	return ""
}

// Words gives the values that the applications have for a flag.
func (c *Call) Words(flag string) []string {
	var all []string
	for _, p := range c.Parts {
		all = append(all, p.Words[flag]...)
	}
	return all
}

// Cause causes an event on a job, by the operation that its application has for it.
func (c *Call) Cause(ctx context.Context, api *client.Client, id job.ID, e lifecycle.Event, a *client.Act) (client.Job,
	error) {
	id, err := c.JobID(ctx, api, string(id))
	if err != nil {
		return client.Job{}, err
	}
	for _, p := range c.Parts {
		if p.Cause != nil {
			if j, known, err := p.Cause(ctx, api, id, e, a); known || err != nil {
				return j, err
			}
		}
	}
	return api.Do(ctx, id, e, *a)
}

// Lint gives what is wrong with the file of a lifecycle.
func (c *Call) Lint(file string, text []byte) []notation.Problem {
	for _, p := range c.Parts {
		if p.Lint != nil {
			if faults, known := p.Lint(file, text); known {
				return faults
			}
		}
	}
	return notation.Lint(file, text)
}
