package mbz_test

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stagepost/stagepost/format/mbz"
)

// course is a backup of a Moodle 4.3, made by Moodle itself.
func course(t testing.TB) []byte {
	t.Helper()
	b, err := os.ReadFile("testdata/course-4.3.mbz")
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func check(b []byte) (*mbz.Backup, error) { return mbz.Check(bytes.NewReader(b), int64(len(b))) }

func TestRealBackup(t *testing.T) {
	got, err := check(course(t))
	if err != nil {
		t.Fatal(err)
	}
	if got.ID != "8f6b0b319aac38a0658228c56ca44dd6" || got.Type != "course" || got.CourseID != 5 || !got.Users ||
		got.Release != "4.3 (Build: 20231009)" || !got.Created.Equal(time.Unix(1795170247, 0)) {
		t.Errorf("got %+v", got)
	}
	if got.Entries != 129 || got.Files != 5 || got.External != 0 ||
		!slices.Equal(got.Modules, []int{16, 17, 18, 19, 20, 21}) {
		t.Errorf("got %+v", got)
	}
}

type item struct {
	header tar.Header
	body   []byte
}

func unpack(t testing.TB, b []byte) (items []item) {
	t.Helper()
	zipped, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	for r := tar.NewReader(zipped); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return items
		}
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		items = append(items, item{*h, body})
	}
}

func pack(t testing.TB, items []item) []byte {
	t.Helper()
	var out bytes.Buffer
	zipped := gzip.NewWriter(&out)
	w := tar.NewWriter(zipped)
	for _, i := range items {
		i.header.Size = int64(len(i.body))
		if err := w.WriteHeader(&i.header); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(i.body); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), zipped.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// TestZippedBackup is the form of an older Moodle, which has no index.
func TestZippedBackup(t *testing.T) {
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for _, i := range unpack(t, course(t)) {
		if i.header.Name == ".ARCHIVE_INDEX" {
			continue
		}
		f, err := w.Create(i.header.Name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Write(i.body); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	got, err := check(out.Bytes())
	if err != nil || got.CourseID != 5 || got.Files != 5 {
		t.Fatalf("got %+v, %v", got, err)
	}
	var d mbz.Damage
	if _, err := check(out.Bytes()[:out.Len()/2]); !errors.As(err, &d) {
		t.Errorf("half of it: %v", err)
	}
}

// TestDamage finds each fault, and names it.
func TestDamage(t *testing.T) {
	const stored = "files/37/377ffa055ef846d636c5f76607af58b006cd8064"
	named := func(name string) func(item) bool { return func(i item) bool { return i.header.Name == name } }
	edit := func(name string, f func([]byte) []byte) func([]item) []item {
		return func(items []item) []item {
			at := slices.IndexFunc(items, named(name))
			items[at].body = f(items[at].body)
			return items
		}
	}
	replace := func(name, from, to string) func([]item) []item {
		return edit(name, func(b []byte) []byte { return bytes.Replace(b, []byte(from), []byte(to), 1) })
	}
	without := func(name string) func([]item) []item {
		return func(items []item) []item { return slices.DeleteFunc(items, named(name)) }
	}
	for _, c := range []struct {
		name   string
		change func([]item) []item
		want   string // empty: no damage
	}{
		{"control", func(items []item) []item { return items }, ""},
		{"content changed", edit(stored, func(b []byte) []byte { b[0] ^= 1; return b }), stored + " has other content"},
		{"content cut", edit(stored, func(b []byte) []byte { return b[1:] }), "has other content"},
		{"content missing", without(stored), stored + " is missing"},
		{"content twice", func(items []item) []item {
			return append(items, items[slices.IndexFunc(items, named(stored))])
		}, stored + " is there twice"},
		{"facts missing", without("moodle_backup.xml"), "it has no moodle_backup.xml"},
		{"facts broken", replace("moodle_backup.xml", "</information>", ""), "moodle_backup.xml: XML syntax error"},
		{"facts without id", replace("moodle_backup.xml", "8f6b0b319aac38a0658228c56ca44dd6", ""), "does not state"},
		{"list missing", without("files.xml"), "it has no files.xml"},
		{"list of another size", replace("files.xml", "size>13000<", "size>13001<"), "has 13000 bytes, not 13001"},
		{"list of another content", replace("files.xml", "dbf8db90", "dbf8db91"), "(dbf8db91"},
		{"external content", func(items []item) []item {
			items = replace("files.xml", "dbf8db90", "dbf8db91")(items)
			return replace("files.xml", "<reference>$@NULL@$<", "<reference>external<")(items)
		}, ""},
		{"index missing", without(".ARCHIVE_INDEX"), "it has no index"},
		{"index counts another", replace(".ARCHIVE_INDEX", ": 129", ": 130"), "counts 130 entries and lists 129"},
		{"index without number", replace(".ARCHIVE_INDEX", "Count: 129", "Count"), "the index begins with"},
		{"another entry", func(items []item) []item {
			more := items[len(items)-1]
			more.header.Name = "more.xml"
			return append(items, more)
		}, "the archive has 130"},
		{"link", func(items []item) []item {
			link := tar.Header{Name: "l", Linkname: "/etc/passwd", Typeflag: tar.TypeSymlink}
			return append(items, item{header: link})
		}, "l is neither a file nor a directory"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := check(pack(t, c.change(unpack(t, course(t)))))
			var d mbz.Damage
			switch {
			case c.want == "" && err != nil:
				t.Error(err)
			case c.want != "" && (!errors.As(err, &d) || !strings.Contains(err.Error(), c.want)):
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

// TestCutAnywhere finds a backup that is cut at any byte.
func TestCutAnywhere(t *testing.T) {
	whole := course(t)
	for n := range len(whole) {
		if n%97 != 0 && n < len(whole)-64 { // every byte of the end, where the checksum of gzip is
			continue
		}
		var d mbz.Damage
		if _, err := check(whole[:n]); !errors.As(err, &d) {
			t.Errorf("cut at %d of %d: %v", n, len(whole), err)
		}
	}
}

type failing struct {
	io.ReaderAt
	from int64
}

var errDisk = errors.New("input/output error")

func (f failing) ReadAt(p []byte, off int64) (int, error) {
	if off+int64(len(p)) > f.from {
		return 0, errDisk
	}
	return f.ReaderAt.ReadAt(p, off)
}

// TestFaultOfTheDisk is not damage of the backup.
func TestFaultOfTheDisk(t *testing.T) {
	whole := course(t)
	_, err := mbz.Check(failing{bytes.NewReader(whole), 5000}, int64(len(whole)))
	var d mbz.Damage
	if !errors.Is(err, errDisk) || errors.As(err, &d) {
		t.Errorf("got %v", err)
	}
}

func FuzzCheck(f *testing.F) {
	f.Add(course(f))
	f.Add([]byte("PK\x03\x04"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if got, err := check(b); err == nil && (got.ID == "" || got.CourseID == 0) {
			t.Errorf("accepted %+v", got)
		}
	})
}
