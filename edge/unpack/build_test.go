package unpack

import (
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"testing"
)

// entry is one thing in an archive that a test builds; the zero type is a regular file.
type entry struct {
	name string
	data string
	kind byte // of tar: '0' file, '5' directory, '2' symbolic link, ...
	link string
	mode int64
	zip  func(*zip.FileHeader)
}

var zipModes = map[byte]fs.FileMode{
	'2': fs.ModeSymlink, '3': fs.ModeDevice | fs.ModeCharDevice, '4': fs.ModeDevice, '5': fs.ModeDir,
	'6': fs.ModeNamedPipe, 's': fs.ModeSocket,
}

func makeZip(t testing.TB, entries ...entry) []byte {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, e := range entries {
		h := &zip.FileHeader{Name: e.name, Method: zip.Deflate, NonUTF8: true}
		mode := zipModes[e.kind] | 0o644
		if e.mode&0o4000 != 0 {
			mode |= fs.ModeSetuid
		}
		if e.mode&0o2000 != 0 {
			mode |= fs.ModeSetgid
		}
		h.SetMode(mode)
		if e.zip != nil {
			e.zip(h)
		}
		f, err := w.CreateHeader(h)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(e.name, "/") {
			f.Write([]byte(e.data + e.link))
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// header writes a ustar header itself, because the standard library refuses to write what attackers write.
func header(e entry, size int) []byte {
	var b [512]byte
	copy(b[0:100], e.name)
	mode := e.mode
	if mode == 0 {
		mode = 0o644
	}
	kind := e.kind
	if kind == 0 {
		kind = '0'
	}
	copy(b[100:], fmt.Sprintf("%07o\x00%07o\x00%07o\x00%011o\x00%011o\x00        ", mode, 0, 0, size, 0))
	b[156] = kind
	copy(b[157:257], e.link)
	copy(b[257:], "ustar\x0000")
	if kind == 'S' {
		copy(b[257:], "ustar  \x00") // only GNU tar has sparse files of this type
	}
	sum := 0
	for _, c := range b {
		sum += int(c)
	}
	copy(b[148:], fmt.Sprintf("%06o\x00 ", sum))
	return b[:]
}

func makeTar(entries ...entry) []byte {
	var b bytes.Buffer
	for _, e := range entries {
		if e.kind == 'P' { // a name by PAX record
			e.kind = '0'
			record := fmt.Sprintf(" path=%s\n", e.name)
			length := len(record)
			for length != len(record)+len(fmt.Sprint(length)) {
				length = len(record) + len(fmt.Sprint(length))
			}
			record = fmt.Sprint(length) + record
			b.Write(header(entry{name: "pax", kind: 'x'}, len(record)))
			b.WriteString(record + strings.Repeat("\x00", (512-len(record)%512)%512))
			e.name = "harmless"
		}
		b.Write(header(e, len(e.data)))
		b.WriteString(e.data + strings.Repeat("\x00", (512-len(e.data)%512)%512))
	}
	b.Write(make([]byte, 1024))
	return b.Bytes()
}

func gz(data []byte) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	w.Write(data)
	w.Close()
	return b.Bytes()
}

func unbase64(t testing.TB, s string) []byte {
	t.Helper()
	b, err := base64.StdEncoding.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// enclosure is a directory with a root inside, so that a test detects an escape.
type enclosure struct {
	outside string
	root    *os.Root
}

func newPlace(t testing.TB) *enclosure {
	t.Helper()
	p := &enclosure{outside: t.TempDir()}
	inside := filepath.Join(p.outside, "inside")
	if err := os.Mkdir(inside, 0o755); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(inside)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	p.root = root
	return p
}

func archiveOf(name string, data []byte) *Archive {
	return &Archive{Content: bytes.NewReader(data), Size: int64(len(data)), Name: name}
}

// unpack unpacks without the disk.
func (p *enclosure) unpack(name string, data []byte, limits Limits) (Report, error) {
	noSync := func(*os.Root) error { return nil }
	return archiveOf(name, data).unpackTo(context.Background(), p.root, "out", limits, noSync)
}

// tree lists everything below the outer directory but the directory of the root.
func (p *enclosure) tree(t testing.TB) string {
	t.Helper()
	var names []string
	err := filepath.WalkDir(p.outside, func(name string, d fs.DirEntry, err error) error {
		if err != nil || name == p.outside || name == filepath.Join(p.outside, "inside") {
			return err
		}
		rel, err := filepath.Rel(p.outside, name)
		if err != nil {
			return err
		}
		if d.Type().IsRegular() {
			data, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			if rel += "=" + string(data); len(data) > 100 {
				rel = rel[:100]
			}
		} else if d.IsDir() {
			rel += "/"
		}
		names = append(names, rel)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	sort.Strings(names)
	return strings.Join(names, " ")
}

func wantRule(t testing.TB, what string, err error, want Rule) {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) || e.Rule != want {
		t.Errorf("%s: error %v, want rule %q", what, err, want)
	}
}

// refused unpacks and checks that the rule struck and that nothing is left anywhere.
func refused(t testing.TB, p *enclosure, what, name string, data []byte, limits Limits, want Rule) {
	t.Helper()
	_, err := p.unpack(name, data, limits)
	wantRule(t, what, err, want)
	if left := p.tree(t); left != "" {
		t.Fatalf("%s: left %q", what, left)
	}
}
