package custom

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/edge/sandbox"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/engine/remote"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// Sandbox runs commands. *sandbox.Sandbox is one.
type Sandbox interface {
	Run(ctx context.Context, c *sandbox.Command) (sandbox.Ending, error)
}

const (
	jobFile    = "job.json"
	reportFile = "report.json"
	mostReport = 8 << 20 // bytes
	mostOutput = 1 << 20 // bytes of each stream that reach the log
)

// ended is how a command ended that failed.
type ended struct {
	cause, text string
}

func (e *ended) Error() string { return e.text }

// Cause is the cause of the failed attempt.
func (e *ended) Cause() string { return e.cause }

// command returns the step that runs the command of a state.
func (o *Options) command(life *lifecycle.Table, w *work) engine.Step {
	return func(ctx context.Context, r *engine.Run) error {
		if err := os.MkdirAll(o.Temp, 0o700); err != nil {
			return err
		}
		dir, err := os.MkdirTemp(o.Temp, "run-")
		if err != nil {
			return err
		}
		defer func() { _ = Tidy(dir) }()
		if dir, err = filepath.Abs(dir); err != nil {
			return err
		}
		if err := describe(dir, r); err != nil {
			return err
		}
		out, problems := &lines{log: r.Log(), level: slog.LevelInfo}, &lines{log: r.Log(), level: slog.LevelWarn}
		e, err := o.Sandbox.Run(ctx, &sandbox.Command{
			Argv: w.Command, Env: environment(w, r), Dir: dir, Network: w.Network, Stdout: out, Stderr: problems,
			Limits: sandbox.Limits{
				Wall: time.Duration(w.Timeout), CPU: time.Duration(w.Limits.CPU), Memory: int64(w.Limits.Memory),
				Disk: int64(w.Limits.Disk), Processes: w.Limits.Processes, Output: mostOutput,
			},
		})
		out.end()
		problems.end()
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil:
			return fmt.Errorf("the command cannot be run: %w", err)
		}
		return o.conclude(ctx, r, life, w, dir, &e)
	}
}

// conclude makes the outcome of how the command ended and of its report.
func (o *Options) conclude(ctx context.Context, r *engine.Run, life *lifecycle.Table, w *work, dir string,
	e *sandbox.Ending) error {
	switch {
	case e.Cause != sandbox.Itself && e.Cause != sandbox.Signal:
		return engine.Retry(&ended{string(e.Cause), e.Sentence})
	case e.Cause == sandbox.Signal:
		return engine.Retry(&ended{string(e.Cause), "the command was ended by " + e.Signal})
	}
	report, err := o.report(dir, r)
	if err != nil {
		return engine.Fail("report", err)
	}
	if err := r.Report(ctx, report); err != nil {
		return err
	}
	failure := &ended{fmt.Sprintf("exit-%d", e.Exit), fmt.Sprintf("the command ended with exit code %d", e.Exit)}
	to, listed := w.Exits[e.Exit]
	switch {
	case !listed && e.Exit == 0 || to == success || report.Event != "":
		return nil
	case !listed:
		return engine.Retry(failure)
	}
	if move, ok := life.Transition(r.Job().State, lifecycle.Event(to)); ok {
		if move.Class == lifecycle.Fail {
			r.SetCause(failure.cause)
			r.SetMessage(failure.text)
		}
		return engine.Go(lifecycle.Event(to))
	}
	if to == fail {
		return engine.Fail(failure.cause, failure)
	}
	return engine.Retry(failure)
}

// report reads what the command left in report.json, as a remote worker would report it. Without the file it is empty.
func (o *Options) report(dir string, r *engine.Run) (*remote.Report, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer func() { _ = root.Close() }()
	info, err := root.Lstat(reportFile)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return &remote.Report{}, nil
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular() || info.Size() > mostReport:
		return nil, fmt.Errorf("%s is not a file of at most %d bytes", reportFile, mostReport)
	}
	f, err := root.Open(reportFile)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	text, err := io.ReadAll(io.LimitReader(f, mostReport))
	if err != nil {
		return nil, err
	}
	report, err := o.Report(text, r.Job().ID, r.Job().Epoch)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", reportFile, err)
	}
	return &report, nil
}

// describe writes what the command works on.
func describe(dir string, r *engine.Run) error {
	j := r.Job()
	text, err := json.Marshal(api.LeasedOf(&j))
	if err != nil {
		return job.Errorf(job.Internal, "describe", j.ID, "%w", err)
	}
	return os.WriteFile(filepath.Join(dir, jobFile), text, 0o600)
}

// environment returns the variables of a command: those of the file, and what it works on.
func environment(w *work, r *engine.Run) []string {
	j := r.Job()
	all := []string{
		"STAGEPOST_JOB=" + string(j.ID), "STAGEPOST_KIND=" + string(j.Kind), "STAGEPOST_STATE=" + string(j.State),
		fmt.Sprintf("STAGEPOST_EPOCH=%d", j.Epoch), "STAGEPOST_KEY=" + r.Key(),
	}
	for name, value := range w.Env {
		all = append(all, name+"="+value)
	}
	slices.Sort(all)
	return all
}

// Tidy removes a directory of commands, also one to whose directories a command has forbidden access.
func Tidy(dir string) error {
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			_ = os.Chmod(path, 0o700) // before it is read
		}
		return nil
	})
	return os.RemoveAll(dir)
}

// lines writes each line of an output to the log of the job. The sandbox calls Write from one goroutine.
type lines struct {
	log   *slog.Logger
	level slog.Level
	rest  []byte
}

// Write is part of io.Writer.
func (l *lines) Write(text []byte) (int, error) {
	const longest = 8 << 10
	l.rest = append(l.rest, text...)
	for {
		line, rest, ok := bytes.Cut(l.rest, []byte("\n"))
		if !ok && len(l.rest) < longest {
			return len(text), nil
		}
		if !ok {
			line, rest = l.rest, nil
		}
		l.write(line)
		l.rest = rest
	}
}

func (l *lines) write(line []byte) {
	l.log.Log(context.Background(), l.level, string(bytes.ToValidUTF8(bytes.TrimRight(line, "\r"), []byte("?"))))
}

// end writes the text after the last line break.
func (l *lines) end() {
	if len(l.rest) > 0 {
		l.write(l.rest)
	}
	l.rest = nil
}
