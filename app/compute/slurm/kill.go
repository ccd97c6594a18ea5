package slurm

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"time"

	"github.com/stagepost/stagepost/app/compute"
)

// Kill is part of [compute.Executor]. Slurm sends TERM, waits for its own KillWait and sends KILL; what is there after
// Options.Grace gets KILL from here.
func (s *Slurm) Kill(ctx context.Context, h compute.Handle) error {
	dir, err := dirOf(h.Ticket)
	if err != nil {
		return fmt.Errorf("%w: %w", compute.ErrNoPayload, err)
	}
	release, err := s.hold(ctx, dir)
	if err != nil {
		return err
	}
	defer release()
	p, err := s.enter(h.Ticket)
	if errors.Is(err, fs.ErrNotExist) {
		return compute.ErrNoPayload
	}
	if err != nil {
		return err
	}
	defer p.close()
	if s.isDone(dir) {
		return nil
	}
	defer s.hurry()
	return s.end(ctx, p)
}

// end has a payload ended, wherever it is. The mark comes first: it records why the job is cancelled, and no server
// passes it over any more. A payload that no run has taken is taken, so that none will. The caller holds the
// directory's lock.
func (s *Slurm) end(ctx context.Context, p *payload) error {
	if !p.has(killedFile) {
		if err := writeFile(p.root, killedFile, nil); err != nil {
			return fmt.Errorf("slurm: payload %s: %w", p.dir, err)
		}
	}
	if !p.has(sentFile) {
		return nil // sbatch was not called, and will not be
	}
	mine, err := p.claim()
	if err != nil {
		return fmt.Errorf("slurm: payload %s: %w", p.dir, err)
	}
	rows, err := s.named(ctx, nameOf(p.dir))
	if err != nil {
		return err
	}
	var ids []string
	for _, r := range rows {
		if !over(r.state) {
			ids = append(ids, r.id)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	if err := s.cancel(ctx, p.dir, ids); err != nil {
		return err
	}
	if !mine {
		go s.finish(context.WithoutCancel(ctx), p.dir, ids)
	}
	return nil
}

// cancel ends jobs, all of which must have the payload's name: numbers are given anew when a cluster loses its memory.
func (s *Slurm) cancel(ctx context.Context, dir string, ids []string, more ...string) error {
	args := append(s.clusters(), "--name="+nameOf(dir))
	_, err := s.run(ctx, "scancel", append(append(args, more...), ids...)...)
	var f *failure
	if errors.As(err, &f) && strings.Contains(strings.ToLower(f.message), "already complet") {
		return nil
	}
	return err
}

// finish sends KILL to what has not ended after the grace.
func (s *Slurm) finish(ctx context.Context, dir string, ids []string) {
	ctx, stop := context.WithTimeout(ctx, s.o.Grace+2*s.o.Timeout)
	defer stop()
	wait := time.NewTimer(s.o.Grace)
	defer wait.Stop()
	select {
	case <-wait.C:
	case <-ctx.Done():
		return
	}
	if s.isDone(dir) {
		return
	}
	rows, err := s.named(ctx, nameOf(dir))
	if err != nil {
		s.log.Warn("whether a payload has ended that was cancelled is not known", "payload", dir, "error", err)
		return
	}
	for _, r := range rows {
		if !over(r.state) && meant(r.state).standing == compute.Works {
			if err := s.cancel(ctx, dir, []string{r.id}, "--signal=KILL", "--full"); err != nil {
				s.log.Warn("a payload could not be ended", "payload", dir, "slurm", r.id, "error", err)
			}
		}
	}
	s.hurry()
}

// signals are the names of Linux' signals, on which the nodes run; the server need not.
var signals = []string{
	1: "SIGHUP", 2: "SIGINT", 3: "SIGQUIT", 4: "SIGILL", 5: "SIGTRAP", 6: "SIGABRT", 7: "SIGBUS", 8: "SIGFPE",
	9: "SIGKILL", 10: "SIGUSR1", 11: "SIGSEGV", 12: "SIGUSR2",
	13: "SIGPIPE", 14: "SIGALRM", 15: "SIGTERM", 16: "SIGSTKFLT", 17: "SIGCHLD", 18: "SIGCONT", 19: "SIGSTOP",
	20: "SIGTSTP", 21: "SIGTTIN", 22: "SIGTTOU", 23: "SIGURG",
	24: "SIGXCPU", 25: "SIGXFSZ", 26: "SIGVTALRM", 27: "SIGPROF", 28: "SIGWINCH", 29: "SIGIO", 30: "SIGPWR",
	31: "SIGSYS",
}

// signalName gives "SIGKILL" for 9.
func signalName(n int) string {
	if n > 0 && n < len(signals) {
		return signals[n]
	}
	return "SIG" + strconv.Itoa(n)
}
