package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/stagepost/stagepost/edge/sandbox/landlock"
	"github.com/stagepost/stagepost/edge/sandbox/proctree"
)

// marker is the only argument of this program when it runs as init.
const marker = "__stagepost-sandbox-init"

// init makes the init of a sandbox cheap, which every job pays for: it runs before the packages of this program that
// take longest to initialise (about 12 ms together), and that a call from main has to wait for. Go initialises packages
// in the order of their import paths as their own imports become ready, and this one imports little; it may not import
// what is ready late. Nothing is registered here, and in every other process it does nothing. TestInitOfSandbox in
// cmd/stagepost checks it.
func init() { Init() }

// Init does the work of a process that was executed again as the init of a sandbox, and never returns there; else it
// does nothing. It has been called before main and TestMain begin; their call as the first line reports it, and makes
// sure that this package is linked.
func Init() {
	if len(os.Args) == 3 && os.Args[1] == stageMarker {
		runStage(os.Args[2])
	}
	if len(os.Args) != 2 || os.Args[1] != marker {
		return
	}
	runtime.LockOSThread() // the command ends with the thread that forked it
	p := &process{control: os.NewFile(controlFD, "control"), status: os.NewFile(statusFD, "status")}
	s, err := p.run()
	if err != nil {
		s = &status{Error: err.Error()}
	}
	if text, err := json.Marshal(s); err == nil {
		_, _ = p.status.Write(text)
	}
	syscall.Exit(0) // at once: the race detector would wait a second in os.Exit
}

// process is the init.
type process struct {
	control, status *os.File
	plan            *plan
	command         int         // its process number here
	orphan          atomic.Bool // the agent has gone
}

func (p *process) run() (*status, error) {
	// nothing that the command may send ends the init; unlike ignored ones these are as always for the command
	signal.Notify(make(chan os.Signal, 1))
	plan, err := readPlan(p.control)
	if err != nil {
		return nil, fmt.Errorf("read the plan: %w", err)
	}
	p.plan = plan
	if err := p.surround(); err != nil {
		return nil, err
	}
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil { // no one opens its memory
		return nil, fmt.Errorf("hide the init: %w", err)
	}
	program, err := lookUp(plan.Argv[0], plan.Env)
	if err != nil {
		return nil, err
	}
	l := launch{id: uintptr(plan.ID)}
	if err := l.prepare(program, plan.Argv, plan.Env, gateFD, plan.Rlimits); err != nil {
		return nil, err
	}
	if p.command, err = l.fork(); err != nil {
		return nil, err
	}
	_ = unix.Close(gateFD)
	go p.obey()
	s, err := p.reap()
	if p.orphan.Load() && plan.Temp != "" {
		removeTree(plan.Temp)
	}
	return s, err
}

// surround makes what the command will see.
func (p *process) surround() error {
	for fd := controlFD; fd < firstTree; fd++ {
		unix.CloseOnExec(fd)
	}
	unix.Umask(0o022)
	dir := jobDir
	switch p.plan.Tier {
	case Native:
		if err := buildRoot(p.plan); err != nil {
			return err
		}
	case None:
		dir = p.plan.Dir
		if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
			return fmt.Errorf("become the subreaper: %w", err)
		}
	}
	if err := p.enter(dir); err != nil {
		return err
	}
	if p.plan.Null {
		fd, err := unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("open /dev/null: %w", err)
		}
		if err := unix.Dup3(fd, 0, 0); err != nil {
			return fmt.Errorf("set standard input: %w", err)
		}
	}
	if p.plan.Tier == None {
		return nil
	}
	return landlock.Restrict(writable, devicePaths())
}

// enter makes the command's directory the current one, if it is still what the agent saw.
func (p *process) enter(dir string) error {
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open the directory of the command: %w", err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return fmt.Errorf("inspect the directory of the command: %w", err)
	}
	if uint64(st.Dev) != p.plan.Dev || st.Ino != p.plan.Ino {
		return errors.New("the directory of the command was exchanged")
	}
	if err := unix.Fchdir(fd); err != nil {
		return fmt.Errorf("enter the directory of the command: %w", err)
	}
	return unix.Close(fd)
}

// lookUp finds the program as a shell would, where the command is.
func lookUp(name string, env []string) (string, error) {
	if strings.Contains(name, "/") {
		return name, nil
	}
	path := ""
	for _, v := range env {
		if p, is := strings.CutPrefix(v, "PATH="); is {
			path = p
		}
	}
	for _, in := range filepath.SplitList(path) {
		full := filepath.Join(in, name)
		if info, err := os.Stat(full); err == nil && filepath.IsAbs(in) && !info.IsDir() && info.Mode()&0o111 != 0 {
			return full, nil
		}
	}
	return "", fmt.Errorf("there is no program %q in %s", name, path)
}

// obey does what the agent requests, and kills everything when it has gone.
func (p *process) obey() {
	var letter [1]byte
	for {
		n, err := p.control.Read(letter[:])
		if n == 1 && letter[0] == letterTerm {
			_ = unix.Kill(-p.command, unix.SIGTERM)
			_ = unix.Kill(-p.command, unix.SIGCONT) // a stopped process handles no signal
			continue
		}
		if n == 1 || err != nil {
			p.orphan.Store(err != nil)
			p.killAll()
			return
		}
	}
}

// reap waits for the command, then ends and reaps whatever it left.
func (p *process) reap() (*status, error) {
	s := &status{}
	for done := false; ; {
		var ws unix.WaitStatus
		var ru unix.Rusage
		pid, err := unix.Wait4(-1, &ws, 0, &ru)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.ECHILD):
			return s, nil
		case err != nil:
			return nil, fmt.Errorf("wait for the command: %w", err)
		}
		s.CPU += time.Duration(ru.Utime.Nano() + ru.Stime.Nano())
		s.MaxRSS = max(s.MaxRSS, int64(ru.Maxrss)<<10)
		if pid == p.command {
			done = true
			if p.plan.Tier != None {
				s.Scratch = scratchUsed("/tmp") + scratchUsed("/dev/shm")
			}
			s.Exit = ws.ExitStatus()
			if ws.Signaled() {
				s.Exit, s.Signal = -1, int(ws.Signal())
			}
		}
		if done {
			p.killAll()
		}
	}
}

// killAll kills every process but the init. What is begun meanwhile is found when the next one is reaped.
func (p *process) killAll() {
	if p.plan.Tier != None {
		_ = unix.Kill(-1, unix.SIGKILL) // that is all of this namespace but PID 1
		return
	}
	// most of a tree, before anything is counted; no one else can have the number while the init may still read it
	_ = unix.Kill(-p.command, unix.SIGKILL)
	proctree.KillTree(os.Getpid())
}

// writable are the directories that a command may change.
var writable = []string{jobDir, "/tmp", "/dev/shm"}

func devicePaths() []string {
	out := make([]string, len(devices))
	for i, name := range devices {
		out[i] = "/dev/" + name
	}
	return out
}
