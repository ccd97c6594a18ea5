package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"slices"
	"strings"
	"syscall"

	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// Exit codes; docs/cli.md explains them.
const (
	ExitOK       = 0
	exitOther    = 1
	ExitUsage    = 2
	ExitNotFound = 3
	ExitRefused  = 4
	ExitFailed   = 5
	exitTimeout  = 6
)

// exitOf maps kinds of error to exit codes.
var exitOf = map[job.ErrorKind]int{
	job.Invalid:     ExitUsage,
	job.NotFound:    ExitNotFound,
	job.Gone:        ExitNotFound,
	job.Refused:     ExitRefused,
	job.Conflict:    ExitRefused,
	job.Stale:       ExitRefused,
	job.Unavailable: exitOther,
	job.Internal:    exitOther,
}

// NoStore is the operation of errors about a data directory that has no store.
const NoStore = "open the store"

var ErrTimeout = errors.New("the time given by --timeout is up")

// UsageError is an invalid call.
type UsageError struct{ error }

func (u UsageError) Unwrap() error { return u.error }

func Usage(err error) error { return UsageError{err} }

func Usagef(format string, args ...any) error { return Usage(fmt.Errorf(format, args...)) }

// FailedJob is the error of a command that waited for a job which failed.
type FailedJob struct{ Job client.Job }

func (f FailedJob) Error() string {
	text := fmt.Sprintf("%s ended as %s (%s)", f.Job.ID, f.Job.State, f.Job.Outcome)
	if f.Job.Message != "" {
		text += ": " + f.Job.Message
	}
	return text
}

// Faults is the error of a check that found faults.
type Faults struct{ N int }

func (a Faults) Error() string {
	if a.N == 1 {
		return "1 fault found"
	}
	return fmt.Sprintf("%d faults found", a.N)
}

// Code gives the exit code of an error.
func (c *Call) Code(err error) int {
	var u UsageError
	var f FailedJob
	var e *job.Error
	if err == nil {
		return ExitOK
	}
	switch own, known := c.ownCode(err); {
	case errors.As(err, &u), strings.HasPrefix(err.Error(), "unknown command"):
		return ExitUsage
	case errors.As(err, &f):
		return ExitFailed
	case known:
		return own
	case errors.Is(err, ErrTimeout), errors.Is(err, context.DeadlineExceeded):
		return exitTimeout
	case errors.As(err, &e):
		return exitOf[e.Kind]
	}
	return exitOther
}

// ownCode gives the exit code of an error of an application.
func (c *Call) ownCode(err error) (n int, known bool) {
	for _, p := range c.Parts {
		if p.Code != nil {
			if n, known = p.Code(err); known {
				return n, true
			}
		}
	}
	return 0, false
}

// Printed is Exit for a command that has printed all. If its output was lost, that is an error, whether or not the
// command checked the errors of its writes. A pipe whose reader has ended is none that needs a message.
func (c *Call) Printed(err error) int {
	_ = c.Out.Flush() // Lost has its error
	lost := c.Out.Lost()
	switch {
	case lost == nil:
		return c.Exit(err)
	case err != nil && !errors.Is(err, lost):
		n := c.Exit(err)
		c.exitLost(lost)
		return n
	}
	return c.exitLost(lost)
}

// exitLost prints that the output was lost, and returns the exit code.
func (c *Call) exitLost(lost error) int {
	if errors.Is(lost, syscall.EPIPE) || errors.Is(lost, io.ErrClosedPipe) {
		return exitOther
	}
	return c.Exit(fmt.Errorf("the output is incomplete: %w", lost))
}

// Exit prints the error with the next step, and returns the exit code.
func (c *Call) Exit(err error) int {
	n := c.Code(err)
	if n == ExitOK {
		return n
	}
	for _, p := range c.Parts {
		if p.Code == nil || p.Report == nil {
			continue
		}
		if _, known := p.Code(err); known {
			p.Report(err, n)
			return n
		}
	}
	if c.Out.Mode == ModeJSON {
		c.tellJSON(err, n)
		return n
	}
	if n == exitTimeout {
		err = ErrTimeout
	}
	can, known := legal(err)
	for _, text := range Sentences(err) {
		if known {
			text = strings.TrimSuffix(text, " (can: "+can+")")
		}
		text, excerpt, _ := strings.Cut(text, "\n")
		c.Err.Line("stagepost: %s", c.Err.Local(text))
		for line := range strings.Lines(excerpt) {
			// never wrapped: the caret stands below its column
			fmt.Fprintln(c.Err, Clean(strings.TrimRight(line, "\n")))
		}
	}
	if known {
		c.Err.Line("  can: %s", can)
	}
	if hint := c.Hint(err, n); hint != "" {
		c.Err.Line("  hint: %s", hint)
	}
	return n
}

// Sentences returns what is printed of an error: a line for each of several mistakes, without the names of system
// calls. The line of a file and its caret follow in lines of their own.
func Sentences(err error) []string {
	var many interface{ Unwrap() []error }
	text := err.Error()
	if errors.As(err, &many) {
		var all, texts []string
		for _, one := range many.Unwrap() {
			all, texts = append(all, Sentences(one)...), append(texts, one.Error())
		}
		if strings.Join(texts, "\n") == text { // mistakes side by side, not one that wraps others
			return all
		}
	}
	var file *fs.PathError
	if errors.As(err, &file) {
		text = strings.Replace(text, file.Op+" "+file.Path+":", file.Path+":", 1)
	}
	text = Clean(text)
	if shown, ok := errors.AsType[interface {
		error
		Excerpt() string
	}](err); ok && shown.Excerpt() != "" {
		text += "\n" + shown.Excerpt()
	}
	return []string{text}
}

// tellJSON writes the error as the API would.
func (c *Call) tellJSON(err error, n int) {
	if p := client.ProblemOf(err); p != nil {
		c.WriteProblem(p, n)
		return
	}
	p := OwnProblem{Kind: job.KindOf(err), Detail: err.Error(), Exit: n}
	switch n {
	case ExitUsage:
		p.Kind = job.Invalid
	case exitTimeout:
		p.Kind, p.Detail = job.Unavailable, ErrTimeout.Error()
	case ExitFailed:
		p.Kind = job.Refused
	}
	c.WriteOwn(p)
}

// WriteProblem writes the problem of a server, with the exit code.
func (c *Call) WriteProblem(p *client.Problem, n int) {
	_ = c.Err.message(struct {
		*client.Problem
		Exit int `json:"exit"`
	}{p, n}) // plain fields, and nowhere else to report it
}

// OwnProblem is a problem that no server reported, without the fields of an HTTP answer.
type OwnProblem struct {
	Detail string          `json:"detail"`
	Kind   job.ErrorKind   `json:"kind"`
	Job    job.ID          `json:"job,omitempty"`
	State  lifecycle.State `json:"state,omitempty"`
	Cause  string          `json:"cause,omitempty"`
	Exit   int             `json:"exit,omitempty"` // 0: the command goes on
}

func (c *Call) WriteOwn(p OwnProblem) { _ = c.Err.message(p) } // plain fields, and nowhere else to report it

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

// Hint returns the next step after an error.
func (c *Call) Hint(err error, n int) string {
	var e *job.Error
	errors.As(err, &e)
	var u UsageError
	var lookup *net.DNSError
	p := client.ProblemOf(err)
	if hint := c.hintOf(err, n); hint != "" {
		return hint
	}
	switch {
	case errors.As(err, &u), n == ExitUsage:
		return c.CalledPath() + " --help"
	case n == ExitNotFound && p != nil && strings.Contains(p.Detail, " (setting "):
		return "" // the sentence names what would change it
	case n == ExitNotFound && e != nil:
		return c.shows(e)
	case n == ExitFailed:
		var f FailedJob
		if !errors.As(err, &f) {
			return ""
		}
		return afterFailure(&f.Job)
	case p != nil && p.Status == http.StatusUnauthorized:
		return "name the file of your token with --token-file FILE, or set STAGEPOST_TOKEN; " +
			"stagepost admin token new makes a token"
	case p != nil && p.Status == http.StatusForbidden && p.Job == "":
		return "--token-file FILE names the token of another role"
	case n == ExitRefused && e.Kind == job.Conflict && e.ID != "":
		return fmt.Sprintf("stagepost show %s, then decide again", e.ID)
	case n == ExitRefused && p != nil && p.Event == "hold" && !c.isEnd(p.State):
		return fmt.Sprintf("stagepost hold --job %s --note WHY keeps it from being claimed, whatever its state", p.Job)
	case n == ExitRefused && p != nil && slices.Contains(p.Can, p.Event) && strings.Contains(p.Detail, "confirm"):
		return fmt.Sprintf("if that is meant: stagepost %s%s %s --confirm --note WHY%s", c.group(), p.Event, p.Job,
			c.Local)
	case n == ExitRefused && p != nil && p.Job != "":
		return fmt.Sprintf("stagepost why %s shows what it waits for and what would move it", p.Job)
	case e != nil && e.Kind == job.Unavailable && errors.As(err, &lookup):
		return "check the name of the host in --server URL"
	case e != nil && e.Kind == job.Unavailable && p == nil && e.Op == "request":
		return "is the server running? stagepost serve --data DIR starts one"
	case n == exitTimeout:
		return c.goesOn()
	}
	return ""
}

// group names the group of commands that the command is in, with a blank, or nothing.
func (c *Call) group() string {
	if path := c.CalledWords(); len(path) > 1 && LongForm(c.Called) == "" {
		return path[0] + " "
	}
	return ""
}

// CalledWords are the words of the command that was called, without the name of the program and with the group.
func (c *Call) CalledWords() []string {
	if c.Called == nil {
		return nil
	}
	return fullPath(c.Called)
}

// CalledPath names the command as it was called.
func (c *Call) CalledPath() string {
	if c.Called == nil {
		return "stagepost"
	}
	return c.Called.CommandPath()
}

// FlagGiven reports whether the command was called with a flag.
func (c *Call) FlagGiven(name string) bool {
	return c.Called != nil && c.Called.Flags().Changed(name)
}

// shows names the command that lists objects of the kind that was not found.
func (c *Call) shows(e *job.Error) string {
	path := c.CalledWords()
	if len(path) == 0 {
		return "stagepost list shows what there is"
	}
	if e.Op == NoStore {
		return "name the data directory of an existing installation with --data DIR; stagepost admin restore makes " +
			"one from a backup"
	}
	if text := c.missing(path, e); text != "" {
		return text
	}
	return "stagepost list shows what there is"
}

// goesOn states what happens to the job after a timeout.
func (c *Call) goesOn() string {
	if c.CalledPath() == "stagepost admin drain" {
		return "the hold on everything stays: stagepost admin drain waits again, stagepost admin resume ends it"
	}
	return "the job continues: stagepost watch ID follows it again"
}

// afterFailure returns the next step after a failed job.
func afterFailure(j *client.Job) string {
	switch {
	case j.Children.Failed > 0:
		return fmt.Sprintf("stagepost list --parent %s --outcome failed shows which; stagepost why ID shows the cause",
			j.ID)
	case slices.Contains(j.Can["operator"], "retry"):
		return fmt.Sprintf("stagepost why %s; stagepost retry %s sends it back to where it failed", j.ID, j.ID)
	}
	return fmt.Sprintf("stagepost why %s", j.ID)
}
