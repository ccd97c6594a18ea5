package sandbox

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// ids gives every running command of a caller that is root a user id of its own on the machine, which is also its
// group.
type ids struct {
	mu    sync.Mutex // guards what follows
	base  uint32
	count uint32
	next  uint32
	free  []*id
	all   []*id
}

// id is one of them, given back when its command has gone.
type id struct {
	host uint32
	ns   *os.File // a user namespace that maps the caller's own id on disk to host; nil until it is needed
}

// errNoIDs refuses to run a command as root.
var errNoIDs = errors.New("this program runs as root, and there is no free range of user ids to run commands with: " +
	"run it as another user, or give its container a range of ids")

// newIDs finds ids that no one else on the machine should use, or nil: only root may map them, and a container may have
// none.
func newIDs() *ids {
	if os.Geteuid() != 0 {
		return nil
	}
	users, groups := widest("/proc/self/uid_map"), widest("/proc/self/gid_map")
	first, last := max(users.first, groups.first), min(users.last, groups.last)
	switch {
	case last >= 2_100_000_000: // above what systemd gives to containers and below what signed numbers hold
		return &ids{base: 1_900_000_000 + rand.Uint32N(150_000_000), count: 1 << 20}
	case last > first && last-first >= 1<<14: // the end of a container's range, below the overflow user
		return &ids{base: uint32(last) - 1<<13, count: 1 << 12}
	}
	return nil
}

type span struct{ first, last uint64 }

// widest gives the largest range of ids that this process may map.
func widest(name string) span {
	text, err := os.ReadFile(name)
	if err != nil {
		return span{}
	}
	var best span
	for line := range strings.Lines(string(text)) {
		var inside, outside, n uint64
		if _, err := fmt.Sscan(line, &inside, &outside, &n); err == nil && n > 0 && n-1 > best.last-best.first {
			best = span{inside, inside + n - 1}
		}
	}
	return best
}

// take gives an id that no running command has.
func (i *ids) take() (*id, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if n := len(i.free); n > 0 {
		got := i.free[n-1]
		i.free = i.free[:n-1]
		return got, nil
	}
	if i.next == i.count {
		return nil, errors.New("all user ids are in use")
	}
	got := &id{host: i.base + i.next}
	i.next++
	i.all = append(i.all, got)
	return got, nil
}

func (i *ids) give(back *id) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.free = append(i.free, back)
}

func (i *ids) close() {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, one := range i.all {
		if one.ns != nil {
			_ = one.ns.Close()
		}
	}
	i.all, i.free = nil, nil
}

// mapping makes a user namespace in which the caller's id is that of a command. Namespaces are made with processes:
// this one is stopped at its first instruction and killed.
func mapping(host uint32) (*os.File, error) {
	p, err := os.StartProcess("/proc/self/exe", []string{"stagepost"},
		&os.ProcAttr{Env: []string{}, Sys: &syscall.SysProcAttr{
			Cloneflags:  unix.CLONE_NEWUSER,
			UidMappings: []syscall.SysProcIDMap{{ContainerID: os.Geteuid(), HostID: int(host), Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{ContainerID: os.Getegid(), HostID: int(host), Size: 1}},
			Ptrace:      true,
			Pdeathsig:   syscall.SIGKILL,
		}})
	if err != nil {
		return nil, fmt.Errorf("make a user namespace: %w", err)
	}
	ns, err := os.Open(fmt.Sprintf("/proc/%d/ns/user", p.Pid))
	_ = p.Kill()
	_, _ = p.Wait()
	return ns, err
}

// mountAs gives a detached mount of a directory in which the caller's files are that id's. run starts processes. The id
// must be taken.
func (i *id) mountAs(dir *os.File, run func(func())) (mount *os.File, err error) {
	if i.ns == nil {
		run(func() { i.ns, err = mapping(i.host) })
		if err != nil {
			return nil, err
		}
	}
	return detached(dir, unix.MountAttr{Attr_set: unix.MOUNT_ATTR_IDMAP | mountedJob, Userns_fd: uint64(i.ns.Fd())})
}

// mountedJob are the attributes of a command's directory in the tiers with namespaces.
const mountedJob = unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV

// detached gives a detached mount of a directory, with attributes.
func detached(dir *os.File, attr unix.MountAttr) (*os.File, error) {
	fd, err := unix.OpenTree(int(dir.Fd()), "", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_EMPTY_PATH)
	if err != nil {
		return nil, fmt.Errorf("open the tree: %w", err)
	}
	if err := unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH, &attr); err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("set the attributes of the mount: %w", err)
	}
	return os.NewFile(uintptr(fd), "dir"), nil
}
