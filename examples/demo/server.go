package demo

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// process is a server of the demo: the program itself, in a process of its own.
type process struct {
	*exec.Cmd
	URL  string
	stop context.CancelFunc
	left chan struct{} // closed when its output has ended
}

// start starts a server and waits until it answers.
func (d *demo) start(ctx context.Context) (*process, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(ctx)
	args := []string{"serve", "--data", d.dir, "--listen", "127.0.0.1:0", "--store", "sqlite", "--log-level",
		"error", "-o", "json"}
	p := &process{exec.CommandContext(ctx, program, append(args, d.service...)...), "", stop, make(chan struct{})}
	p.Dir, p.Stderr, p.WaitDelay = d.dir, d.errs, time.Minute
	p.Cancel = func() error { return p.Process.Signal(os.Interrupt) }
	p.Env = slices.DeleteFunc(os.Environ(), func(one string) bool {
		return strings.HasPrefix(one, "STAGEPOST_") && !strings.HasPrefix(one, "STAGEPOST_COMPUTE_SANDBOX=")
	})
	endsWithParent(p.Cmd)
	out, err := p.StdoutPipe()
	if err == nil {
		err = p.Start()
	}
	if err != nil {
		stop()
		return nil, err
	}
	lines := bufio.NewReader(out)
	var ready struct {
		Address string `json:"address"`
	}
	decoder := json.NewDecoder(lines)
	if err := decoder.Decode(&ready); err != nil {
		_ = p.Process.Kill()
		stop()
		return nil, errors.Join(fmt.Errorf("the server did not start: %w", err), p.Wait())
	}
	p.URL = ready.Address
	go func() {
		defer close(p.left)
		_, _ = lines.WriteTo(discard{}) // until the process ends
	}()
	return p, nil
}

type discard struct{}

func (discard) Write(b []byte) (int, error) { return len(b), nil }

// kill ends a server by SIGKILL, which it cannot notice.
func (p *process) kill() error {
	defer p.stop()
	err := p.Process.Kill()
	<-p.left
	var killed *exec.ExitError
	if ended := p.Wait(); !errors.As(ended, &killed) {
		err = errors.Join(err, fmt.Errorf("the server that was killed had ended: %w", ended))
	}
	return err
}

// close ends a server as SIGINT does.
func (p *process) close() error {
	p.stop()
	<-p.left
	if err := p.Wait(); err != nil && !errors.Is(err, context.Canceled) {
		return fmt.Errorf("the server ended: %w", err)
	}
	return nil
}
