package bagit

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"golang.org/x/text/encoding"
)

// Options of a validation. The zero Options are valid.
type Options struct {
	MaxFiles int   // in the bag; defaults to 10 million
	MaxTag   int64 // bytes of all tag files that are read; defaults to 1 GiB
}

// stated is a digest that a manifest states for a file.
type stated struct {
	algorithm string
	digest    string
	manifest  string
}

// file is the state of one file of the bag.
type file struct {
	size  int64
	there bool
	odd   bool // exists, but is not a regular file
	fetch bool // listed in fetch.txt
	want  []stated

	tolerated bool // not there, or not listed, with a warning
}

// validation is one validation of a bag.
type validation struct {
	Report
	Options
	tree     tree
	packed   bool
	base     string           // the directory in the archive that is the bag, with a slash; "" for a directory
	files    map[string]*file // by path in the bag
	tags     map[string][]byte
	tagBytes int64             // of all tags
	old      bool              // before 1.0
	encoding encoding.Encoding // of the tag files; nil: UTF-8

	// numbers of files that tolerate accepted: listed and not there, there and not listed
	absent, added int64
}

// Validate checks a bag: a directory, a ZIP, a TAR or a tar.gz file. The error reports that the bag could not be read;
// the report lists the faults of the bag. Memory grows with the number of files, not with their size.
func Validate(ctx context.Context, name string, o Options) (*Report, error) {
	if o.MaxFiles <= 0 {
		o.MaxFiles = 10_000_000
	}
	if o.MaxTag <= 0 {
		o.MaxTag = 1 << 30
	}
	t, packed, err := openTree(name)
	if err != nil {
		var file *fs.PathError
		if errors.As(err, &file) && file.Path == name { // the message already begins with the name
			err = file.Err
		}
		return nil, fmt.Errorf("bag %s: %w", name, err)
	}
	v := &validation{Options: o, tree: t, packed: packed, files: map[string]*file{}, tags: map[string][]byte{}}
	v.Algorithms, v.Errors, v.Warnings = []string{}, []Fault{}, []Fault{}
	if err := errors.Join(v.check(ctx), t.Close()); err != nil {
		return nil, fmt.Errorf("bag %s: %w", name, err)
	}
	return &v.Report, nil
}

func (v *validation) check(ctx context.Context) error {
	if err := v.collect(ctx); err != nil {
		return err
	}
	v.declaration()
	v.manifests()
	v.fetches()
	v.tolerate()
	v.info()
	v.complete()
	v.collisions()
	return v.digests(ctx)
}

// collect lists the files and reads the tag files.
func (v *validation) collect(ctx context.Context) error {
	tops, first := map[string]bool{}, ""
	n := 0
	err := v.tree.each(ctx, func(one item) error {
		if n++; n > v.MaxFiles {
			return fmt.Errorf("more than %d files", v.MaxFiles)
		}
		if why := unsafe(one.name); why != "" {
			v.wrong(CodeUnsafe, one.name, "%s", why)
			return nil
		}
		name := one.name
		if v.packed {
			top, rest, ok := strings.Cut(name, "/")
			if !ok {
				v.wrong(CodeLayout, name, "it is outside the bag's directory")
				return nil
			}
			tops[top], name = true, rest
			if first == "" {
				first = top
			}
			if top != first {
				return nil
			}
		}
		return v.add(name, one)
	})
	if err != nil {
		return err
	}
	if v.packed && len(tops) != 1 {
		v.wrong(CodeLayout, "", "there are %d directories at the top, not one", len(tops))
	}
	if v.packed && first != "" {
		v.base = first + "/"
	}
	return nil
}

// add records one file.
func (v *validation) add(name string, one item) error {
	if v.files[name] != nil {
		v.wrong(CodeDuplicate, name, "the archive has it twice: programs differ in which one they unpack")
		return nil
	}
	f := &file{size: one.size, there: true, odd: one.odd != ""}
	v.files[name] = f
	if f.odd {
		v.wrong(CodeType, name, "it is not a regular file (%s)", one.odd)
		return nil
	}
	if strings.HasPrefix(name, "data/") {
		v.Files++
		v.Bytes += one.size
		return nil
	}
	if strings.Contains(name, "/") || !strings.HasSuffix(name, ".txt") {
		return nil
	}
	if name != "bagit.txt" && name != "bag-info.txt" && name != "fetch.txt" && manifestOf(name) == "" &&
		tagManifestOf(name) == "" {
		return nil
	}
	if a := manifestOf(name) + tagManifestOf(name); a != "" && algorithms[a] == nil {
		v.tags[name] = nil // no digest of it can be checked
		return nil
	}
	return v.read(name, one)
}

// read keeps the text of a tag file, up to the limit for all of them.
func (v *validation) read(name string, one item) error {
	left := v.MaxTag - v.tagBytes
	var text bytes.Buffer
	large := one.size < 0 || one.size > left
	if !large {
		in, err := one.open()
		if err != nil {
			v.wrong(CodeRead, name, "%v", err)
			return nil
		}
		defer in.Close()
		text.Grow(int(min(one.size, 1<<20)) + bytes.MinRead)
		if _, err = text.ReadFrom(io.LimitReader(in, left+1)); err != nil { // an archive may state less than it has
			v.wrong(CodeRead, name, "%v", err)
			return nil
		}
		large = int64(text.Len()) > left
	}
	if large {
		v.wrong(CodeRead, name, "it was not read: the tag files have more than %d bytes in all", v.MaxTag)
		return nil
	}
	v.tags[name] = text.Bytes()
	v.tagBytes += int64(text.Len())
	return nil
}

// manifestOf returns the algorithm of a payload manifest's name, or "".
func manifestOf(name string) string { return between(name, "manifest-", ".txt") }

func tagManifestOf(name string) string { return between(name, "tagmanifest-", ".txt") }

func between(name, before, after string) string {
	rest, ok := strings.CutPrefix(name, before)
	rest, ok2 := strings.CutSuffix(rest, after)
	if !ok || !ok2 {
		return ""
	}
	return strings.ToLower(rest)
}

// digests reads every file that a manifest lists, once, with all its algorithms.
func (v *validation) digests(ctx context.Context) error {
	buffer := make([]byte, 256<<10)
	done := map[string]bool{}
	return v.tree.each(ctx, func(one item) error {
		name, ok := strings.CutPrefix(one.name, v.base)
		f := v.files[name]
		if !ok || f == nil || f.odd || done[name] || unsafe(one.name) != "" || len(f.want) == 0 {
			return nil
		}
		done[name] = true
		in, err := one.open()
		if err != nil {
			v.wrong(CodeRead, name, "%v", err)
			return nil
		}
		defer in.Close()
		return v.digest(ctx, name, f, in, buffer)
	})
}

func (v *validation) digest(ctx context.Context, name string, f *file, in io.Reader, buffer []byte) error {
	sums := map[string]hash.Hash{}
	var to []io.Writer
	for _, w := range f.want {
		if sums[w.algorithm] == nil {
			sums[w.algorithm] = algorithms[w.algorithm]()
			to = append(to, sums[w.algorithm])
		}
	}
	n, err := io.CopyBuffer(struct{ io.Writer }{io.MultiWriter(to...)}, struct{ io.Reader }{&until{ctx, in}}, buffer)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		v.wrong(CodeRead, name, "after %d bytes: %v", n, err)
		return nil
	}
	for _, w := range f.want {
		if got := hex.EncodeToString(sums[w.algorithm].Sum(nil)); !strings.EqualFold(got, w.digest) {
			v.wrong(CodeDigest, name, "its %s is %s, %s states %s", w.algorithm, got, w.manifest, w.digest)
		}
	}
	return nil
}

// until is a reader that ends with a context.
type until struct {
	ctx context.Context
	in  io.Reader
}

func (u *until) Read(b []byte) (int, error) {
	if err := u.ctx.Err(); err != nil {
		return 0, err
	}
	return u.in.Read(b)
}

// collisions warns of names that are equal on a file system which ignores case or Unicode forms.
func (v *validation) collisions() {
	seen := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(v.files)) {
		if !v.files[name].there {
			continue
		}
		folded := fold(name)
		if other, ok := seen[folded]; ok {
			v.odd(CodeCollision, name, "it differs from %q only in case or Unicode form", other)
		}
		seen[folded] = name
	}
}
