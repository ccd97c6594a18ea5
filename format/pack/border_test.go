package pack_test

import (
	"archive/tar"
	"archive/zip"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/stagepost/stagepost/format/pack"
)

// TestBorderOf4GiB has a file just below, at and above the largest size that a ZIP header can hold, so that the next
// entry is at offsets around it.
func TestBorderOf4GiB(t *testing.T) {
	const limit = 1<<32 - 1
	texts := shelf{"behind": "what lies behind"}
	for _, size := range []int64{limit - 100, limit - 1, limit, limit + 1} {
		opener := func(source string) (pack.File, error) {
			if source == "vast" {
				return vast{size}, nil
			}
			return texts.open(source)
		}
		large := pack.Entry{Name: "vast", Size: size, CRC32: 7, Mode: 0o644, Modified: modified, Source: "vast"}
		r := open(t, plan(t, pack.ZIP, large, entry("behind", texts["behind"])), opener)
		z, err := zip.NewReader(r, r.Size)
		if err != nil || len(z.File) != 2 {
			t.Fatalf("%d: %v", size, err)
		}
		first := z.File[0]
		if first.UncompressedSize64 != uint64(size) || first.CompressedSize64 != uint64(size) || first.CRC32 != 7 ||
			first.Method != zip.Store {
			t.Errorf("%d: got %+v", size, first.FileHeader)
		}
		at, err := first.DataOffset()
		if err != nil {
			t.Fatal(err)
		}
		last := make([]byte, 1)
		if _, err := r.ReadAt(last, at+size-1); err != nil || last[0] != byte((size-1)%251) {
			t.Errorf("%d: its last byte is %v, %v", size, last, err)
		}
		in, err := z.File[1].Open()
		if err != nil {
			t.Fatal(err)
		}
		if text, err := io.ReadAll(in); err != nil || string(text) != texts["behind"] {
			t.Errorf("%d: behind it is %q, %v", size, text, err)
		}
	}
}

// TestBorderOf65536Entries has numbers of entries around the largest that the end record of a ZIP can hold.
func TestBorderOf65536Entries(t *testing.T) {
	texts := shelf{"x": "text"}
	for _, n := range []int{65_534, 65_535, 65_536} {
		dir := folder(t)
		p, err := pack.Create(dir, pack.ZIP)
		if err != nil {
			t.Fatal(err)
		}
		e := entry("x", "text")
		for i := range n {
			e.Name = fmt.Sprint(i)
			if err := p.Add(e); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := p.Close(); err != nil {
			t.Fatal(err)
		}
		r := open(t, dir, texts.open)
		z, err := zip.NewReader(r, r.Size)
		if err != nil || len(z.File) != n || z.File[n-1].Name != fmt.Sprint(n-1) {
			t.Errorf("%d: %v", n, err)
		}
		tail := make([]byte, 42) // locator of zip64 and end of the directory, without a comment
		if _, err := r.ReadAt(tail, r.Size-42); err != nil {
			t.Fatal(err)
		}
		if has := strings.HasPrefix(string(tail), "PK\x06\x07"); has != (n >= 65_535) {
			t.Errorf("%d: zip64 is %v", n, has)
		}
	}
}

// TestLongNames around what the fields of a TAR header take, and far beyond.
func TestLongNames(t *testing.T) {
	texts := shelf{"x": "text"}
	var names []string
	for _, n := range []int{99, 100, 101, 155, 156, 254, 255, 256, 257, 4096} {
		names = append(names, strings.Repeat("n", n), strings.Repeat("d/", n/2)+"n",
			strings.Repeat("ü", n/2)+fmt.Sprint(n))
	}
	for _, f := range formats {
		var all []pack.Entry
		seen := map[string]bool{}
		for _, name := range names {
			if !seen[name] {
				e := entry("x", "text")
				e.Name = name
				all = append(all, e)
			}
			seen[name] = true
		}
		r := open(t, plan(t, f, all...), texts.open)
		var got []string
		if f == pack.ZIP {
			z, err := zip.NewReader(r, r.Size)
			if err != nil {
				t.Fatal(err)
			}
			for _, one := range z.File {
				got = append(got, one.Name)
			}
		} else {
			for in := tar.NewReader(r); ; {
				h, err := in.Next()
				if err == io.EOF {
					break
				}
				if err != nil {
					t.Fatal(err)
				}
				if text, err := io.ReadAll(in); err != nil || string(text) != "text" {
					t.Fatalf("%s: %q, %v", h.Name, text, err)
				}
				got = append(got, h.Name)
			}
		}
		if len(got) != len(all) {
			t.Fatalf("%s: %d names of %d", f, len(got), len(all))
		}
		for i := range all {
			if got[i] != all[i].Name {
				t.Errorf("%s: got %.300q, want %.300q", f, got[i], all[i].Name)
			}
		}
	}
}
