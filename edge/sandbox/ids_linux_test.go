package sandbox

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"
)

// lending is a sandbox as on a file system whose mounts cannot map ids.
func lending(t *testing.T) *Sandbox {
	t.Helper()
	s := ungrouped(t)
	s.lends = true
	return s
}

// hostUser gives the user of a process as the machine sees it.
func hostUser(t *testing.T, pid int) (uid int) {
	t.Helper()
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err == nil {
		_, after, _ := strings.Cut(string(text), "\nUid:")
		_, err = fmt.Sscan(after, &uid)
	}
	if err != nil {
		t.Error(err)
	}
	return uid
}

// TestUserIDs: a command of root runs as a user that owns nothing on the machine, in each tier and however its
// directory is shown to it. It reads and writes its own files, and none of root's that others may not read, neither by
// their path nor shown to it. Commands of other users have the caller's id.
func TestUserIDs(t *testing.T) {
	dir, err := os.MkdirTemp("", "stagepost-ids-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	key, public := filepath.Join(dir, "key"), filepath.Join(dir, "public")
	for name, mode := range map[string]os.FileMode{key: 0o600, public: 0o644} {
		if err := os.WriteFile(name, []byte(filepath.Base(name)), mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	root := os.Geteuid() == 0
	each(t, func(t *testing.T, mapped *Sandbox, tier string) {
		for name, s := range map[string]*Sandbox{"mapped": mapped, "lent": lending(t)} {
			if name == "lent" && !root {
				continue
			}
			t.Run(name, func(t *testing.T) {
				shownKey, shownPublic := "/opt/key", "/opt/public"
				if tier == None {
					shownKey, shownPublic = key, public
				}
				work := filepath.Join(t.TempDir(), "work")
				if err := os.Mkdir(work, 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(work, "given"), []byte("given "), 0o600); err != nil {
					t.Fatal(err)
				}
				var pid, uid atomic.Int64
				uid.Store(-1)
				script := fmt.Sprintf("cat given; cat %s; cat %s %s || echo ' no'; echo x > made; mkdir d; echo y > d/f; ln made twice; chmod 0 d; read x", shownPublic, shownKey, key)
				hold, release, err := os.Pipe()
				if err != nil {
					t.Fatal(err)
				}
				var out strings.Builder
				g := shell(t, s, tier, script, func(c *Command) {
					c.Dir, c.Stdin, c.Started = work, hold, func(p int) { pid.Store(int64(p)) }
					c.Stdout = notify(func(text string) {
						out.WriteString(text)
						if uid.Load() < 0 && strings.Contains(out.String(), "given") {
							uid.Store(int64(hostUser(t, int(pid.Load()))))
							_ = release.Close()
						}
					})
					if tier != None {
						c.Binds = []Bind{{key, shownKey}, {public, shownPublic}}
					}
				})
				defer hold.Close()
				if g.Exit != 0 && g.Exit != 1 {
					t.Fatalf("got %+v, %q", g.Ending, g.err)
				}
				if !root {
					if int(uid.Load()) != os.Geteuid() {
						t.Errorf("it ran as %d, want the caller", uid.Load())
					}
					return
				}
				if uid.Load() < 1<<16-1<<13 {
					t.Errorf("on the machine it ran as user %d, want one that owns nothing there", uid.Load())
				}
				if out.String() != "given public no\n" {
					t.Errorf("got %q, %q: want its own file and what all users may read", out.String(), g.err)
				}
				for _, name := range []string{".", "given", "made", "d", "d/f"} {
					var st unix.Stat_t
					if err := unix.Lstat(filepath.Join(work, name), &st); err != nil || name != "made" && st.Uid != 0 {
						t.Errorf("%s belongs to %d, %v, want the caller", name, st.Uid, err)
					}
				}
			})
		}
	})
}

// TestLentFilesOfOthers: what has a second name elsewhere is given to no one with a directory.
func TestLentFilesOfOthers(t *testing.T) {
	if os.Geteuid() != 0 {
		return // no one else lends
	}
	dir, outside := t.TempDir(), filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(outside, []byte("hunter2"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(outside, filepath.Join(dir, "linked")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	s := lending(t)
	for _, tier := range tiers(t) {
		g := shell(t, s, tier, "cat linked || echo no", func(c *Command) { c.Dir = dir })
		if g.out != "no\n" {
			t.Errorf("%s: got %q", tier, g.out)
		}
	}
	var st unix.Stat_t
	if err := unix.Lstat(outside, &st); err != nil || st.Uid != 0 {
		t.Errorf("got %d, %v", st.Uid, err)
	}
}

// TestNoCommandOfRoot: without ids to give away, root has no tier at all.
func TestNoCommandOfRoot(t *testing.T) {
	if os.Geteuid() != 0 {
		return
	}
	s := ungrouped(t)
	s.ids.close()
	s.ids = nil
	for _, tier := range tiers(t) {
		if _, err := s.run(t.Context(), tier, &Command{Argv: []string{"true"}, Dir: t.TempDir()}); err == nil ||
			!strings.Contains(err.Error(), "another user") {
			t.Errorf("%s: got %v, want a refusal with a remedy", tier, err)
		}
	}
	if err := s.pick(t.Context(), Auto); err == nil {
		t.Error("a tier was found")
	}
}
