package collect

import (
	"crypto/sha256"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestZipOddNames(t *testing.T) {
	dir, root := job(t)
	odd := map[string]string{"a\\b": "a%5Cb", "line\nbreak": "line%0Abreak", "not\xffutf8": "not%FFutf8",
		"C:evil": "C%3Aevil", "...": "%2E..",
		" ": "%20", "\u202egpj.exe": "%E2%80%AEgpj.exe", "50%": "50%", "-rf": "-rf", "tail. ": "tail. ",
		"a%5Cb": "a%5Cb~1"}
	want := map[string]string{}
	for name, as := range odd {
		put(t, dir, name, name)
		want[as] = name
	}
	got, m := pack(t, root, Options{})
	want["a%5Cb"], want["a%5Cb~1"] = "a%5Cb", "a\\b" // the first in order keeps the name
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if len(m.Renamed) != 7 || m.Renamed[3] != (Renamed{`a\b`, "a%5Cb~1"}) || len(m.Skipped) != 0 {
		t.Errorf("%+v", m)
	}
}

func TestZipDeepAndLong(t *testing.T) {
	dir, root := job(t)
	at := openRoot(t, dir)
	for range 300 { // by steps: the path as a whole is longer than a path may be
		must(t, at.Mkdir(strings.Repeat("\\", 240), 0o755))
		sub, err := at.OpenRoot(strings.Repeat("\\", 240))
		must(t, err)
		t.Cleanup(func() { sub.Close() })
		at = sub
	}
	put(t, dir, "~", "after it")
	got, m := pack(t, root, Options{})
	if got["~"] != "after it" || len(got) != 6 || len(m.Skipped) != 1 ||
		!strings.Contains(m.Skipped[0].Why, "too long") {
		t.Errorf("%d entries, %+v", len(got), m.Skipped)
	}
	dir, root = job(t)
	must(t, os.MkdirAll(filepath.Join(dir, strings.Repeat("d/", 300)), 0o755))
	if got, m = pack(t, root, Options{}); len(got) != maxDepth-1 || len(m.Skipped) != 1 ||
		!strings.Contains(m.Skipped[0].Why, "deep") {
		t.Errorf("%d entries, %+v", len(got), m.Skipped)
	}
}

func TestCheckLink(t *testing.T) {
	good := map[string][]string{"l": {"a", "./a", "a/b", "a//b", "."}, "d/l": {"../a", "..", "./../a"},
		"d/e/l": {"../../a", "../.././x"}}
	bad := map[string][]string{"l": {"", "/",
		"/a", "..", "../a", "a/..", "a/../b", "a/../../b", "./..", `a\b`, "a\x00", "\xff", "C:x",
		strings.Repeat("x", 5000)},
		"d/l": {"../..", "../../d", "x/.."}}
	for name, targets := range good {
		for _, target := range targets {
			if err := checkLink(name, target); err != nil {
				t.Errorf("%s -> %q: %v", name, target, err)
			}
		}
	}
	for name, targets := range bad {
		for _, target := range targets {
			if err := checkLink(name, target); err == nil {
				t.Errorf("%s -> %.20q passes", name, target)
			}
		}
	}
}

func TestDigestText(t *testing.T) {
	d := Digest(sha256.Sum256(nil))
	text, _ := d.MarshalText()
	var back Digest
	if err := back.UnmarshalText(text); err != nil || back != d {
		t.Errorf("%v, %v", back, err)
	}
	for _, s := range []string{"", "00", strings.Repeat("g", 64), strings.Repeat("0", 66)} {
		if back.UnmarshalText([]byte(s)) == nil {
			t.Errorf("%q was read", s)
		}
	}
	if !slices.Equal(text, []byte("e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855")) {
		t.Errorf("%s", text)
	}
}
