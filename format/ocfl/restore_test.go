package ocfl

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// twins are two storage roots that have the same object of two versions.
func twins(t *testing.T) (bad, good *Root, home string) {
	t.Helper()
	dir := memoryDir(t)
	roots := make([]*Root, 2)
	for i, name := range []string{"bad", "good"} {
		r, err := InitRoot(filepath.Join(dir, name), Layout{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { r.Close() })
		add(t, r, testID, version("first", text("a.txt", "A"), text("dir/b.txt", "B")), Options{Fixity: []string{MD5}})
		add(t, r, testID, version("second", text("a.txt", "A"), text("c.txt", "C")), Options{})
		roots[i] = r
	}
	return roots[0], roots[1], filepath.Join(dir, "bad", roots[0].Path(testID))
}

// restored requires a valid storage root without leftovers.
func restored(t *testing.T, r *Root, when string) {
	t.Helper()
	report, err := Validate(t.Context(), r.dir.Name())
	if err == nil {
		err = report.Err()
	}
	if err == nil {
		_, err = r.Sweep()
	}
	if left, e := r.Stages(); err != nil || e != nil || len(left) > 0 {
		t.Errorf("%s: %v, stages %q, %v", when, err, left, e)
	}
	if _, err := r.VerifyVersion(t.Context(), testID, ""); err != nil {
		t.Errorf("%s: %v", when, err)
	}
}

// damages are what can happen to a stored object. The first ones concern one content file.
var damages = []struct {
	name string
	do   func(home string) error
}{
	{"v1/content/a.txt", func(h string) error { return os.WriteFile(h+"/v1/content/a.txt", []byte("X"), 0o600) }},
	{"v1/content/a.txt", func(h string) error { return os.Truncate(h+"/v1/content/a.txt", 0) }},
	{"v1/content/dir/b.txt", func(h string) error { return os.RemoveAll(h + "/v1/content/dir") }},
	{"", func(h string) error { return os.RemoveAll(h) }},
	{"", func(h string) error { return os.Truncate(h+"/inventory.json", 7) }},
	{"", func(h string) error { return os.WriteFile(h+"/v1/inventory.json", []byte("{}"), 0o600) }},
}

// TestRestore repairs each damage from the other storage root.
func TestRestore(t *testing.T) {
	for _, d := range damages {
		bad, good, home := twins(t)
		if err := d.do(home); err != nil {
			t.Fatal(err)
		}
		if report, err := Validate(t.Context(), bad.dir.Name()); err == nil && report.Valid() {
			t.Errorf("control %s: it is valid", d.name)
		}
		var err error
		if d.name != "" {
			err = bad.RestoreFile(t.Context(), testID, d.name, "fix", good, nil)
		} else {
			err = bad.RestoreObject(t.Context(), testID, "fix", good, nil)
		}
		if err != nil {
			t.Errorf("%s: %v", d.name, err)
		}
		restored(t, bad, d.name)
		restored(t, good, "the source")
	}
}

// TestNotRestoredFromBad: bytes that are damaged in the source as well replace nothing.
func TestNotRestoredFromBad(t *testing.T) {
	bad, good, home := twins(t)
	other := filepath.Join(good.dir.Name(), good.Path(testID))
	for dir, text := range map[string]string{home: "X", other: "Y"} {
		if err := os.WriteFile(filepath.Join(dir, "v1/content/a.txt"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := bad.RestoreFile(t.Context(), testID, "v1/content/a.txt", "fix", good, nil); !errors.Is(err, ErrDigest) {
		t.Errorf("file: %v", err)
	}
	if err := bad.RestoreObject(t.Context(), testID, "fix", good, nil); !errors.Is(err, ErrDigest) {
		t.Errorf("object: %v", err)
	}
	if text, err := os.ReadFile(filepath.Join(home, "v1/content/a.txt")); string(text) != "X" {
		t.Errorf("it was replaced: %q, %v", text, err)
	}
	if err := bad.RestoreFile(t.Context(), testID, "v1/content/none", "fix", good, nil); !errors.Is(err, ErrInvalid) {
		t.Errorf("a file that is not listed: %v", err)
	}
	add(t, bad, testID, version("third", text("d.txt", "D")), Options{})
	if err := os.WriteFile(filepath.Join(other, "v1/content/a.txt"), []byte("A"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := bad.RestoreObject(t.Context(), testID, "fix", good, nil); !errors.Is(err, ErrConflict) {
		t.Errorf("the source has fewer versions: %v", err)
	}
	if err := bad.RestoreFile(t.Context(), testID, "v3/content/d.txt", "fix", good, nil); !errors.Is(err,
		ErrNotFound) {
		t.Errorf("the source has not the content: %v", err)
	}
}

// TestCrashWhileRestoring stops before and after each operation: the same call again ends with a valid object.
func TestCrashWhileRestoring(t *testing.T) {
	runs := 0
	for _, i := range []int{0, 3, 4} {
		d := damages[i]
		for stop := 1; ; stop++ {
			ended := false
			for _, kind := range []crashKind{crashBefore, crashAfter, crashTorn} {
				bad, good, home := twins(t)
				if err := d.do(home); err != nil {
					t.Fatal(err)
				}
				restore := func() error {
					if d.name != "" {
						return bad.RestoreFile(t.Context(), testID, d.name, "fix", good, nil)
					}
					return bad.RestoreObject(t.Context(), testID, "fix", good, nil)
				}
				w := quiet(bad, bad.dir.Name())
				w.stop, w.kind = stop, kind
				bad.ops = w
				err := restore()
				if ended = !w.dead; ended && err != nil {
					t.Fatal(err)
				}
				if kind == crashTorn && !ended && !strings.HasPrefix(w.ops[stop-1], "write") {
					continue
				}
				bad.ops = diskOps{bad.dir}
				if err := restore(); err != nil {
					t.Fatalf("damage %d, stop %d, %v: %v", i, stop, w.ops, err)
				}
				restored(t, bad, strings.Join(w.ops, ", "))
				runs++
			}
			if ended {
				break
			}
		}
	}
	if runs < 50 {
		t.Errorf("only %d runs", runs)
	}
}
