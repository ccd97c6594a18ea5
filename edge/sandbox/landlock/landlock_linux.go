package landlock

import (
	"fmt"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Rights of Landlock on files; see landlock(7) and the kernel's Documentation/userspace-api/landlock.rst.
const (
	readFile  = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE
	read      = readFile | unix.LANDLOCK_ACCESS_FS_READ_DIR
	writeFile = unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE
	makeAny   = unix.LANDLOCK_ACCESS_FS_MAKE_CHAR | unix.LANDLOCK_ACCESS_FS_MAKE_DIR |
		unix.LANDLOCK_ACCESS_FS_MAKE_REG | unix.LANDLOCK_ACCESS_FS_MAKE_SOCK |
		unix.LANDLOCK_ACCESS_FS_MAKE_FIFO | unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK | unix.LANDLOCK_ACCESS_FS_MAKE_SYM
	write = writeFile | makeAny | unix.LANDLOCK_ACCESS_FS_REMOVE_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_FILE |
		unix.LANDLOCK_ACCESS_FS_REFER
	device = readFile | writeFile | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
)

// ABI is the version of Landlock that this kernel has; 0 if none.
func ABI() int {
	abi, _, e := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if e != 0 {
		return 0
	}
	return int(abi)
}

// Rights are the rights that a kernel with this version of Landlock can withhold, up to version 5.
// Version 1 refuses every move between directories, which no rule can allow, so there it is left alone: commands must
// be able to.
func Rights(abi int) uint64 {
	switch {
	case abi < 2:
		return 0
	case abi < 3:
		return unix.LANDLOCK_ACCESS_FS_TRUNCATE - 1
	case abi < 5:
		return unix.LANDLOCK_ACCESS_FS_IOCTL_DEV - 1
	}
	return unix.LANDLOCK_ACCESS_FS_IOCTL_DEV<<1 - 1
}

// Restrict adds Landlock to what the mounts restrict already, as far as the kernel has it: a second wall of another
// make. Everything may be read and executed, and only what is below dirs and the devices be written. It holds for the
// calling thread, which must be locked, and for what that thread forks; so for the command, and not for the init's
// other threads, which neither fork nor execute anything.
func Restrict(dirs, devices []string) error {
	rights := Rights(ABI())
	if rights == 0 {
		return nil
	}
	ruleset, e := NewRuleset(unix.LandlockRulesetAttr{Handled_access_fs: rights})
	if e != 0 {
		return fmt.Errorf("landlock: make the rules: %w", e)
	}
	defer unix.Close(ruleset)
	for _, rule := range []struct {
		paths  []string
		access uint64
	}{{[]string{"/"}, read}, {dirs, read | write}, {devices, device}} {
		for _, path := range rule.paths {
			if err := allow(ruleset, path, rule.access&rights); err != nil {
				return fmt.Errorf("landlock: allow %s: %w", path, err)
			}
		}
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		// required of processes without capabilities
		return fmt.Errorf("landlock: %w", err)
	}
	if _, _, e := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, uintptr(ruleset), 0, 0); e != 0 {
		return fmt.Errorf("landlock: restrict: %w", e)
	}
	return nil
}

// allow adds a rule for a file, or for a directory and what is below it.
func allow(ruleset int, path string, access uint64) error {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	attr := unix.LandlockPathBeneathAttr{Allowed_access: access, Parent_fd: int32(fd)}
	if _, _, e := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(ruleset), unix.LANDLOCK_RULE_PATH_BENEATH,
		uintptr(unsafe.Pointer(&attr)), 0, 0, 0); e != 0 {
		return e
	}
	return nil
}

// Scope makes the ruleset for the command's process: it can signal, trace and reach by abstract sockets only what it
// began itself, so neither the init nor, in tier none, any other process of the same user. Since Linux 6.12 (ABI 6); -1
// where there is none.
func Scope() int {
	fd, e := NewRuleset(unix.LandlockRulesetAttr{
		Scoped: unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | unix.LANDLOCK_SCOPE_SIGNAL})
	if e != 0 {
		return -1
	}
	return fd
}

// NewRuleset returns a descriptor, closed on exec. An older kernel takes the attributes that it does not know if they
// are zero.
func NewRuleset(attr unix.LandlockRulesetAttr) (int, syscall.Errno) {
	fd, _, e := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr), 0)
	return int(fd), e
}
