// Package example is what the demo ingests: a depositor's web site with twelve objects, of which one has a wrong file
// and one lacks a file. The small files are in this folder; the larger ones are generated when the web site is built,
// always the same.
package example

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"

	"github.com/stagepost/stagepost/format/checkm"
)

//go:embed files
var files embed.FS

// object is an object of the web site: files of one folder.
type object struct {
	name, title, localID, creator, date string
	files                               []file
}

// file is a file of the web site: an embedded one, or one of size bytes that are generated.
type file struct {
	name  string // in the object
	from  string // below files/; empty: made
	size  int
	wrong bool // the server has other bytes than the manifest describes
	gone  bool // the server does not have it
}

// Objects in the batch, and how many of them fail until Repair.
const (
	Objects = 12
	Broken  = 2
)

func objects() []object {
	all := []object{
		{"letter", "A letter to Anna", "post-001", "E. Lind", "1857-05-03", []file{{name: "letter.txt",
			from: "letter.txt"}}},
		{"diary", "Diary of a postmaster", "post-002", "Postmaster of Uppsala", "1857", []file{{name: "diary.md",
			from: "diary.md"}, {name: "attic/page.html", from: "page.html"}}},
		{"stations", "Stations of the route", "post-003", "Royal Mail", "1857", []file{{name: "stations.csv",
			from: "stations.csv"}, {name: "stations.json", from: "stations.json"}}},
		{"route", "Map of the route", "post-004", "Royal Mail", "1856", []file{{name: "route.svg",
			from: "route.svg"}, {name: "route.tif", size: 3 << 20}}},
		{"stamp", "A stamp", "post-005", "Royal Mint", "1855", []file{{name: "stamp.png", from: "stamp.png"}}},
		{"horn", "Call of the post horn", "post-006", "K. Berg", "1931", []file{{name: "horn.wav", from: "horn.wav"}}},
		{"waybill", "Waybill No. 7", "post-007", "Postmaster of Uppsala", "1857-05-04", []file{{name: "waybill.pdf",
			from: "waybill.pdf"}}},
		{"waybills", "", "post-008", "", "", []file{{name: "mrt-erc.txt", from: "mrt-erc.txt"}, {name: "mrt-dc.xml",
			from: "mrt-dc.xml"}, {name: "scan.tif", size: 1 << 20}}},
		{"film", "The last coach", "post-009", "Film Archive", "1912", []file{{name: "film.mkv", size: 24 << 20}}},
		{"cards", "Two hundred cards", "post-010", "Postal Museum", "1900", nil},
		{"ledger", "Ledger with a wrong page", "post-011", "Postmaster of Uppsala", "1858",
			[]file{{name: "page-1.txt", from: "letter.txt"}, {name: "page-2.txt", from: "diary.md", wrong: true}}},
		{"survey", "Survey with a missing sheet", "post-012", "Royal Mail", "1860", []file{{name: "sheet-1.svg",
			from: "route.svg"}, {name: "sheet-2.csv", from: "stations.csv", gone: true}}},
	}
	for i := range 200 {
		all[9].files = append(all[9].files, file{name: fmt.Sprintf("cards/%03d.jpg", i+1), size: 2000 + 13*i})
	}
	return all
}

// Build writes the web site into a directory and gives the name of its batch manifest, in which base is the address.
// Building again gives the same files.
func Build(dir, base string) (batch string, err error) {
	root, err := makeRoot(dir)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	var b bytes.Buffer
	w := checkm.NewWriter(&b, checkm.BatchManifests)
	for i, o := range objects() {
		name, err := o.build(root, base, uint64(i))
		if err != nil {
			return "", fmt.Errorf("%s: %w", o.name, err)
		}
		row := checkm.Row{URL: base + "/" + name, Size: -1, FileName: name, LocalID: o.localID, Creator: o.creator,
			Title: o.title, Date: o.date}
		if err := w.Write(row); err != nil {
			return "", err
		}
	}
	if err := w.Close(); err != nil {
		return "", err
	}
	return "batch.checkm", put(root, "batch.checkm", bytes.NewReader(b.Bytes()))
}

// build writes the object's files and its manifest, and gives the manifest's name.
func (o *object) build(root *os.Root, base string, seed uint64) (string, error) {
	var b bytes.Buffer
	w := checkm.NewWriter(&b, checkm.Object)
	for k, f := range o.files {
		size, sum, err := digest(f.open(seed, uint64(k)))
		if err != nil {
			return "", err
		}
		at := path.Join(o.name, f.name)
		row := checkm.Row{URL: base + "/" + at, Digest: checkm.Digest{Algorithm: checkm.SHA256, Value: sum},
			Size: size, FileName: f.name}
		if err := w.Write(row); err != nil {
			return "", err
		}
		if err := root.MkdirAll(path.Dir(at), 0o755); err != nil {
			return "", err
		}
		switch {
		case f.gone:
		case f.wrong:
			err = put(root, at, bytes.NewReader(bytes.Repeat([]byte{'?'}, int(size))))
		default:
			err = put(root, at, f.open(seed, uint64(k)))
		}
		if err != nil {
			return "", err
		}
	}
	if err := w.Close(); err != nil {
		return "", err
	}
	name := o.name + ".checkm"
	return name, put(root, name, &b)
}

// Repair puts the right files where wrong or missing ones were, and names them.
func Repair(dir string) (names []string, err error) {
	root, err := makeRoot(dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	for i, o := range objects() {
		for k, f := range o.files {
			if !f.wrong && !f.gone {
				continue
			}
			at := path.Join(o.name, f.name)
			if err := put(root, at, f.open(uint64(i), uint64(k))); err != nil {
				return names, err
			}
			names = append(names, at)
		}
	}
	return names, nil
}

// open gives the right bytes of a file.
func (f file) open(seed, nth uint64) io.Reader {
	if f.from == "" {
		var key [32]byte
		key[0], key[1], key[2] = byte(seed), byte(nth), byte(nth>>8)
		return io.LimitReader(rand.NewChaCha8(key), int64(f.size))
	}
	text, err := fs.ReadFile(files, "files/"+f.from)
	if err != nil {
		return failing{err}
	}
	return bytes.NewReader(text)
}

// failing is a file that cannot be opened.
type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

func digest(r io.Reader) (int64, string, error) {
	h := sha256.New()
	n, err := io.Copy(h, r)
	return n, hex.EncodeToString(h.Sum(nil)), err
}

func makeRoot(dir string) (*os.Root, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	return os.OpenRoot(filepath.Clean(dir))
}

// put writes a file so that a reader sees the old one or the new one.
func put(root *os.Root, name string, from io.Reader) error {
	f, err := root.Create(name + ".new")
	if err != nil {
		return err
	}
	_, err = io.Copy(f, from)
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return root.Rename(name+".new", name)
}
