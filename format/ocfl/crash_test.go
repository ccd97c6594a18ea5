package ocfl

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var errCrash = errors.New("the process has crashed")

// crashKind is the effect of a crash on an operation.
type crashKind int

const (
	crashBefore crashKind = iota // it was not done
	crashAfter                   // it was done, and nothing after it
	crashTorn                    // a write was half done
)

// powerLoss is what the disk loses in addition to the crash of the process.
type powerLoss int

const (
	powerStays powerLoss = iota
	// files that were not synced are empty; renames whose directory was not synced did not happen
	losesUnsynced
	losesOldestMove // the same, but only the oldest such rename did not happen: a disk may reorder them
)

// crashOps is a fileOps that counts its operations, crashes at one of them, and records what was not synced.
type crashOps struct {
	disk diskOps
	dir  string
	stop int // number of the operation that crashes; 0: never
	kind crashKind

	ops   []string
	dead  bool
	files map[string]*bool // created file -> was it synced
	moves []move           // renames whose directory was not synced, oldest first
	sets  []*orderedSet

	ignoreSync    bool // controls: as if the code had forgotten to sync
	ignoreSyncDir bool
}

type move struct {
	from, to string
	replaced []byte // content of the file that was at to
	hadFile  bool
	exchange bool // both directories
}

func (w *crashOps) op(name string, do func() error) error {
	if w.dead {
		return errCrash
	}
	w.ops = append(w.ops, name)
	if len(w.ops) == w.stop {
		w.dead = true
		if w.kind == crashBefore || (w.kind == crashTorn && !strings.HasPrefix(name, "write")) {
			return errCrash
		}
		if err := do(); err != nil {
			return err
		}
		return errCrash
	}
	return do()
}

func (w *crashOps) Mkdir(name string) error {
	return w.op("mkdir "+name, func() error { return w.disk.Mkdir(name) })
}

func (w *crashOps) Create(name string) (syncFile, error) {
	var f syncFile
	err := w.op("create "+name, func() (err error) { f, err = w.disk.Create(name); return err })
	if err != nil {
		if f != nil {
			f.Close()
		}
		return nil, err
	}
	synced := new(bool)
	w.files[name] = synced
	return &crashFile{w, f, name, synced}, nil
}

func (w *crashOps) Rename(from, to string) error {
	return w.op("rename "+from+" "+to, func() error {
		m := move{from: from, to: to}
		if data, err := os.ReadFile(filepath.Join(w.dir, to)); err == nil {
			m.replaced, m.hadFile = data, true
		}
		if err := w.disk.Rename(from, to); err != nil {
			return err
		}
		moved := map[string]*bool{}
		for name, synced := range w.files {
			if name == from || strings.HasPrefix(name, from+"/") {
				name = to + strings.TrimPrefix(name, from)
			}
			moved[name] = synced
		}
		w.files = moved
		for _, set := range w.sets {
			for i, dir := range set.dirs {
				if dir == from || strings.HasPrefix(dir, from+"/") {
					set.dirs[i] = to + strings.TrimPrefix(dir, from)
				}
			}
		}
		for i, earlier := range w.moves {
			if strings.HasPrefix(earlier.to, from+"/") {
				w.moves[i].to = to + strings.TrimPrefix(earlier.to, from)
			}
		}
		w.moves = append(w.moves, m)
		return nil
	})
}

func (w *crashOps) Exchange(a, b string) error {
	return w.op("exchange "+a+" "+b, func() error {
		if err := w.disk.Exchange(a, b); err != nil {
			return err
		}
		swap := func(name string) string {
			for from, to := range map[string]string{a: b, b: a} {
				if strings.HasPrefix(name, from+"/") {
					return to + strings.TrimPrefix(name, from)
				}
			}
			return name
		}
		files := map[string]*bool{}
		for name, synced := range w.files {
			files[swap(name)] = synced
		}
		w.files = files
		for i := range w.moves {
			w.moves[i].from, w.moves[i].to = swap(w.moves[i].from), swap(w.moves[i].to)
		}
		w.moves = append(w.moves, move{from: a, to: b, exchange: true})
		return nil
	})
}

func (w *crashOps) Remove(name string) error {
	return w.op("remove "+name, func() error { return w.disk.Remove(name) })
}

func (w *crashOps) RemoveAll(name string) error {
	return w.op("removeall "+name, func() error { return w.disk.RemoveAll(name) })
}

func (w *crashOps) SyncDir(name string) error {
	return w.op("syncdir "+name, func() error {
		if !w.ignoreSyncDir {
			w.moves = slices.DeleteFunc(w.moves, func(m move) bool { return path.Dir(m.to) == name })
		}
		return nil
	})
}

func (w *crashOps) Within(string) (fileOps, error) { return w, nil }

func (w *crashOps) Leave() {}

func (w *crashOps) Set() syncSet { return w.setOn(w) }

// setOn gives a set whose syncs are operations of ops, which is w or wraps it.
func (w *crashOps) setOn(ops fileOps) *orderedSet {
	set := &orderedSet{ops: ops}
	w.sets = append(w.sets, set)
	return set
}

// orderedSet syncs nothing before Sync, and then one after the other in the order in which they were added: files,
// then directories.
type orderedSet struct {
	ops   fileOps
	files []syncFile
	dirs  []string
}

func (s *orderedSet) File(f syncFile, _ int64) error {
	s.files = append(s.files, f)
	return nil
}

func (s *orderedSet) Dir(name string) error {
	if !slices.Contains(s.dirs, name) {
		s.dirs = append(s.dirs, name)
	}
	return nil
}

func (s *orderedSet) Sync() error {
	files, dirs := s.files, s.dirs
	s.files, s.dirs = nil, nil
	var err error
	for _, f := range files {
		if err == nil {
			err = f.Sync()
		}
		err = errors.Join(err, f.Close())
	}
	for _, dir := range dirs {
		if err == nil {
			err = s.ops.SyncDir(dir)
		}
	}
	return err
}

func (s *orderedSet) Close() error {
	for _, f := range s.files {
		f.Close()
	}
	s.files = nil
	return nil
}

type crashFile struct {
	w      *crashOps
	f      syncFile
	name   string
	synced *bool
}

func (f *crashFile) Write(p []byte) (int, error) {
	n := len(p)
	err := f.w.op("write "+f.name, func() error {
		part := p
		if f.w.dead && f.w.kind == crashTorn {
			part = p[:len(p)/2]
		}
		_, err := f.f.Write(part)
		return err
	})
	if err != nil {
		n = 0
	}
	return n, err
}

func (f *crashFile) Sync() error {
	return f.w.op("sync "+f.name, func() error { *f.synced = !f.w.ignoreSync; return nil })
}

func (f *crashFile) Close() error {
	f.f.Close()
	return nil
}

// lose makes the directory as it is after a power failure.
func (w *crashOps) lose(t *testing.T, loss powerLoss) {
	t.Helper()
	if loss == powerStays {
		return
	}
	for name, synced := range w.files {
		full := filepath.Join(w.dir, name)
		if _, err := os.Stat(full); err == nil && !*synced {
			if err := os.Truncate(full, 0); err != nil {
				t.Fatal(err)
			}
		}
	}
	undo := slices.Clone(w.moves)
	slices.Reverse(undo)
	if loss == losesOldestMove && len(undo) > 1 {
		undo = undo[len(undo)-1:]
	}
	for _, m := range undo {
		if m.exchange {
			if err := w.disk.Exchange(m.from, m.to); err != nil {
				os.RemoveAll(filepath.Join(w.dir, m.to)) // the other one is gone
			}
			continue
		}
		from, to := filepath.Join(w.dir, m.from), filepath.Join(w.dir, m.to)
		if os.Rename(to, from) != nil {
			os.RemoveAll(to) // its old directory is gone: then nothing names it
		}
		if m.hadFile {
			if err := os.WriteFile(to, m.replaced, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
}

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

// TestFailureLeavesNothing fails each operation once while the process lives on: the call returns an error or has
// done its work, and cleans up behind itself.
func TestFailureLeavesNothing(t *testing.T) {
	for _, s := range scenarios {
		_, w := crash(t, s, 0, crashBefore, powerStays, nil)
		for stop := 1; stop <= len(w.ops); stop++ {
			r, _ := crash(t, s, 0x7fffffff, crashBefore, powerStays,
				func(r *Root, w *crashOps) { r.ops = &flaky{crashOps: w, at: stop} })
			if err := settle(t, r, s, crashKey.Stage); err != nil {
				t.Errorf("%s, failure at %q: %v", s.name, w.ops[stop-1], err)
			}
		}
	}
}

// flaky is crashOps in which one operation fails and the later ones succeed.
type flaky struct {
	*crashOps
	at, n int
}

var errDisk = errors.New("no space left on device")

func (f *flaky) hit() bool { f.n++; return f.n == f.at }

func (f *flaky) Mkdir(name string) error {
	if f.hit() {
		return errDisk
	}
	return f.crashOps.Mkdir(name)
}

func (f *flaky) Create(name string) (syncFile, error) {
	if f.hit() {
		return nil, errDisk
	}
	file, err := f.crashOps.Create(name)
	return &flakyFile{f, file}, err
}

func (f *flaky) Rename(from, to string) error {
	if f.hit() {
		return errDisk
	}
	return f.crashOps.Rename(from, to)
}

func (f *flaky) SyncDir(name string) error {
	if f.hit() {
		return errDisk
	}
	return f.crashOps.SyncDir(name)
}

func (f *flaky) Within(string) (fileOps, error) { return f, nil }

func (f *flaky) Set() syncSet { return f.setOn(f) }

type flakyFile struct {
	f *flaky
	syncFile
}

func (f *flakyFile) Write(p []byte) (int, error) {
	if f.f.hit() {
		return 0, errDisk
	}
	return f.syncFile.Write(p)
}

func (f *flakyFile) Sync() error {
	if f.f.hit() {
		return errDisk
	}
	return f.syncFile.Sync()
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
