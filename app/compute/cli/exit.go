package computecli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// Exit codes of run beside that of the script; see its help. They are those of timeout(1), env(1) and container engines
// where these have one.
const (
	exitResults  = 121 // it ran well, and its results could not be had whole
	exitDisk     = 122
	exitRejected = 123
	exitTime     = 124
	exitOutside  = 125 // Stagepost, not the script
	exitSignal   = 128 // and the signal's number
)

// exitOfCause are the codes of ends that are not the script's own.
var exitOfCause = map[string]int{
	"timeout": exitTime, "cpu": exitTime, "memory": exitSignal + 9, "disk": exitDisk, "depth": exitDisk,
	"killed": exitSignal + 15, "rejected": exitRejected, "results-lost": exitResults,
}

// signalNumbers are those that end programs; their numbers are the same on all systems that agents run on.
var signalNumbers = map[string]int{
	"SIGHUP": 1, "SIGINT": 2, "SIGQUIT": 3, "SIGILL": 4, "SIGTRAP": 5, "SIGABRT": 6, "SIGBUS": 7, "SIGFPE": 8,
	"SIGKILL": 9, "SIGUSR1": 10, "SIGSEGV": 11, "SIGUSR2": 12,
	"SIGPIPE": 13, "SIGALRM": 14, "SIGTERM": 15, "SIGXCPU": 24, "SIGXFSZ": 25, "SIGSYS": 31,
}

// computeEnded reports that a compute job did not end well.
type computeEnded struct {
	job  client.ComputeJob
	exit int
}

func (e computeEnded) Error() string {
	j := &e.job
	text := fmt.Sprintf("%s ended as %s", j.ID, j.State)
	if end := j.Ending; end != nil && end.ExitCode > 0 && end.Cause == "exit-code" {
		return fmt.Sprintf("%s: exit code %d", text, end.ExitCode)
	}
	if j.Cause != "" {
		text += " (" + j.Cause + ")"
	}
	if j.Message != "" {
		text += ": " + j.Message
	}
	return text
}

// endOf gives the error that a job's end is, or nil.
func endOf(j *client.ComputeJob, interrupted bool) error {
	if n := computeExit(j, interrupted); n != cli.ExitOK {
		return computeEnded{*j, n}
	}
	return nil
}

// computeExit gives the exit code of a compute job that has ended.
func computeExit(j *client.ComputeJob, interrupted bool) int {
	if j.Outcome == lifecycle.OK {
		return cli.ExitOK
	}
	if j.State == "Killed" && interrupted {
		return exitSignal + 2
	}
	if n := exitOfCause[j.Cause]; n != 0 {
		return n
	}
	if e := j.Ending; e != nil {
		switch {
		case j.Cause == "exit-code" && e.ExitCode > 0 && e.ExitCode < 256:
			return e.ExitCode
		case j.Cause == "signal" && signalNumbers[e.Signal] != 0:
			return exitSignal + signalNumbers[e.Signal]
		}
	}
	if j.State == "Killed" {
		return exitSignal + 15
	}
	if j.State == "Invalid" {
		return exitRejected
	}
	return exitOutside
}

// outsideError is a failure of run that is not the script's.
type outsideError struct{ error }

func (o outsideError) Unwrap() error { return o.error }

// outside marks the errors of run that could be taken for the script's exit code.
func outside(err error) error {
	var u cli.UsageError
	var e computeEnded
	switch {
	case err == nil, errors.As(err, &u), errors.As(err, &e), errors.Is(err, cli.ErrTimeout), errors.Is(err,
		context.DeadlineExceeded):
		return err
	}
	return outsideError{err}
}

// resultsLost reports that results could not be fetched or unpacked.
type resultsLost struct{ error }

func (r resultsLost) Unwrap() error { return r.error }

// computeCode gives the exit code of an error of run.
func computeCode(err error) (n int, known bool) {
	var e computeEnded
	var r resultsLost
	var o outsideError
	switch {
	case errors.As(err, &e):
		return e.exit, true
	case errors.As(err, &r):
		return exitResults, true
	case errors.Is(err, errAbandoned):
		return exitSignal + 2, true
	case errors.As(err, &o):
		return exitOutside, true
	}
	return 0, false
}

// changesHelp reports what to do about a job that was refused: as it is it would be refused again.
func changesHelp(id job.ID) string {
	return fmt.Sprintf("a retry would be refused again: stagepost compute clone %s with another --service, --limit "+
		"or --env, or stagepost run with other files", id)
}

// largerLimit returns how to run a job again that exceeded a limit. The server has the limits of its service.
func (c *commands) largerLimit(j *client.ComputeJob) string {
	limits := []string{compute.CauseMemory, compute.CauseTimeout, compute.CauseCPU, compute.CauseDisk}
	if c.Server == nil || !slices.Contains(limits, j.Cause) {
		return ""
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	x, err := c.Server.Why(ctx, j.ID, time.Time{})
	if err != nil || len(x.Blockers) == 0 {
		return ""
	}
	for _, r := range x.Blockers[0].Remedies {
		if strings.HasPrefix(r.Command, "stagepost compute clone ") {
			return r.Command + " " + r.Doc
		}
	}
	return ""
}

// exitRun prints how a run ended, with where to check.
func (c *commands) exitRun(err error, n int) {
	var o outsideError
	var e computeEnded
	inner := err
	if errors.As(err, &o) {
		inner = o.error
	}
	if c.Out.Mode == cli.ModeJSON {
		if p := client.ProblemOf(err); p != nil {
			c.WriteProblem(p, n)
			return
		}
		own := cli.OwnProblem{Kind: job.KindOf(inner), Detail: err.Error(), Exit: n}
		if errors.As(err, &e) {
			own.Kind, own.Job, own.State, own.Cause = job.Refused, e.job.ID, e.job.State, e.job.Cause
		}
		c.WriteOwn(own)
		return
	}
	for _, text := range cli.Sentences(err) {
		c.Err.Line("stagepost: %s", text)
	}
	hint := ""
	switch {
	case errors.As(err, &e):
		hint = fmt.Sprintf("stagepost compute results %s fetches what it left; stagepost retry %s runs it again",
			e.job.ID, e.job.ID)
		var lost resultsLost
		if e.job.Results == nil || c.FlagGiven("out") && !errors.As(err, &lost) {
			// there is nothing to fetch, or it was fetched
			hint = fmt.Sprintf("stagepost why %s; stagepost retry %s runs it again", e.job.ID, e.job.ID)
		}
		if e.job.Cause == compute.CauseRejected {
			hint = changesHelp(e.job.ID)
		}
		hint = cmp.Or(c.largerLimit(&e.job), hint)
	case !errors.Is(err, errAbandoned):
		hint = c.Hint(inner, c.Code(inner))
	}
	if hint != "" {
		c.Err.Line("  hint: %s", hint)
	}
}
