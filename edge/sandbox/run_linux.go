package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/stagepost/stagepost/edge/sandbox/cgroup"
	"github.com/stagepost/stagepost/edge/sandbox/proctree"
)

// errClosed is what Run gives after Close.
var errClosed = errors.New("the sandbox is closed")

// Run runs a command to its end. An error means that it could not be started at all, and reports why; everything else
// is an Ending, the end of the context as well. When Run returns no process of the command exists any more. Two
// commands may not have the same Dir at once.
func (s *Sandbox) Run(ctx context.Context, c *Command) (Ending, error) { return s.run(ctx, s.tier, c) }

func (s *Sandbox) run(ctx context.Context, tier string, c *Command) (Ending, error) {
	if err := c.validate(); err != nil {
		return Ending{}, err
	}
	s.mu.Lock()
	if s.done {
		s.mu.Unlock()
		return Ending{}, errClosed
	}
	s.runs.Add(1)
	s.mu.Unlock()
	defer s.runs.Done()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.ended, cancel)()

	r := &running{s: s, c: c, tier: tier, gate: -1, init: -1, started: make(chan error, 1), exited: make(chan struct{}),
		result: make(chan *status, 1)}
	defer r.clear()
	if err := r.begin(); err != nil {
		return Ending{}, err
	}
	failed := r.follow(ctx)
	r.settle()
	if failed != nil {
		return Ending{}, failed
	}
	return r.ending(), nil
}

// running is one command while it runs.
type running struct {
	s    *Sandbox
	c    *Command
	tier string

	dir            *os.File // Dir, held so that it cannot be exchanged
	temp           string   // the private temporary directory of tier none
	tempLock       *os.File // held while it is in use
	mark           string   // in the environment, in tier none
	id             *id      // nil: the caller's own
	lent           bool     // what Dir holds is the id's until the command has ended
	group          *cgroup.Group
	plan           *plan
	files          []*os.File // the init's, from controlFD on; closed when it has been started
	gate           int        // our end of the socket, -1 when closed
	control        *os.File   // our end
	status         *os.File   // our end
	stdout, stderr *output
	stdin          *os.File // our end; nil: /dev/null
	cmd            *exec.Cmd

	started chan error    // nil once the command runs; an error if it could not be started
	exited  chan struct{} // closed when the init has been waited for
	result  chan *status  // what the init reported, nil if nothing
	command int           // the number of the command's process on the machine; set before started
	init    int           // a descriptor of the init's process, -1 if not known; set before started
	going   atomic.Bool   // the command has been let go, a moment before started is called

	began, over time.Time
	cause       Cause
	usage       cgroup.Usage
	peak        int64 // bytes, seen by the watch
	seenCPU     time.Duration
	report      *status
}

// begin makes everything that the command needs and starts its init.
func (r *running) begin() error {
	for _, step := range []func() error{r.openDir, r.takeID, r.openTemp, r.openGroup, r.openPipes, r.makePlan,
		r.start} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// openDir opens Dir, and shows it to the command as that command's own where that is possible.
func (r *running) openDir() error {
	fd, err := unix.Open(r.c.Dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open the directory of the command %s: %w", r.c.Dir, err)
	}
	r.dir = os.NewFile(uintptr(fd), r.c.Dir)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return fmt.Errorf("inspect the directory of the command: %w", err)
	}
	if r.c.Same != nil {
		if now, err := r.dir.Stat(); err != nil || !os.SameFile(now, r.c.Same) {
			return fmt.Errorf("the directory of the command %s was exchanged", r.c.Dir)
		}
	}
	r.plan = &plan{Tier: r.tier, Argv: r.c.Argv, Dir: r.c.Dir, Dev: uint64(st.Dev), Ino: st.Ino, Network: r.c.Network,
		Null: r.c.Stdin == nil, Scratch: r.c.Limits.Disk}
	if r.plan.Network == "" {
		r.plan.Network = networkNone
	}
	return nil
}

// openTemp makes the private temporary directory of tier none; the other tiers have /tmp.
func (r *running) openTemp() error {
	home, temp := jobDir, "/tmp"
	if r.tier == None {
		var err error
		if r.temp, err = os.MkdirTemp("", tempPrefix); err != nil {
			return err
		}
		if r.tempLock, err = lockDir(r.temp); err != nil {
			return fmt.Errorf("lock the temporary directory of the command: %w", err)
		}
		home, temp, r.plan.Temp = r.c.Dir, r.temp, r.temp
		if r.id != nil {
			r.plan.ID = r.id.host
			if err := os.Lchown(r.temp, int(r.id.host), int(r.id.host)); err != nil {
				return fmt.Errorf("give the command its temporary directory: %w", err)
			}
			if !reachable(home) { // the working directory needs no path, a home does
				home = temp
			}
		}
	}
	r.plan.Env = environment(r.c.Env, home, temp)
	if r.tier == None {
		r.mark = fmt.Sprintf("STAGEPOST_SANDBOX=%s-%d-%d-%d", r.s.name, os.Getpid(), time.Now().UnixNano(),
			serial.Add(1))
		r.plan.Env = append(r.plan.Env, r.mark)
	}
	return nil
}

// serial numbers the commands of this process: sandboxes of one name make no group twice.
var serial atomic.Int64

func (r *running) openGroup() error {
	if r.s.groups == nil {
		return nil
	}
	l := r.c.Limits
	var err error
	name := fmt.Sprintf("%d-%d", os.Getpid(), serial.Add(1))
	if r.group, err = r.s.groups.New(name, cgroup.Limits{Memory: l.Memory, Processes: l.Processes,
		Cores: l.Cores}); err != nil {
		return fmt.Errorf("make the control group: %w", err)
	}
	return nil
}

// openPipes makes what connects the agent with the init and the command.
func (r *running) openPipes() error {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("make the gate: %w", err)
	}
	r.gate = pair[0]
	gate := os.NewFile(uintptr(pair[1]), "gate")
	if err := unix.SetsockoptInt(r.gate, unix.SOL_SOCKET, unix.SO_PASSCRED, 1); err != nil {
		_ = gate.Close()
		return fmt.Errorf("make the gate: %w", err)
	}
	control, ours, err := os.Pipe()
	if err != nil {
		_ = gate.Close()
		return err
	}
	r.control = ours
	reports, status, err := os.Pipe()
	if err != nil {
		_, _ = gate.Close(), control.Close()
		return err
	}
	r.status = reports
	r.files = []*os.File{control, status, gate}
	if r.stdout, err = tap(r.c.Stdout, r.c.Limits.Output); err != nil {
		return err
	}
	r.stderr, err = tap(r.c.Stderr, r.c.Limits.Output)
	return err
}

// start starts the init, gives it the plan and lets the command through the gate.
func (r *running) start() error {
	input, err := r.openInput()
	if err != nil {
		return err
	}
	defer input.Close()
	r.cmd.Stdin, r.cmd.Stdout, r.cmd.Stderr = input, r.stdout.written, r.stderr.written
	r.cmd.ExtraFiles = r.files
	plan, err := r.plan.encode()
	if err != nil {
		return err
	}
	if r.id != nil { // so that /dev/stdin, /dev/stdout and /dev/stderr can be opened
		for _, f := range []*os.File{input, r.stdout.written, r.stderr.written} {
			if r.plan.Null && f == input {
				continue
			}
			if err := f.Chown(int(r.id.host), int(r.id.host)); err != nil {
				return fmt.Errorf("give a pipe to the command: %w", err)
			}
		}
	}
	r.s.spawner.do(func() { err = r.cmd.Start() })
	if err != nil {
		return fmt.Errorf("start the init: %w", err)
	}
	r.closeTheirs()
	go r.stdout.collect()
	go r.stderr.collect()
	go func() {
		_ = r.cmd.Wait()
		close(r.exited)
	}()
	go r.listen()
	go func() {
		_, err := r.control.Write(plan)
		if err == nil {
			err = r.admit()
		}
		r.started <- err
	}()
	return nil
}

func (r *running) openInput() (*os.File, error) {
	if r.c.Stdin == nil {
		return os.Open(os.DevNull)
	}
	input, ours, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	r.stdin = ours
	go func() { // it ends when the pipe is closed at the latest, if the reader gives something or ends
		_, _ = io.Copy(ours, r.c.Stdin)
		_ = ours.Close()
	}()
	return input, nil
}

// closeTheirs closes what the init has now.
func (r *running) closeTheirs() {
	for _, f := range r.files {
		_ = f.Close()
	}
	r.files = nil
	for _, o := range []*output{r.stdout, r.stderr} {
		if o != nil {
			_ = o.written.Close()
		}
	}
}

// listen reads what the init reports at its end.
func (r *running) listen() {
	s := &status{}
	if err := json.NewDecoder(io.LimitReader(r.status, 1<<20)).Decode(s); err != nil {
		s = nil
	}
	r.result <- s
}

// errNotThere reports that the init ended before the command was there; its status reports why.
var errNotThere = errors.New("the init ended early")

// admit waits for the command's process at the gate, puts it into its group, lets it go, and waits until it is the
// command.
func (r *running) admit() error {
	word, control := make([]byte, 1), make([]byte, unix.CmsgSpace(unix.SizeofUcred))
	n, filled, _, _, err := recvmsg(r.gate, word, control)
	if err != nil || n != 1 || word[0] != letterHere {
		return errNotThere
	}
	messages, err := unix.ParseSocketControlMessage(control[:filled])
	if err != nil || len(messages) == 0 {
		return fmt.Errorf("the command's process has no number: %w", err)
	}
	cred, err := unix.ParseUnixCredentials(&messages[0])
	if err != nil {
		return fmt.Errorf("the command's process has no number: %w", err)
	}
	r.command = int(cred.Pid)
	if at, ok := proctree.Find(r.command); ok {
		if r.init, err = unix.PidfdOpen(at.Parent, 0); err != nil {
			r.init = -1
		}
	}
	if r.group != nil {
		if err := r.group.Add(r.command); err != nil {
			return fmt.Errorf("put the command into its control group: %w", err)
		}
	}
	r.began = time.Now()
	if r.c.Started != nil {
		r.c.Started(r.command)
	}
	r.going.Store(true)
	if _, err := unix.Write(r.gate, []byte{letterGo}); err != nil {
		return errNotThere
	}
	var failed [4]byte
	for {
		n, err = unix.Read(r.gate, failed[:])
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if n == len(failed) {
		errno := syscall.Errno(uint32(failed[0]) | uint32(failed[1])<<8 | uint32(failed[2])<<16 | uint32(failed[3])<<24)
		return fmt.Errorf("run %s: %w", r.c.Argv[0], errno)
	}
	return nil
}

func recvmsg(fd int, p, oob []byte) (n, oobn, flags int, from unix.Sockaddr, err error) {
	for {
		n, oobn, flags, from, err = unix.Recvmsg(fd, p, oob, 0)
		if !errors.Is(err, unix.EINTR) {
			return n, oobn, flags, from, err
		}
	}
}

// clear gives back what is left of a run, whether or not it was started.
func (r *running) clear() {
	r.closeTheirs()
	for _, f := range []*os.File{r.control, r.status, r.stdin} {
		if f != nil {
			_ = f.Close()
		}
	}
	for _, fd := range []int{r.gate, r.init} {
		if fd >= 0 {
			_ = unix.Close(fd)
		}
	}
	for _, o := range []*output{r.stdout, r.stderr} {
		if o != nil {
			o.close()
		}
	}
	if r.group != nil {
		_ = r.group.Remove()
	}
	if r.temp != "" {
		removeTree(r.temp)
	}
	if r.tempLock != nil {
		_ = r.tempLock.Close()
	}
	if r.lent {
		_ = chownTree(r.held(), int(r.id.host), os.Geteuid())
	}
	if r.dir != nil {
		_ = r.dir.Close()
	}
	if r.id != nil {
		r.s.ids.give(r.id)
	}
}
