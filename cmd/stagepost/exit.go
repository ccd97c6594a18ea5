package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// Exit codes; docs/cli.md explains them.
const (
	exitOK       = 0
	exitOther    = 1
	exitUsage    = 2
	exitNotFound = 3
	exitRefused  = 4
	exitFailed   = 5
	exitTimeout  = 6
)

// exitOf maps kinds of error to exit codes.
var exitOf = map[job.ErrorKind]int{
	job.Invalid:     exitUsage,
	job.NotFound:    exitNotFound,
	job.Gone:        exitNotFound,
	job.Refused:     exitRefused,
	job.Conflict:    exitRefused,
	job.Stale:       exitRefused,
	job.Unavailable: exitOther,
	job.Internal:    exitOther,
}

var errTimeout = errors.New("the time given by --timeout is up")

// usageError is a call that makes no sense.
type usageError struct{ error }

func (u usageError) Unwrap() error { return u.error }

func usage(err error) error { return usageError{err} }

func usagef(format string, args ...any) error { return usage(fmt.Errorf(format, args...)) }

// failedJob says that what was waited for ended badly.
type failedJob struct{ job client.Job }

func (f failedJob) Error() string {
	text := fmt.Sprintf("%s ended as %s (%s)", f.job.ID, f.job.State, f.job.Outcome)
	if f.job.Message != "" {
		text += ": " + f.job.Message
	}
	return text
}

// ailing says that a check found faults.
type ailing struct{ n int }

func (a ailing) Error() string {
	if a.n == 1 {
		return "1 fault found"
	}
	return fmt.Sprintf("%d faults found", a.n)
}

// code gives the exit code of an error.
func code(err error) int {
	var u usageError
	var f failedJob
	var e *job.Error
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &u), strings.HasPrefix(err.Error(), "unknown command"):
		return exitUsage
	case errors.As(err, &f):
		return exitFailed
	case errors.Is(err, errTimeout), errors.Is(err, context.DeadlineExceeded):
		return exitTimeout
	case errors.As(err, &e):
		return exitOf[e.Kind]
	}
	return exitOther
}

// exit tells the error, with what is possible instead, and gives the exit code.
func (c *cli) exit(err error) int {
	n := code(err)
	if n == exitOK {
		return n
	}
	if c.out.mode == modeJSON {
		c.tellJSON(err, n)
		return n
	}
	if n == exitTimeout {
		err = errTimeout
	}
	can, known := legal(err)
	text := clean(err.Error())
	if known {
		text = strings.TrimSuffix(text, " (can: "+can+")")
	}
	fmt.Fprintf(c.err, "stagepost: %s\n", text)
	if known {
		fmt.Fprintf(c.err, "  can: %s\n", can)
	}
	if hint := hint(err, n); hint != "" {
		fmt.Fprintf(c.err, "  hint: %s\n", hint)
	}
	return n
}

// tellJSON writes the error as the API would.
func (c *cli) tellJSON(err error, n int) {
	p := client.ProblemOf(err)
	if p == nil {
		p = &client.Problem{Kind: job.KindOf(err), Detail: err.Error()}
		switch n {
		case exitUsage:
			p.Kind = job.Invalid
		case exitTimeout:
			p.Kind, p.Detail = job.Unavailable, errTimeout.Error()
		case exitFailed:
			p.Kind = job.Refused
		}
	}
	text, _ := json.Marshal(struct {
		*client.Problem
		Exit int `json:"exit"`
	}{p, n}) // plain fields: cannot fail
	fmt.Fprintf(c.err, "%s\n", text)
}

// legal gives the moves that the same person may make instead; known is false if the error is not about a move.
func legal(err error) (can string, known bool) {
	p := client.ProblemOf(err)
	if p == nil || p.Event == "" {
		return "", false
	}
	words := make([]string, len(p.Can))
	for i, e := range p.Can {
		words[i] = string(e)
	}
	if len(words) == 0 {
		return "nothing", true
	}
	return strings.Join(words, ", "), true
}

// hint says what the reader can do about an error.
func hint(err error, n int) string {
	var e *job.Error
	errors.As(err, &e)
	var u usageError
	p := client.ProblemOf(err)
	switch {
	case errors.As(err, &u), n == exitUsage:
		return "stagepost help, or --help behind the command"
	case n == exitNotFound && e != nil:
		return "stagepost list shows what there is"
	case n == exitFailed:
		var f failedJob
		errors.As(err, &f)
		return afterFailure(&f.job)
	case n == exitRefused && e.Kind == job.Conflict && e.ID != "":
		return fmt.Sprintf("stagepost show %s, then decide again", e.ID)
	case n == exitRefused && p != nil && p.Event == "hold" && !isEnd(p.State):
		return fmt.Sprintf("stagepost hold --job %s --note WHY keeps it from being claimed, whatever its state", p.Job)
	case n == exitRefused && p != nil && p.Job != "":
		return fmt.Sprintf("stagepost why %s tells what it waits for and what would move it", p.Job)
	case e != nil && e.Kind == job.Unavailable && p == nil && e.Op == "request":
		return "is the server running? stagepost serve --data DIR starts one"
	case n == exitTimeout:
		return "it goes on without you: stagepost watch ID follows it again"
	}
	return ""
}

// afterFailure says where to look after a job that failed.
func afterFailure(j *client.Job) string {
	switch {
	case j.Children.Failed > 0:
		return fmt.Sprintf("stagepost list --parent %s --outcome failed shows which; stagepost why ID tells why", j.ID)
	case slices.Contains(j.Can["operator"], "retry"):
		return fmt.Sprintf("stagepost why %s; stagepost retry %s sends it back to where it failed", j.ID, j.ID)
	}
	return fmt.Sprintf("stagepost why %s", j.ID)
}

// isEnd tells whether the program's lifecycles have the state as an end.
func isEnd(s lifecycle.State) bool {
	return slices.ContainsFunc(lives(), func(t *lifecycle.Table) bool { return t.Ended(s) })
}
