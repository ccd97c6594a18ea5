package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"time"
)

func cores() int { return runtime.NumCPU() }

// daemon is a process that this one started. It listens on a Unix socket in its directory only.
type daemon struct {
	cmd    *exec.Cmd
	signal syscall.Signal // ends it in order
	log    string
	ended  chan error
}

// startServer starts the program. It gets a signal to end when this process ends.
func startServer(dir string, signal syscall.Signal, as *syscall.Credential, program string, args ...string,
) (*daemon, error) {
	s := &daemon{signal: signal, log: filepath.Join(dir, "server.log"), ended: make(chan error, 1)}
	out, err := os.Create(s.log)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	s.cmd = exec.Command(program, args...)
	s.cmd.Dir = dir
	s.cmd.Stdout, s.cmd.Stderr = out, out
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: signal, Credential: as}
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	go func() { s.ended <- s.cmd.Wait() }()
	return s, nil
}

// ready waits until ask succeeds.
func (s *daemon) ready(ctx context.Context, ask func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	for {
		err := ask(ctx)
		if err == nil {
			return nil
		}
		select {
		case exit := <-s.ended:
			s.ended <- exit
			return fmt.Errorf("%s ended: %w\n%s", s.cmd.Path, exit, s.tail())
		case <-ctx.Done():
			return fmt.Errorf("%s does not answer: %w\n%s", s.cmd.Path, err, s.tail())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// stop ends the process and waits for it.
func (s *daemon) stop() error {
	if err := s.cmd.Process.Signal(s.signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case <-s.ended:
		return nil
	case <-time.After(20 * time.Second):
	}
	return errors.Join(fmt.Errorf("%s did not end in 20s and was killed", s.cmd.Path), s.cmd.Process.Kill())
}

// tail returns the end of what the server printed.
func (s *daemon) tail() string {
	f, err := os.Open(s.log)
	if err != nil {
		return ""
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.Size() > 2000 {
		_, _ = f.Seek(-2000, io.SeekEnd)
	}
	text, _ := io.ReadAll(f)
	return string(text)
}

// unprivileged returns the user that PostgreSQL runs as: nil for the own one; the user postgres where this process is
// root, which PostgreSQL refuses.
func unprivileged() (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		return nil, fmt.Errorf("PostgreSQL does not run as root: %w; run this as another user", err)
	}
	uid, err1 := strconv.ParseUint(u.Uid, 10, 32)
	gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, errors.Join(err1, err2)
}
