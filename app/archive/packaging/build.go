package packaging

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
)

// Files in the directory of a package besides its products.
const (
	workDir        = ".work"        // all that is unfinished
	packageFile    = "package.json" // the finished package; written last
	metadataDir    = workDir + "/metadata"
	tagDir         = workDir + "/tags"
	tagManifest    = "tagmanifest-sha512.txt"
	sidecarName    = ".sha256"
	maxPackageJSON = 256 << 20
)

// Product is a file that is stored.
type Product struct {
	Name   string `json:"name"` // with slashes; in the directory of the package unless it is a gathered file
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
	SHA512 string `json:"sha512"`
	// Gathered is the path in the gathered directory of a payload file of [Directory]; empty: none.
	Gathered string `json:"gathered,omitempty"`
}

// Package is a finished package.
type Package struct {
	Name   string `json:"name"`
	Input  string `json:"input"`  // digest of all that determines the package
	Digest string `json:"digest"` // the identity of the package: SHA-256 of its tagmanifest-sha512.txt
	Files  int64  `json:"files"`  // of the payload
	Bytes  int64  `json:"bytes"`
	// Products are the containers in the order of the input, each followed by its file for sha256sum -c. A [Directory]
	// is all files of the bag. They are no part of the JSON, since they can be many.
	Products []Product `json:"-"`
	// Seal is a copy of tagmanifest-sha512.txt: who signs it signs every byte of the package.
	Seal Product `json:"seal"`
}

// record is a package as its directory keeps it.
type record struct {
	Package
	Products []Product `json:"products"`
}

func readRecord(into *os.Root) (*Package, error) {
	text, err := readSmall(into, packageFile)
	if err != nil {
		return nil, err
	}
	var r record
	if err := json.Unmarshal(text, &r); err != nil {
		return nil, fmt.Errorf("%s: %w", packageFile, err)
	}
	r.Package.Products = r.Products
	return &r.Package, nil
}

// Opener gives a function that opens the products of a finished package by their names, and other files in its
// directory. The roots must remain open while it is used. gathered is needed for a [Directory] only.
func Opener(into, gathered *os.Root) (open func(name string) (*os.File, error), err error) {
	p, err := readRecord(into)
	if err != nil {
		return nil, err
	}
	elsewhere := map[string]string{}
	for _, product := range p.Products {
		if product.Gathered != "" {
			elsewhere[product.Name] = product.Gathered
		}
	}
	return func(name string) (*os.File, error) {
		if path, ok := elsewhere[name]; ok {
			return gathered.Open(path)
		}
		return into.Open(name)
	}, nil
}

// Build makes a package, or returns the one that an earlier call with the same input made. It may be repeated after a
// crash at any point: the result is the same. What another input left in the directory is removed. Errors: [ErrInput],
// [ErrChanged], those of the file systems, and that of the context.
func Build(ctx context.Context, in Input) (*Package, error) { return build(ctx, in, rootDisk{in.Into}) }

func build(ctx context.Context, in Input, d disk) (*Package, error) {
	if err := in.check(); err != nil {
		return nil, err
	}
	b := &builder{in: in, disk: d}
	var err error
	if b.facts, err = in.Facts.clean(); err != nil {
		return nil, err
	}
	if b.key, err = in.key(b.facts); err != nil {
		return nil, err
	}
	if done, err := b.finished(); done != nil || err != nil {
		return done, err
	}
	if err := b.clear(); err != nil {
		return nil, err
	}
	p, err := b.run(ctx)
	if err != nil {
		_ = d.RemoveAll(workDir) // its space may be needed; the next attempt removes what remains
		return nil, fmt.Errorf("package %s: %w", in.Name, err)
	}
	return p, nil
}

// key is a digest of all that determines the bytes of a package.
func (in *Input) key(f Facts) (string, error) {
	files := slices.Clone(in.Files)
	slices.SortFunc(files, func(a, b File) int { return cmp.Compare(a.Path, b.Path) })
	for i := range files {
		files[i].Origin.Modified = files[i].Origin.Modified.UTC()
	}
	sum := sha256.New()
	to := json.NewEncoder(sum)
	err := to.Encode(struct {
		Layout, Name string
		Facts        Facts
		Files        int
		Containers   []Container
	}{layoutVersion, in.Name, f, len(files), in.Containers})
	for i := 0; err == nil && i < len(files); i++ { // one by one: the encoder has each value in memory as a whole
		err = to.Encode(&files[i])
	}
	return hex.EncodeToString(sum.Sum(nil)), err
}

// builder is one call of Build.
type builder struct {
	in    Input
	disk  disk
	facts Facts
	key   string
}

// finished returns the package that an earlier call made of the same input, if all its products are there.
func (b *builder) finished() (*Package, error) {
	p, err := readRecord(b.in.Into)
	if err != nil || p.Input != b.key {
		return nil, nil // it is made again
	}
	for _, product := range append(slices.Clone(p.Products), p.Seal) {
		if product.Gathered != "" {
			continue
		}
		info, err := b.in.Into.Lstat(product.Name)
		if err != nil || !info.Mode().IsRegular() || info.Size() != product.Size {
			return nil, nil // it is made again
		}
	}
	return p, b.disk.RemoveAll(workDir)
}

func readSmall(root *os.Root, name string) ([]byte, error) {
	f, err := root.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxPackageJSON))
}

// clear removes what an earlier attempt left. The record of a finished package goes first.
func (b *builder) clear() error {
	if err := b.disk.RemoveAll(packageFile); err != nil {
		return err
	}
	entries, err := fs.ReadDir(b.in.Into.FS(), ".")
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := b.disk.RemoveAll(e.Name()); err != nil {
			return err
		}
	}
	return nil
}

func (b *builder) run(ctx context.Context) (*Package, error) {
	for _, dir := range []string{workDir, metadataDir, tagDir} {
		if err := b.disk.Mkdir(dir); err != nil {
			return nil, err
		}
	}
	c := &content{name: b.in.Name, facts: b.facts, entries: plan(b.facts.Activities, b.in.Files),
		redact: newRedactor(b.in.Facts.Secrets)}
	made := b.disk
	if !slices.Contains(b.in.Containers, Directory) {
		made = transient{made} // the products have copies of them
	}
	if err := c.generate(made, metadataDir); err != nil {
		return nil, err
	}
	tags, err := c.bag(made, tagDir)
	if err != nil {
		return nil, err
	}
	p := &Package{Name: b.in.Name, Input: b.key}
	for _, e := range c.entries {
		p.Files, p.Bytes = p.Files+1, p.Bytes+e.size
	}
	members := slices.Clone(tags)
	for _, e := range c.entries {
		e.name = "data/" + e.name
		members = append(members, e)
	}
	sortEntries(members)
	if err := b.copy(ctx, p, members); err != nil {
		return nil, err
	}
	if err := b.publish(p, members, tags); err != nil {
		return nil, err
	}
	return p, nil
}

// generate writes the metadata and adds them to the entries. The PREMIS documents are last: they describe the others.
func (c *content) generate(d disk, dir string) error {
	writers := c.writers()
	var made []entry
	for _, name := range slices.Sorted(maps.Keys(writers)) {
		e, err := generate(d, dir, name, writers[name])
		if err != nil {
			return err
		}
		made = append(made, e)
	}
	c.entries = append(c.entries, made...)
	sortEntries(c.entries)
	document := c.document()
	if err := document.Check(); err != nil {
		return fmt.Errorf("%w: PREMIS: %w", ErrInput, err)
	}
	for _, one := range []struct {
		name  string
		write func(io.Writer) error
	}{{premisXML, document.WriteXML}, {premisJSON, document.WriteJSON}} {
		e, err := generate(d, dir, one.name, one.write)
		if err != nil {
			return err
		}
		c.entries = append(c.entries, e)
	}
	sortEntries(c.entries)
	return nil
}

// part is the unfinished file of a container.
func (b *builder) part(kind Container) string { return path.Join(workDir, b.in.Name+"."+string(kind)) }

// copy writes all members to all containers in one pass.
func (b *builder) copy(ctx context.Context, p *Package, members []entry) error {
	c, err := open(b.disk, b.in.Containers, b.part)
	if err != nil {
		return err
	}
	buf := make([]byte, fanBlock)
	var done, total int64
	for i := range members {
		total += members[i].size
	}
	for i := range members {
		if err := b.copyOne(ctx, c, &members[i], buf); err != nil {
			c.abandon()
			return err
		}
		if done += members[i].size; b.in.Progress != nil {
			b.in.Progress(done, total)
		}
	}
	if err := c.finish(); err != nil {
		return err
	}
	for _, kind := range b.in.Containers {
		if part := c.parts[kind]; part != nil {
			p.Products = append(p.Products, part.product())
		}
	}
	return nil
}

// copyOne copies a file to all containers and compares it with its size and SHA-256.
func (b *builder) copyOne(ctx context.Context, c *containers, e *entry, buf []byte) error {
	f, err := b.open(e)
	if err != nil {
		return err
	}
	defer f.Close()
	m := member{name: path.Join(b.in.Name, e.name), size: e.size}
	if c.zip != nil {
		if m.crc, err = crcOf(ctx, f, e.size, buf); err != nil {
			return fmt.Errorf("%q: %w", e.name, err)
		}
	}
	writers, err := c.begin(m)
	if err != nil {
		return fmt.Errorf("%q: %w", e.name, err)
	}
	sum := sha256.New()
	all := io.MultiWriter(append(writers, sum)...)
	if err := copyExactly(ctx, all, f, e.size, buf); err != nil {
		return fmt.Errorf("%q: %w", e.name, err)
	}
	return compare(e, sum)
}

// crcOf reads a file for the CRC-32 that a ZIP header needs, and seeks to its begin. What is read next is compared with
// the SHA-256 of the file, so a change between both is found.
func crcOf(ctx context.Context, f *os.File, size int64, buf []byte) (uint32, error) {
	sum := crc32.NewIEEE()
	if err := copyExactly(ctx, sum, f, size, buf); err != nil {
		return 0, err
	}
	_, err := f.Seek(0, io.SeekStart)
	return sum.Sum32(), err
}

func compare(e *entry, sum hash.Hash) error {
	if got := hex.EncodeToString(sum.Sum(nil)); got != e.sha256 {
		return fmt.Errorf("%w: the SHA-256 of %q is %s, not %s", ErrChanged, e.name, got, e.sha256)
	}
	return nil
}

// open opens the content of a member.
func (b *builder) open(e *entry) (*os.File, error) {
	if e.file == nil {
		return b.in.Into.Open(e.made)
	}
	return openGathered(b.in.Gathered, e)
}

// openGathered opens a gathered file. A missing one, or one that is no file, has changed.
func openGathered(root *os.Root, e *entry) (*os.File, error) {
	info, err := root.Lstat(e.file.Path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%w: %w", ErrChanged, err)
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%w: %q is not a regular file", ErrChanged, e.file.Path)
	case info.Size() != e.size:
		return nil, fmt.Errorf("%w: %q has %d bytes, not %d", ErrChanged, e.file.Path, info.Size(), e.size)
	}
	return root.Open(e.file.Path)
}

// copyExactly copies size bytes, and returns an error if the source has another number.
func copyExactly(ctx context.Context, w io.Writer, r io.Reader, size int64, buf []byte) error {
	for left := size; ; {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := r.Read(buf)
		if left -= int64(n); left < 0 {
			return fmt.Errorf("%w: it has more than %d bytes", ErrChanged, size)
		}
		if n > 0 {
			if _, err := w.Write(buf[:n]); err != nil {
				return err
			}
		}
		switch {
		case errors.Is(err, io.EOF) && left > 0:
			return fmt.Errorf("%w: it has fewer than %d bytes", ErrChanged, size)
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
	}
}

// publish gives the products their names, writes the files beside them, and the record last.
func (b *builder) publish(p *Package, members, tags []entry) error {
	seal := tags[slices.IndexFunc(tags, func(e entry) bool { return e.name == tagManifest })]
	text, err := readSmall(b.in.Into, seal.made)
	if err != nil {
		return err
	}
	if p.Seal, err = b.small(b.in.Name+"."+tagManifest, text); err != nil {
		return err
	}
	p.Digest = p.Seal.SHA256
	var all []Product
	for _, kind := range b.in.Containers {
		if kind == Directory {
			files, err := b.directory(members)
			if err != nil {
				return err
			}
			all = append(all, files...)
			continue
		}
		product := p.Products[0]
		p.Products = p.Products[1:]
		if err := b.disk.Rename(b.part(kind), product.Name); err != nil {
			return err
		}
		beside, err := b.small(product.Name+sidecarName, []byte(product.SHA256+"  "+product.Name+"\n"))
		if err != nil {
			return err
		}
		all = append(all, product, beside)
	}
	p.Products = all
	text, err = json.Marshal(record{*p, all})
	if err != nil {
		return err
	}
	if err := replace(b.disk, packageFile, append(text, '\n')); err != nil {
		return err
	}
	return b.disk.RemoveAll(workDir)
}

// small writes a small product.
func (b *builder) small(name string, text []byte) (Product, error) {
	s256, s512 := sha256.Sum256(text), sha512.Sum512(text)
	p := Product{Name: name, Size: int64(len(text)), SHA256: hex.EncodeToString(s256[:]),
		SHA512: hex.EncodeToString(s512[:])}
	return p, replace(b.disk, name, text)
}

// directory moves the generated files of the bag to their names, and lists all files.
func (b *builder) directory(members []entry) ([]Product, error) {
	made := map[string]bool{}
	var all []Product
	for _, e := range members {
		p := Product{Name: path.Join(b.in.Name, e.name), Size: e.size, SHA256: e.sha256, SHA512: e.sha512}
		if e.file != nil {
			p.Gathered = e.file.Path
		} else if err := b.move(e.made, p.Name, made); err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	made["."] = true
	for _, dir := range slices.Sorted(maps.Keys(made)) {
		if err := b.disk.SyncDir(dir); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// move moves a file to a name whose directories may not exist yet.
func (b *builder) move(from, to string, made map[string]bool) error {
	var missing []string
	for dir := path.Dir(to); dir != "." && !made[dir]; dir = path.Dir(dir) {
		missing = append(missing, dir)
	}
	for _, dir := range slices.Backward(missing) {
		if err := b.disk.Mkdir(dir); err != nil {
			return err
		}
		made[dir] = true
	}
	return b.disk.Rename(from, to)
}
