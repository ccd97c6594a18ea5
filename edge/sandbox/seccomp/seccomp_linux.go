package seccomp

import "golang.org/x/sys/unix"

// denied are the system calls that fail with EPERM. They reach parts of the kernel that no computation needs and that
// escapes were made of: mounts, namespaces, other processes' memory, keyrings, programs in the kernel, modules, clocks,
// handles of files. Calls that one architecture lacks are in its own file.
var denied = []uint32{
	unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_CHROOT, unix.SYS_MOVE_MOUNT, unix.SYS_OPEN_TREE,
	unix.SYS_OPEN_TREE_ATTR,
	unix.SYS_FSOPEN, unix.SYS_FSCONFIG, unix.SYS_FSMOUNT, unix.SYS_FSPICK, unix.SYS_MOUNT_SETATTR,
	unix.SYS_UNSHARE, unix.SYS_SETNS,
	unix.SYS_PTRACE, unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV, unix.SYS_PIDFD_GETFD, unix.SYS_KCMP,
	unix.SYS_KEYCTL, unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY,
	unix.SYS_BPF, unix.SYS_PERF_EVENT_OPEN, unix.SYS_USERFAULTFD,
	unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER,
	unix.SYS_KEXEC_LOAD, unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE,
	unix.SYS_REBOOT, unix.SYS_SWAPON, unix.SYS_SWAPOFF, unix.SYS_ACCT, unix.SYS_QUOTACTL, unix.SYS_QUOTACTL_FD,
	unix.SYS_SYSLOG, unix.SYS_VHANGUP,
	unix.SYS_OPEN_BY_HANDLE_AT, unix.SYS_NAME_TO_HANDLE_AT, unix.SYS_FANOTIFY_INIT,
	unix.SYS_CLOCK_SETTIME, unix.SYS_CLOCK_ADJTIME, unix.SYS_ADJTIMEX, unix.SYS_SETTIMEOFDAY, unix.SYS_SETHOSTNAME,
	unix.SYS_SETDOMAINNAME,
	unix.SYS_NFSSERVCTL, unix.SYS_LOOKUP_DCOOKIE, unix.SYS_MOVE_PAGES, unix.SYS_MIGRATE_PAGES,
}

// absent are calls that fail with ENOSYS: what they do is reported by a structure in memory that a filter cannot read,
// and libraries fall back to an older call that it can.
var absent = []uint32{unix.SYS_CLONE3, unix.SYS_OPENAT2}

// setIDs are the bits of a mode that would make files in Dir run as their owner on the machine.
const setIDs = unix.S_ISUID | unix.S_ISGID

const namespaces = unix.CLONE_NEWNS | unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWIPC |
	unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWTIME

const (
	eperm  = unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)
	enosys = unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)
)

// program is a seccomp filter while it is built; see seccomp(2) and the kernel's
// Documentation/userspace-api/seccomp_filter.rst.
type program []unix.SockFilter

// offsets in struct seccomp_data
const (
	offNumber = 0
	offArch   = 4
	offArgs   = 16
)

func (p *program) op(code uint16, k uint32, yes, no uint8) {
	*p = append(*p, unix.SockFilter{Code: code, Jt: yes, Jf: no, K: k})
}

func (p *program) load(offset uint32) { p.op(unix.BPF_LD|unix.BPF_W|unix.BPF_ABS, offset, 0, 0) }
func (p *program) answer(what uint32) { p.op(unix.BPF_RET|unix.BPF_K, what, 0, 0) }
func (p *program) arg(n uint32)       { p.load(offArgs + 8*n) } // its low half: both architectures are little-endian
func (p *program) and(mask uint32)    { p.op(unix.BPF_ALU|unix.BPF_AND|unix.BPF_K, mask, 0, 0) }
func (p *program) ifEqual(k uint32, skip uint8) {
	p.op(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, k, 0, skip)
}
func (p *program) ifAny(k uint32, skip uint8) {
	p.op(unix.BPF_JMP|unix.BPF_JSET|unix.BPF_K, k, 0, skip)
}

// refuse answers one call whatever its arguments are.
func (p *program) refuse(number, what uint32) {
	p.ifEqual(number, 1)
	p.answer(what)
}

// on puts the judgement of a call's arguments behind its number; what falls through is allowed. The number is loaded
// before and not needed after.
func (p *program) on(number uint32, check func(*program)) {
	var inner program
	check(&inner)
	inner.answer(unix.SECCOMP_RET_ALLOW)
	p.ifEqual(number, uint8(len(inner)))
	*p = append(*p, inner...)
}

// bits refuses a call if one of these bits is set in an argument.
func (p *program) bits(number, arg, mask uint32) {
	p.on(number, func(p *program) {
		p.arg(arg)
		p.ifAny(mask, 1)
		p.answer(eperm)
	})
}

// creates refuses to create a file with the bits of setIDs; without O_CREAT and O_TMPFILE the mode means nothing and
// may be anything.
func (p *program) creates(number, flags, mode uint32) {
	p.on(number, func(p *program) {
		p.arg(flags)
		p.ifAny(unix.O_CREAT|(unix.O_TMPFILE&^unix.O_DIRECTORY), 3)
		p.arg(mode)
		p.ifAny(setIDs, 1)
		p.answer(eperm)
	})
}

// Filter is the deny list for this machine's architecture; empty if there is none for it.
func Filter() []unix.SockFilter {
	if auditArch == 0 {
		return nil
	}
	var p program
	p.load(offArch)
	p.op(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, auditArch, 1, 0)
	p.answer(unix.SECCOMP_RET_KILL_PROCESS) // another ABI has other numbers
	p.load(offNumber)
	p.foreign()
	for _, n := range denied {
		p.refuse(n, eperm)
	}
	for _, n := range absent {
		p.refuse(n, enosys)
	}
	p.bits(unix.SYS_CLONE, 0, namespaces)
	p.on(unix.SYS_SOCKET, checkSocket)
	p.on(unix.SYS_IOCTL, func(p *program) {
		p.arg(1)
		p.ifEqual(unix.TIOCSTI, 1)
		p.answer(eperm)
		p.ifEqual(unix.TIOCLINUX, 1)
		p.answer(eperm)
	})
	p.bits(unix.SYS_FCHMOD, 1, setIDs)
	p.bits(unix.SYS_FCHMODAT, 2, setIDs)
	p.bits(unix.SYS_FCHMODAT2, 2, setIDs)
	p.bits(unix.SYS_MKNODAT, 2, setIDs)
	p.creates(unix.SYS_OPENAT, 2, 3)
	p.own()
	p.answer(unix.SECCOMP_RET_ALLOW)
	return p
}

// checkSocket allows AF_UNIX, AF_INET and AF_INET6 but no raw sockets, and of netlink the routes, which libraries read
// to list interfaces.
func checkSocket(p *program) {
	p.arg(0)
	p.ifEqual(unix.AF_UNIX, 1)
	p.answer(unix.SECCOMP_RET_ALLOW)
	p.ifEqual(unix.AF_NETLINK, 4)
	p.arg(2)
	p.ifEqual(unix.NETLINK_ROUTE, 1)
	p.answer(unix.SECCOMP_RET_ALLOW)
	p.answer(eperm)
	p.op(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, unix.AF_INET, 2, 0)
	p.op(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, unix.AF_INET6, 1, 0)
	p.answer(eperm)
	p.arg(1)
	p.and(0xf) // above it are flags
	p.ifEqual(unix.SOCK_RAW, 1)
	p.answer(eperm)
	p.ifEqual(unix.SOCK_PACKET, 1)
	p.answer(eperm)
}
