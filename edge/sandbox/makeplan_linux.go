package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// initThreads is how many threads of the init may count where a limit of processes is one of its user.
const initThreads = 16

// makePlan finishes what the init is told, and makes the process that it will be.
func (r *running) makePlan() error {
	if r.tier == Native {
		r.takeID()
	}
	r.plan.Rlimits = r.rlimits()
	for _, b := range r.c.Binds {
		r.plan.Binds = append(r.plan.Binds, planBind{From: b.From, To: b.to()})
	}
	if err := r.missing(); err != nil {
		return err
	}
	switch r.tier {
	case Native:
		return r.native()
	case Bwrap:
		return r.inBubble()
	}
	for _, b := range r.plan.Binds {
		if b.To != filepath.Clean(b.From) {
			return &Unacceptable{fmt.Errorf("tier none cannot show %s as %s: it has no mounts of its own", b.From, b.To)}
		}
	}
	r.cmd = &exec.Cmd{Path: "/proc/self/exe", Args: []string{"stagepost", marker}, Env: initEnv, Dir: "/", SysProcAttr: &syscall.SysProcAttr{Setsid: true}}
	return nil
}

// missing tells of what is to be shown and does not exist. Without mounts nothing has to: tier none shows nothing by itself.
func (r *running) missing() error {
	if r.tier == None {
		return nil
	}
	for _, b := range r.plan.Binds {
		if _, err := os.Stat(b.From); errors.Is(err, fs.ErrNotExist) {
			return &Unacceptable{fmt.Errorf("show %s: %w", b.From, syscall.ENOENT)}
		}
	}
	return nil
}

// initEnv is the environment of the init. One processor is enough for it, and makes fewer threads.
var initEnv = []string{"GOMAXPROCS=1"}

// takeID gives the command a user id of its own if the file system of Dir can show it its files so; else it has the caller's.
func (r *running) takeID() {
	if r.s.ids == nil {
		return
	}
	id, err := r.s.ids.take(r.s.spawner.do)
	if err != nil {
		return
	}
	mount, err := id.mountAs(r.dir)
	if err != nil {
		r.s.ids.give(id)
		return
	}
	r.id = id
	r.files = append(r.files, mount)
	r.plan.DirTree = controlFD + len(r.files) - 1
}

// native is the init in namespaces of its own.
func (r *running) native() error {
	attr := &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP,
		// Everything that the init does before the command needs one of these. The command has none.
		AmbientCaps: []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_NET_ADMIN, unix.CAP_SETPCAP},
		Pdeathsig:   syscall.SIGKILL,
		Setsid:      true,
	}
	if r.plan.Network == networkNone {
		attr.Cloneflags |= unix.CLONE_NEWNET
	}
	uid, gid := os.Geteuid(), os.Getegid()
	if r.id != nil {
		uid, gid = int(r.id.host), int(r.id.host)
	}
	attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: workUID, HostID: uid, Size: 1}}
	attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: workUID, HostID: gid, Size: 1}}
	if os.Geteuid() == 0 { // others may not give up their groups
		attr.GidMappingsEnableSetgroups = true
		attr.Credential = &syscall.Credential{Uid: workUID, Gid: workUID}
		if err := r.openBinds(); err != nil {
			return err
		}
	}
	r.cmd = &exec.Cmd{Path: "/proc/self/exe", Args: []string{"stagepost", marker}, Env: initEnv, Dir: "/", SysProcAttr: attr}
	return nil
}

// openBinds opens what is to be shown as the caller: the command's user may not reach it by its path.
func (r *running) openBinds() error {
	for i := range r.plan.Binds {
		b := &r.plan.Binds[i]
		fd, err := unix.OpenTree(unix.AT_FDCWD, b.From, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
		if err != nil {
			return fmt.Errorf("show %s: %w", b.From, err)
		}
		r.files = append(r.files, os.NewFile(uintptr(fd), b.From))
		b.Tree = controlFD + len(r.files) - 1
	}
	return nil
}

// inBubble is the init in bubblewrap.
func (r *running) inBubble() error {
	first := controlFD + len(r.files)
	args, texts := bubblewrap(r.plan, r.c.Dir, r.s.self, first)
	for _, text := range texts {
		read, write, err := os.Pipe()
		if err != nil {
			return err
		}
		r.files = append(r.files, read)
		_, err = write.WriteString(text) // less than a pipe holds
		if cerr := write.Close(); err == nil {
			err = cerr
		}
		if err != nil {
			return err
		}
	}
	r.cmd = &exec.Cmd{Path: r.s.bwrap, Args: append([]string{"bwrap"}, args...), Env: []string{}, Dir: "/", SysProcAttr: &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setsid: true}}
	return nil
}

// rlimits are per process and so only the second line of defence, but for the first.
func (r *running) rlimits() []rlimit {
	l := r.c.Limits
	out := []rlimit{{unix.RLIMIT_CORE, 0, 0}}
	add := func(resource int, value uint64) { out = append(out, rlimit{uintptr(resource), value, value}) }
	if l.Files > 0 {
		var now unix.Rlimit
		n := uint64(l.Files)
		if unix.Getrlimit(unix.RLIMIT_NOFILE, &now) == nil {
			n = min(n, now.Max)
		}
		add(unix.RLIMIT_NOFILE, n)
	}
	if l.Disk > 0 {
		add(unix.RLIMIT_FSIZE, uint64(l.Disk))
	}
	if l.CPU > 0 {
		s := uint64((l.CPU + time.Second - 1) / time.Second)
		out = append(out, rlimit{unix.RLIMIT_CPU, s, s + 1})
	}
	switch {
	case l.Processes == 0 || r.group != nil || r.id == nil && os.Geteuid() == 0: // root has no limit
	case r.tier != None:
		add(unix.RLIMIT_NPROC, uint64(l.Processes+initThreads))
	default: // the limit counts everything of the user, so this only keeps a bomb from taking the machine before the watch ends it
		add(unix.RLIMIT_NPROC, uint64(l.Processes+bombSlack+ofUser(os.Geteuid())))
	}
	return out
}

// bombSlack is how many processes the user may begin elsewhere before those of a command in tier none without control groups notice.
const bombSlack = 512

// ofUser counts the threads of a user.
func ofUser(uid int) int {
	n := 0
	for _, s := range all() {
		var st unix.Stat_t
		if err := unix.Stat("/proc/"+strconv.Itoa(s.pid), &st); err == nil && int(st.Uid) == uid {
			n += max(1, s.threads)
		}
	}
	return n
}
