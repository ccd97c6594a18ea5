package unpack

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/stagepost/stagepost/edge/safename"
)

var good = []entry{{name: "a.txt", data: "alpha"}, {name: "d/", kind: '5'}, {name: "d/b.txt", data: "beta"},
	{name: "./e/c.txt", data: "gamma"}, {name: "empty"}}

const goodTree = "inside/out/ inside/out/a.txt=alpha inside/out/d/ inside/out/d/b.txt=beta inside/out/e/ " +
	"inside/out/e/c.txt=gamma inside/out/empty="

func TestGoodArchives(t *testing.T) {
	tarball := makeTar(good...)
	for name, data := range map[string][]byte{
		"x.zip": makeZip(t, good...), "X.ZIP": makeZip(t, good...), "x.tar": tarball, "x.tar.gz": gz(tarball),
		"dir/x.tgz": gz(tarball), "x.tarz": gz(tarball),
	} {
		p := newPlace(t)
		report, err := Unpack(context.Background(), *archiveOf(name, data), p.root, "out", Limits{})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got := p.tree(t); got != goodTree {
			t.Errorf("%s: tree %q, want %q", name, got, goodTree)
		}
		if want := (Report{Files: 4, Dirs: 2, Bytes: 14}); report != want {
			t.Errorf("%s: report %+v, want %+v", name, report, want)
		}
	}
	for name, c := range map[string]struct {
		data []byte
		want string
	}{
		"x.tar.bz2":   {unbase64(t, bzipTar), "inside/out/ inside/out/d/ inside/out/d/f.txt=hello\n"},
		"x.tbz2":      {unbase64(t, bzipTar), "inside/out/ inside/out/d/ inside/out/d/f.txt=hello\n"},
		"a.txt.bz2":   {unbase64(t, bzipHello), "inside/out/ inside/out/a.txt=hello\n"},
		"b/a.txt.gz":  {gz([]byte("hello\n")), "inside/out/ inside/out/a.txt=hello\n"},
		"two.txt.gz":  {append(gz([]byte("one ")), gz([]byte("two"))...), "inside/out/ inside/out/two.txt=one two"},
		"in.zip.gz":   {gz([]byte("PK")), "inside/out/ inside/out/in.zip=PK"},
		"empty.zip":   {makeZip(t), "inside/out/"},
		"empty.tar":   {makeTar(), "inside/out/"},
		"padded.tar":  {append(makeTar(good[0]), make([]byte, 8192)...), "inside/out/ inside/out/a.txt=alpha"},
		"pax.tar":     {makeTar(entry{name: "päx", data: "x", kind: 'P'}), "inside/out/ inside/out/päx=x"},
		"dot.tar":     {makeTar(entry{name: "./", kind: '5'}, good[0]), "inside/out/ inside/out/a.txt=alpha"},
		"latin1.zip":  {makeZip(t, entry{name: "caf\xe9", data: "x"}), "inside/out/ inside/out/café=x"},
		"setgid.tar":  {makeTar(entry{name: "d/", kind: '5', mode: 0o2775}), "inside/out/ inside/out/d/"},
		"comment.zip": {commented(makeZip(t, good[0])), "inside/out/ inside/out/a.txt=alpha"},
		"dos.zip": {makeZip(t, entry{name: "caf\x82/\x9a.txt", data: "x", zip: madeOn(hostFAT)}),
			"inside/out/ inside/out/café/ inside/out/café/Ü.txt=x"},
		"ntfs.zip": {makeZip(t, entry{name: "caf\x82", data: "x", zip: madeOn(hostNTFSToo)}),
			"inside/out/ inside/out/café=x"},
		"extra.zip": {makeZip(t, entry{name: "caf\x82", data: "x", zip: unicodePath("ńame")}),
			"inside/out/ inside/out/ńame=x"},
		"wrong.zip": {makeZip(t, entry{name: "caf\x82", data: "x", zip: unicodePath("")}),
			"inside/out/ inside/out/café=x"},
		"utf8.zip": {makeZip(t, entry{name: "café", data: "x", zip: madeOn(hostFAT)}),
			"inside/out/ inside/out/café=x"},
		"nfd.zip": {makeZip(t, entry{name: "cafe\u0301", data: "x"}), "inside/out/ inside/out/cafe\u0301=x"},
	} {
		p := newPlace(t)
		if _, err := p.unpack(name, c.data, Limits{}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got := p.tree(t); got != c.want {
			t.Errorf("%s: tree %q, want %q", name, got, c.want)
		}
	}
}

// madeOn makes an entry that of a program for another system.
func madeOn(host uint16) func(*zip.FileHeader) {
	return func(h *zip.FileHeader) { h.CreatorVersion, h.ExternalAttrs = host<<8, 0 }
}

// unicodePath gives an entry of a DOS program the Unicode extra field; with an empty name, one that is for another
// entry.
func unicodePath(name string) func(*zip.FileHeader) {
	return func(h *zip.FileHeader) {
		madeOn(hostFAT)(h)
		sum := crc32.ChecksumIEEE([]byte(h.Name))
		if name == "" {
			name, sum = "other", sum+1
		}
		h.Extra = binary.LittleEndian.AppendUint16(nil, 0x7075)
		h.Extra = binary.LittleEndian.AppendUint16(h.Extra, uint16(5+len(name)))
		h.Extra = binary.LittleEndian.AppendUint32(append(h.Extra, 1), sum)
		h.Extra = append(h.Extra, name...)
	}
}

// Names as given may differ in no more than their case, and be what Windows has reserved.
func TestNamesAsGiven(t *testing.T) {
	entries := []entry{{name: "README", data: "1"}, {name: "readme", data: "2"}, {name: "aux.c", data: "3"},
		{name: "a:b", data: "4"}}
	for file, data := range map[string][]byte{"x.zip": makeZip(t, entries...), "x.tar": makeTar(entries...)} {
		p := newPlace(t)
		refused(t, p, file, file, data, Limits{}, Name)
		if _, err := p.unpack(file, data, Limits{Names: safename.AsGiven}); err != nil {
			t.Errorf("%s: %v", file, err)
		}
		if got, want := p.tree(t), "inside/out/ inside/out/README=1 inside/out/a:b=4 inside/out/aux.c=3 "+
			"inside/out/readme=2"; got != want {
			t.Errorf("%s: tree %q, want %q", file, got, want)
		}
	}
}

// commented gives a zip a comment that itself contains the signature of an end record.
func commented(data []byte) []byte {
	comment := "PK\x05\x06 is no end"
	data = append(bytes.Clone(data), comment...)
	binary.LittleEndian.PutUint16(data[len(data)-len(comment)-2:], uint16(len(comment)))
	return data
}

// hostileNames are what has been tried against unpackers; each is used in every format and position.
func hostileNames() []string {
	names := []string{"", ".", "/", "//", "/x",
		"/etc/cron.d/x", "//host/x", "..", "../x", "../../x", "../../../../../../../../tmp/x", "a/..", "a/../x",
		"a/../../x",
		"./../x", "a/b/../../../x", "..\\x",
		"..\\..\\x", "a\\..\\x", "C:\\x", "C:/x", "C:x", "\\\\host\\share\\x", "\\x", "a//x", "x//", "...", ". .",
		" ", "a/ /b",
		"CON", "nul", "aux.txt", "COM1", "lpt9.log",
		"d/NUL/x", "con .txt", "a\nb", "a\rb", "a\tb", "a\x1b[2Jb", "a\x7f", "x\u202egnp.exe", "x\u2066y", "x\u200f",
		"\u2024\u2024/x", "．．/x", "／x", "a\u2028b", "a\ufeff", "\u0085", "\u061c"}
	for depth := 1; depth <= 10; depth++ {
		names = append(names, strings.Repeat("../", depth)+"x", "d/"+strings.Repeat("../", depth+1)+"x",
			"."+"/"+strings.Repeat("../", depth)+"inside2/x")
	}
	return names
}

func TestMaliciousNames(t *testing.T) {
	p := newPlace(t)
	count := 0
	for _, name := range hostileNames() {
		for place, entries := range map[string][]entry{
			"alone":       {{name: name, data: "evil"}},
			"after":       {good[0], {name: name, data: "evil"}},
			"a directory": {good[0], {name: name + "/", kind: '5'}},
		} {
			if place == "a directory" && (name == "." || name == "") {
				continue // "./" is the top of the tree, "/" is above
			}
			tarball := makeTar(entries...)
			pax := append([]entry(nil), entries...)
			pax[len(pax)-1].kind = 'P'
			archives := map[string][]byte{"x.zip": makeZip(t, entries...), "x.tar": tarball, "x.tar.gz": gz(tarball)}
			if name != "" && place != "a directory" { // an empty record takes the name back
				archives["pax.tar"] = makeTar(pax...)
			}
			for file, data := range archives {
				refused(t, p, fmt.Sprintf("%s: %q %s", file, name, place), file, data, Limits{}, Name)
				count++
			}
		}
	}
	for _, latin := range []string{"..\xff/../x", "a\x80b", "/\xe9", "\xe9/../../x", "C:\xe9", "\xff/"} {
		if latin != "\xff/" {
			refused(t, p, latin, "x.zip", makeZip(t, entry{name: latin}), Limits{}, Name)
		}
		refused(t, p, latin, "x.tar", makeTar(entry{name: latin}), Limits{}, Name)
		count += 2
	}
	if t.Logf("%d archives", count); count < 500 {
		t.Errorf("%d archives, want at least 500", count)
	}
}

func TestNamesThatMeet(t *testing.T) {
	p := newPlace(t)
	for _, names := range [][2]string{{"a", "a"},
		{"a", "A"}, {"a", "./a"}, {"é", "e\u0301"}, {"a", "a/b"}, {"a/b", "a"}, {"d/x", "D/y"}, {"ﬁ", "fi"},
		{"a", "a."}} {
		entries := []entry{{name: names[0], data: "1"}, {name: names[1], data: "2"}}
		for file, data := range map[string][]byte{"x.zip": makeZip(t, entries...), "x.tar": makeTar(entries...),
			"x.tgz": gz(makeTar(entries...))} {
			refused(t, p, fmt.Sprintf("%s %q", file, names), file, data, Limits{}, Name)
		}
	}
	_, err := p.unpack("x.tar", makeTar(entry{name: "a"}, entry{name: "A"}), Limits{})
	var e *safename.Error
	if !errors.As(err, &e) || e.Rule != safename.Collision {
		t.Errorf("error %v, want a collision inside", err)
	}
}

// TestLabel: the name that GNU tar gives an archive with --label is no file of it.
func TestLabel(t *testing.T) {
	p := newPlace(t)
	if _, err := p.unpack("x.tar", makeTar(entry{name: "../label", kind: 'V'}, good[0]), Limits{}); err != nil {
		t.Fatal(err)
	}
	labelled := entry{name: "label", kind: 'V', data: "x"}
	refused(t, newPlace(t), "a label with data", "y.tar", makeTar(labelled, good[0]), Limits{}, Special)
}

// TestSparse: the refusal of a sparse file names what to do.
func TestSparse(t *testing.T) {
	p := newPlace(t)
	for about, tarball := range map[string][]byte{"PAX": paxRecord("GNU.sparse.realsize=999999999999", 'x'),
		"GNU": makeTar(entry{name: "s", kind: 'S'})} {
		if _, err := p.unpack("x.tar", tarball, Limits{}); err == nil || !strings.Contains(err.Error(), "option -S") {
			t.Errorf("%s: %v", about, err)
		}
	}
}

func TestMaliciousTypes(t *testing.T) {
	p := newPlace(t)
	for _, kind := range []byte("12346s7SDMNVAKL") {
		for _, link := range []string{"/etc", "..", "a.txt", "../../x", ""} {
			if kind == 'V' && link == "" { // a label
				continue
			}
			want := Special
			if kind == '1' || kind == '2' {
				want = Link
				if link == "a.txt" { // a file of the archive, and then a directory of the link's name
					want = Name
				}
			}
			entries := []entry{good[0], {name: "l", kind: kind, link: link}, {name: "l/x", data: "evil"}}
			tarball := makeTar(entries...)
			if kind != 'K' && kind != 'L' { // those two are consumed as long names
				refused(t, p, fmt.Sprintf("tar %c %s", kind, link), "x.tar", tarball, Limits{}, want)
				refused(t, p, fmt.Sprintf("tgz %c %s", kind, link), "x.tgz", gz(tarball), Limits{}, want)
			}
			if mode := zipModes[kind]; mode != 0 && kind != '5' {
				if want = Special; kind == '2' {
					want = Link
				}
				refused(t, p, fmt.Sprintf("zip %c %s", kind, link), "x.zip", makeZip(t, entries...), Limits{}, want)
			}
		}
	}
	for _, mode := range []int64{0o4755, 0o2755, 0o6755} {
		refused(t, p, "set-id tar", "x.tar", makeTar(entry{name: "a", mode: mode}), Limits{}, SetID)
		refused(t, p, "set-id zip", "x.zip", makeZip(t, entry{name: "a", mode: mode}), Limits{}, SetID)
	}
	refused(t, p, "directory with data", "x.tar", makeTar(entry{name: "d", kind: '5', data: "x"}), Limits{}, Special)
	refused(t, p, "sparse by PAX", "x.tar", paxRecord("GNU.sparse.realsize=999999999999", 'x'), Limits{}, Special)
	refused(t, p, "sparse by PAX, odd", "x.tar", paxRecord("GNU.sparse.whatever=1", 'x'), Limits{}, Special)
	refused(t, p, "global path", "x.tar", paxRecord("path=../x", 'g'), Limits{}, Special)
	refused(t, p, "encrypted", "x.zip", patch(makeZip(t, good[0]), 8, 6, 1), Limits{}, Encrypted)
	refused(t, p, "encrypted by its own header", "x.zip", patch(makeZip(t, good[0]), -1, 6, 9), Limits{}, Mismatch)
	refused(t, p, "method", "x.zip", patch(makeZip(t, good[0]), 10, 8, 12), Limits{}, Method)
}

// paxRecord puts a record in front of a harmless file.
func paxRecord(record string, kind byte) []byte {
	record = fmt.Sprintf("%d %s\n", len(record)+4, record)
	return makeTar(entry{name: "pax", kind: kind, data: record}, entry{name: "a", data: "alpha"})
}

func TestLimits(t *testing.T) {
	p := newPlace(t)
	many := make([]entry, 101)
	for i := range many {
		many[i] = entry{name: fmt.Sprintf("f%d", i), data: strings.Repeat("x", 100)}
	}
	deep := []entry{{name: strings.Repeat("d/", 100) + "f", kind: 'P'}}
	zeros := []entry{{name: "zeros", data: strings.Repeat("\x00", 8<<20)}}
	spread := make([]entry, 80)
	for i := range spread {
		spread[i] = entry{name: fmt.Sprintf("z%d", i), data: strings.Repeat("\x00", 100<<10)}
	}
	for file, pack := range map[string]func(...entry) []byte{
		"x.zip": func(e ...entry) []byte { return makeZip(t, e...) }, "x.tar": makeTar,
		"x.tar.gz": func(e ...entry) []byte { return gz(makeTar(e...)) },
	} {
		refused(t, p, file+" many", file, pack(many...), Limits{Files: 100}, TooMany)
		refused(t, p, file+" directories count", file, pack(deep...), Limits{Files: 50, Depth: 1000}, TooMany)
		refused(t, p, file+" deep", file, pack(deep...), Limits{}, TooDeep)
		refused(t, p, file+" large", file, pack(many...), Limits{Bytes: 10_099}, TooLarge)
		if file != "x.tar" {
			refused(t, p, file+" bomb", file, pack(zeros...), Limits{}, Ratio)
			refused(t, p, file+" spread bomb", file, pack(spread...), Limits{}, Ratio)
		}
		for what, c := range map[string]struct {
			entries []entry
			limits  Limits
		}{
			"many":  {many, Limits{Files: 101, Bytes: 10_100}},
			"deep":  {deep, Limits{Depth: 101}},
			"zeros": {zeros, Limits{Ratio: 2000}},
		} {
			if _, err := newPlace(t).unpack(file, pack(c.entries...), c.limits); err != nil {
				t.Errorf("control %s %s: %v", file, what, err)
			}
		}
	}
	refused(t, p, "gz bomb", "x.gz", gz(make([]byte, 16<<20)), Limits{}, Ratio)
	refused(t, p, "bz2 bomb", "x.bz2", unbase64(t, bzipBomb), Limits{}, Ratio)
	refused(t, p, "tar.bz2 bomb", "x.tar.bz2", unbase64(t, bzipBomb), Limits{}, Ratio)
	refused(t, p, "evil tar.bz2", "x.tbz2", unbase64(t, bzipEvil), Limits{}, Name)
	refused(t, p, "gz of 1 MiB, limit", "x.gz", gz(make([]byte, 1<<20)), Limits{Bytes: 1<<20 - 1}, TooLarge)
	refused(t, p, "headers only", "x.tar.gz", gz(bytes.Repeat(header(entry{name: "g", kind: 'g'}, 0), 50_000)),
		Limits{}, Ratio)
	refused(t, p, "endless headers", "x.tar", bytes.Repeat(header(entry{name: "./", kind: '5'}, 0), 500),
		Limits{Files: 100}, TooMany)
}

// Every truncation of every format is refused: a shorter archive must not pass as a complete one.
func TestTruncated(t *testing.T) {
	p := newPlace(t)
	tarball := makeTar(good...)
	tarball = tarball[:len(tarball)-512] // one block of zeros is the least that marks the end
	archives := map[string][]byte{
		"x.zip": makeZip(t, good...), "x.tar": tarball, "x.tar.gz": gz(tarball),
		"x.gz":  gz([]byte("hello, hello, hello")),
		"x.bz2": unbase64(t, bzipHello), "x.tar.bz2": unbase64(t, bzipTar),
	}
	for file, data := range archives {
		if _, err := newPlace(t).unpack(file, data, Limits{}); err != nil {
			t.Errorf("control %s: %v", file, err)
		}
		for cut := 0; cut < len(data); cut += 1 + len(data)/700 {
			refused(t, p, fmt.Sprintf("%s cut to %d of %d", file, cut, len(data)), file, data[:cut], Limits{}, Corrupt)
		}
	}
	hidden := append(makeTar(good[0]), makeTar(entry{name: "hidden"})...)
	refused(t, p, "second tar behind the end", "x.tar", hidden, Limits{}, Trailing)
	refused(t, p, "garbage behind gzip", "x.tar.gz", append(gz(makeTar(good[0])), "garbage"...), Limits{}, Corrupt)
	broken := gz(makeTar(good[0]))
	broken[len(broken)-6] ^= 1
	refused(t, p, "gzip checksum", "x.tar.gz", broken, Limits{}, Corrupt)
	for _, name := range []string{"x", "x.rar", "x.7z", "x.tar.Z", "zip", ""} {
		refused(t, p, name, name, makeZip(t), Limits{}, Format)
	}
	refused(t, p, "no stem", "dir/.gz", gz(nil), Limits{}, Name)
}

func TestTargetExists(t *testing.T) {
	p := newPlace(t)
	if err := p.root.Mkdir("out", 0o755); err != nil {
		t.Fatal(err)
	}
	_, err := p.unpack("x.tar", makeTar(good...), Limits{})
	wantRule(t, "existing directory", err, Exists)
	p.root.Remove("out")
	p.root.Mkdir("out.unpacking", 0o755)
	p.root.WriteFile("out.unpacking/a.txt", []byte("of a killed process"), 0o600)
	if _, err := p.unpack("x.tar", makeTar(good...), Limits{}); err != nil {
		t.Fatal(err)
	}
	if got := p.tree(t); got != goodTree {
		t.Errorf("tree %q, want %q", got, goodTree)
	}
	data := makeTar(good...)
	_, err = Unpack(context.Background(), *archiveOf("x.tar", data), p.root, "../out", Limits{})
	wantRule(t, "outside", err, Storage)
	_, err = Unpack(context.Background(), *archiveOf("x.tar", data), p.root, "missing/out", Limits{})
	wantRule(t, "no parent", err, Storage)
}

// The standard library holds zip data against the header's size itself; the writer does not rely on it.
func TestMoreBytesThanPromised(t *testing.T) {
	p := newPlace(t)
	w := &writer{ctx: context.Background(), root: p.root, limits: Limits{}.withDefaults(), packed: 10}
	wantRule(t, "five of four", w.file("a", strings.NewReader("12345"), 4, 5), Size)
	wantRule(t, "five of six", w.file("b", strings.NewReader("12345"), 6, 5), Corrupt)
	if err := w.file("c", strings.NewReader("12345"), 5, 5); err != nil {
		t.Errorf("control: %v", err)
	}
}

func TestSyncFails(t *testing.T) {
	p := newPlace(t)
	data := makeTar(good...)
	_, err := archiveOf("x.tar", data).unpackTo(context.Background(), p.root, "out", Limits{},
		func(*os.Root) error { return syscall.EIO })
	wantRule(t, "sync", err, Storage)
	if left := p.tree(t); left != "" || !errors.Is(err, syscall.EIO) {
		t.Errorf("%v, left %q", err, left)
	}
}

// stopper ends the context after some reads.
type stopper struct {
	io.ReaderAt
	left int
	stop context.CancelFunc
}

func (s *stopper) ReadAt(b []byte, at int64) (int, error) {
	if s.left--; s.left == 0 {
		s.stop()
	}
	return s.ReaderAt.ReadAt(b, at)
}

func TestCancelled(t *testing.T) {
	for file, data := range map[string][]byte{"x.zip": makeZip(t, good...), "x.tar": makeTar(good...),
		"x.tgz": gz(makeTar(good...)), "x.gz": gz([]byte("x"))} {
		p := newPlace(t)
		ctx, cancel := context.WithCancel(context.Background())
		packed := archiveOf(file, data)
		packed.Content = &stopper{packed.Content, 1, cancel}
		_, err := Unpack(ctx, *packed, p.root, "out", Limits{})
		wantRule(t, file, err, Cancelled)
		if !errors.Is(err, context.Canceled) || p.tree(t) != "" {
			t.Errorf("%s: %v, left %q", file, err, p.tree(t))
		}
	}
}

func FuzzUnpack(f *testing.F) {
	names := []string{"x.zip", "x.tar", "x.tar.gz", "x.tar.bz2", "x.gz", "x.bz2"}
	for i, data := range [][]byte{makeZip(f, good...), makeTar(good...), gz(makeTar(good...)), unbase64(f, bzipTar),
		gz([]byte("x")), unbase64(f, bzipHello)} {
		f.Add(uint8(i), data)
	}
	f.Add(uint8(0), zip64(makeZip(f, good...), 0))
	f.Add(uint8(1), makeTar(entry{name: "l", kind: '2', link: ".."}, entry{name: "l/x"}))
	f.Add(uint8(1), makeTar(entry{name: "../x", kind: 'P'}))
	f.Fuzz(func(t *testing.T, kind uint8, data []byte) {
		p := newPlace(t)
		report, err := p.unpack(names[int(kind)%len(names)], data, Limits{Files: 100, Bytes: 4 << 20})
		left := p.tree(t)
		if err != nil && left != "" {
			t.Fatalf("%v, left %q", err, left)
		}
		if strings.Count(left, "\x00inside/") > 0 || report.Bytes > 4<<20 || report.Files > 100 {
			t.Fatalf("%+v, %q", report, left)
		}
		for _, name := range strings.Fields(left)[:min(1, len(strings.Fields(left)))] {
			if !strings.HasPrefix(name, "inside/out") {
				t.Fatalf("%q is outside", name)
			}
		}
	})
}
