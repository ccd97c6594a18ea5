package collect

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
)

func list(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	must(t, err)
	names := []string{}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func TestZipFile(t *testing.T) {
	dir, root := job(t)
	put(t, dir, "a", "alpha")
	store := t.TempDir()
	into := openRoot(t, store)
	put(t, store, "old.zip", "old")
	must(t, os.Symlink("old.zip", filepath.Join(store, "link.zip")))
	for _, name := range []string{"old.zip", "link.zip", "sub/new.zip"} {
		if name == "sub/new.zip" {
			must(t, os.Mkdir(filepath.Join(store, "sub"), 0o755))
		}
		r, err := ZipFile(t.Context(), root, into, name, Options{})
		must(t, err)
		data, err := os.ReadFile(filepath.Join(store, name))
		must(t, err)
		if r.Bytes != int64(len(data)) || r.SHA256 != sha256.Sum256(data) || r.Manifest.Files != 1 {
			t.Errorf("%s: %+v", name, r)
		}
		if d := cmp.Diff(map[string]string{"a": "alpha"}, checkWith(t, data)); d != "" {
			t.Error(d)
		}
	}
	if info, err := os.Lstat(filepath.Join(store, "link.zip")); err != nil || !info.Mode().IsRegular() {
		t.Errorf("a planted link was followed: %v, %v", info.Mode(), err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := ZipFile(ctx, root, into, "old.zip", Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	for _, name := range []string{"", ".", "../x", "/x", "a/../b", ".collect-x", "nowhere/x"} {
		if _, err := ZipFile(t.Context(), root, into, name, Options{}); err == nil {
			t.Errorf("stored as %q", name)
		}
	}
	if d := cmp.Diff([]string{"link.zip", "old.zip", "sub"}, list(t, store)); d != "" {
		t.Error(d)
	}
	if data, _ := os.ReadFile(filepath.Join(store, "old.zip")); len(data) < 100 {
		t.Error("the old file was lost by a failure")
	}
	// In the directory itself, against the advice: still without itself.
	if _, err := ZipFile(t.Context(), root, root, "output.zip", Options{}); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(dir, "output.zip"))
	must(t, err)
	if d := cmp.Diff(map[string]string{"a": "alpha"}, checkWith(t, data)); d != "" {
		t.Error(d)
	}
}

func TestReceive(t *testing.T) {
	store := t.TempDir()
	into := openRoot(t, store)
	text := strings.Repeat("results ", 100_000)
	digest := Digest(sha256.Sum256([]byte(text)))
	other := Digest{1}
	n := int64(len(text))
	cut := errors.New("connection reset")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	cases := []struct {
		name string
		ctx  context.Context
		src  io.Reader
		want Expect
		max  int64
		err  error
	}{
		{"all stated", t.Context(), strings.NewReader(text), Expect{n, &digest}, n, nil},
		{"nothing stated", t.Context(), strings.NewReader(text), Expect{Bytes: -1}, 0, nil},
		{"byte by byte", t.Context(), iotest.OneByteReader(strings.NewReader("abc")), Expect{Bytes: 3}, 0, nil},
		{"last bytes with EOF", t.Context(), iotest.DataErrReader(strings.NewReader(text)), Expect{n, &digest}, 0, nil},
		{"short", t.Context(), strings.NewReader(text[1:]), Expect{n, nil}, 0, ErrLength},
		{"long", t.Context(), strings.NewReader(text), Expect{n - 1, nil}, 0, ErrLength},
		{"endless", t.Context(), endless{}, Expect{n, nil}, 0, ErrLength},
		{"altered", t.Context(), strings.NewReader(text), Expect{n, &other}, 0, ErrDigest},
		{"too large", t.Context(), endless{}, Expect{Bytes: -1}, n, ErrTooLarge},
		{"announced too large", t.Context(), endless{}, Expect{Bytes: n}, n - 1, ErrTooLarge},
		{"cut", t.Context(), io.MultiReader(strings.NewReader(text[:1000]), iotest.ErrReader(cut)), Expect{Bytes: -1},
			0, cut},
		{"cancelled", ended, endless{}, Expect{Bytes: -1}, 0, context.Canceled},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			r, err := Receive(c.ctx, c.src, into, "r.zip", c.want, c.max)
			if !errors.Is(err, c.err) || (err == nil) != (c.err == nil) {
				t.Fatalf("got %v, want %v", err, c.err)
			}
			data, readErr := os.ReadFile(filepath.Join(store, "r.zip"))
			if err != nil {
				if names := list(t, store); len(names) != 0 {
					t.Errorf("%v stayed", names)
				}
				return
			}
			if readErr != nil || r.Bytes != int64(len(data)) || r.SHA256 != sha256.Sum256(data) {
				t.Errorf("%+v, %v", r, readErr)
			}
			must(t, os.Remove(filepath.Join(store, "r.zip")))
		})
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

func TestSweep(t *testing.T) {
	store := t.TempDir()
	for _, name := range []string{temporary + "AAAA", temporary + "BBBB", "kept.zip", ".kept"} {
		put(t, store, name, "x")
	}
	must(t, Sweep(openRoot(t, store)))
	if d := cmp.Diff([]string{".kept", "kept.zip"}, list(t, store)); d != "" {
		t.Error(d)
	}
}

// TestSwapped: the open file is the one that was checked, or the open fails.
func TestSwapped(t *testing.T) {
	dir, root := job(t)
	put(t, dir, "a", "alpha")
	put(t, dir, "b", "beta")
	info, err := root.Lstat("a")
	must(t, err)
	must(t, os.Remove(filepath.Join(dir, "a")))
	must(t, os.Symlink("b", filepath.Join(dir, "a"))) // inside, so that os.Root alone would follow it
	if f, err := root.Open("a"); err != nil {
		t.Error("the control: os.Root does not follow")
	} else {
		f.Close()
	}
	if f, _, err := open(root, "a", info); err == nil {
		f.Close()
		t.Error("a link was followed")
	}
}

func TestVerifyOfReceived(t *testing.T) {
	dir, root := job(t)
	put(t, dir, "a", strings.Repeat("alpha", 1000))
	var b bytes.Buffer
	_, err := Zip(t.Context(), root, &b, Options{})
	must(t, err)
	into := openRoot(t, t.TempDir())
	for _, n := range []int{b.Len(), b.Len() - 1} { // received without a word about its length: Verify finds the cut
		_, err := Receive(t.Context(), bytes.NewReader(slices.Clone(b.Bytes()[:n])), into, "r.zip", Expect{Bytes: -1},
			0)
		must(t, err)
		f, err := into.Open("r.zip")
		must(t, err)
		_, err = Verify(t.Context(), f, int64(n))
		f.Close()
		if (err == nil) != (n == b.Len()) {
			t.Errorf("%d bytes of %d: %v", n, b.Len(), err)
		}
	}
}
