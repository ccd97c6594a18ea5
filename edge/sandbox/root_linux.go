package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/stagepost/stagepost/edge/disk"
)

const (
	// workUID is the user and group of every command, as it sees itself.
	workUID = 1000
	// newRoot is where the new root is put together; nothing of the machine's is touched, as the mounts are this
	// process's alone.
	newRoot  = "/tmp"
	readOnly = unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV
)

// systemDirs are shown as they are, or as the links that they are on systems that keep everything in /usr.
var systemDirs = []string{"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"}

// etcFiles are shown of /etc: what programs need to find libraries, certificates, names and the time. Nothing among
// them is secret; /etc/ssl and /etc/pki as wholes hold keys.
var etcFiles = []string{
	"alternatives", "bash.bashrc", "ca-certificates", "crypto-policies", "default/locale", "fonts", "gai.conf", "hosts",
	"inputrc", "java-17-openjdk", "java-21-openjdk", "ld.so.cache",
	"ld.so.conf", "ld.so.conf.d", "locale.alias", "locale.conf", "localtime", "magic", "magic.mime", "mime.types",
	"nsswitch.conf", "papersize", "perl", "pki/ca-trust/extracted",
	"pki/tls/cert.pem", "pki/tls/certs", "profile", "profile.d", "protocols", "python3", "R", "services", "shells",
	"ssl/certs", "ssl/openssl.cnf", "terminfo", "timezone",
}

// hostNetworkFiles are shown as well when the command has the machine's network.
var hostNetworkFiles = []string{"resolv.conf"}

// devices are the only ones.
var devices = []string{"null", "zero", "full", "random", "urandom"}

// masked are files of /proc that report about the machine.
var masked = []string{"kcore", "keys", "kmsg", "kallsyms", "sysrq-trigger", "timer_list", "sched_debug", "slabinfo"}

func passwd(home string) string {
	return fmt.Sprintf("root:x:0:0:root:/:/usr/sbin/nologin\n"+
		"job:x:%d:%d:job:%s:/bin/sh\n"+
		"nobody:x:65534:65534:nobody:/:/usr/sbin/nologin\n", workUID, workUID, home)
}

func group() string { return fmt.Sprintf("root:x:0:\njob:x:%d:\nnogroup:x:65534:\n", workUID) }

// tree is a detached mount.
type tree struct {
	fd    int
	to    string // absolute, in the new root
	attrs uint64
}

// buildRoot makes the root that the command sees and enters it. All that comes from the machine is opened before
// anything is covered.
func buildRoot(p *plan) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("detach from the machine's mounts: %w", err)
	}
	links, trees, err := openTrees(p)
	if err != nil {
		return err
	}
	if err := unix.Mount("tmpfs", newRoot, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV,
		"size=1m,nr_inodes=4096,mode=755"); err != nil {
		return fmt.Errorf("mount the root: %w", err)
	}
	for _, dir := range []string{"/proc", "/dev", "/tmp", "/run", "/var", "/etc", jobDir} {
		if err := os.MkdirAll(newRoot+dir, 0o755); err != nil {
			return err
		}
	}
	for from, to := range links {
		if err := os.Symlink(to, newRoot+from); err != nil {
			return err
		}
	}
	for name, text := range map[string]string{"/etc/passwd": passwd(jobDir), "/etc/group": group()} {
		if err := os.WriteFile(newRoot+name, []byte(text), 0o644); err != nil {
			return err
		}
	}
	for _, t := range trees {
		if err := t.mountAt(); err != nil {
			return err
		}
	}
	if err := mountOwn(p.Scratch); err != nil {
		return err
	}
	if err := enterRoot(); err != nil {
		return err
	}
	if p.Network == networkNone {
		return loopback()
	}
	return nil
}

// openTrees opens everything of the machine that is shown. A name that does not exist there is left out, unless the
// caller asked for it.
func openTrees(p *plan) (links map[string]string, trees []tree, err error) {
	links = map[string]string{"/var/tmp": "/tmp"}
	for _, dir := range systemDirs {
		if to, err := os.Readlink(dir); err == nil {
			links[dir] = to
			continue
		}
		if trees, err = openTree(trees, dir, dir, readOnly, true); err != nil {
			return nil, nil, err
		}
	}
	names := etcFiles
	if p.Network == networkHost {
		names = append(names, hostNetworkFiles...)
	}
	for _, name := range names {
		if trees, err = openTree(trees, "/etc/"+name, "/etc/"+name, readOnly, true); err != nil {
			return nil, nil, err
		}
	}
	for _, name := range devices { // nodev would close them
		if trees, err = openTree(trees, "/dev/"+name, "/dev/"+name, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NOEXEC,
			false); err != nil {
			return nil, nil, err
		}
	}
	for _, b := range p.Binds {
		if b.Tree > 0 {
			trees = append(trees, tree{b.Tree, b.To, readOnly})
		} else if trees, err = openTree(trees, b.From, b.To, readOnly, false); err != nil {
			return nil, nil, err
		}
	}
	if p.DirTree > 0 {
		return links, append(trees, tree{p.DirTree, jobDir, 0}), nil // the agent set its attributes
	}
	trees, err = openTree(trees, p.Dir, jobDir, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV, false)
	return links, trees, err
}

func openTree(trees []tree, from, to string, attrs uint64, optional bool) ([]tree, error) {
	fd, err := unix.OpenTree(unix.AT_FDCWD, from, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
	if optional && (errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission)) {
		return trees, nil
	}
	if err != nil {
		return nil, fmt.Errorf("show %s: %w", from, err)
	}
	return append(trees, tree{fd, to, attrs}), nil
}

// mountAt mounts a tree in the new root and closes it.
func (t tree) mountAt() error {
	defer unix.Close(t.fd)
	var st unix.Stat_t
	if err := unix.Fstat(t.fd, &st); err != nil {
		return fmt.Errorf("show %s: %w", t.to, err)
	}
	at := newRoot + t.to
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		if err := os.MkdirAll(at, 0o755); err != nil {
			return fmt.Errorf("show %s: %w", t.to, err)
		}
	} else if err := touch(at); err != nil {
		return fmt.Errorf("show %s: %w", t.to, err)
	}
	if t.attrs != 0 {
		if err := unix.MountSetattr(t.fd, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE,
			&unix.MountAttr{Attr_set: t.attrs}); err != nil {
			return fmt.Errorf("protect %s: %w", t.to, err)
		}
	}
	if err := unix.MoveMount(t.fd, "", unix.AT_FDCWD, at, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return fmt.Errorf("mount %s: %w", t.to, err)
	}
	return nil
}

// touch makes an empty file to mount on, if there is none.
func touch(name string) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	if _, err := os.Lstat(name); err == nil {
		return nil
	}
	return os.WriteFile(name, nil, 0o644)
}

// scratchSlack is what a tmpfs holds beyond the limit, in bytes, so that a full one is seen to be beyond it.
const scratchSlack = 64 << 10

// scratchOptions bound a tmpfs in bytes and in files.
func scratchOptions(size int64) string {
	if size <= 0 {
		return "mode=1777"
	}
	size += scratchSlack
	return "mode=1777,size=" + strconv.FormatInt(size, 10) + ",nr_inodes=" + strconv.FormatInt(size/disk.EntryBytes, 10)
}

// mountOwn mounts what is new: /proc, the rest of /dev, /tmp.
func mountOwn(scratch int64) error {
	if err := unix.Mount("proc", newRoot+"/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mount /proc: %w", err)
	}
	for _, name := range masked {
		err := unix.Mount(newRoot+"/dev/null", newRoot+"/proc/"+name, "", unix.MS_BIND, "")
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("mask /proc/%s: %w", name, err)
		}
	}
	for name, to := range devLinks {
		if err := os.Symlink(to, newRoot+"/dev/"+name); err != nil {
			return err
		}
	}
	if err := os.Mkdir(newRoot+"/dev/shm", 0o755); err != nil {
		return err
	}
	for _, dir := range []string{"/dev/shm", "/tmp"} {
		if err := unix.Mount("tmpfs", newRoot+dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV,
			scratchOptions(scratch)); err != nil {
			return fmt.Errorf("mount %s: %w", dir, err)
		}
	}
	// What is writable in /proc is the machine's settings, and other processes.
	if err := unix.MountSetattr(unix.AT_FDCWD, newRoot+"/proc", 0, &unix.MountAttr{Attr_set: readOnly}); err != nil {
		return fmt.Errorf("protect /proc: %w", err)
	}
	return nil
}

var devLinks = map[string]string{"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1",
	"stderr": "/proc/self/fd/2"}

// enterRoot makes the new root the only one there is, and read-only.
func enterRoot() error {
	if err := unix.Chdir(newRoot); err != nil {
		return err
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("pivot: %w", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("leave the machine's root: %w", err)
	}
	if err := unix.Chdir("/"); err != nil {
		return err
	}
	if err := unix.MountSetattr(unix.AT_FDCWD, "/", 0, &unix.MountAttr{Attr_set: readOnly}); err != nil {
		return fmt.Errorf("protect the root: %w", err)
	}
	return unix.Sethostname([]byte("job"))
}

// loopback brings the namespace's own lo up; programs talk to themselves by it.
func loopback() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("bring lo up: %w", err)
	}
	defer unix.Close(fd)
	lo, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	lo.SetUint16(unix.IFF_UP)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, lo); err != nil {
		return fmt.Errorf("bring lo up: %w", err)
	}
	return nil
}
