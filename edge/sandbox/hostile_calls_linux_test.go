package sandbox

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// call is a system call that an escape begins with.
type call struct {
	name string
	want syscall.Errno // in every tier
	try  func() error
}

// raw makes a call with arguments that the kernel would complain about in another way, were it let in.
func raw(number uintptr, args ...uintptr) func() error {
	return func() error {
		var a [6]uintptr
		copy(a[:], args)
		if _, _, e := syscall.RawSyscall6(number, a[0], a[1], a[2], a[3], a[4], a[5]); e != 0 {
			return e
		}
		return nil
	}
}

func openSocket(domain, kind, protocol int) func() error {
	return func() error {
		_, err := unix.Socket(domain, kind, protocol)
		return err
	}
}

// calls are tried in one process, one after the other.
var calls = []call{
	{"unshare user", unix.EPERM, func() error { return unix.Unshare(unix.CLONE_NEWUSER) }},
	{"unshare mount", unix.EPERM, func() error { return unix.Unshare(unix.CLONE_NEWNS) }},
	{"unshare nothing", unix.EPERM, func() error { return unix.Unshare(0) }},
	{"setns", unix.EPERM, raw(unix.SYS_SETNS, ^uintptr(0), 0)},
	{"clone a user namespace", unix.EPERM, raw(unix.SYS_CLONE, unix.CLONE_NEWUSER|uintptr(unix.SIGCHLD))},
	{"clone a network", unix.EPERM, raw(unix.SYS_CLONE, unix.CLONE_NEWNET|uintptr(unix.SIGCHLD))},
	{"clone3", unix.ENOSYS, raw(unix.SYS_CLONE3, 0, 0)},
	{"openat2", unix.ENOSYS, raw(unix.SYS_OPENAT2, 0, 0, 0, 0)},
	{"mount", unix.EPERM, func() error { return unix.Mount("tmpfs", ".", "tmpfs", 0, "") }},
	{"remount", unix.EPERM, func() error { return unix.Mount("", "/", "", unix.MS_REMOUNT|unix.MS_BIND, "") }},
	{"umount", unix.EPERM, func() error { return unix.Unmount("/proc", unix.MNT_DETACH) }},
	{"pivot_root", unix.EPERM, func() error { return unix.PivotRoot(".", ".") }},
	{"chroot", unix.EPERM, func() error { return unix.Chroot(".") }},
	{"open_tree", unix.EPERM, raw(unix.SYS_OPEN_TREE, 0, 0, 0)},
	{"move_mount", unix.EPERM, raw(unix.SYS_MOVE_MOUNT)},
	{"fsopen", unix.EPERM, raw(unix.SYS_FSOPEN)},
	{"mount_setattr", unix.EPERM, raw(unix.SYS_MOUNT_SETATTR)},
	{"ptrace the init", unix.EPERM, func() error { return unix.PtraceAttach(os.Getppid()) }},
	{"read another's memory", unix.EPERM, raw(unix.SYS_PROCESS_VM_READV, 1)},
	{"write another's memory", unix.EPERM, raw(unix.SYS_PROCESS_VM_WRITEV, 1)},
	{"take another's descriptor", unix.EPERM, raw(unix.SYS_PIDFD_GETFD)},
	{"keyctl", unix.EPERM, raw(unix.SYS_KEYCTL, 0)},
	{"add_key", unix.EPERM, raw(unix.SYS_ADD_KEY)},
	{"request_key", unix.EPERM, raw(unix.SYS_REQUEST_KEY)},
	{"bpf", unix.EPERM, raw(unix.SYS_BPF)},
	{"perf_event_open", unix.EPERM, raw(unix.SYS_PERF_EVENT_OPEN)},
	{"userfaultfd", unix.EPERM, raw(unix.SYS_USERFAULTFD)},
	{"io_uring", unix.EPERM, raw(unix.SYS_IO_URING_SETUP)},
	{"kexec", unix.EPERM, raw(unix.SYS_KEXEC_LOAD)},
	{"load a module", unix.EPERM, raw(unix.SYS_INIT_MODULE)},
	{"load a module file", unix.EPERM, raw(unix.SYS_FINIT_MODULE)},
	{"reboot", unix.EPERM, raw(unix.SYS_REBOOT)}, // without its magic numbers
	{"swapon", unix.EPERM, raw(unix.SYS_SWAPON)},
	{"acct", unix.EPERM, raw(unix.SYS_ACCT, 1)},
	{"quotactl", unix.EPERM, raw(unix.SYS_QUOTACTL, ^uintptr(0))},
	{"syslog", unix.EPERM, raw(unix.SYS_SYSLOG, 10)},
	{"open_by_handle_at", unix.EPERM, raw(unix.SYS_OPEN_BY_HANDLE_AT)},
	{"clock_settime", unix.EPERM, raw(unix.SYS_CLOCK_SETTIME)},
	{"adjtimex", unix.EPERM, raw(unix.SYS_ADJTIMEX)},
	{"sethostname", unix.EPERM, func() error { return unix.Sethostname([]byte("mine")) }},
	{"raw socket", unix.EPERM, openSocket(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP)},
	{"raw socket with flags", unix.EPERM, openSocket(unix.AF_INET6, unix.SOCK_RAW|unix.SOCK_CLOEXEC,
		unix.IPPROTO_ICMPV6)},
	{"packet socket", unix.EPERM, openSocket(unix.AF_PACKET, unix.SOCK_DGRAM, 0)},
	{"audit", unix.EPERM, openSocket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_AUDIT)},
	{"netfilter", unix.EPERM, openSocket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_NETFILTER)},
	{"vsock", unix.EPERM, openSocket(unix.AF_VSOCK, unix.SOCK_STREAM, 0)},
	{"kernel crypto", unix.EPERM, openSocket(unix.AF_ALG, unix.SOCK_SEQPACKET, 0)},
	{"TIOCSTI", unix.EPERM, raw(unix.SYS_IOCTL, 0, unix.TIOCSTI)},
	{"TIOCSTI with a high half", unix.EPERM, raw(unix.SYS_IOCTL, 0, 1<<32|unix.TIOCSTI)},
	{"TIOCLINUX", unix.EPERM, raw(unix.SYS_IOCTL, 0, unix.TIOCLINUX)},
	{"device", unix.EPERM, func() error { return unix.Mknod("device", unix.S_IFCHR|0o600, 1<<8|1) }},
	{"setuid bit", unix.EPERM, func() error {
		return errors.Join(os.WriteFile("f", nil, 0o600), unix.Chmod("f", 0o4755))
	}},
	{"setgid bit", unix.EPERM, func() error { return unix.Fchmodat(unix.AT_FDCWD, "f", 0o2755, 0) }},
	{"setuid bit, fchmodat2", unix.EPERM, raw(unix.SYS_FCHMODAT2, 0, 0, 0o4755)},
	{"setuid bit when created", unix.EPERM, func() error {
		_, err := unix.Open("g", unix.O_CREAT|unix.O_WRONLY, 0o4755)
		return err
	}},
	{"setuid bit of a nameless file", unix.EPERM, func() error {
		_, err := unix.Open(".", unix.O_TMPFILE|unix.O_WRONLY, 0o4755)
		return err
	}},
	{"setuid bit of a device", unix.EPERM, func() error { return unix.Mknod("h", unix.S_IFREG|0o4755, 0) }},
	{"give a file away", unix.EPERM, func() error {
		err := os.Lchown("f", 4711, 4711)
		if errors.Is(err, unix.EINVAL) { // there is no such user in the namespace
			return unix.EPERM
		}
		return err
	}},
	{"raise a limit", unix.EPERM, func() error {
		return unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{Cur: 1 << 30, Max: 1 << 30})
	}},
	{"become faster than others", unix.EACCES, func() error { return unix.Setpriority(unix.PRIO_PROCESS, 0, -20) }},
	// Controls: what programs need is let in.
	{"tcp", 0, openSocket(unix.AF_INET, unix.SOCK_STREAM, 0)},
	{"udp 6", 0, openSocket(unix.AF_INET6, unix.SOCK_DGRAM, 0)},
	{"unix socket", 0, openSocket(unix.AF_UNIX, unix.SOCK_STREAM, 0)},
	{"routes", 0, openSocket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE)},
	{"chmod", 0, func() error { return unix.Chmod("f", 0o1755) }},
	{"open with a mode that means nothing", 0, raw(unix.SYS_OPENAT, ^uintptr(99), uintptr(unsafe.Pointer(&here[0])),
		unix.O_RDONLY, 0o4755)},
	{"fork", 0, func() error { return exec.Command("/bin/true").Run() }},
}

var here = []byte(".\x00")

// callsMain prints what comes of each call.
func callsMain() {
	runtime.LockOSThread()
	for _, c := range calls {
		err := c.try()
		var errno syscall.Errno
		if !errors.As(err, &errno) && err != nil {
			fmt.Printf("%s: %v\n", c.name, err)
			continue
		}
		fmt.Printf("%s: %d\n", c.name, int(errno))
	}
}

// visit links or copies the test program into a directory.
func visit(t *testing.T, dir string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(dir, "hostile")
	if os.Link(self, to) == nil && os.Geteuid() != 0 {
		return
	}
	_ = os.Remove(to)
	text, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, text, 0o755); err != nil {
		t.Fatal(err)
	}
}

func TestCallsAreRefused(t *testing.T) {
	each(t, func(t *testing.T, s *Sandbox, tier string) {
		g := shell(t, s, tier, "./hostile "+hostileMarker+" calls", func(c *Command) { visit(t, c.Dir) })
		lines := strings.Split(g.out, "\n")
		for _, c := range calls {
			if want := fmt.Sprintf("%s: %d", c.name, int(c.want)); !slices.Contains(lines, want) {
				t.Errorf("want %q in %q %q %+v", want, g.out, g.err, g.Ending)
				return
			}
		}
	})
}

// TestCallsAreOpen is the control: without a sandbox most of these calls are answered in another way.
func TestCallsAreOpen(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"clone3", "openat2", "take another's descriptor", "add_key", "setuid bit, fchmodat2",
		"TIOCSTI", "unshare nothing"} {
		i := slices.IndexFunc(calls, func(c call) bool { return c.name == name })
		cmd := exec.Command(self, hostileMarker, "call", name)
		cmd.Dir = t.TempDir()
		out, err := cmd.Output()
		if err != nil || string(out) == fmt.Sprintf("%s: %d\n", name, int(calls[i].want)) {
			t.Errorf("%s: got %q, %v, want something else", name, out, err)
		}
	}
}

// TestForeignNumbers calls by another ABI's numbers, which the list does not have.
func TestForeignNumbers(t *testing.T) {
	if runtime.GOARCH != "amd64" { // there is no other ABI that shares the architecture's name
		return
	}
	each(t, func(t *testing.T, s *Sandbox, tier string) {
		g := shell(t, s, tier, "exec ./hostile "+hostileMarker+" x32", func(c *Command) { visit(t, c.Dir) })
		if g.Signal != "SIGSYS" {
			t.Errorf("got %+v, want SIGSYS", g.Ending)
		}
	})
}
