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

	"github.com/stagepost/stagepost/edge/sandbox/proctree"
)

// initThreads is how many threads of the init may count where a limit of processes is one of its user.
const initThreads = 16

// makePlan finishes what the init is reported, and makes the process that it will be.
func (r *running) makePlan() error {
	if err := r.showDir(); err != nil {
		return err
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
			return &Unacceptable{fmt.Errorf("tier none cannot show %s as %s: it has no mounts of its own", b.From,
				b.To)}
		}
	}
	r.cmd = &exec.Cmd{Path: "/proc/self/exe", Args: []string{"stagepost", marker}, Env: initEnv, Dir: "/",
		SysProcAttr: &syscall.SysProcAttr{Setsid: true}}
	return nil
}

// missing reports what is to be shown and does not exist. Without mounts nothing has to: tier none shows nothing by
// itself.
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

// takeID takes a user id for the command if the caller is root: no command runs as root. Commands of other users have
// the caller's id.
func (r *running) takeID() (err error) {
	if os.Geteuid() != 0 {
		return nil
	}
	if r.s.ids == nil {
		return errNoIDs
	}
	r.id, err = r.s.ids.take()
	return err
}

// showDir makes the command's directory that of the command's own id: by a mount that maps the ids, and where the
// kernel, the file system or the tier has none, by the owner of the files, until the command has ended.
func (r *running) showDir() error {
	if r.id == nil {
		return nil
	}
	if r.tier == None {
		return r.lendDir()
	}
	mount, err := r.id.mountAs(r.dir, r.s.spawner.do)
	if err != nil || r.s.lends {
		if err == nil {
			_ = mount.Close()
		}
		if err := r.lendDir(); err != nil {
			return err
		}
		if mount, err = detached(r.dir, unix.MountAttr{Attr_set: mountedJob}); err != nil {
			return fmt.Errorf("show the command its directory: %w", err)
		}
	}
	r.files = append(r.files, mount)
	r.plan.DirTree = controlFD + len(r.files) - 1
	return nil
}

// lendDir makes the command's id the owner of Dir and of all that is in it.
func (r *running) lendDir() error {
	r.lent = true
	if err := chownTree(r.held(), os.Geteuid(), int(r.id.host)); err != nil {
		return fmt.Errorf("give the command its directory: %w", err)
	}
	return nil
}

// native is the init in namespaces of its own.
func (r *running) native() error {
	attr := &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS |
			unix.CLONE_NEWCGROUP,
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
	if r.id != nil { // others may not abandon their groups
		attr.GidMappingsEnableSetgroups = true
		attr.Credential = &syscall.Credential{Uid: workUID, Gid: workUID}
		if err := r.openBinds(); err != nil {
			return err
		}
	}
	r.cmd = &exec.Cmd{Path: "/proc/self/exe", Args: []string{"stagepost", marker}, Env: initEnv, Dir: "/",
		SysProcAttr: attr}
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
	shown := shownPaths{dir: r.c.Dir, self: r.s.self}
	for _, b := range r.plan.Binds {
		shown.binds = append(shown.binds, b.From)
	}
	var stage *stage
	if r.id != nil {
		var err error
		if stage, shown, err = r.openStage(); err != nil {
			return err
		}
	}
	first := controlFD + len(r.files)
	args, texts := bubblewrap(r.plan, &shown, first)
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
	args = append([]string{"bwrap"}, args...)
	r.cmd = &exec.Cmd{Path: r.s.bwrap, Args: args, Env: []string{}, Dir: "/",
		SysProcAttr: &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setsid: true}}
	if stage == nil {
		return nil
	}
	stage.Program, stage.Args = r.s.bwrap, args
	text, err := stage.encode()
	if err != nil {
		return err
	}
	r.cmd.Path, r.cmd.Args, r.cmd.Env, r.cmd.SysProcAttr.Cloneflags = "/proc/self/exe", []string{"stagepost",
		stageMarker, text}, initEnv, unix.CLONE_NEWNS
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
	case l.Processes == 0 || r.group != nil:
	case r.tier != None || r.id != nil:
		add(unix.RLIMIT_NPROC, uint64(l.Processes+initThreads))
	default:
		// the limit counts everything of the user, so this only keeps a bomb from taking the machine before the watch
		// ends it
		add(unix.RLIMIT_NPROC, uint64(l.Processes+bombSlack+ofUser(os.Geteuid())))
	}
	return out
}

// bombSlack is how many processes the user may begin elsewhere before those of a command in tier none without control
// groups notice.
const bombSlack = 512

// ofUser counts the threads of a user.
func ofUser(uid int) int {
	n := 0
	for _, s := range proctree.All() {
		var st unix.Stat_t
		if err := unix.Stat("/proc/"+strconv.Itoa(s.PID), &st); err == nil && int(st.Uid) == uid {
			n += max(1, s.Threads)
		}
	}
	return n
}
