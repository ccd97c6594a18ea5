package collect

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"
)

// Zip writes the content of dir to w. Only an error of w, of the context, of an extra file or of the top of dir
// itself ends it early (the output is not a valid ZIP then); the manifest lists all other faults.
//
// A file is stored with the length that it has when it is opened, or less if it shrinks. Relative symbolic links to
// targets inside dir are stored as links; others are omitted and listed with their target. Modes and times are kept,
// but no set-id and sticky bits, and no owners.
func Zip(ctx context.Context, dir *os.Root, w io.Writer, o Options) (Manifest, error) {
	return zipInto(ctx, dir, w, o, nil)
}

// zipInto omits the file to which the ZIP itself is written.
func zipInto(ctx context.Context, dir *os.Root, w io.Writer, o Options, itself fs.FileInfo) (Manifest, error) {
	if o.MaxFiles <= 0 {
		o.MaxFiles = 1_000_000
	}
	c := &collector{Options: o, ctx: ctx, z: newWriter(w), taken: newNames(), itself: itself}
	for _, e := range o.Extra {
		if err := c.extra(e); err != nil {
			return c.Manifest, fmt.Errorf("collect: %w", err)
		}
	}
	for _, e := range o.Last {
		if err := c.reserve(e.Name); err != nil {
			return c.Manifest, fmt.Errorf("collect: %w", err)
		}
	}
	walk := &walker{ctx: ctx, most: 2*o.MaxFiles + mostListed, names: c.wanted, seen: c.entry, dir: c.directory,
		leave: c.leave}
	if err := walk.walk(dir); err != nil {
		return c.Manifest, fmt.Errorf("collect: %w", err)
	}
	for _, e := range o.Last {
		if err := c.store(e); err != nil {
			return c.Manifest, fmt.Errorf("collect: %w", err)
		}
	}
	if err := c.z.close(); err != nil {
		return c.Manifest, fmt.Errorf("collect: %w", err)
	}
	return c.Manifest, nil
}

// collector adds the files of the walk to a ZIP.
type collector struct {
	Options
	Manifest
	ctx     context.Context
	z       *writer
	taken   *names
	itself  fs.FileInfo
	entries int   // of the directory
	stored  int64 // bytes of the directory
}

func (c *collector) wanted(name string) bool { return c.Options.Skip == nil || !c.Options.Skip(name) }

func (c *collector) extra(e Extra) error {
	if err := c.reserve(e.Name); err != nil {
		return err
	}
	return c.store(e)
}

// reserve reserves a name for an extra file.
func (c *collector) reserve(name string) error {
	if err := checkName(name); err != nil || Spell(name) != name || len(name) > maxName {
		return fmt.Errorf("extra file %q: not a name to store", name)
	}
	if !c.taken.add(name) {
		return fmt.Errorf("extra file %q: twice", name)
	}
	return nil
}

// store stores an extra file whose name is reserved.
func (c *collector) store(e Extra) error {
	r, err := e.Open()
	if errors.Is(err, fs.ErrNotExist) {
		c.skip(e.Name, "%s", gone(err)) // it is not in the directory, so it is not reported
		return nil
	}
	if err != nil {
		return fmt.Errorf("extra file %q: %w", e.Name, err)
	}
	defer r.Close()
	h := &header{name: e.Name, mode: 0o644, mtime: time.Now()}
	if f, ok := r.(fs.File); ok {
		if info, err := f.Stat(); err == nil {
			h.mtime = info.ModTime()
		}
	}
	src := &source{ctx: c.ctx, r: r}
	err = c.z.stream(h, src)
	if err = errors.Join(src.err, err); err != nil {
		return fmt.Errorf("extra file %q: %w", e.Name, err)
	}
	c.Files++
	c.Bytes += int64(h.size)
	return nil
}

// admit returns the name under which a file is stored, or "" beyond a limit.
func (c *collector) admit(at level, base string) string {
	name := at.name + base
	if c.entries >= c.MaxFiles {
		c.leave(TooMany, name, "more than %d files", c.MaxFiles)
		return ""
	}
	want := at.stored + spellPart(base, at.stored == "")
	if len(want)+20 > maxName {
		c.leave(LongName, name, "its path is too long")
		return ""
	}
	c.entries++
	as := c.taken.free(want)
	if as != at.stored+base {
		c.callIt(name, as)
	}
	return as
}

func (c *collector) directory(at level, base string, info fs.FileInfo) (string, error) {
	as := c.admit(at, base)
	if as == "" {
		return "", errSkip
	}
	err := c.z.short(&header{name: as + "/", mode: info.Mode(), mtime: info.ModTime()}, "")
	return as + "/", err
}

func (c *collector) entry(at level, base string, info fs.FileInfo) error {
	switch info.Mode().Type() {
	case 0:
		return c.file(at, base, info)
	case fs.ModeSymlink:
		return c.link(at, base, info)
	}
	c.leave(reasonFor(info.Mode()), at.name+base, "a %s", kind(info.Mode()))
	return nil
}

func (c *collector) link(at level, base string, info fs.FileInfo) error {
	name := at.name + base
	target, err := at.root.Readlink(base)
	if err != nil {
		c.leaveFor(err, name)
		return nil
	}
	if err := checkLink(name, target); err != nil {
		c.leave(LinkOut, name, "a link to %s, which %v", short(target), err)
		return nil
	}
	as := c.admit(at, base)
	if as == "" {
		return nil
	}
	c.Files++
	c.Bytes += int64(len(target))
	return c.z.short(&header{name: as, mode: info.Mode(), mtime: info.ModTime()}, target)
}

func (c *collector) file(at level, base string, info fs.FileInfo) error {
	name := at.name + base
	if c.itself != nil && os.SameFile(info, c.itself) {
		return nil
	}
	f, info, err := open(at.root, base, info)
	if err != nil {
		c.leaveFor(err, name)
		return nil
	}
	defer f.Close()
	if want, ok := c.Leave[name]; ok {
		same, err := c.unchanged(f, want)
		if same || err != nil {
			return err
		}
	}
	if left := c.MaxBytes - c.stored; c.MaxBytes > 0 && info.Size() > left {
		c.leave(TooLarge, name, "%d bytes, beyond the %d bytes that results may have", info.Size(), c.MaxBytes)
		return nil
	}
	as := c.admit(at, base)
	if as == "" {
		return nil
	}
	h := &header{name: as, mode: info.Mode(), mtime: info.ModTime()}
	if mode, other := c.Modes[name]; other {
		h.mode = mode.Perm()
	}
	src := &source{ctx: c.ctx, r: io.LimitReader(f, info.Size())}
	if err := c.z.stream(h, src); err != nil {
		return err
	}
	if c.ctx.Err() != nil {
		return context.Cause(c.ctx)
	}
	if src.err != nil {
		c.leave(InPart, name, "stored in part, %d bytes: %s", h.size, cause(src.err))
	}
	c.Files++
	c.Bytes += int64(h.size)
	c.stored += int64(h.size)
	return nil
}

// unchanged compares an input with its original. An unreadable one is changed; only the context's end is an error.
func (c *collector) unchanged(f *os.File, want Digest) (bool, error) {
	sum := sha256.New()
	src := &source{ctx: c.ctx, r: f}
	_, err := io.CopyBuffer(sum, onlyReader{src}, c.z.buffer)
	if c.ctx.Err() != nil {
		return false, context.Cause(c.ctx)
	}
	if src.err == nil && err == nil && Digest(sum.Sum(nil)) == want {
		return true, nil
	}
	_, err = f.Seek(0, io.SeekStart)
	return false, err
}

// source ends at a read error, which it keeps, so that the entry is closed properly with the bytes so far; and at the
// end of the context.
type source struct {
	ctx context.Context
	r   io.Reader
	err error
}

func (s *source) Read(p []byte) (int, error) {
	if s.err == nil && s.ctx.Err() != nil {
		s.err = context.Cause(s.ctx)
	}
	if s.err != nil {
		return 0, io.EOF
	}
	n, err := s.r.Read(p)
	if err != nil && err != io.EOF {
		s.err, err = err, io.EOF
	}
	return n, err
}

// onlyReader hides other methods from io.Copy.
type onlyReader struct{ io.Reader }

// File is one line of a listing.
type File struct {
	// relative, with slashes, unchanged: any bytes (see Spell); without a slash at the end
	Name  string      `json:"name"`
	Size  int64       `json:"size"`
	Mode  fs.FileMode `json:"mode"` // with its type
	MTime time.Time   `json:"mtime"`
	Link  string      `json:"link,omitempty"` // the target of a symbolic link
}
