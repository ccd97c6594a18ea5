//go:build linux || darwin

package process

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Local runs commands as children of this process, each as a process group of its own. It confines nothing: a command
// may do what the program's user may, and a process that leaves its group on purpose (setsid) escapes its end. The one
// who runs files of strangers puts a sandbox instead of it.
type Local struct {
	Temp string // where directories of commands are made; defaults to the system's
}

// Run is part of Commander.
func (l Local) Run(ctx context.Context, c *Command) (*Output, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	dir := c.Dir
	if dir == "" {
		own, err := os.MkdirTemp(l.Temp, tempPrefix)
		if err != nil {
			return nil, err
		}
		defer removeAll(own)
		dir = own
	}
	cmd, err := prepare(c, dir)
	if err == nil && l.Temp != "" {
		cmd.Env = append(cmd.Env[:len(cmd.Env):len(cmd.Env)], markOf(l.Temp))
	}
	if err != nil {
		return nil, err
	}
	stdout, err := tap(&cmd.Stdout, nil, c.Most)
	if err != nil {
		return nil, err
	}
	stderr, err := tap(&cmd.Stderr, stdout, 0)
	if err != nil {
		return nil, err
	}
	in, err := feed(cmd, c.Stdin)
	if err != nil {
		stdout.close()
		stderr.close()
		return nil, err
	}
	err = cmd.Start()
	stdout.written.Close()
	stderr.written.Close()
	in.child.Close()
	if err != nil {
		stdout.close()
		stderr.close()
		in.parent.Close()
		return nil, fmt.Errorf("the command cannot be run: %w", err)
	}
	go in.write()
	why := supervise(ctx, cmd, c.Grace, stdout, stderr)
	in.parent.Close()
	return finish(cmd, why, stdout, stderr)
}

// Tidy ends the commands of a process that crashed, and removes the directories that they left in Temp, which must be
// theirs alone. No one may run commands there meanwhile.
func (l Local) Tidy() error {
	if err := endSurvivors(l.Temp); err != nil {
		return err
	}
	left, err := filepath.Glob(filepath.Join(l.Temp, tempPrefix+"*"))
	for _, dir := range left {
		removeAll(dir)
	}
	return err
}

// markOf is what reports the commands below a directory from all other processes, in their environment.
func markOf(temp string) string { return "STAGEPOST_COMMANDS=" + temp }

// prepare makes the process, without checking anything up in this process's own environment.
func prepare(c *Command, dir string) (*exec.Cmd, error) {
	env := c.Env
	path := ""
	home := false
	for _, v := range env {
		if p, is := strings.CutPrefix(v, "PATH="); is {
			path = p
		}
		home = home || strings.HasPrefix(v, "HOME=")
	}
	if !home {
		env = append(env[:len(env):len(env)], "HOME="+dir)
	}
	program, err := find(c.Argv[0], path, dir)
	if err != nil {
		return nil, err
	}
	return &exec.Cmd{Path: program, Args: c.Argv, Env: env, Dir: dir, SysProcAttr: &syscall.SysProcAttr{Setpgid: true}},
		nil
}

// find appears a program up as a shell does, in the path that the command gets.
func find(name, path, dir string) (string, error) {
	if strings.Contains(name, "/") {
		if !filepath.IsAbs(name) {
			name = filepath.Join(dir, name)
		}
		return name, nil
	}
	for _, in := range filepath.SplitList(path) {
		if in == "" || !filepath.IsAbs(in) {
			continue
		}
		full := filepath.Join(in, name)
		if info, err := os.Stat(full); err == nil && !info.IsDir() && info.Mode()&0o111 != 0 {
			return full, nil
		}
	}
	return "", fmt.Errorf("the command cannot be run: there is no program %q in %s", name, path)
}

// input is the pipe of standard input.
type input struct {
	child, parent *os.File
	text          []byte
}

func feed(cmd *exec.Cmd, text []byte) (*input, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	cmd.Stdin = r
	return &input{r, w, text}, nil
}

// write ends when all is written or the pipe is closed; a command need not read.
func (i *input) write() {
	_, _ = i.parent.Write(i.text)
	_ = i.parent.Close()
}

// output is the pipe of standard output or error, and what has come out of it.
type output struct {
	read, written *os.File
	done          chan struct{} // at its end
	over          chan struct{} // there was too much
	most          int           // 0: the end is kept

	mu   sync.Mutex // guards text
	text []byte
}

// tap begins to read; before is closed if that cannot be.
func tap(to *io.Writer, before *output, most int) (*output, error) {
	r, w, err := os.Pipe()
	if err != nil {
		if before != nil {
			before.close()
		}
		return nil, err
	}
	*to = w
	o := &output{read: r, written: w, done: make(chan struct{}), over: make(chan struct{}), most: most}
	go o.collect()
	return o, nil
}

func (o *output) close() {
	o.written.Close()
	o.read.Close()
}

func (o *output) collect() {
	defer close(o.done)
	part := make([]byte, 32<<10)
	for {
		n, err := o.read.Read(part)
		if o.add(part[:n]) {
			close(o.over)
			return
		}
		if err != nil {
			return
		}
	}
}

// add keeps what came; it reports when that is too much.
func (o *output) add(part []byte) (over bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.text = append(o.text, part...)
	if o.most == 0 {
		if len(o.text) > 2*keptStderr {
			o.text = append(o.text[:0], o.text[len(o.text)-keptStderr:]...)
		}
		return false
	}
	return len(o.text) > o.most
}

func (o *output) all() []byte {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.most == 0 && len(o.text) > keptStderr {
		return o.text[len(o.text)-keptStderr:]
	}
	return o.text
}

// supervise waits for the leader of the group, and ends the group when the context ends, too much comes out, or the
// leader has gone. When it returns the group has been killed.
func supervise(ctx context.Context, cmd *exec.Cmd, grace time.Duration, stdout, stderr *output) (why error) {
	group := -cmd.Process.Pid
	gone := make(chan struct{})
	go func() {
		settle(cmd.Process.Pid)
		close(gone)
	}()
	select {
	case <-gone:
	case <-stdout.over:
		why = &OutputError{Type: TypeOutputTooLarge,
			Text: fmt.Sprintf("the command wrote more than %d bytes to its standard output", stdout.most)}
	case <-ctx.Done():
		why = context.Cause(ctx)
		_ = syscall.Kill(group, syscall.SIGTERM)
		patience := time.NewTimer(grace)
		defer patience.Stop()
		for _, end := range []chan struct{}{gone, stdout.done, stderr.done} { // the one who holds a pipe is still at it
			select {
			case <-end:
			case <-patience.C:
				patience.Reset(0)
			}
		}
	}
	// the leader is there until it is waited for, so the number is still its own
	_ = syscall.Kill(group, syscall.SIGKILL)
	<-gone
	return why
}

// settle waits until a child has ended, and leaves it to be waited for.
func settle(pid int) {
	for {
		if err := waitid(pid); !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

// finish collects what is left. The one who escaped the group may still hold the pipes; it is not waited for.
func finish(cmd *exec.Cmd, why error, stdout, stderr *output) (*Output, error) {
	_ = cmd.Wait() // the state reports more than the error
	late := time.NewTimer(time.Second)
	defer late.Stop()
	for _, o := range []*output{stdout, stderr} {
		select {
		case <-o.done:
		case <-late.C:
			late.Reset(0)
		}
		o.read.Close()
	}
	if why != nil {
		return nil, why
	}
	if out := stdout.all(); len(out) > stdout.most {
		return nil, &OutputError{Type: TypeOutputTooLarge,
			Text: fmt.Sprintf("the command wrote more than %d bytes to its standard output", stdout.most)}
	}
	out := &Output{Stdout: stdout.all(), Stderr: stderr.all(), Exit: cmd.ProcessState.ExitCode()}
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		out.Signal = unix.SignalName(status.Signal())
	}
	return out, nil
}
