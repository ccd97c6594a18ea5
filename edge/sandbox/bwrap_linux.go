package sandbox

import (
	"os"
	"path/filepath"
	"strconv"
)

// initPath is where bubblewrap shows this program to be the init.
const initPath = "/.stagepost-init"

// shownPaths are what bubblewrap shows beside the system's directories, at the paths where it finds it.
type shownPaths struct {
	dir, self string
	binds     []string // in the order of the plan
}

// bubblewrap gives the arguments that make the same surroundings as buildRoot: see bwrap(1). texts are the files that
// it reads from descriptors, from first on.
func bubblewrap(p *plan, shown *shownPaths, first int) (args []string, texts []string) {
	args = []string{
		"--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try",
		"--die-with-parent", "--as-pid-1",
		"--uid", strconv.Itoa(workUID), "--gid", strconv.Itoa(workUID), "--hostname", "job", "--cap-drop", "ALL",
		"--clearenv", "--setenv", "GOMAXPROCS", "1",
	}
	if p.Network == networkNone {
		args = append(args, "--unshare-net")
	}
	for _, dir := range systemDirs {
		if to, err := os.Readlink(dir); err == nil {
			args = append(args, "--symlink", to, dir)
		} else {
			args = append(args, "--ro-bind-try", dir, dir)
		}
	}
	names := etcFiles
	if p.Network == networkHost {
		names = append(names, hostNetworkFiles...)
	}
	for _, name := range names {
		// What does not exist is asked here: bubblewrap would fail on a link that leads nowhere.
		if full, err := filepath.EvalSymlinks("/etc/" + name); err == nil {
			args = append(args, "--ro-bind-try", full, "/etc/"+name)
		}
	}
	texts = []string{passwd(jobDir), group()}
	args = append(args, "--ro-bind-data", strconv.Itoa(first), "/etc/passwd", "--ro-bind-data", strconv.Itoa(first+1),
		"/etc/group")
	args = append(args, "--proc", "/proc")
	for _, name := range masked {
		if _, err := os.Lstat("/proc/" + name); err == nil {
			args = append(args, "--ro-bind", "/dev/null", "/proc/"+name)
		}
	}
	args = append(args, "--remount-ro", "/proc", "--dir", "/dev")
	for _, name := range devices {
		args = append(args, "--dev-bind", "/dev/"+name, "/dev/"+name)
	}
	for _, name := range []string{"fd", "stdin", "stdout", "stderr"} {
		args = append(args, "--symlink", devLinks[name], "/dev/"+name)
	}
	for _, at := range []string{"/dev/shm", "/tmp"} {
		if args = append(args, "--perms", "1777"); p.Scratch > 0 {
			args = append(args, "--size", strconv.FormatInt(p.Scratch+scratchSlack, 10))
		}
		args = append(args, "--tmpfs", at)
	}
	args = append(args, "--dir", "/run", "--dir", "/var", "--symlink", "/tmp", "/var/tmp", "--bind", shown.dir, jobDir)
	for i, b := range p.Binds {
		args = append(args, "--ro-bind", shown.binds[i], b.To)
	}
	args = append(args, "--ro-bind", shown.self, initPath, "--remount-ro", "/", "--chdir", jobDir, "--", initPath,
		marker)
	return args, texts
}
