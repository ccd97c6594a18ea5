package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
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

// NoStore is the operation of errors about a data directory that has no store.
const NoStore = "open the store"

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
func (c *cli) code(err error) int {
	var u usageError
	var f failedJob
	var e *job.Error
	if err == nil {
		return exitOK
	}
	switch own, known := c.ownCode(err); {
	case errors.As(err, &u), strings.HasPrefix(err.Error(), "unknown command"):
		return exitUsage
	case errors.As(err, &f):
		return exitFailed
	case known:
		return own
	case errors.Is(err, errTimeout), errors.Is(err, context.DeadlineExceeded):
		return exitTimeout
	case errors.As(err, &e):
		return exitOf[e.Kind]
	}
	return exitOther
}

// ownCode gives the exit code of an error of an application.
func (c *cli) ownCode(err error) (n int, known bool) {
	for _, p := range c.parts {
		if p.Code != nil {
			if n, known = p.Code(err); known {
				return n, true
			}
		}
	}
	return 0, false
}

// exit tells the error, with what is possible instead, and gives the exit code.
func (c *cli) exit(err error) int {
	n := c.code(err)
	if n == exitOK {
		return n
	}
	for _, p := range c.parts {
		if p.Code == nil || p.Report == nil {
			continue
		}
		if _, known := p.Code(err); known {
			p.Report(err, n)
			return n
		}
	}
	if c.out.mode == modeJSON {
		c.tellJSON(err, n)
		return n
	}
	if n == exitTimeout {
		err = errTimeout
	}
	can, known := legal(err)
	for _, text := range sentences(err) {
		if known {
			text = strings.TrimSuffix(text, " (can: "+can+")")
		}
		c.err.line("stagepost: %s", text)
	}
	if known {
		fmt.Fprintf(c.err, "  can: %s\n", can)
	}
	if hint := c.hint(err, n); hint != "" {
		fmt.Fprintf(c.err, "  hint: %s\n", hint)
	}
	return n
}

// sentences gives what is to be told of an error: a line for each of several mistakes, without the names of system calls.
func sentences(err error) []string {
	var many interface{ Unwrap() []error }
	text := err.Error()
	if errors.As(err, &many) {
		var all, texts []string
		for _, one := range many.Unwrap() {
			all, texts = append(all, sentences(one)...), append(texts, one.Error())
		}
		if strings.Join(texts, "\n") == text { // mistakes side by side, not one that wraps others
			return all
		}
	}
	var file *fs.PathError
	if errors.As(err, &file) {
		text = strings.Replace(text, file.Op+" "+file.Path+":", file.Path+":", 1)
	}
	return []string{clean(text)}
}

// tellJSON writes the error as the API would.
func (c *cli) tellJSON(err error, n int) {
	if p := client.ProblemOf(err); p != nil {
		c.writeProblem(p, n)
		return
	}
	p := ownProblem{Kind: job.KindOf(err), Detail: err.Error(), Exit: n}
	switch n {
	case exitUsage:
		p.Kind = job.Invalid
	case exitTimeout:
		p.Kind, p.Detail = job.Unavailable, errTimeout.Error()
	case exitFailed:
		p.Kind = job.Refused
	}
	c.writeOwn(p)
}

// writeProblem writes what a server said, with the exit code.
func (c *cli) writeProblem(p *client.Problem, n int) {
	_ = c.err.message(struct {
		*client.Problem
		Exit int `json:"exit"`
	}{p, n}) // plain fields, and nowhere else to report it
}

// ownProblem is a problem that no server told: it has none of what only an answer of HTTP has.
type ownProblem struct {
	Detail string          `json:"detail"`
	Kind   job.ErrorKind   `json:"kind"`
	Job    job.ID          `json:"job,omitempty"`
	State  lifecycle.State `json:"state,omitempty"`
	Cause  string          `json:"cause,omitempty"`
	Exit   int             `json:"exit,omitempty"` // 0: the command goes on
}

func (c *cli) writeOwn(p ownProblem) { _ = c.err.message(p) } // plain fields, and nowhere else to report it

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
func (c *cli) hint(err error, n int) string {
	var e *job.Error
	errors.As(err, &e)
	var u usageError
	p := client.ProblemOf(err)
	if hint := c.hintOf(err, n); hint != "" {
		return hint
	}
	switch {
	case errors.As(err, &u), n == exitUsage:
		return c.calledPath() + " --help"
	case n == exitNotFound && e != nil:
		return c.shows(e)
	case n == exitFailed:
		var f failedJob
		errors.As(err, &f)
		return afterFailure(&f.job)
	case n == exitRefused && e.Kind == job.Conflict && e.ID != "":
		return fmt.Sprintf("stagepost show %s, then decide again", e.ID)
	case n == exitRefused && p != nil && p.Event == "hold" && !c.isEnd(p.State):
		return fmt.Sprintf("stagepost hold --job %s --note WHY keeps it from being claimed, whatever its state", p.Job)
	case n == exitRefused && p != nil && slices.Contains(p.Can, p.Event) && strings.Contains(p.Detail, "confirm"):
		return fmt.Sprintf("if that is meant: stagepost %s%s %s --confirm --note WHY%s", c.group(), p.Event, p.Job, c.local)
	case n == exitRefused && p != nil && p.Job != "":
		return fmt.Sprintf("stagepost why %s tells what it waits for and what would move it", p.Job)
	case e != nil && e.Kind == job.Unavailable && p == nil && e.Op == "request":
		return "is the server running? stagepost serve --data DIR starts one"
	case n == exitTimeout:
		return c.goesOn()
	}
	return ""
}

// group names the group of commands that the command is in, with a blank, or nothing.
func (c *cli) group() string {
	if path := strings.Fields(c.calledPath()); len(path) > 2 {
		return path[1] + " "
	}
	return ""
}

// calledPath names the command that was called.
func (c *cli) calledPath() string {
	if c.called == nil {
		return "stagepost"
	}
	return c.called.CommandPath()
}

// flagGiven tells whether the command was called with a flag.
func (c *cli) flagGiven(name string) bool {
	return c.called != nil && c.called.Flags().Changed(name)
}

// shows names the command that lists what was looked for.
func (c *cli) shows(e *job.Error) string {
	path := strings.Fields(c.calledPath())
	if len(path) < 2 {
		return "stagepost list shows what there is"
	}
	if e.Op == NoStore {
		return "name the data directory of an existing installation with --data DIR; stagepost restore makes one from a backup"
	}
	if text := c.missing(path, e); text != "" {
		return text
	}
	return "stagepost list shows what there is"
}

// goesOn says what becomes of what was waited for.
func (c *cli) goesOn() string {
	if c.calledPath() == "stagepost drain" {
		return "the hold on everything stays: stagepost drain waits again, stagepost resume ends it"
	}
	return "it goes on without you: stagepost watch ID follows it again"
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
