package collect

import (
	"archive/zip"
	"bytes"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// TestRace: a script swaps a directory, a file and a FIFO with links to the secret, as fast as it can, while its
// directory is collected over and over. The secret never appears; the control, a walk by paths, leaks it.
func TestRace(t *testing.T) {
	dir, root := job(t)
	count := swapping(t, dir)
	leaks, walks := 0, 0
	for ; leaks == 0 && walks < 200_000 && !t.Failed(); walks++ {
		if bytes.Contains(naive(dir), []byte(secret)) {
			leaks++
		}
	}
	if leaks == 0 {
		t.Fatal("the control leaked nothing: the race is not a race")
	}
	changed, zips := 0, 0
	for end := count.Load() + int64(*swaps); count.Load() < end && !t.Failed(); zips++ {
		var b bytes.Buffer
		m, err := Zip(t.Context(), root, &b, Options{})
		must(t, err)
		if _, err := Verify(t.Context(), bytes.NewReader(b.Bytes()), int64(b.Len())); err != nil {
			t.Fatal(err)
		}
		for name, text := range contents(t, b.Bytes()) {
			if strings.Contains(text, secret) {
				t.Fatalf("the secret is in %s", name)
			}
		}
		for _, s := range m.Skipped {
			if strings.Contains(s.Why, "changed") {
				changed++
			}
		}
	}
	t.Logf("the control leaked in walk %d; %d ZIPs during %d swaps, %d times something was seen changing", walks,
		zips, *swaps, changed)
}

// swapping swaps what is in dir with links out of it until the test ends, and counts the rounds.
func swapping(t *testing.T, dir string) (count *atomic.Int64) {
	t.Helper()
	outside := filepath.Dir(dir)
	must(t, os.MkdirAll(filepath.Join(outside, "vault"), 0o700))
	for _, name := range []string{"a", "b", "c"} {
		put(t, outside, "vault/"+name, secret)
		put(t, dir, "swapped/"+name, "harmless")
	}
	put(t, dir, "file", "harmless")
	hidden := filepath.Join(outside, "others")
	must(t, os.Mkdir(hidden, 0o755))
	must(t, os.Symlink("../vault", filepath.Join(hidden, "swapped")))
	must(t, os.Symlink("../secret", filepath.Join(hidden, "file")))
	must(t, syscall.Mkfifo(filepath.Join(hidden, "fifo"), 0o644))
	put(t, dir, "fifo", "harmless")
	put(t, dir, "door/d/e", "harmless") // a directory that is a FIFO at times: an open of it must not wait
	must(t, syscall.Mkfifo(filepath.Join(hidden, "door"), 0o644))

	var stop atomic.Bool
	count = new(atomic.Int64)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for !stop.Load() {
			for _, name := range []string{"swapped", "file", "fifo", "door"} {
				if err := unix.Renameat2(unix.AT_FDCWD,
					filepath.Join(dir, name), unix.AT_FDCWD, filepath.Join(hidden, name),
					unix.RENAME_EXCHANGE); err != nil {
					t.Error(err)
					return
				}
			}
			count.Add(1)
		}
	}()
	t.Cleanup(func() { stop.Store(true); <-done })
	return count
}

// naive collects by paths: it checks the file of a path, then opens it.
func naive(dir string) []byte {
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return nil
		}
		f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
		if err != nil {
			return nil
		}
		defer f.Close()
		if w, err := z.CreateHeader(&zip.FileHeader{Name: path, Method: zip.Store}); err == nil {
			io.Copy(w, f)
		}
		return nil
	})
	z.Close()
	return b.Bytes()
}

// TestDevices: a device is never opened, nor what lies on another file system.
func TestDevices(t *testing.T) {
	dir, root := job(t)
	put(t, dir, "a", "alpha")
	want := 0
	if err := syscall.Mknod(filepath.Join(dir, "zero"), syscall.S_IFCHR|0o666, 1<<8|5); err == nil {
		want++ // as root; a script cannot
	}
	got, m := pack(t, root, Options{})
	if len(got) != 1 || len(m.Skipped) != want || want > 0 && m.Skipped[0] != (Skipped{"zero", "a device"}) {
		t.Errorf("%v, %+v", got, m)
	}
}

// TestBlockedOpenDir is the control for the "/." in visit: OpenRoot of a FIFO waits for a writer.
func TestBlockedOpenDir(t *testing.T) {
	dir, root := job(t)
	must(t, syscall.Mkfifo(filepath.Join(dir, "fifo"), 0o644))
	if _, err := root.OpenRoot("fifo/."); err == nil {
		t.Error("a FIFO was opened as a directory")
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if sub, err := root.OpenRoot("fifo"); err == nil {
			sub.Close()
		}
	}()
	for { // a writer without waiting gets in only when the reader above waits
		w, err := os.OpenFile(filepath.Join(dir, "fifo"), os.O_WRONLY|syscall.O_NONBLOCK, 0)
		if err == nil {
			w.Close()
			break
		}
		select {
		case <-done:
			t.Log("OpenRoot does not wait for a FIFO any more")
			return
		default:
		}
	}
	<-done
}
