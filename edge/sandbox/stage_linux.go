package sandbox

import (
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// stageMarker is the first argument of this program when it prepares what bubblewrap shows to the command of a caller
// that is root.
const stageMarker = "__stagepost-sandbox-stage"

// stage is the last thing that a process of root does for a command in tier bwrap: in a mount namespace of its own it
// mounts what the command's user could not reach by its path, becomes that user, and executes bubblewrap. So neither
// bubblewrap nor the command ever has the id of root.
type stage struct {
	ID      uint32
	Trees   []stageTree
	Program string
	Args    []string
}

// stageTree is a detached mount to be mounted below newRoot.
type stageTree struct {
	FD    int
	To    string
	Attrs uint64
}

// openStage opens what is shown to the command, and reports where bubblewrap finds it.
func (r *running) openStage() (*stage, shownPaths, error) {
	if err := r.openBinds(); err != nil {
		return nil, shownPaths{}, err
	}
	shown := shownPaths{dir: newRoot + jobDir, self: newRoot + initPath}
	s := &stage{ID: r.id.host, Trees: []stageTree{{FD: r.plan.DirTree, To: jobDir}}}
	for i := range r.plan.Binds {
		b := &r.plan.Binds[i]
		to := "/bind" + strconv.Itoa(i)
		shown.binds = append(shown.binds, newRoot+to)
		s.Trees = append(s.Trees, stageTree{b.Tree, to, readOnly})
	}
	fd, err := unix.OpenTree(unix.AT_FDCWD, r.s.self, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return nil, shown, fmt.Errorf("show %s: %w", r.s.self, err)
	}
	r.files = append(r.files, os.NewFile(uintptr(fd), r.s.self))
	s.Trees = append(s.Trees, stageTree{controlFD + len(r.files) - 1, initPath, readOnly})
	return s, shown, nil
}

func (s *stage) encode() (string, error) {
	text, err := json.Marshal(s)
	return string(text), err
}

// runStage never returns. What fails is written to the standard error output, which is the command's.
func runStage(text string) {
	runtime.LockOSThread()
	s := &stage{}
	err := json.Unmarshal([]byte(text), s)
	if err == nil {
		err = s.run()
	}
	_, _ = fmt.Fprintln(os.Stderr, "prepare bubblewrap:", err)
	syscall.Exit(1)
}

func (s *stage) run() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("detach from the machine's mounts: %w", err)
	}
	if err := unix.Mount("tmpfs", newRoot, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV,
		"size=1m,nr_inodes=4096,mode=755"); err != nil {
		return fmt.Errorf("mount the stage: %w", err)
	}
	for _, t := range s.Trees {
		if err := (tree{t.FD, t.To, t.Attrs}).mountAt(); err != nil {
			return err
		}
	}
	id := int(s.ID)
	if err := syscall.Setgroups(nil); err != nil {
		return fmt.Errorf("drop the groups: %w", err)
	}
	if err := syscall.Setresgid(id, id, id); err != nil {
		return fmt.Errorf("become the command's group: %w", err)
	}
	if err := syscall.Setresuid(id, id, id); err != nil {
		return fmt.Errorf("become the command's user: %w", err)
	}
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		// the kernel forgot it with the user
		return err
	}
	return fmt.Errorf("execute %s: %w", s.Program, syscall.Exec(s.Program, s.Args, []string{}))
}
