// Package web archives lists of files on web servers: each file NAME.checkm below a directory is a course with one
// activity, which is the list. The lists are checkm manifests of the profile mrt-ingest-manifest, with an address and,
// if known, a digest and a size for each file.
package web

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/stagepost/stagepost/app/archive/source"
	"github.com/stagepost/stagepost/edge/fetch"
	"github.com/stagepost/stagepost/format/checkm"
)

const (
	// Module is the kind of the activities.
	Module = "web"
	// Suffix is that of the names of lists.
	Suffix = ".checkm"

	maxList  = 256 << 20
	maxTries = 3 // downloads of a file whose digest is wrong
)

// Options describe where lists are, and how files are fetched.
type Options struct {
	Lists string // directory
	// Fetch has the rules for addresses and the limits (see fetch.Policy).
	Fetch *fetch.Client
	// Scratch keeps unfinished downloads. A repeated call continues them. Jobs of one Source can share the directory;
	// what remains of jobs that did not end well is the caller's to remove.
	Scratch *os.Root
	// NeedDigests refuses lists with a file whose digest is unknown. Otherwise the digest is computed, which shows
	// later changes only.
	NeedDigests bool
}

// Source is a directory with lists.
type Source struct {
	o    Options
	root *os.Root

	mu   sync.Mutex
	busy map[string]chan struct{} // by the scratch file in use; closed at the end
}

// Open opens the directory with the lists.
func Open(o Options) (*Source, error) {
	if o.Fetch == nil || o.Scratch == nil {
		return nil, errors.New("a web source needs a client and a scratch directory")
	}
	root, err := os.OpenRoot(o.Lists)
	if err != nil {
		return nil, err
	}
	return &Source{o: o, root: root, busy: map[string]chan struct{}{}}, nil
}

// Close closes the directory.
func (s *Source) Close() error { return s.root.Close() }

// Check implements [source.Source].
func (s *Source) Check(ctx context.Context) (source.Facts, error) {
	f := source.Facts{Kind: Module, Name: path.Base(s.o.Lists)}
	all, err := s.Courses(ctx, nil)
	if err == nil && len(all) == 0 {
		f.Warnings = append(f.Warnings, fmt.Sprintf("%s has no list (*%s)", s.o.Lists, Suffix))
	}
	return f, err
}

// Courses implements [source.Source].
func (s *Source) Courses(_ context.Context, ids []string) ([]source.Course, error) {
	return source.ListDir(s.root.FS(), s.o.Lists, ids, func(e fs.DirEntry) string {
		id, ok := strings.CutSuffix(e.Name(), Suffix)
		if !ok || !e.Type().IsRegular() {
			return ""
		}
		return id
	}, func(id string) error { return fmt.Errorf("%s has no list %s%s", s.o.Lists, id, Suffix) })
}

// Activities implements [source.Source].
func (s *Source) Activities(ctx context.Context, course string) ([]source.Activity, error) {
	if _, err := s.Courses(ctx, []string{course}); err != nil {
		return nil, err
	}
	info, err := s.root.Lstat(course + Suffix)
	if err != nil {
		return nil, source.FileError("course "+course, err)
	}
	a := source.Activity{Course: course, ID: course, Module: Module, Name: course, Modified: info.ModTime().UTC()}
	return []source.Activity{a}, nil
}

// Describe implements [source.Source]: nothing is known of people.
func (s *Source) Describe(context.Context, string, source.Settings, source.Out) ([]source.Person, error) {
	return nil, nil
}

// Archivable implements [source.Source].
func (s *Source) Archivable(a source.Activity) (reason string) {
	if a.Module != Module {
		return fmt.Sprintf("a list of files has no activities of the kind %q", a.Module)
	}
	return ""
}

// entry is a file of a list, and the data of its item.
type entry struct {
	URL    string           `json:"url"`
	Kept   string           `json:"kept"` // name under which the file is kept
	Name   string           `json:"name"` // in the list
	Hash   checkm.Algorithm `json:"hash,omitempty"`
	Digest string           `json:"digest,omitempty"`
	Size   int64            `json:"size"` // -1: unknown
	Type   string           `json:"type,omitempty"`
	Line   int              `json:"-"`
}

// list reads a list, sorted by the names of the files. Its errors name the line.
func (s *Source) list(ctx context.Context, a source.Activity) ([]entry, error) {
	if err := source.CheckSole(a, s.Archivable(a), "it is not a list"); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	name := a.ID + Suffix
	if info, err := s.root.Lstat(name); err != nil {
		return nil, source.FileError("read "+name, err)
	} else if !info.Mode().IsRegular() {
		return nil, &source.Error{Op: "read " + name, Err: errors.New("it is not a file")}
	}
	f, err := s.root.Open(name)
	if err != nil {
		return nil, source.FileError("read "+name, err)
	}
	defer f.Close()
	out, err := s.read(name, f)
	var wrong *checkm.Error
	if errors.As(err, &wrong) && wrong.Err == nil { // a mistake in the text
		return nil, &source.Error{Op: "list " + a.ID, Code: "invalidlist", Err: err}
	}
	return out, source.FileError("list "+a.ID, err)
}

func (s *Source) read(name string, f io.Reader) ([]entry, error) {
	r := checkm.NewReader(name, io.LimitReader(f, maxList), checkm.Options{Allow: []*checkm.Profile{checkm.Object}})
	var out []entry
	for {
		row, err := r.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		if err := s.checkRow(row); err != nil {
			return nil, &source.Error{Op: fmt.Sprintf("%s:%d", name, row.Line), Code: "invalidlist", Err: err}
		}
		out = append(out, entry{
			URL: row.URL, Name: path.Clean(row.FileName), Hash: row.Digest.Algorithm,
			Digest: strings.ToLower(row.Digest.Value), Size: row.Size, Type: row.MIMEType, Line: row.Line,
		})
	}
	slices.SortStableFunc(out, func(a, b entry) int { return cmp.Compare(a.Name, b.Name) })
	for i := 1; i < len(out); i++ {
		if a, b := out[i-1], out[i]; a.Name == b.Name {
			return nil, &source.Error{Op: fmt.Sprintf("%s:%d", name, b.Line), Code: "invalidlist",
				Err: fmt.Errorf("the name %q is used in line %d as well", b.Name, a.Line)}
		}
	}
	names := source.Names{}
	for i := range out {
		parts := strings.Split(out[i].Name, "/")
		for j := range parts {
			parts[j] = source.SafeName(parts[j])
		}
		out[i].Kept = names.For(out[i].Name, path.Join("files", path.Join(parts...)))
	}
	return out, nil
}

// checkRow refuses a row whose file cannot be fetched or checked.
func (s *Source) checkRow(row checkm.Row) error {
	if row.URL == "" {
		return fmt.Errorf("%q has no address", row.FileName)
	}
	if err := s.o.Fetch.Check(row.URL); err != nil {
		return err
	}
	if row.Digest.IsZero() {
		if s.o.NeedDigests {
			return fmt.Errorf("%q has no digest", row.FileName)
		}
		return nil
	}
	if _, err := checkm.NewHash(row.Digest.Algorithm); err != nil {
		return err
	}
	_, err := hex.DecodeString(row.Digest.Value)
	if want := row.Digest.Algorithm.HexLen(); err != nil || len(row.Digest.Value) != want {
		return fmt.Errorf("the digest of %q is not %d hexadecimal digits", row.FileName, want)
	}
	return nil
}

// Fingerprint implements [source.Source]: names, addresses, sizes and digests of the files. For a file without a digest
// it has what the server states of it.
func (s *Source) Fingerprint(ctx context.Context, a source.Activity) (string, error) {
	all, err := s.list(ctx, a)
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	for _, e := range all {
		fmt.Fprintf(sum, "%q %q %q %q %d\n", e.Name, e.URL, e.Hash, e.Digest, e.Size)
		if e.Digest != "" {
			continue
		}
		info, err := s.o.Fetch.Head(ctx, e.URL)
		if err != nil {
			return "", failed(err)
		}
		fmt.Fprintf(sum, "%q %q %d\n", info.ETag, info.LastModified, info.Size)
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// Plan implements [source.Source]: an item for each file.
func (s *Source) Plan(ctx context.Context, a source.Activity, _ source.Settings) (*source.Plan, error) {
	all, err := s.list(ctx, a)
	if err != nil {
		return nil, err
	}
	out, bare := &source.Plan{}, 0
	for _, e := range all {
		data, err := json.Marshal(e)
		if err != nil {
			return nil, err
		}
		if e.Digest == "" {
			bare++
		}
		out.Items = append(out.Items, source.Item{Key: e.Name, Title: e.Name, Data: data})
	}
	if bare > 0 {
		out.Warnings = append(out.Warnings, fmt.Sprintf("%d of %d files have no digest in the list: what the servers "+
			"send is kept unchecked", bare, len(all)))
	}
	return out, nil
}

// failed classifies an error of a download.
func failed(err error) error {
	var e *fetch.Error
	if !errors.As(err, &e) {
		return err
	}
	return &source.Error{Op: cmp.Or(e.URL, "download"), Code: strings.ReplaceAll(string(e.Kind), " ", ""), Err: err,
		Transient: e.Temporary(), After: e.RetryAfter}
}

// Fetch implements [source.Source]. A wrong digest is an error that stays after three downloads.
func (s *Source) Fetch(
	ctx context.Context, a source.Activity, item source.Item, _ source.Settings, out source.Out,
) error {
	if reason := s.Archivable(a); reason != "" {
		return &source.Error{Op: "activity " + a.ID, Code: "unsupported", Err: errors.New(reason)}
	}
	var e entry
	if err := item.Decode(&e); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	name := scratchName(a, item)
	release, err := s.reserve(ctx, name)
	if err != nil {
		return err
	}
	defer release()
	want := fetch.Want{Algorithm: string(e.Hash), Digest: e.Digest, Size: e.Size,
		Progress: func(have, size int64) { out.Progress(have, size, "bytes") }}
	got, err := s.o.Fetch.Download(ctx, e.URL, s.o.Scratch, name, want)
	for try := 1; try < maxTries && isKind(err, fetch.BadDigest); try++ {
		got, err = s.o.Fetch.Download(ctx, e.URL, s.o.Scratch, name, want)
	}
	if err != nil {
		return failed(err)
	}
	o := source.Origin{Name: item.Title, URL: fetch.Redact(e.URL), Type: cmp.Or(e.Type, got.ContentType)}
	if e.Hash == checkm.SHA1 {
		o.SHA1 = e.Digest
	}
	if err := s.put(ctx, out, e.Kept, o, name, got.SHA256); err != nil {
		return err
	}
	return source.FileError("remove "+name, s.o.Scratch.Remove(name))
}

// reserve waits until no other job uses a scratch file: two jobs can archive one list.
func (s *Source) reserve(ctx context.Context, name string) (release func(), err error) {
	for {
		s.mu.Lock()
		other := s.busy[name]
		if other == nil {
			mine := make(chan struct{})
			s.busy[name] = mine
			s.mu.Unlock()
			return func() {
				s.mu.Lock()
				delete(s.busy, name)
				s.mu.Unlock()
				close(mine)
			}, nil
		}
		s.mu.Unlock()
		select {
		case <-other:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func isKind(err error, k fetch.Kind) bool {
	var e *fetch.Error
	return errors.As(err, &e) && e.Kind == k
}

// scratchName is different for each item, and for each version of its entry.
func scratchName(a source.Activity, item source.Item) string {
	sum := sha256.New()
	fmt.Fprintf(sum, "%q %q %q", a.ID, item.Key, item.Data)
	return "web-" + hex.EncodeToString(sum.Sum(nil))[:32]
}

// put copies a downloaded file. Bytes that changed on the disk are an error; the file is downloaded anew.
func (s *Source) put(ctx context.Context, out source.Out, kept string, o source.Origin, name, want string) error {
	f, err := s.o.Scratch.Open(name)
	if err != nil {
		return source.FileError("read "+name, err)
	}
	defer f.Close()
	return out.Put(ctx, kept, &o, func(w io.Writer) error {
		in := &hashed{r: f, sum: sha256.New()}
		_, err := io.Copy(w, in)
		switch {
		case in.err != nil:
			return source.FileError("read "+name, in.err)
		case err != nil:
			return err
		case hex.EncodeToString(in.sum.Sum(nil)) != want:
			err := fmt.Errorf("%w: its scratch file changed", source.ErrContent)
			return &source.Error{Op: "read " + name, Transient: true, Err: errors.Join(err, s.o.Scratch.Remove(name))}
		}
		return nil
	})
}

// hashed keeps the error of a reader apart from that of the writer, and hashes what it reads.
type hashed struct {
	r   io.Reader
	sum hash.Hash
	err error
}

func (h *hashed) Read(p []byte) (int, error) {
	n, err := h.r.Read(p)
	h.sum.Write(p[:n])
	if err != nil && !errors.Is(err, io.EOF) {
		h.err = err
	}
	return n, err
}
