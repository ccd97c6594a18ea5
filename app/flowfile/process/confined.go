package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/stagepost/stagepost/edge/sandbox"
)

// Sandbox is what [Confined] runs commands in: a [sandbox.Sandbox].
type Sandbox interface {
	Run(ctx context.Context, c *sandbox.Command) (sandbox.Ending, error)
}

// Confined runs commands in a sandbox, each alone. Where there are namespaces a command can read the files of the
// system, write its own directory, and has no network. It may be used by several goroutines at once; its fields are not
// changed after the first Run. What a process that crashed left in Temp is removed by [Local.Tidy].
type Confined struct {
	Sandbox Sandbox
	Temp    string // where directories of commands are made; defaults to the system's
	// a Dir that is given must be one of these or below one; defaults to none: then commands have directories of their
	// own only
	Dirs []string
	// of each command, but for Output: what a command may write is Command.Most. Defaults to none
	Limits  sandbox.Limits
	Network string // "none" (the default) or "host"

	mu   sync.Mutex               // guards busy
	busy map[string]chan struct{} // directories in use; closed when that ends
}

// Run is part of Commander. Commands whose directories are the same, or one in the other, wait for each other: none may
// exchange what another is about to be shown. A command that cannot be asked to end in time is ended; one that the
// sandbox ends for its limits has its sentence in Output.Limit.
func (f *Confined) Run(ctx context.Context, c *Command) (*Output, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	dir, done, err := f.directory(ctx, c.Dir)
	if err != nil {
		return nil, err
	}
	defer done()
	within, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stdout := &bounded{most: c.Most, over: func() { cancel(errTooMuch) }}
	stderr := &tail{}
	limits := f.Limits
	limits.Output = 0
	command := &sandbox.Command{
		Argv: c.Argv, Env: c.Env, Dir: dir, Network: f.Network, Stdout: stdout, Stderr: stderr, Limits: limits,
		Grace: c.Grace,
	}
	if len(c.Stdin) > 0 {
		command.Stdin = bytes.NewReader(c.Stdin)
	}
	e, err := f.Sandbox.Run(within, command)
	switch {
	case stdout.full:
		return nil, &OutputError{Type: TypeOutputTooLarge,
			Text: fmt.Sprintf("the command wrote more than %d bytes to its standard output", c.Most)}
	case err != nil && ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err != nil:
		return nil, fmt.Errorf("the command cannot be run: %w", err)
	case e.Cause == sandbox.Killed && ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case e.Cause == sandbox.Killed:
		return nil, errors.New("the command was ended because the sandbox was closed")
	}
	out := &Output{Stdout: stdout.text, Stderr: stderr.text(), Exit: e.Exit, Signal: e.Signal}
	if e.Exit != 0 && bytes.Contains(out.Stderr, []byte(readOnly)) {
		out.Stderr = append(bytes.TrimRight(out.Stderr, "\n"), "; commands are confined; see flow.dirs"...)
	}
	if e.Cause != sandbox.Itself && e.Cause != sandbox.Signal {
		out.Limit = e.Sentence
	}
	return out, nil
}

// readOnly is what a command reports that writes outside its directory.
const readOnly = "Read-only file system"

// errTooMuch ends a command that writes too much.
var errTooMuch = errors.New("too much output")

// directory gives the directory of a command, and what is to be called when the command has gone.
func (f *Confined) directory(ctx context.Context, dir string) (string, func(), error) {
	if dir == "" {
		own, err := os.MkdirTemp(f.Temp, tempPrefix)
		if err != nil {
			return "", nil, err
		}
		if own, err = filepath.Abs(own); err != nil {
			return "", nil, err
		}
		return own, func() { removeAll(own) }, nil
	}
	dir, err := f.allowed(dir)
	if err != nil {
		return "", nil, err
	}
	done, err := f.occupy(ctx, dir)
	if err != nil {
		return "", nil, err
	}
	// a command that ran before this one has led it elsewhere
	if again, err := f.allowed(dir); err != nil || again != dir {
		done()
		return "", nil, fmt.Errorf("the command cannot be run: its directory %s was exchanged", dir)
	}
	return dir, done, nil
}

// allowed gives a directory without symbolic links in it, if commands may run there.
func (f *Confined) allowed(dir string) (string, error) {
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return "", fmt.Errorf("the command cannot be run: %w", err)
	}
	for _, root := range f.Dirs {
		if root, err = filepath.EvalSymlinks(root); err == nil && holds(root, real) {
			return real, nil
		}
	}
	if len(f.Dirs) == 0 {
		return "", fmt.Errorf("the command cannot be run in %s: commands that are confined have directories of their "+
			"own only", dir)
	}
	return "", fmt.Errorf("the command cannot be run in %s: it is not below %s", dir, strings.Join(f.Dirs, " or "))
}

// holds reports whether a directory is another one or above it.
func holds(root, dir string) bool {
	path, err := filepath.Rel(root, dir)
	return err == nil && filepath.IsLocal(path)
}

// occupy waits until no command has the directory, one in it or one above it.
func (f *Confined) occupy(ctx context.Context, dir string) (func(), error) {
	for {
		wait := f.claim(dir)
		if wait == nil {
			return func() { f.leave(dir) }, nil
		}
		select {
		case <-wait:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// claim takes the directory, or gives what is closed when one who is in the way has gone.
func (f *Confined) claim(dir string) <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	for other, gone := range f.busy {
		if holds(other, dir) || holds(dir, other) {
			return gone
		}
	}
	if f.busy == nil {
		f.busy = map[string]chan struct{}{}
	}
	f.busy[dir] = make(chan struct{})
	return nil
}

func (f *Confined) leave(dir string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	close(f.busy[dir])
	delete(f.busy, dir)
}

// bounded keeps what a command writes and reports when that is too much. The sandbox calls Write from one goroutine,
// and not after Run.
type bounded struct {
	most int
	over func()
	text []byte
	full bool
}

// Write is part of io.Writer.
func (b *bounded) Write(part []byte) (int, error) {
	if len(b.text)+len(part) > b.most {
		b.full = true
		b.over()
		return 0, errTooMuch
	}
	b.text = append(b.text, part...)
	return len(part), nil
}

// tail keeps the end of what a command writes.
type tail struct{ kept []byte }

// Write is part of io.Writer.
func (t *tail) Write(part []byte) (int, error) {
	t.kept = append(t.kept, part...)
	if len(t.kept) > 2*keptStderr {
		t.kept = append(t.kept[:0], t.kept[len(t.kept)-keptStderr:]...)
	}
	return len(part), nil
}

func (t *tail) text() []byte {
	return t.kept[max(0, len(t.kept)-keptStderr):]
}
