package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/stagepost/stagepost/edge/sandbox/landlock"
)

func TestLandRights(t *testing.T) {
	for abi, want := range map[int]uint64{0: 0, 1: 0, 2: 1<<14 - 1, 3: 1<<15 - 1, 4: 1<<15 - 1, 5: 1<<16 - 1,
		6: 1<<16 - 1, 11: 1<<16 - 1} {
		if got := landlock.Rights(abi); got != want {
			t.Errorf("version %d: got %x, want %x", abi, got, want)
		}
	}
}

// restrictedThread runs f on a thread of its own that restrict holds; the thread ends with it, and the test's other
// threads stay free.
func restrictedThread(t *testing.T, dirs []string, f func()) {
	t.Helper()
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		err := landlock.Restrict(dirs, devicePaths())
		if err == nil {
			f()
		}
		done <- err
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

func TestRestrict(t *testing.T) {
	ours, theirs := t.TempDir(), t.TempDir()
	for _, dir := range []string{ours + "/a", ours + "/b", theirs + "/a"} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	kept := filepath.Join(theirs, "kept")
	writes := func(dir string) map[string]error {
		return map[string]error{
			"write":  os.WriteFile(dir+"/a/f", []byte("x"), 0o644),
			"mkdir":  os.Mkdir(dir+"/a/d", 0o755),
			"link":   os.Symlink("f", dir+"/a/l"),
			"remove": os.Remove(dir + "/a/l"),
		}
	}
	if err := os.WriteFile(kept, []byte("kept"), 0o644); err != nil {
		t.Fatal(err)
	}
	var want error // without Landlock nothing is refused
	if landlock.Rights(landlock.ABI()) != 0 {
		want = fs.ErrPermission
	}
	restrictedThread(t, []string{ours}, func() {
		for what, err := range writes(ours) {
			if err != nil {
				t.Errorf("%s where it may: got %v", what, err)
			}
		}
		if err := os.Rename(ours+"/a/f", ours+"/b/f"); err != nil {
			t.Errorf("move between directories: got %v", err)
		}
		if text, err := os.ReadFile(kept); err != nil || string(text) != "kept" {
			t.Errorf("read elsewhere: got %q, %v", text, err)
		}
		if err := os.WriteFile(os.DevNull, []byte("x"), 0); err != nil {
			t.Errorf("write to a device: got %v", err)
		}
		if want == nil {
			return
		}
		for what, err := range map[string]error{
			"write": os.WriteFile(theirs+"/a/f", nil, 0o644), "mkdir": os.Mkdir(theirs+"/a/d", 0o755),
			"remove": os.Remove(kept), "truncate": os.Truncate(kept, 0),
		} {
			if !errors.Is(err, want) && !(what == "truncate" && landlock.ABI() < 3) {
				t.Errorf("%s elsewhere: got %v, want %v", what, err, want)
			}
		}
	})
	for what, err := range writes(theirs) { // another thread, which is free: the rules refused, not the file system
		if err != nil {
			t.Errorf("%s on another thread: got %v", what, err)
		}
	}
}

// mostLayers is how many rulesets the kernel lets a thread have.
const mostLayers = 16

// layersLeft puts itself under rules until there may be no more, and counts them.
func layersLeft() int {
	runtime.LockOSThread()
	for n := 0; ; n++ {
		ruleset, e := landlock.NewRuleset(unix.LandlockRulesetAttr{
			Handled_access_fs: unix.LANDLOCK_ACCESS_FS_MAKE_CHAR})
		if e != 0 || unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != nil {
			return n
		}
		_, _, e = unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, uintptr(ruleset), 0, 0)
		_ = unix.Close(ruleset)
		if e != 0 {
			return n
		}
	}
}

// TestLayers counts the rules that a command is under: those of restrict, and those of scoped.
func TestLayers(t *testing.T) {
	each(t, func(t *testing.T, s *Sandbox, tier string) {
		abi := landlock.ABI()
		want := 0
		if abi > 0 {
			want = mostLayers
		}
		if tier != None && landlock.Rights(abi) != 0 {
			want--
		}
		if abi >= 6 {
			want--
		}
		g := shell(t, s, tier, "exec ./hostile "+hostileMarker+" layers", func(c *Command) { visit(t, c.Dir) })
		if g.out != fmt.Sprintln(want) {
			t.Errorf("got %q, want %d more layers (%q)", g.out, want, g.err)
		}
	})
}
