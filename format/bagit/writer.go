package bagit

import (
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"slices"
	"strings"
)

// Tag is a tag file that a [Writer] wrote.
type Tag struct {
	Name    string // in the bag
	Size    int64
	Digests []string // in the order of the writer's algorithms, hex
}

// Writer writes the tag files of a bag: manifests line by line as payload files are added, and the rest at the end.
// The caller writes the payload. The output depends only on the input.
type Writer struct {
	create     func(name string) (io.WriteCloser, error)
	algorithms []string
	manifests  []*tagFile
	payload    oxum
	tags       []Tag
}

// NewWriter begins a bag with a manifest for each algorithm. create opens a tag file for writing.
func NewWriter(create func(name string) (io.WriteCloser, error), by ...string) (*Writer, error) {
	w := &Writer{create: create, algorithms: by}
	if len(by) == 0 {
		return nil, errors.New("bagit: no manifest algorithm is given")
	}
	for _, a := range by {
		if algorithms[a] == nil {
			return nil, fmt.Errorf("bagit: unknown algorithm %q", a)
		}
		f, err := w.begin("manifest-" + a + ".txt")
		if err != nil {
			return nil, errors.Join(err, w.Abandon())
		}
		w.manifests = append(w.manifests, f)
	}
	return w, nil
}

// Abandon closes the files of an unfinished bag.
func (w *Writer) Abandon() error {
	var err error
	for _, f := range w.manifests {
		err = errors.Join(err, f.to.Close())
	}
	w.manifests = nil
	return err
}

// Add adds a payload file: its path below data/ and its checksums, in the order of the algorithms. Each path is added
// once.
func (w *Writer) Add(name string, size int64, digests ...string) error {
	name = "data/" + name
	if why := unsafe(name); why != "" {
		return fmt.Errorf("bagit: %.200q: %s", name, why)
	}
	if len(digests) != len(w.algorithms) {
		return fmt.Errorf("bagit: %.200q: %d checksums for %d algorithms", name, len(digests), len(w.algorithms))
	}
	for i, d := range digests {
		if err := checkDigest(w.algorithms[i], d); err != nil {
			return fmt.Errorf("bagit: %.200q: %w", name, err)
		}
		if _, err := fmt.Fprintf(w.manifests[i], "%s  %s\n", strings.ToLower(d), EncodePath(name)); err != nil {
			return err
		}
	}
	w.payload.bytes += size
	w.payload.files++
	return nil
}

// AddTag adds a tag file that the caller writes, such as README.txt: its path in the bag and its checksums, in the
// order of the algorithms. The tag manifests list it.
func (w *Writer) AddTag(name string, size int64, digests ...string) error {
	switch why := unsafe(name); {
	case why != "":
		return fmt.Errorf("bagit: %.200q: %s", name, why)
	case strings.HasPrefix(name, "data/"), name == "bagit.txt", name == "bag-info.txt", manifestOf(name) != "",
		tagManifestOf(name) != "":
		return fmt.Errorf("bagit: %.200q is not the name of another tag file", name)
	case strings.ContainsRune(ambiguous, rune(name[0])):
		return fmt.Errorf("bagit: %.200q: a manifest cannot name it, because of its first character", name)
	case len(digests) != len(w.algorithms):
		return fmt.Errorf("bagit: %.200q: %d checksums for %d algorithms", name, len(digests), len(w.algorithms))
	}
	for i, d := range digests {
		if err := checkDigest(w.algorithms[i], d); err != nil {
			return fmt.Errorf("bagit: %.200q: %w", name, err)
		}
	}
	w.tags = append(w.tags, Tag{Name: name, Size: size, Digests: slices.Clone(digests)})
	return nil
}

// Close writes bag-info.txt (Payload-Oxum is its last element), bagit.txt and the tag manifests. It returns all tag
// files in the order of their completion.
func (w *Writer) Close(info ...Field) ([]Tag, error) {
	for len(w.manifests) > 0 {
		f := w.manifests[0]
		w.manifests = w.manifests[1:]
		if err := w.finish(f); err != nil {
			return nil, errors.Join(err, w.Abandon())
		}
	}
	info = append(info[:len(info):len(info)], Field{oxumLabel, w.payload.String()})
	err := w.write("bag-info.txt", func(to io.Writer) error { return writeInfo(to, info) })
	if err != nil {
		return nil, err
	}
	err = w.write("bagit.txt", func(to io.Writer) error {
		_, err := io.WriteString(to, "BagIt-Version: 1.0\nTag-File-Character-Encoding: UTF-8\n")
		return err
	})
	if err != nil {
		return nil, err
	}
	listed := w.tags
	for i, a := range w.algorithms {
		err := w.write("tagmanifest-"+a+".txt", func(to io.Writer) error {
			for _, t := range listed {
				if _, err := fmt.Fprintf(to, "%s  %s\n", t.Digests[i], EncodePath(t.Name)); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return w.tags, nil
}

func (w *Writer) write(name string, write func(io.Writer) error) error {
	f, err := w.begin(name)
	if err != nil {
		return err
	}
	if err := write(f); err != nil {
		return errors.Join(err, f.to.Close())
	}
	return w.finish(f)
}

// tagFile is a tag file that is being written, with its size and sums so far.
type tagFile struct {
	name string
	to   io.WriteCloser
	size int64
	sums []hash.Hash
}

func (w *Writer) begin(name string) (*tagFile, error) {
	to, err := w.create(name)
	if err != nil {
		return nil, err
	}
	f := &tagFile{name: name, to: to}
	for _, a := range w.algorithms {
		f.sums = append(f.sums, algorithms[a]())
	}
	return f, nil
}

func (w *Writer) finish(f *tagFile) error {
	t := Tag{Name: f.name, Size: f.size}
	for _, s := range f.sums {
		t.Digests = append(t.Digests, hex.EncodeToString(s.Sum(nil)))
	}
	w.tags = append(w.tags, t)
	return f.to.Close()
}

func (f *tagFile) Write(b []byte) (int, error) {
	n, err := f.to.Write(b)
	f.size += int64(n)
	for _, s := range f.sums {
		s.Write(b[:n])
	}
	return n, err
}
