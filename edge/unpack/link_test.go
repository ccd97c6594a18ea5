package unpack

import (
	"context"
	"fmt"
	"strings"
	"testing"
)

// TestLinksInsideTheTree copies the files to which links of a tar lead: hard and symbolic ones, also to files behind
// them and through other links.
func TestLinksInsideTheTree(t *testing.T) {
	data := makeTar(entry{name: "d/s", kind: '2', link: "../a.txt"}, entry{name: "a.txt", data: "alpha"},
		entry{name: "d/b.txt", data: "beta"}, entry{name: "h", kind: '1', link: "d/b.txt"},
		entry{name: "d/chain", kind: '2', link: "s"}, entry{name: "d/./dot", kind: '2', link: "./b.txt"},
		entry{name: "late", kind: '2', link: "z/z"}, entry{name: "z/z", data: "z"})
	p := newPlace(t)
	report, err := Unpack(context.Background(), *archiveOf("x.tar", data), p.root, "out", Limits{})
	if err != nil {
		t.Fatal(err)
	}
	want := "inside/out/ inside/out/a.txt=alpha inside/out/d/ inside/out/d/b.txt=beta inside/out/d/chain=alpha " +
		"inside/out/d/dot=beta inside/out/d/s=alpha inside/out/h=beta inside/out/late=z inside/out/z/ inside/out/z/z=z"
	if got := p.tree(t); got != want {
		t.Errorf("tree %q, want %q", got, want)
	}
	if want := (Report{Files: 8, Dirs: 2, Links: 5, Bytes: 29}); report != want {
		t.Errorf("report %+v, want %+v", report, want)
	}
}

// TestLinksElsewhere refuses links that lead out of the archive, to no file of it, or in a circle.
func TestLinksElsewhere(t *testing.T) {
	p := newPlace(t)
	for _, kind := range []byte{'1', '2'} {
		for _, to := range []string{"/etc/passwd", "..", "../x", "d/../../x", "missing", "d", ".", "", "l", "a\\b",
			"a.txt/x",
			"\x00"} {
			data := makeTar(entry{name: "a.txt", data: "alpha"}, entry{name: "d/", kind: '5'},
				entry{name: "l", kind: kind, link: to})
			refused(t, p, fmt.Sprintf("%c %q", kind, to), "x.tar", data, Limits{}, Link)
		}
	}
	circle := makeTar(entry{name: "a", kind: '2', link: "b"}, entry{name: "b", kind: '2', link: "a"})
	refused(t, p, "a circle", "x.tar", circle, Limits{}, Link)
	through := makeTar(entry{name: "d/", kind: '5'}, entry{name: "s", kind: '2', link: "d"},
		entry{name: "l", kind: '2', link: "s/x"})
	refused(t, p, "through a directory", "x.tar", through, Limits{}, Link)
	early := makeTar(entry{name: "h", kind: '1', link: "a.txt"}, entry{name: "a.txt", data: "alpha"})
	refused(t, p, "a hard link to a file behind it", "x.tar", early, Limits{}, Link)
	_, err := Unpack(context.Background(), *archiveOf("x.tar", early), p.root, "early", Limits{})
	if err == nil || !strings.Contains(err.Error(), `hard link to "a.txt", which is no file before it`) {
		t.Errorf("a hard link to a file behind it: %v", err)
	}
	twice := makeTar(entry{name: "a.txt", data: "alpha"}, entry{name: "l", kind: '2', link: "a.txt"},
		entry{name: "l", data: "another"})
	refused(t, p, "a link and a file of one name", "x.tar", twice, Limits{}, Name)
	refused(t, p, "a link with a hostile name", "x.tar", makeTar(entry{name: "a.txt", data: "alpha"},
		entry{name: "l\x01", kind: '2', link: "a.txt"}), Limits{}, Name)
	body := makeTar(entry{name: "a.txt", data: "alpha"}, entry{name: "l", kind: '1', link: "a.txt", data: "x"})
	refused(t, p, "a link with data", "x.tar", body, Limits{}, Special)
}

// TestLinksCount holds copies to the bounds of the archive: a small tar does not become a large tree.
func TestLinksCount(t *testing.T) {
	p := newPlace(t)
	entries := []entry{{name: "a.txt", data: strings.Repeat("x", 1000)}}
	for i := range 20 {
		entries = append(entries, entry{name: fmt.Sprint("l", i), kind: "12"[i%2], link: "a.txt"})
	}
	data := makeTar(entries...)
	refused(t, p, "bytes", "x.tar", data, Limits{Bytes: 20_000}, TooLarge)
	refused(t, p, "files", "x.tar", data, Limits{Files: 20}, TooMany)
	many := []entry{{name: "a.txt", data: strings.Repeat("\x00", 1<<20)}}
	for i := range 120 {
		many = append(many, entry{name: fmt.Sprint("l", i), kind: '2', link: "a.txt"})
	}
	refused(t, p, "ratio", "x.tgz", gz(makeTar(many...)), Limits{Bytes: 1 << 30}, Ratio)
	if _, err := p.unpack("x.tar", data, Limits{Bytes: 21_000, Files: 21}); err != nil {
		t.Errorf("control: %v", err)
	}
}
