package pack_test

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/stagepost/stagepost/format/pack"
)

var modified = time.Date(2024, 2, 29, 23, 59, 58, 123, time.UTC)

// shelf is where content lies: text by source.
type shelf map[string]string

func (s shelf) open(source string) (pack.File, error) {
	text, ok := s[source]
	if !ok {
		return nil, fs.ErrNotExist
	}
	return memory{strings.NewReader(text), int64(len(text))}, nil
}

// memory is a file in memory.
type memory struct {
	io.ReaderAt
	size int64
}

func (m memory) Close() error               { return nil }
func (m memory) Stat() (fs.FileInfo, error) { return info{size: m.size}, nil }

type info struct {
	fs.FileInfo
	size int64
}

func (i info) Size() int64 { return i.size }

func entry(name, text string) pack.Entry {
	sum := sha256.Sum256([]byte(text))
	return pack.Entry{
		Name: name, Size: int64(len(text)), CRC32: crc32.ChecksumIEEE([]byte(text)), Digest: hex.EncodeToString(sum[:]),
		Mode:     0o644,
		Modified: modified, Source: name,
	}
}

func folder(t testing.TB) *os.Root {
	t.Helper()
	dir, err := os.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = dir.Close() })
	return dir
}

// plan makes the plan of entries in a fresh directory.
func plan(t testing.TB, f pack.Format, entries ...pack.Entry) *os.Root {
	t.Helper()
	dir := folder(t)
	p, err := pack.Create(dir, f)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if err := p.Add(e); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := p.Close(); err != nil {
		t.Fatal(err)
	}
	return dir
}

func open(t testing.TB, dir *os.Root, o pack.Opener) *pack.Reader {
	t.Helper()
	r, err := pack.Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// unpacked reads an archive with the standard library: names and texts in their order.
func unpacked(t testing.TB, f pack.Format, data []byte) [][2]string {
	t.Helper()
	var got [][2]string
	take := func(name string, mode fs.FileMode, at time.Time, in io.Reader) {
		text, err := io.ReadAll(in)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if mode.Perm() != 0o644 || !at.Equal(modified.Truncate(time.Second)) {
			t.Errorf("%s: mode %o, %s", name, mode, at)
		}
		got = append(got, [2]string{name, string(text)})
	}
	if f == pack.TAR {
		for r := tar.NewReader(bytes.NewReader(data)); ; {
			h, err := r.Next()
			if errors.Is(err, io.EOF) {
				return got
			}
			if err != nil {
				t.Fatal(err)
			}
			take(h.Name, h.FileInfo().Mode(), h.ModTime, r)
		}
	}
	z, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range z.File {
		in, err := f.Open() // checks the CRC at the end
		if err != nil {
			t.Fatal(err)
		}
		take(f.Name, f.Mode(), f.Modified, in)
		_ = in.Close()
	}
	return got
}

var formats = []pack.Format{pack.ZIP, pack.TAR}

// awkward are names that need more than a plain header.
var awkward = []string{
	"a.txt", "empty", "data/with space.txt", "data/größe/雪.txt", strings.Repeat("long/", 40) + strings.Repeat("n", 120),
	"percent%0A", "quote\"'", "last.bin",
}

func TestBothFormatsAreWhatTheyShouldBe(t *testing.T) {
	texts := shelf{}
	var entries []pack.Entry
	var want [][2]string
	for i, name := range awkward {
		text := strings.Repeat(name, i*500)
		if name == "empty" {
			text = ""
		}
		texts[name] = text
		entries = append(entries, entry(name, text))
		want = append(want, [2]string{name, text})
	}
	for _, f := range formats {
		r := open(t, plan(t, f, entries...), texts.open)
		if err := iotest.TestReader(r, all(t, r)); err != nil {
			t.Errorf("%s: %v", f, err)
		}
		if diff := cmp.Diff(want, unpacked(t, f, all(t, r))); diff != "" {
			t.Errorf("%s: -want +got:\n%s", f, diff)
		}
		if again := open(t, plan(t, f, entries...), texts.open); again.Digest != r.Digest ||
			!bytes.Equal(all(t, again), all(t, r)) {
			t.Errorf("%s: the same entries gave another archive", f)
		}
		entries[3].Digest += "0"
		if other := open(t, plan(t, f, entries...), texts.open); other.Digest == r.Digest {
			t.Errorf("%s: another content has the same digest", f)
		}
		entries[3].Digest = strings.TrimSuffix(entries[3].Digest, "0")
		byCommand(t, f, all(t, r), want)
	}
}

func all(t testing.TB, r *pack.Reader) []byte {
	t.Helper()
	data, err := io.ReadAll(io.NewSectionReader(r, 0, r.Size))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// byCommand lets the commands that people have unpack an archive.
func byCommand(t *testing.T, f pack.Format, data []byte, want [][2]string) {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "archive")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	command := []string{"unzip", "-q", file, "-d", filepath.Join(dir, "out")}
	if f == pack.TAR {
		command = []string{"tar", "-xf", file, "-C", filepath.Join(dir, "out")}
	}
	if err := os.Mkdir(filepath.Join(dir, "out"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := exec.LookPath(command[0]); err != nil {
		t.Logf("there is no %s here: the archive was read only by the standard library", command[0])
		return
	}
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Env = append(os.Environ(), "LC_ALL=C.UTF-8")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, file := range want {
		text, err := os.ReadFile(filepath.Join(dir, "out", file[0]))
		if err != nil || string(text) != file[1] {
			t.Errorf("%s: %s: %v", command[0], file[0], err)
		}
	}
}

// TestRanges: whatever pieces an archive is read in, in whatever order, they are the pieces of the whole.
func TestRanges(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		f := rapid.SampledFrom(formats).Draw(rt, "format")
		texts := shelf{}
		var entries []pack.Entry
		for i, n := range rapid.SliceOfN(rapid.IntRange(0, 3000), 0, 20).Draw(rt, "sizes") {
			name := fmt.Sprintf("f%d", i)
			texts[name] = strings.Repeat(name, n)[:n]
			entries = append(entries, entry(name, texts[name]))
		}
		r := open(t, plan(t, f, entries...), texts.open)
		whole := all(t, r)
		if len(unpacked(t, f, whole)) != len(entries) || int64(len(whole)) != r.Size {
			rt.Fatalf("%d bytes of %d", len(whole), r.Size)
		}
		for range 30 {
			from := rapid.IntRange(0, len(whole)-1).Draw(rt, "from")
			to := rapid.IntRange(from, len(whole)).Draw(rt, "to")
			got := make([]byte, to-from)
			if _, err := r.Seek(int64(from), io.SeekStart); err != nil {
				rt.Fatal(err)
			}
			if _, err := io.ReadFull(r, got); err != nil || !bytes.Equal(got, whole[from:to]) {
				rt.Fatalf("bytes %d to %d differ (%v)", from, to, err)
			}
		}
	})
}

// vast is content of any size without any bytes on disk: byte i is i modulo 251.
type vast struct{ size int64 }

func (v vast) ReadAt(b []byte, off int64) (int, error) {
	for i := range b {
		b[i] = byte((off + int64(i)) % 251)
	}
	return len(b), nil
}
func (v vast) Close() error               { return nil }
func (v vast) Stat() (fs.FileInfo, error) { return info{size: v.size}, nil }

// TestLargerThan4GiB needs zip64 in sizes and offsets and PAX in TAR, and costs no more than a small one.
func TestLargerThan4GiB(t *testing.T) {
	const size = 9 << 30
	texts := shelf{"behind": "what lies behind"}
	opener := func(source string) (pack.File, error) {
		if source == "vast" {
			return vast{size}, nil
		}
		return texts.open(source)
	}
	large := pack.Entry{Name: "vast", Size: size, Mode: 0o644, Modified: modified, Source: "vast"}
	for _, f := range formats {
		r := open(t, plan(t, f, large, entry("behind", texts["behind"])), opener)
		if r.Size < size {
			t.Fatalf("%s: %d bytes", f, r.Size)
		}
		if f == pack.TAR {
			in := tar.NewReader(io.NewSectionReader(r, 0, r.Size)) // seeks over content
			h, err := in.Next()
			if err != nil || h.Size != size {
				t.Fatalf("%+v, %v", h, err)
			}
			if h, err = in.Next(); err != nil || h.Name != "behind" {
				t.Fatalf("%+v, %v", h, err)
			}
			if text, err := io.ReadAll(in); err != nil || string(text) != texts["behind"] {
				t.Errorf("got %q, %v", text, err)
			}
			continue
		}
		z, err := zip.NewReader(r, r.Size)
		if err != nil {
			t.Fatal(err)
		}
		if len(z.File) != 2 || z.File[0].UncompressedSize64 != size {
			t.Fatalf("got %+v", z.File)
		}
		at, err := z.File[0].DataOffset()
		if err != nil {
			t.Fatal(err)
		}
		var b [4]byte
		if _, err := r.ReadAt(b[:], at+size-4); err != nil || b[3] != byte((size-1)%251) {
			t.Errorf("got %v, %v", b, err)
		}
		in, err := z.File[1].Open()
		if err != nil {
			t.Fatal(err)
		}
		if text, err := io.ReadAll(in); err != nil || string(text) != texts["behind"] {
			t.Errorf("got %q, %v", text, err)
		}
	}
}

// TestManyFiles has more entries than a directory without zip64 may have.
func TestManyFiles(t *testing.T) {
	const n = 70_000
	texts := shelf{"x": "text"}
	dir := folder(t)
	p, err := pack.Create(dir, pack.ZIP)
	if err != nil {
		t.Fatal(err)
	}
	e := entry("x", "text")
	for i := range n {
		e.Name = fmt.Sprintf("d%d/%d", i%100, i)
		if err := p.Add(e); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := p.Close(); err != nil {
		t.Fatal(err)
	}
	r := open(t, dir, texts.open)
	z, err := zip.NewReader(r, r.Size)
	if err != nil || len(z.File) != n {
		t.Fatalf("%d entries, %v", len(z.File), err)
	}
	for range 100 {
		f := z.File[rand.IntN(n)]
		in, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		if text, err := io.ReadAll(in); err != nil || string(text) != "text" {
			t.Errorf("%s: %q, %v", f.Name, text, err)
		}
	}
}

// TestChangedContent changes content behind the plan's back. The control is the untouched one; where only the check
// of the CRC stands between, the test shows what would have been given away.
func TestChangedContent(t *testing.T) {
	was := shelf{"a": "alpha", "b": strings.Repeat("beta", 50_000), "c": "gamma"}
	var entries []pack.Entry
	for _, name := range []string{"a", "b", "c"} {
		entries = append(entries, entry(name, was[name]))
	}
	for name, now := range map[string]string{
		"shorter": was["b"][1:], "longer": was["b"] + "x", "gone": "", "as long": strings.Repeat("BETA", 50_000),
	} {
		for _, f := range formats {
			dir := plan(t, f, entries...)
			whole := all(t, open(t, dir, was.open))
			is := shelf{"a": was["a"], "b": now, "c": was["c"]}
			if name == "gone" {
				delete(is, "b")
			}
			r := open(t, dir, is.open)
			got, err := io.ReadAll(r)
			var at *pack.ContentError
			if !errors.Is(err, pack.ErrChanged) || !errors.As(err, &at) || at.Name != "b" {
				t.Errorf("%s, %s: got %v", f, name, err)
			}
			if bytes.Contains(got, []byte("gamma")) || len(got) >= len(whole) {
				t.Errorf("%s, %s: %d bytes were given", f, name, len(got))
			}
			middle := int64(bytes.Index(whole, []byte(was["b"]))) + 7
			_, err = r.Seek(middle, io.SeekStart)
			if seen := errors.Is(err, pack.ErrChanged); seen != (name != "as long") {
				t.Errorf("%s, %s: a seek gave %v", f, name, err)
			}
		}
	}
}

func TestEntriesThatNoArchiveHas(t *testing.T) {
	for _, f := range formats {
		p, err := pack.Create(folder(t), f)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"", ".", "..", "../a", "/a", "a/../b", "a//b", "a/", `a\b`, "a\x00b", "\xff",
			strings.Repeat("x", 1<<16)} {
			if err := p.Add(entry(name, "text")); !errors.Is(err, pack.ErrEntry) {
				t.Errorf("%s: %.20q: got %v", f, name, err)
			}
		}
		if err := p.Add(pack.Entry{Name: "a", Size: -1}); !errors.Is(err, pack.ErrEntry) {
			t.Errorf("got %v", err)
		}
		if err := p.Add(entry("a", "text")); err != nil {
			t.Errorf("the control: %v", err)
		}
		if err := p.Abandon(); err != nil {
			t.Error(err)
		}
	}
	if _, err := pack.Create(folder(t), "rar"); !errors.Is(err, pack.ErrEntry) {
		t.Errorf("got %v", err)
	}
}

// TestHalfAPlanIsNone: what was not closed, and what was damaged, is not opened.
func TestHalfAPlanIsNone(t *testing.T) {
	texts := shelf{"a": "alpha", "b": "beta"}
	dir := folder(t)
	p, err := pack.Create(dir, pack.ZIP)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Add(entry("a", "alpha")); err != nil {
		t.Fatal(err)
	}
	if err := p.Abandon(); err != nil {
		t.Fatal(err)
	}
	if _, err := pack.Open(dir, texts.open); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
	if _, err := pack.Create(dir, pack.ZIP); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a second plan in one directory: %v", err)
	}
	for _, name := range []string{"index", "literals", "sources", "plan.json"} {
		dir := plan(t, pack.ZIP, entry("a", "alpha"), entry("b", "beta"))
		text, err := dir.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := dir.WriteFile(name, text[:len(text)/2], 0o600); err != nil {
			t.Fatal(err)
		}
		r, err := pack.Open(dir, texts.open)
		if err == nil {
			_, err = io.ReadAll(r)
			_ = r.Close()
		}
		if err == nil {
			t.Errorf("half of %s was taken", name)
		}
	}
}
