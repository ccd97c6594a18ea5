package ocfl

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// scenario is what happens before the crash and what is done again after it.
type scenario struct {
	name  string
	exist bool // the object has a v1 already
}

var scenarios = []scenario{{"new object", false}, {"second version", true}}

var (
	crashFirst  = version("first", text("a", "A"), text("dir/b", "B"))
	crashSecond = version("second", text("a", "A"), text("dir/c", "C"), text("dir/deep/d", "D"), text("copy", "C"))
	crashKey    = Options{Stage: "job7.1", Key: "job7", Fixity: []string{MD5}}
)

// crash runs AddVersion on crashOps until the crash, loses what loss defines, and returns a new root on the same
// directory.
func crash(t *testing.T, s scenario, stop int, kind crashKind, loss powerLoss, prepare func(*Root, *crashOps)) (*Root,
	*crashOps) {
	t.Helper()
	dir := memoryDir(t)
	write(t, dir, "0=ocfl_1.1", "ocfl_1.1\n")
	write(t, dir, layoutFile, `{"extension":"`+LayoutExtension+`","description":"`+layoutDescription+`"}`)
	write(t, dir, extensionsDir+"/"+LayoutExtension+"/config.json", `{"extensionName":"`+LayoutExtension+`"}`)
	r, err := OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	if s.exist {
		r.ops = quiet(r, dir)
		add(t, r, testID, crashFirst, Options{Stage: "earlier"})
	}
	w := quiet(r, dir)
	w.stop, w.kind = stop, kind
	r.ops = w
	if prepare != nil {
		prepare(r, w)
	}
	_, err = r.AddVersion(t.Context(), testID, crashSecond, crashKey)
	if stop == 0 && err != nil {
		t.Fatalf("without a crash: %v", err)
	}
	w.lose(t, loss)
	after, err := OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { after.Close() })
	after.ops = quiet(r, dir)
	return after, w
}

// memoryDir is in memory if the system has such a directory: these tests bring their own idea of a disk, and a real
// one makes them wait.
func memoryDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "ocfl")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// quiet returns crashOps that never crash and do not wait for the disk.
func quiet(r *Root, dir string) *crashOps {
	return &crashOps{disk: diskOps{r.dir}, dir: dir, files: map[string]*bool{}}
}

// settle does the same again and gives what is wrong then.
func settle(t *testing.T, r *Root, s scenario, stage string) error {
	t.Helper()
	want := "v1"
	if s.exist {
		want = "v2"
	}
	// At once after the crash a reader finds the object as before or with the version complete.
	o, err := r.Object(testID)
	switch {
	case errors.Is(err, ErrNotFound) && !s.exist:
	case err != nil:
		return fmt.Errorf("reader after the crash: %w", err)
	default:
		if _, err := r.VerifyVersion(t.Context(), testID, o.Head()); err != nil {
			return fmt.Errorf("reader after the crash: %w", err)
		}
	}
	o2 := crashKey
	o2.Stage = stage
	added, err := r.AddVersion(t.Context(), testID, crashSecond, o2)
	if err != nil {
		return fmt.Errorf("again: %w", err)
	}
	if added.Version != want {
		return fmt.Errorf("again: version %s, want %s", added.Version, want)
	}
	if _, err := r.Sweep(); err != nil {
		return err
	}
	if _, err := r.VerifyVersion(t.Context(), testID, want); err != nil {
		return err
	}
	report, err := Validate(t.Context(), r.dir.Name())
	if err != nil {
		return err
	}
	for _, p := range append(report.Errors, report.Warnings...) {
		return fmt.Errorf("%s (of %d)", p, len(report.Errors)+len(report.Warnings))
	}
	o, err = r.Object(testID)
	if err != nil || o.Head() != want {
		return fmt.Errorf("head %v, want %s", o, want)
	}
	if left, err := r.Stages(); err != nil || len(left) > 0 {
		return fmt.Errorf("stages %v, %v", left, err)
	}
	if _, err := os.Lstat(filepath.Join(r.dir.Name(), stagingDir)); err == nil {
		return errors.New("the directory of stages is left")
	}
	return nil
}

func TestCrashEverywhere(t *testing.T) {
	runs := 0
	for _, s := range scenarios {
		_, w := crash(t, s, 0, crashBefore, powerStays, nil)
		for stop := 1; stop <= len(w.ops); stop++ {
			for _, kind := range []crashKind{crashBefore, crashAfter, crashTorn} {
				if kind == crashTorn && !strings.HasPrefix(w.ops[stop-1], "write") {
					continue
				}
				for _, loss := range []powerLoss{powerStays, losesUnsynced, losesOldestMove} {
					if kind == crashBefore && loss != powerStays {
						continue // the disk is as after the operation before
					}
					stage := crashKey.Stage
					if stop%2 == 0 {
						stage = "job7.2" // the next attempt has a stage of its own
					}
					r, _ := crash(t, s, stop, kind, loss, nil)
					if err := settle(t, r, s, stage); err != nil {
						t.Errorf("%s, crash %d at %q (%d/%d): %v", s.name, kind, w.ops[stop-1], stop, loss, err)
					}
					runs++
				}
			}
		}
		t.Logf("%s: %d operations", s.name, len(w.ops))
	}
	t.Logf("%d crashes", runs)
}

// TestKillThenPowerCut: a process is killed at each operation, another one repeats the call, and then the power is cut.
// The second call has confirmed the version, also where the first one had committed it and synced nothing after that.
func TestKillThenPowerCut(t *testing.T) {
	for _, s := range scenarios {
		_, w := crash(t, s, 0, crashBefore, powerStays, nil)
		for stop := 1; stop <= len(w.ops); stop++ {
			after, w := crash(t, s, stop, crashAfter, powerStays, nil)
			w.dead, w.stop = false, 0
			after.ops = w
			again := crashKey
			again.Stage = "job7.2"
			added, err := after.AddVersion(t.Context(), testID, crashSecond, again)
			if err != nil {
				t.Fatal(err)
			}
			w.lose(t, losesUnsynced)
			if _, err := after.VerifyVersion(t.Context(), testID, added.Version); err != nil {
				t.Errorf("%s, killed at %q: %v", s.name, w.ops[stop-1], err)
			}
		}
	}
}

// TestCrashControls breaks the code on purpose: the enumeration above must notice.
func TestCrashControls(t *testing.T) {
	second := scenarios[1]
	inventoryFirst := func(r *Root, _ *crashOps) {
		r.reorder = func(s []step) []step { return []step{s[1], s[0], s[2]} }
	}
	for _, test := range []struct {
		name    string
		loss    powerLoss
		prepare func(*Root, *crashOps)
	}{
		{"inventory before the version directory", powerStays, inventoryFirst},
		{"files are not synced", losesUnsynced, func(_ *Root, w *crashOps) { w.ignoreSync = true }},
		{"directories are not synced", losesOldestMove, func(_ *Root, w *crashOps) { w.ignoreSyncDir = true }},
	} {
		_, w := crash(t, second, 0, crashBefore, powerStays, test.prepare)
		stop, noticed := len(w.ops), error(nil)
		for ; stop > 0 && noticed == nil; stop-- { // the end is where the promotion is
			r, _ := crash(t, second, stop, crashAfter, test.loss, test.prepare)
			noticed = settle(t, r, second, crashKey.Stage)
		}
		if noticed == nil {
			t.Errorf("%s: not noticed", test.name)
		}
		t.Logf("%s: noticed at operation %d of %d: %v", test.name, stop+1, len(w.ops), noticed)
	}
}

func TestRecover(t *testing.T) {
	r, dir := newRoot(t)
	add(t, r, testID, crashFirst, Options{})
	add(t, r, testID, crashSecond, Options{Stage: "s"})
	home := filepath.Join(dir, r.Path(testID))
	write(t, home, "v3/content/x", "left over")
	v1, err := os.ReadFile(filepath.Join(home, "v1/inventory.json.sha512"))
	if err != nil {
		t.Fatal(err)
	}
	write(t, home, "inventory.json.sha512", string(v1))
	got, err := r.Recover(t.Context(), testID, "s")
	if err != nil || !got.Sidecar || !slices.Equal(got.Removed, []string{"v3"}) {
		t.Errorf("got %+v, %v", got, err)
	}
	mustValidate(t, dir)

	// Without the proof in the head's own directory nothing is repaired.
	write(t, home, "inventory.json.sha512", string(v1))
	write(t, home, "v2/inventory.json.sha512", string(v1))
	if _, err := r.Recover(t.Context(), testID, "s"); !errors.Is(err, ErrCorrupt) {
		t.Errorf("without proof: got %v, want ErrCorrupt", err)
	}
	if _, err := r.AddVersion(t.Context(), testID, crashFirst, Options{Stage: "s"}); !errors.Is(err, ErrCorrupt) {
		t.Errorf("add to a corrupt object: got %v, want ErrCorrupt", err)
	}
	if _, err := r.Recover(t.Context(), "none", "s"); !errors.Is(err, ErrNotFound) {
		t.Errorf("no object: %v", err)
	}
}
