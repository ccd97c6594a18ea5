package sandbox

import (
	"fmt"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/stagepost/stagepost/edge/sandbox/landlock"
	"github.com/stagepost/stagepost/edge/sandbox/seccomp"
)

// launch is what a forked child does before it becomes the command: everything it needs lies ready in memory, as it may
// neither allocate nor grow its stack.
type launch struct {
	path       *byte
	argv, envv **byte
	gate       uintptr // the socket where it reports that it is there and waits to be let go
	rlimits    []rlimit
	lastCap    uintptr
	id         uintptr // user and group that it becomes; zero: none
	filter     unix.SockFprog
	scope      int // a Landlock ruleset that keeps signals and abstract sockets inside; -1 if the kernel has none

	// scratch of the child
	mask, action [4]uint64
	capHeader    unix.CapUserHeader
	capData      [2]unix.CapUserData
	word         [1]byte
	failed       [1]uint32
}

// rlimit is set for the command and inherited by all that it begins.
type rlimit struct {
	Resource uintptr
	Cur, Max uint64
}

func (l *launch) prepare(path string, argv, envv []string, gate int, rlimits []rlimit) error {
	p, err := unix.BytePtrFromString(path)
	if err != nil {
		return err
	}
	args, err := syscall.SlicePtrFromStrings(argv)
	if err != nil {
		return err
	}
	vars, err := syscall.SlicePtrFromStrings(envv)
	if err != nil {
		return err
	}
	l.path, l.argv, l.envv = p, &args[0], &vars[0]
	l.gate, l.rlimits = uintptr(gate), rlimits
	l.lastCap = lastCapability()
	if f := seccomp.Filter(); len(f) > 0 {
		l.filter = unix.SockFprog{Len: uint16(len(f)), Filter: &f[0]}
	}
	l.scope = landlock.Scope()
	l.capHeader.Version = unix.LINUX_CAPABILITY_VERSION_3
	l.word[0] = letterHere
	return nil
}

// lastCapability is the highest that this kernel has; a request beyond it is an error.
func lastCapability() uintptr {
	last := uintptr(0)
	for unix.Prctl(unix.PR_CAPBSET_READ, last+1, 0, 0, 0) == nil {
		last++
	}
	return last
}

// letters on the gate
const (
	letterHere = 'h' // from the child: I am here (the kernel adds my number)
	letterGo   = 'g' // to the child
)

// fork begins the command's process and returns its number in this namespace. The calling goroutine is wired to the
// process's first thread, whose end would end the child.
func (l *launch) fork() (int, error) {
	var all, before [1]uint64
	all[0] = ^uint64(0)
	// No signal may run a handler of Go's in the child.
	if _, _, e := syscall.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&all)),
		uintptr(unsafe.Pointer(&before)), 8, 0, 0); e != 0 {
		return 0, fmt.Errorf("block signals: %w", e)
	}
	pid, e := l.forkInto()
	_, _, _ = syscall.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&before)), 0, 8, 0,
		0)
	runtime.KeepAlive(l)
	if e != 0 {
		return 0, fmt.Errorf("fork: %w", e)
	}
	return int(pid), nil
}

// forkInto forks. The child never returns; it touches nothing but l and its stack, makes raw system calls only, and
// calls nothing that could grow the stack.
//
//go:norace
//go:nosplit
//go:nocheckptr
func (l *launch) forkInto() (uintptr, syscall.Errno) {
	pid, _, e := syscall.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
	if e != 0 || pid != 0 {
		return pid, e
	}
	e = l.become()
	l.failed[0] = uint32(e)
	_, _, _ = syscall.RawSyscall(unix.SYS_WRITE, l.gate, uintptr(unsafe.Pointer(&l.failed)), 4)
	for {
		_, _, _ = syscall.RawSyscall(unix.SYS_EXIT_GROUP, 127, 0, 0)
	}
}

// become turns the child into the command, or reports why it cannot.
//
//go:norace
//go:nosplit
//go:nocheckptr
func (l *launch) become() (e syscall.Errno) {
	if _, _, e = syscall.RawSyscall(unix.SYS_SETSID, 0, 0, 0); e != 0 {
		return e
	}
	if _, _, e = syscall.RawSyscall6(unix.SYS_PRCTL, unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0, 0); e != 0 {
		return e
	}
	if _, _, e = syscall.RawSyscall(unix.SYS_WRITE, l.gate, uintptr(unsafe.Pointer(&l.word)), 1); e != 0 {
		return e
	}
	for {
		n, _, e := syscall.RawSyscall(unix.SYS_READ, l.gate, uintptr(unsafe.Pointer(&l.word)), 1)
		if e == syscall.EINTR {
			continue
		}
		if e != 0 || n != 1 || l.word[0] != letterGo {
			return syscall.ECANCELED
		}
		break
	}
	for i := range l.rlimits {
		r := &l.rlimits[i]
		if _, _, e = syscall.RawSyscall6(unix.SYS_PRLIMIT64, 0, r.Resource, uintptr(unsafe.Pointer(&r.Cur)), 0, 0,
			0); e != 0 {
			return e
		}
	}
	if l.id != 0 {
		if e = l.changeUser(); e != 0 {
			return e
		}
	}
	if e = l.dropAll(); e != 0 {
		return e
	}
	for sig := uintptr(1); sig <= 64; sig++ { // as they were for a fresh program; two cannot be set
		_, _, _ = syscall.RawSyscall6(unix.SYS_RT_SIGACTION, sig, uintptr(unsafe.Pointer(&l.action)), 0, 8, 0, 0)
	}
	if _, _, e = syscall.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&l.mask)), 0, 8,
		0, 0); e != 0 {
		return e
	}
	_, _, _ = syscall.RawSyscall(unix.SYS_CLOSE_RANGE, 3, ^uintptr(0)>>32, unix.CLOSE_RANGE_CLOEXEC)
	if l.scope >= 0 {
		if _, _, e = syscall.RawSyscall(unix.SYS_LANDLOCK_RESTRICT_SELF, uintptr(l.scope), 0, 0); e != 0 {
			return e
		}
	}
	if l.filter.Len > 0 {
		if _, _, e = syscall.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0,
			uintptr(unsafe.Pointer(&l.filter))); e != 0 {
			return e
		}
	}
	_, _, e = syscall.RawSyscall(unix.SYS_EXECVE, uintptr(unsafe.Pointer(l.path)), uintptr(unsafe.Pointer(l.argv)),
		uintptr(unsafe.Pointer(l.envv)))
	return e
}

// changeUser makes the child that of another user, without groups. The kernel forgets the death signal with it.
//
//go:norace
//go:nosplit
//go:nocheckptr
func (l *launch) changeUser() (e syscall.Errno) {
	if _, _, e = syscall.RawSyscall(unix.SYS_SETGROUPS, 0, 0, 0); e != 0 {
		return e
	}
	if _, _, e = syscall.RawSyscall(unix.SYS_SETRESGID, l.id, l.id, l.id); e != 0 {
		return e
	}
	if _, _, e = syscall.RawSyscall(unix.SYS_SETRESUID, l.id, l.id, l.id); e != 0 {
		return e
	}
	_, _, e = syscall.RawSyscall6(unix.SYS_PRCTL, unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0, 0)
	return e
}

// dropAll abandons every capability permanently, where there are some.
//
//go:norace
//go:nosplit
//go:nocheckptr
func (l *launch) dropAll() (e syscall.Errno) {
	if _, _, e = syscall.RawSyscall6(unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0, 0); e != 0 {
		return e
	}
	for c := uintptr(0); c <= l.lastCap; c++ {
		// refused to anyone who lacks CAP_SETPCAP: no_new_privs holds then as well
		_, _, _ = syscall.RawSyscall6(unix.SYS_PRCTL, unix.PR_CAPBSET_DROP, c, 0, 0, 0, 0)
	}
	_, _, _ = syscall.RawSyscall6(unix.SYS_PRCTL, unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0, 0)
	_, _, e = syscall.RawSyscall(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&l.capHeader)),
		uintptr(unsafe.Pointer(&l.capData)), 0)
	return e
}
