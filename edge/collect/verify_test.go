package collect

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// sample is a ZIP of ours with a file, an empty file, a directory and a link.
func sample(t testing.TB) []byte {
	t.Helper()
	dir, root := job(t)
	put(t, dir, "sub/a", strings.Repeat("alpha ", 50))
	put(t, dir, "b", "beta")
	put(t, dir, "empty", "")
	must(t, os.Symlink("b", filepath.Join(dir, "link")))
	var b bytes.Buffer
	_, err := Zip(t.Context(), root, &b, Options{})
	must(t, err)
	return b.Bytes()
}

// foreign is a ZIP of the standard library's writer.
func foreign(t testing.TB, headers ...*zip.FileHeader) []byte {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, h := range headers {
		f, err := w.CreateHeader(h)
		must(t, err)
		if !strings.HasSuffix(h.Name, "/") {
			text := "content of " + h.Name
			if h.Comment != "" {
				text = h.Comment
			}
			_, err = io.WriteString(f, text)
			must(t, err)
		}
	}
	must(t, w.Close())
	return b.Bytes()
}

func link(name, target string) *zip.FileHeader {
	h := &zip.FileHeader{Name: name, Comment: target}
	h.SetMode(fs.ModeSymlink | 0o777)
	return h
}

func file(name string) *zip.FileHeader { return &zip.FileHeader{Name: name, Method: zip.Deflate} }

func verifyBytes(data []byte) (Listing, error) {
	return Verify(context.Background(), bytes.NewReader(data), int64(len(data)))
}

func TestVerifyGood(t *testing.T) {
	raw := func(t *testing.T) []byte { // without data descriptors, as from a program that seeks back
		var b bytes.Buffer
		must(t, Repack(t.Context(), bytes.NewReader(sample(t)), int64(len(sample(t))), &b, nil))
		return b.Bytes()
	}
	comment := func() []byte {
		var b bytes.Buffer
		w := zip.NewWriter(&b)
		must(t, w.SetComment("PK\x05\x06 is similar to an end"+strings.Repeat("x", 60)))
		must(t, w.Close())
		return b.Bytes()
	}
	cases := map[string]struct {
		data []byte
		want Listing
	}{
		"ours":     {sample(t), Listing{Files: 3, Dirs: 1, Links: 1, Bytes: 305, Packed: 5 + 0}},
		"repacked": {raw(t), Listing{Files: 3, Dirs: 1, Links: 1, Bytes: 305}},
		"foreign": {foreign(t, file("x"), file("d/"), &zip.FileHeader{Name: "a..b"}),
			Listing{Files: 2, Dirs: 1, Bytes: 27}},
		"empty":   {foreign(t), Listing{}},
		"comment": {comment(), Listing{}},
		"oddities": {foreign(t, file(`back\slash`), file("a..b"), file("..."), file("\xff")),
			Listing{Files: 4, Bytes: 63}},
	}
	for name, c := range cases {
		got, err := verifyBytes(c.data)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		c.want.Packed, got.Packed = 0, 0
		if name == "oddities" {
			c.want.Bytes = got.Bytes
		}
		if d := cmp.Diff(c.want, got); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
}

// TestVerifyCut cuts a ZIP at every byte.
func TestVerifyCut(t *testing.T) {
	whole := sample(t)
	for n := range whole {
		var b *BadZip
		if _, err := verifyBytes(whole[:n]); !errors.As(err, &b) {
			t.Fatalf("cut to %d of %d bytes: %v", n, len(whole), err)
		}
	}
}

// TestVerifyFlipped turns one bit in each byte: whatever passes unpacks to the same.
func TestVerifyFlipped(t *testing.T) {
	whole := sample(t)
	want, passed := contents(t, whole), 0
	for i := range whole {
		for _, bit := range []byte{1, 16, 128} {
			data := slices.Clone(whole)
			data[i] ^= bit
			if _, err := verifyBytes(data); err != nil {
				continue
			}
			passed++ // dates, versions, attributes and extra fields of no meaning
			z, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
			if err != nil {
				t.Fatalf("byte %d: %v", i, err)
			}
			for _, f := range z.File {
				r, err := f.Open()
				must(t, err)
				text, err := io.ReadAll(r)
				if w := want[f.Name]; err != nil || !f.Mode().IsDir() && w != string(text) && w != "-> "+string(text) {
					t.Errorf("byte %d bit %d: %q has %q, %v", i, bit, f.Name, text, err)
				}
			}
		}
	}
	if passed == 0 || passed > 3*len(whole)/2 {
		t.Errorf("%d of %d passed", passed, 3*len(whole))
	}
}

// patch changes a 2 or 4 byte field of the first record with a signature.
func patch(data []byte, signature uint32, at int, value any) []byte {
	data = slices.Clone(data)
	i := bytes.Index(data, binary.LittleEndian.AppendUint32(nil, signature))
	switch v := value.(type) {
	case uint16:
		binary.LittleEndian.PutUint16(data[i+at:], v)
	case uint32:
		binary.LittleEndian.PutUint32(data[i+at:], v)
	}
	return data
}

func TestVerifyBad(t *testing.T) {
	good := foreign(t, file("one"), file("two"))
	dev := file("dev")
	dev.SetMode(fs.ModeDevice | 0o600)
	twice := foreign(t, file("ab"), file("ac"))
	twice = bytes.ReplaceAll(twice, []byte("ac"), []byte("ab"))
	cases := map[string]struct {
		data []byte
		want string
	}{
		"nothing":       {nil, "0 bytes"},
		"no ZIP":        {bytes.Repeat([]byte("no ZIP "), 1000), "no end of directory"},
		"cut":           {good[:len(good)-1], "truncated"},
		"tail":          {append(slices.Clone(good), "more"...), "no end of directory"},
		"several parts": {patch(good, endSignature, 4, uint16(1)), "several"},
		"more entries": {patch(patch(good, endSignature, 8, uint16(3)), endSignature, 10, uint16(3)),
			"less than the 3"},
		"fewer entries": {patch(patch(good, endSignature, 8, uint16(1)), endSignature, 10, uint16(1)),
			"more than the 1"},
		"directory moved":   {patch(good, endSignature, 16, uint32(7)), "does not lie"},
		"encrypted":         {patch(good, directorySignature, 8, uint16(9)), "encrypted"},
		"method":            {patch(good, directorySignature, 10, uint16(12)), "method 12"},
		"CRC":               {patch(good, directorySignature, 16, uint32(1)), "CRC"},
		"size too small":    {patch(good, directorySignature, 24, uint32(3)), "more than its stated 3"},
		"size too large":    {patch(good, directorySignature, 24, uint32(300)), "of its stated 300"},
		"packed too large":  {patch(good, directorySignature, 20, uint32(100000)), "reach into"},
		"packed by one":     {patch(good, directorySignature, 20, uint32(21)), "after the end"},
		"offset":            {patch(good, directorySignature, 42, uint32(1)), "no header of its own"},
		"local method":      {patch(good, localSignature, 8, uint16(0)), "differs from the directory"},
		"local name":        {bytes.Replace(good, []byte("one"), []byte("0ne"), 1), "differs from the directory"},
		"descriptor":        {patch(good, descriptorSignature, 4, uint32(1)), "after its data"},
		"up":                {foreign(t, file("../x")), "goes up"},
		"up in the middle":  {foreign(t, file("a/../../x")), "goes up"},
		"up by backslash":   {foreign(t, file(`..\x`)), "goes up"},
		"absolute":          {foreign(t, file("/x")), "absolute"},
		"absolute Windows":  {foreign(t, file(`\x`)), "absolute"},
		"twice":             {twice, "twice"},
		"file and dir":      {foreign(t, file("x"), file("x/")), "twice"},
		"device":            {foreign(t, dev), "a device"},
		"link out":          {foreign(t, link("l", "../x")), "leads out"},
		"link absolute":     {foreign(t, link("l", "/etc/passwd")), "leads out"},
		"link, then file":   {foreign(t, link("l", "d"), file("l/x")), "below a link"},
		"file, then link":   {foreign(t, file("l/x"), link("l", "d")), "below a link"},
		"link of much":      {foreign(t, link("l", strings.Repeat("x", 5000))), "5000 bytes"},
		"overlap":           {overlapping(), "overlap"},
		"quoted in a quote": {patch(good, localSignature, 28, uint16(60000)), "reach into"},
	}
	if _, err := verifyBytes(good); err != nil {
		t.Fatal(err)
	}
	for name, c := range cases {
		_, err := verifyBytes(c.data)
		var b *BadZip
		if !errors.As(err, &b) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
}

// overlapping has two entries of the same data: the second's header lies in what the first stores, so that its bytes
// count twice (the pattern of David Fifield's zip bombs).
func overlapping() []byte {
	le := binary.LittleEndian
	local := func(name string, data []byte) []byte {
		b := le.AppendUint16(le.AppendUint16(le.AppendUint32(nil, localSignature), 20), 0)
		b = le.AppendUint32(le.AppendUint16(b, store), 0)
		b = le.AppendUint32(le.AppendUint32(le.AppendUint32(b, crc32.ChecksumIEEE(data)), uint32(len(data))),
			uint32(len(data)))
		b = le.AppendUint16(le.AppendUint16(b, uint16(len(name))), 0)
		return append(append(b, name...), data...)
	}
	inner := local("b", []byte("data"))
	all := local("a", inner)
	start := len(all)
	for name, data := range map[string][]byte{"a": inner, "b": []byte("data")} {
		offset := 0
		if name == "b" {
			offset = start - len(inner)
		}
		b := le.AppendUint16(le.AppendUint16(le.AppendUint16(le.AppendUint32(nil, directorySignature), 20), 20), 0)
		b = le.AppendUint32(le.AppendUint16(b, store), 0)
		b = le.AppendUint32(le.AppendUint32(le.AppendUint32(b, crc32.ChecksumIEEE(data)), uint32(len(data))),
			uint32(len(data)))
		b = append(le.AppendUint16(b, 1), make([]byte, 12)...)
		all = append(append(all, le.AppendUint32(b, uint32(offset))...), name...)
	}
	end := le.AppendUint16(le.AppendUint16(le.AppendUint32(le.AppendUint32(nil, endSignature), 0), 2), 2)
	end = le.AppendUint32(le.AppendUint32(end, uint32(len(all)-start)), uint32(start))
	return append(all, le.AppendUint16(end, 0)...)
}

// TestVerifyDisk: an error of the disk is not the ZIP's fault; the context ends it.
func TestVerifyDisk(t *testing.T) {
	data := sample(t)
	broken := errors.New("disk on fire")
	for good := range 12 {
		n := 0
		_, err := Verify(t.Context(), readerAt(func(p []byte, at int64) (int, error) {
			if n++; n > good {
				return 0, broken
			}
			return bytes.NewReader(data).ReadAt(p, at)
		}), int64(len(data)))
		if !errors.Is(err, broken) {
			t.Errorf("failing after %d reads: %v", good, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Verify(ctx, bytes.NewReader(data), int64(len(data))); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

type readerAt func(p []byte, at int64) (int, error)

func (f readerAt) ReadAt(p []byte, at int64) (int, error) { return f(p, at) }

func TestEntry(t *testing.T) {
	data := sample(t)
	r := bytes.NewReader(data)
	f, size, err := Entry(t.Context(), r, r.Size(), "sub/a")
	must(t, err)
	text, err := io.ReadAll(f)
	if err != nil || size != 300 || string(text) != strings.Repeat("alpha ", 50) {
		t.Errorf("%d, %q, %v", size, text, err)
	}
	must(t, f.Close())
	if _, err := f.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("after the end: %v", err)
	}
	for name, want := range map[string]error{"none": fs.ErrNotExist, "link": fs.ErrInvalid, "sub": fs.ErrInvalid,
		"sub/": fs.ErrInvalid} {
		if _, _, err := Entry(t.Context(), r, r.Size(), name); !errors.Is(err, want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	damaged := foreign(t, file("x"))
	damaged = patch(damaged, directorySignature, 16, uint32(1))
	f, _, err = Entry(t.Context(), bytes.NewReader(damaged), int64(len(damaged)), "x")
	must(t, err)
	if _, err := io.ReadAll(f); err == nil || !strings.Contains(err.Error(), "CRC") {
		t.Errorf("a wrong CRC: %v", err)
	}
	files, more, err := Entries(t.Context(), r, r.Size(), 2)
	if err != nil || !more || len(files) != 2 {
		t.Errorf("%v, %v, %v", files, more, err)
	}
}

// TestRepack drops the copy of itself that a legacy result holds; names, data, modes and times of the others stay.
func TestRepack(t *testing.T) {
	run := file("run.sh")
	run.Modified = time.Date(2026, 6, 22, 10, 0, 0, 0, time.UTC)
	run.SetMode(0o755)
	latin := file("caf\xe9")
	data := foreign(t, run, file("output.zip"), latin, file("nested/"), file("nested/output.zip"))
	r := bytes.NewReader(data)
	var b bytes.Buffer
	must(t, Repack(t.Context(), r, r.Size(), &b, func(name string) bool { return name == "output.zip" }))
	want := contents(t, data)
	delete(want, "output.zip")
	if d := cmp.Diff(want, checkWith(t, b.Bytes())); d != "" {
		t.Error(d)
	}
	files, _, err := Entries(t.Context(), bytes.NewReader(b.Bytes()), int64(b.Len()), 10)
	must(t, err)
	if got := fmt.Sprint(files[0].Mode, " ", files[0].MTime.UTC()); got != "-rwxr-xr-x 2026-06-22 10:00:00 +0000 UTC" {
		t.Errorf("run.sh is %s", got)
	}
	full := errors.New("no space left")
	if err := Repack(t.Context(), r, r.Size(), writeFunc(func([]byte) (int, error) { return 0, full }),
		nil); !errors.Is(err, full) {
		t.Errorf("got %v", err)
	}
	if err := Repack(t.Context(), bytes.NewReader(data[1:]), r.Size()-1, io.Discard, nil); err == nil {
		t.Error("a damaged ZIP was repacked")
	}
}

// TestZip64Offsets writes behind 5 GB of something else, which is not really there.
func TestZip64Offsets(t *testing.T) {
	const before = 5 << 30
	var b bytes.Buffer
	z := newWriter(&b)
	z.at = before
	must(t, z.stream(&header{name: "streamed", mode: 0o644, mtime: time.Now()}, strings.NewReader("alpha")))
	must(t, z.short(&header{name: "link", mode: fs.ModeSymlink | 0o777, mtime: time.Now()}, "streamed"))
	must(t, z.close())
	r := readerAt(func(p []byte, at int64) (int, error) {
		zeros := min(max(before-at, 0), int64(len(p)))
		clear(p[:zeros])
		n, err := bytes.NewReader(b.Bytes()).ReadAt(p[zeros:], max(at-before, 0))
		return int(zeros) + n, err
	})
	size := before + int64(b.Len())
	l, err := Verify(t.Context(), r, size)
	must(t, err)
	if l.Files != 1 || l.Links != 1 || l.Bytes != 13 {
		t.Errorf("%+v", l)
	}
	std, err := zip.NewReader(r, size)
	must(t, err)
	f, err := std.Open("streamed")
	must(t, err)
	if text, err := io.ReadAll(f); err != nil || string(text) != "alpha" {
		t.Errorf("%q, %v", text, err)
	}
	var again bytes.Buffer
	must(t, Repack(t.Context(), r, size, &again, nil))
	checkWith(t, again.Bytes())
}

// TestZip64Sizes packs a file of more than 4 GB (-vast: a whole sparse one, with unzip's word for it; otherwise the
// records of one are compared).
func TestZip64Sizes(t *testing.T) {
	h := &header{name: "big", flags: flagDescriptor | flagUTF8, method: deflate, crc: 7, packed: 5 << 30, size: 6 << 40,
		mode: 0o600}
	z := newWriter(io.Discard)
	must(t, z.local(h))
	must(t, z.record(h))
	var b bytes.Buffer
	z.w = &b
	must(t, z.close())
	a := &archive{r: bytes.NewReader(b.Bytes()), start: 1 << 50, count: 1}
	a.r, a.length = readerAt(func(p []byte, at int64) (int,
		error) {
		return bytes.NewReader(b.Bytes()).ReadAt(p, at-1<<50)
	}), int64(z.length)
	err := a.each(t.Context(), func(got *header) error {
		if got.size != h.size || got.packed != h.packed || got.crc != 7 {
			t.Errorf("%+v", got)
		}
		return nil
	})
	must(t, err)
	if !*vast {
		return
	}
	dir, root := job(t)
	put(t, dir, "sparse", "")
	must(t, os.Truncate(filepath.Join(dir, "sparse"), 5<<30))
	began, base := time.Now(), heap()
	into := openRoot(t, t.TempDir())
	r, err := ZipFile(t.Context(), root, into, "x.zip", Options{})
	must(t, err)
	packed := time.Since(began)
	f, err := into.Open("x.zip")
	must(t, err)
	defer f.Close()
	began = time.Now()
	l, err := Verify(t.Context(), f, r.Bytes)
	must(t, err)
	if l.Bytes != 5<<30 {
		t.Errorf("%+v", l)
	}
	grown := int64(heap()) - int64(base)
	t.Logf("5 GB sparse: packed in %v to %d bytes, verified in %v, %d KB more on the heap", packed, r.Bytes,
		time.Since(began), grown/1024)
	data, err := io.ReadAll(io.NewSectionReader(f, 0, r.Bytes))
	must(t, err)
	path := filepath.Join(t.TempDir(), "y.zip")
	must(t, os.WriteFile(path, data, 0o600))
	unzip(t, path)
}

// FuzzVerify: what passes can be read by the standard library with the same outcome, and be repacked.
func FuzzVerify(f *testing.F) {
	f.Add(sample(f))
	f.Add(foreign(f, file("one"), file("two"), link("l", "one")))
	f.Add(overlapping())
	f.Fuzz(func(t *testing.T, data []byte) {
		l, err := verifyBytes(data)
		if err != nil {
			return
		}
		z, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
		if err != nil && !errors.Is(err, zip.ErrInsecurePath) {
			t.Fatalf("passed, and the standard library returns %v", err)
		}
		if len(z.File) != l.Files+l.Dirs+l.Links {
			t.Fatalf("%d entries, %+v", len(z.File), l)
		}
		var b bytes.Buffer
		if err := Repack(t.Context(), bytes.NewReader(data), int64(len(data)), &b, nil); err != nil {
			t.Fatal(err)
		}
		again, err := verifyBytes(b.Bytes())
		if err != nil || again != l {
			t.Fatalf("repacked: %v, %+v of %+v", err, again, l)
		}
	})
}

// FuzzNames: a spelled name is stored as it is, and a link that passes stays inside.
func FuzzNames(f *testing.F) {
	f.Add("d/l", "../a")
	f.Add("a\\b/..", "\xff/../..")
	f.Fuzz(func(t *testing.T, name, target string) {
		if s := Spell(name); Spell(s) != s {
			t.Errorf("%q becomes %q, then %q", name, s, Spell(s))
		}
		if checkLink(name, target) == nil && fs.ValidPath(name) &&
			!filepath.IsLocal(filepath.Join(filepath.Dir(name), target)) {
			t.Errorf("%q -> %q leads out", name, target)
		}
	})
}
