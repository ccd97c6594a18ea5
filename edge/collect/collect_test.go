package collect

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var (
	vast  = flag.Bool("vast", false, "really pack and verify a sparse file of 5 GB")
	swaps = flag.Int("swaps", 100_000, "how often the race test swaps directory and link while it collects")
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// job is a directory as a script leaves it, with a directory outside of it that has a secret.
func job(t testing.TB) (dir string, root *os.Root) {
	t.Helper()
	outside := t.TempDir()
	must(t, os.WriteFile(filepath.Join(outside, "secret"), []byte(secret), 0o600))
	dir = filepath.Join(outside, "job")
	must(t, os.Mkdir(dir, 0o755))
	return dir, openRoot(t, dir)
}

const secret = "THE-SECRET-OF-ANOTHER-USER"

func openRoot(t testing.TB, dir string) *os.Root {
	t.Helper()
	root, err := os.OpenRoot(dir)
	must(t, err)
	t.Cleanup(func() { root.Close() })
	return root
}

func put(t testing.TB, dir, name, text string) {
	t.Helper()
	path := filepath.Join(dir, name)
	must(t, os.MkdirAll(filepath.Dir(path), 0o755))
	must(t, os.WriteFile(path, []byte(text), 0o644))
}

// pack zips and checks the result with three programs: Verify, the standard library, and unzip.
func pack(t testing.TB, root *os.Root, o Options) (map[string]string, Manifest) {
	t.Helper()
	var b bytes.Buffer
	m, err := Zip(t.Context(), root, &b, o)
	must(t, err)
	return checkWith(t, b.Bytes()), m
}

func checkWith(t testing.TB, data []byte) map[string]string {
	t.Helper()
	if _, err := Verify(t.Context(), bytes.NewReader(data), int64(len(data))); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "x.zip")
	must(t, os.WriteFile(file, data, 0o600))
	unzip(t, file)
	return contents(t, data)
}

// unzip has Info-ZIP's program test a file; it is what users have. It calls a ZIP without entries an error.
func unzip(t testing.TB, file string) {
	t.Helper()
	out, err := exec.Command("unzip", "-tqq", file).CombinedOutput()
	if err != nil && !strings.Contains(string(out), "zipfile is empty") {
		t.Fatalf("unzip: %v\n%.1000s", err, out)
	}
}

// contents gives what each entry holds; of a directory its mode, of a link "-> target".
func contents(t testing.TB, data []byte) map[string]string {
	t.Helper()
	z, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	must(t, err)
	got := map[string]string{}
	for _, f := range z.File {
		r, err := f.Open()
		must(t, err)
		b, err := io.ReadAll(r)
		must(t, err)
		if _, twice := got[f.Name]; twice {
			t.Errorf("%q is there twice", f.Name)
		}
		switch {
		case f.Mode().IsDir():
			got[f.Name] = f.Mode().String()
		case f.Mode()&fs.ModeSymlink != 0:
			got[f.Name] = "-> " + string(b)
		default:
			got[f.Name] = string(b)
		}
	}
	return got
}

func TestZipEverything(t *testing.T) {
	dir, root := job(t)
	put(t, dir, "a.txt", "alpha")
	put(t, dir, "sub/deep/b", strings.Repeat("b", 300_000))
	put(t, dir, "a..b", "dots")
	put(t, dir, "文件.txt", "unicode")
	put(t, dir, "empty", "")
	put(t, dir, ".orchestrator.exit", "0")
	must(t, os.Mkdir(filepath.Join(dir, "hollow"), 0o750))
	// stored
	links := map[string]string{"in": "a.txt", "sub/up": "../a.txt", "dangling": "nowhere", "todir": "sub/deep",
		"self": "self",
		// not
		"out": "../secret", "abs": "/etc/passwd", "sub/far": "../../secret", "round": "sub/../a.txt", "odd": "a\nb"}
	for name, target := range links {
		must(t, os.Symlink(target, filepath.Join(dir, name)))
	}
	must(t, syscall.Mkfifo(filepath.Join(dir, "fifo"), 0o644))
	sock, err := net.Listen("unix", filepath.Join(dir, "sock"))
	must(t, err)
	defer sock.Close()
	blocked := blocks(t, filepath.Join(dir, "fifo"))

	got, m := pack(t, root, Options{})
	want := map[string]string{"a.txt": "alpha", "sub/": "drwxr-xr-x", "sub/deep/": "drwxr-xr-x",
		"sub/deep/b": strings.Repeat("b", 300_000),
		"a..b":       "dots", "文件.txt": "unicode", "empty": "", ".orchestrator.exit": "0", "hollow/": "drwxr-x---",
		"in": "-> a.txt", "sub/up": "-> ../a.txt", "dangling": "-> nowhere", "todir": "-> sub/deep", "self": "-> self"}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	outside := func(target string) string { return "a link to " + target + ", which leads out of the directory" }
	wantM := Manifest{Files: 11, Bytes: 5 + 300_000 + 4 + 7 + 1 + 5 + 8 + 7 + 8 + 4, Skipped: []Skipped{
		{"abs", outside("/etc/passwd")}, {"fifo", "a FIFO"},
		{"odd", "a link to a\\nb, which has a target that cannot be stored"},
		{"out", outside("../secret")}, {"round", outside("sub/../a.txt")}, {"sock", "a socket"},
		{"sub/far", outside("../../secret")}}}
	if d := cmp.Diff(wantM, m); d != "" {
		t.Error(d)
	}
	select {
	case <-blocked: // the control: a simple open of the FIFO blocks indefinitely
		t.Error("opening the FIFO did not wait")
	default:
	}
}

// blocks opens a FIFO as one opens a file; the channel closes when that has come to an end.
func blocks(t *testing.T, fifo string) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		if f, err := os.Open(fifo); err == nil {
			f.Close()
		}
	}()
	t.Cleanup(func() {
		for { // until there is a reader to let go
			w, err := os.OpenFile(fifo, os.O_WRONLY|syscall.O_NONBLOCK, 0)
			if err == nil {
				w.Close()
				break
			}
			runtime.Gosched()
		}
		<-done
	})
	return done
}

func TestZipModesAndTimes(t *testing.T) {
	dir, root := job(t)
	put(t, dir, "run", "x")
	must(t, os.Chmod(filepath.Join(dir, "run"), 0o755|fs.ModeSetuid|fs.ModeSetgid))
	put(t, dir, "old", "x")
	put(t, dir, "now", "x")
	put(t, dir, "late", "x")
	times := map[string]time.Time{"old": time.Unix(-1_000_000_000, 0), "now": time.Unix(1_700_000_001, 0),
		"late": time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC)}
	for name, at := range times {
		must(t, os.Chtimes(filepath.Join(dir, name), at, at))
	}
	var b bytes.Buffer
	put(t, dir, "d/in", "x")
	put(t, dir, "d/other", "x")
	must(t, os.Chmod(filepath.Join(dir, "d/in"), 0o600))
	must(t, os.Chmod(filepath.Join(dir, "d/other"), 0o600)) // the control
	must(t, os.Chmod(filepath.Join(dir, "d"), 0o700))
	_, err := Zip(t.Context(), root, &b,
		Options{Modes: map[string]fs.FileMode{"d/in": 0o755, "d": 0o777, "nothing": 0o777, "in": 0o777}})
	must(t, err)
	checkWith(t, b.Bytes())
	files, more, err := Entries(t.Context(), bytes.NewReader(b.Bytes()), int64(b.Len()), 10)
	must(t, err)
	got := map[string]string{}
	for _, f := range files {
		got[f.Name] = f.Mode.String()
		if f.Name != "run" && !strings.HasPrefix(f.Name, "d") {
			got[f.Name] += " " + f.MTime.UTC().Format(time.DateTime)
		}
	}
	want := map[string]string{"run": "-rwxr-xr-x", "old": "-rw-r--r-- 1980-01-01 00:00:00",
		"now":  "-rw-r--r-- 2023-11-14 22:13:21",
		"late": "-rw-r--r-- 2107-12-31 23:59:58", "d": "drwx------", "d/in": "-rwxr-xr-x", "d/other": "-rw-------"}
	if d := cmp.Diff(want, got); d != "" || more {
		t.Error(d, more)
	}
}

func TestZipExtra(t *testing.T) {
	dir, root := job(t)
	put(t, dir, "stdout", "forged")
	put(t, dir, "stdout~1", "there already")
	put(t, dir, "exit.json/x", "a directory of this name")
	text := func(s string) func() (io.ReadCloser, error) {
		return func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(s)), nil }
	}
	missing := func() (io.ReadCloser, error) { return nil, fs.ErrNotExist }
	got, m := pack(t, root, Options{Extra: []Extra{{"stdout", text("real")}, {"exit.json", text("{}")},
		{"stderr", missing}}})
	want := map[string]string{"stdout": "real", "exit.json": "{}", "stdout~1": "forged", "stdout~1~1": "there already",
		"exit.json~1/": "drwxr-xr-x", "exit.json~1/x": "a directory of this name"}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	wantM := Manifest{Files: 5, Bytes: 4 + 2 + 6 + 13 + 24,
		Skipped: []Skipped{{"stderr", "vanished while it was collected"}},
		Renamed: []Renamed{{"exit.json", "exit.json~1"}, {"stdout", "stdout~1"}, {"stdout~1", "stdout~1~1"}}}
	if d := cmp.Diff(wantM, m); d != "" {
		t.Error(d)
	}
	broken := func() (io.ReadCloser, error) { return nil, errors.New("disk on fire") }
	for name, extra := range map[string][]Extra{"fire": {{"x", broken}}, "twice": {{"x", text("")}, {"x", text("")}},
		"name to store": {{"../x", text("")}}} {
		if _, err := Zip(t.Context(), root, io.Discard, Options{Extra: extra}); err == nil ||
			!strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestZipLeaves(t *testing.T) {
	dir, root := job(t)
	put(t, dir, "run.sh", "echo")
	put(t, dir, "data/in.csv", "1,2")
	put(t, dir, "new", "result")
	put(t, dir, "cache/x", "skipped")
	leave := map[string]Digest{"run.sh": sha256.Sum256([]byte("echo")), "data/in.csv": sha256.Sum256([]byte("1,3")),
		"gone": {}}
	o := Options{Leave: leave, Skip: func(name string) bool { return name == "cache" }}
	got, m := pack(t, root, o)
	if d := cmp.Diff(map[string]string{"data/": "drwxr-xr-x", "data/in.csv": "1,2", "new": "result"}, got); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(Manifest{Files: 2, Bytes: 9}, m); d != "" {
		t.Error(d)
	}
}

func TestZipLimits(t *testing.T) {
	dir, root := job(t)
	for i := range 10 {
		put(t, dir, fmt.Sprint("f", i), strings.Repeat("x", 100*i))
	}
	got, m := pack(t, root, Options{MaxFiles: 4})
	if len(got) != 4 || len(m.Skipped) != 6 || m.Skipped[0] != (Skipped{"f4", "more than 4 files"}) {
		t.Errorf("%d files, %+v", len(got), m)
	}
	got, m = pack(t, root, Options{MaxBytes: 1050})
	if len(got) != 5 || m.Bytes != 1000 || len(m.Skipped) != 5 || !strings.Contains(m.Skipped[0].Why, "1050") {
		t.Errorf("%d files, %+v", len(got), m)
	}
	for i := range 3 * mostListed { // the manifest is bounded, and so is the walk
		must(t, os.Symlink("/", filepath.Join(dir, fmt.Sprint("link", i))))
	}
	_, m = pack(t, root, Options{})
	if len(m.Skipped) != mostListed || m.SkippedMore != 2*mostListed {
		t.Errorf("%d listed, %d more", len(m.Skipped), m.SkippedMore)
	}
	_, m = pack(t, root, Options{MaxFiles: 20})
	if n := len(m.Skipped) + m.SkippedMore; n > 2*20+mostListed+1 {
		t.Errorf("visited %d entries", n)
	}
}

// TestZipSparse: a sparse file of 5 GB is bounded by MaxBytes and by the context.
func TestZipSparse(t *testing.T) {
	dir, root := job(t)
	put(t, dir, "a", "kept")
	put(t, dir, "sparse", "")
	must(t, os.Truncate(filepath.Join(dir, "sparse"), 5<<30))
	put(t, dir, "z", "kept too")
	got, m := pack(t, root, Options{MaxBytes: 1 << 20})
	if len(got) != 2 || len(m.Skipped) != 1 || m.Skipped[0].Name != "sparse" {
		t.Errorf("%v %+v", got, m)
	}
	// The context ends while the sparse file is being written: on the first write after its header.
	for name, o := range map[string]Options{"stored": {}, "compared": {Leave: map[string]Digest{"sparse": {}}}} {
		ctx, cancel := context.WithCancelCause(t.Context())
		cause := errors.New("the user has gone")
		if name == "compared" {
			o.Skip = func(n string) bool {
				if n == "sparse" {
					go cancel(cause)
				}
				return false
			}
		}
		_, err := Zip(ctx, root, writeFunc(func(p []byte) (int, error) {
			if bytes.Contains(p, []byte("sparse")) {
				cancel(cause)
			}
			return len(p), nil
		}), o)
		if !errors.Is(err, cause) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

type writeFunc func(p []byte) (int, error)

func (f writeFunc) Write(p []byte) (int, error) { return f(p) }

// TestZipChangingFiles: files that grow and shrink while they are read are stored as they were read.
func TestZipChangingFiles(t *testing.T) {
	dir, root := job(t)
	random := make([]byte, 1<<20) // does not shrink by packing, so that writes come while it is being read
	for i := range random {
		random[i] = byte(i * i >> 7)
	}
	put(t, dir, "grow", string(random))
	put(t, dir, "shrink", string(random))
	var b bytes.Buffer
	m, err := Zip(t.Context(), root, writeFunc(func(p []byte) (int, error) {
		switch { // the headers are written when the file is open
		case bytes.Contains(p, []byte("grow")):
			f, err := os.OpenFile(filepath.Join(dir, "grow"), os.O_APPEND|os.O_WRONLY, 0)
			must(t, err)
			f.Write(random)
			f.Close()
		case bytes.Contains(p, []byte("shrink")):
			must(t, os.Truncate(filepath.Join(dir, "shrink"), 1000))
		}
		return b.Write(p)
	}), Options{})
	must(t, err)
	got := checkWith(t, b.Bytes())
	if len(got["grow"]) != 1<<20 || len(got["shrink"]) != 1000 || m.Bytes != 1<<20+1000 {
		t.Errorf("grow %d, shrink %d, %+v", len(got["grow"]), len(got["shrink"]), m)
	}
}

// TestZipFailures: the disk below the ZIP, and the directory itself.
func TestZipFailures(t *testing.T) {
	dir, root := job(t)
	put(t, dir, "d/a", strings.Repeat("x", 1000))
	full := errors.New("no space left")
	for fail := range 8 {
		n := 0
		_, err := Zip(t.Context(), root, writeFunc(func(p []byte) (int, error) {
			if n++; n > fail {
				return 0, full
			}
			return len(p), nil
		}), Options{})
		if !errors.Is(err, full) {
			t.Errorf("failing at write %d: %v", fail, err)
		}
	}
	closed, err := os.OpenRoot(dir)
	must(t, err)
	closed.Close()
	if _, err := Zip(t.Context(), closed, io.Discard, Options{}); err == nil {
		t.Error("a closed directory was collected")
	}
}

// TestZipManyFiles: 100,000 files take little memory, and zip64's form of the end.
func TestZipManyFiles(t *testing.T) {
	_, root := job(t)
	const count = 100_000
	for i := range count {
		f, err := root.OpenFile(fmt.Sprintf("result-number-%06d.txt", i), os.O_CREATE|os.O_WRONLY, 0o644)
		must(t, err)
		f.Close()
	}
	zipped := filepath.Join(t.TempDir(), "x.zip")
	out, err := os.Create(zipped)
	must(t, err)
	defer out.Close()
	writes, peak, base := 0, uint64(0), heap()
	m, err := Zip(t.Context(), root, writeFunc(func(p []byte) (int, error) {
		if writes++; writes%20_000 == 0 {
			peak = max(peak, heap()-base)
		}
		return out.Write(p)
	}), Options{})
	must(t, err)
	if m.Files != count || len(m.Skipped) != 0 {
		t.Errorf("%+v", m)
	}
	size, _ := out.Seek(0, io.SeekEnd)
	l, err := Verify(t.Context(), out, size)
	must(t, err)
	if l.Files != count {
		t.Errorf("%+v", l)
	}
	t.Logf("%d files: %.1f MB more on the heap, a ZIP of %.1f MB", count, float64(peak)/1e6, float64(size)/1e6)
	if peak > 24<<20 || peak == 0 {
		t.Errorf("%.1f MB more on the heap", float64(peak)/1e6)
	}
	unzip(t, zipped)
}

func heap() uint64 {
	runtime.GC()
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return s.HeapAlloc
}
