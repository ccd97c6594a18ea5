package sandbox

import (
	"context"
	"errors"
	"os"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/stagepost/stagepost/edge/disk"
	"github.com/stagepost/stagepost/edge/sandbox/proctree"
)

const (
	// pulse is how often the watch checks.
	pulse = 250 * time.Millisecond
	// lastInit bounds how long an init may take to kill what it began, before it is killed itself.
	lastInit = 2 * time.Second
	// lastOutput bounds how long a pipe is read after everything has ended; only a process that fled from tier none can
	// hold it.
	lastOutput = time.Second
)

// ender ends a command: gently first, then permanently. It belongs to follow.
type ender struct {
	*running
	grace, hard <-chan time.Time // when patience with the command, and with its init, is over
}

// kill ends the command at once.
func (e *ender) kill() {
	_, _ = e.control.Write([]byte{letterKill})
	e.hard = time.After(lastInit)
}

// stop ends the command for a reason; only the first one counts.
func (e *ender) stop(why Cause, gently bool) {
	if e.cause != Itself {
		return
	}
	e.cause = why
	if !gently {
		e.kill()
		return
	}
	_, _ = e.control.Write([]byte{letterTerm})
	e.grace = time.After(e.running.grace())
}

// follow waits until the init has ended, and ends it when a limit is reached or the context ends. The error reports
// that the command could not be started.
func (r *running) follow(ctx context.Context) error {
	tick := time.NewTicker(pulse)
	defer tick.Stop()
	watching, cancel := context.WithCancel(context.Background())
	var walks sync.WaitGroup
	defer walks.Wait()
	defer cancel()
	full := make(chan Cause, 1)
	e := &ender{running: r}
	var wall <-chan time.Time
	var failed error
	done, started := ctx.Done(), r.started
	for {
		select {
		case <-r.exited:
			r.over = time.Now()
			if started != nil {
				failed = <-started
			}
			return r.whyNot(failed)
		case failed = <-started:
			started = nil
			if failed != nil {
				e.kill()
				continue
			}
			if r.c.Limits.Wall > 0 {
				wall = time.After(r.c.Limits.Wall)
			}
			if r.c.Limits.Disk > 0 {
				walks.Go(func() { r.watchDisk(watching, full) })
			}
		case <-done:
			done = nil
			e.stop(Killed, r.going.Load()) // what has not begun needs no signal
		case <-wall:
			e.stop(Timeout, true)
		case why := <-full:
			e.stop(why, false)
		case <-tick.C:
			if started == nil && failed == nil {
				if why := r.watch(); why != Itself {
					e.stop(why, why == CPU)
				}
			}
		case <-e.grace:
			e.kill()
		case <-e.hard:
			_ = r.cmd.Process.Kill()
		}
	}
}

func (r *running) grace() time.Duration {
	if r.c.Grace == 0 {
		return defaultGrace
	}
	return r.c.Grace
}

// watch inspects what the command uses now.
func (r *running) watch() Cause {
	l := r.c.Limits
	if r.group != nil {
		u, err := r.group.Usage()
		if err != nil {
			return Itself
		}
		r.usage = u
		if l.CPU > 0 && u.CPU >= l.CPU {
			return CPU
		}
		return Itself
	}
	at, ok := proctree.Find(r.command)
	if !ok {
		return Itself
	}
	var rss int64
	var cpu time.Duration
	var threads int
	tree := proctree.Descendants(at.Parent)
	for _, p := range tree {
		rss += p.RSS
		cpu += p.CPU
		threads += max(1, p.Threads)
	}
	rss += r.scratch()
	if l.Memory > 0 && rss > l.Memory {
		// forked processes share most of their memory, so the sum is too high: measure exactly, which costs more
		rss = proctree.Memory(tree) + r.scratch()
	}
	r.peak, r.seenCPU = max(r.peak, rss), max(r.seenCPU, cpu)
	switch {
	case l.Memory > 0 && rss > l.Memory:
		return Memory
	case l.CPU > 0 && r.seenCPU >= l.CPU:
		return CPU
	case l.Processes > 0 && threads > l.Processes:
		return Processes
	}
	return Itself
}

// watchDisk walks Dir again and again, ever more rarely the longer a walk takes, until too much is there.
func (r *running) watchDisk(ctx context.Context, full chan<- Cause) {
	pause := time.NewTimer(pulse)
	defer pause.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-pause.C:
		}
		began := time.Now()
		used, err := r.disk(ctx)
		switch {
		case used > r.c.Limits.Disk:
			full <- Disk
			return
		case errors.Is(err, disk.ErrTooDeep):
			full <- Depth
			return
		}
		pause.Reset(max(pulse, 4*time.Since(began)))
	}
}

// disk gives the bytes in Dir and in the private temporary directory.
func (r *running) disk(ctx context.Context) (int64, error) {
	used, err := disk.Usage(ctx, r.held(), r.c.Limits.Disk)
	if err != nil {
		return used, err
	}
	if r.tier == None {
		more, err := disk.Usage(ctx, r.temp, r.c.Limits.Disk)
		return used + more, err
	}
	return used + r.scratch(), nil
}

// scratch gives what /tmp and /dev/shm hold: mounts in a root that the command cannot change, seen through it, as it is
// no one else's. Tier none has none.
func (r *running) scratch() int64 {
	if r.tier == None {
		return 0
	}
	root := "/proc/" + strconv.Itoa(r.command) + "/root"
	return scratchUsed(root+"/tmp") + scratchUsed(root+"/dev/shm")
}

// held is Dir as it was opened, whatever its path shows now.
func (r *running) held() string { return "/proc/self/fd/" + strconv.Itoa(int(r.dir.Fd())) }

// scratchUsed gives what a tmpfs holds, with something for each file.
func scratchUsed(dir string) int64 {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil || st.Type != unix.TMPFS_MAGIC {
		return 0
	}
	return max(0, int64(st.Blocks-st.Bfree))*int64(st.Bsize) + max(0, int64(st.Files-st.Ffree)-1)*disk.EntryBytes
}

// whyNot finds the best explanation for a command that was not started.
func (r *running) whyNot(failed error) error {
	r.report = <-r.result
	switch {
	case r.report != nil && r.report.Error != "" && r.cause != Killed:
		return errors.New(r.report.Error)
	case r.cause == Killed:
		return nil
	case errors.Is(failed, errNotThere) && r.tier == Bwrap:
		return errors.New("bubblewrap could not start the command")
	}
	return failed
}

// settle makes sure that nothing of the command is left.
func (r *running) settle() {
	if r.init >= 0 { // bubblewrap's own process may have gone before its child
		gone := []unix.PollFd{{Fd: int32(r.init), Events: unix.POLLIN}}
		for until := time.Now().Add(proctree.KillTimeout); ; {
			if _, err := unix.Poll(gone, int(max(0, time.Until(until)).Milliseconds())); !errors.Is(err, unix.EINTR) {
				break
			}
		}
	}
	if r.group != nil {
		_ = r.group.Kill()
	}
	if r.tier == None && r.report == nil { // the init was killed
		proctree.KillMarked(r.mark)
	}
	late := time.NewTimer(lastOutput)
	defer late.Stop()
	for _, o := range []*output{r.stdout, r.stderr} {
		select {
		case <-o.done:
			continue
		case <-late.C:
			late.Reset(0)
		}
		_ = o.read.Close()
		<-o.done
	}
}

// removeTree removes a directory that a command could write in, whatever rights it left on what is below.
func removeTree(dir string) {
	if os.RemoveAll(dir) == nil {
		return
	}
	_, _ = disk.Usage(context.Background(), dir, 0) // opens closed directories on its way
	_ = os.RemoveAll(dir)
}
