package collect

import (
	"bufio"
	"compress/flate"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
)

// Listing summarizes a ZIP.
type Listing struct {
	Files  int   `json:"files"`
	Dirs   int   `json:"dirs"`
	Links  int   `json:"links"`
	Bytes  int64 `json:"bytes"`  // unpacked
	Packed int64 `json:"packed"` // without headers
}

// Verify reads all of a ZIP and checks its consistency: the end, the directory, each entry's own header and data
// descriptor, sizes and CRC of all data. It returns a *BadZip for a truncated ZIP, overlapping entries, a duplicate
// name, a name or a link that leads out of the target directory, an entry below a link, encryption, and methods other
// than store and deflate. Other errors are of r or of the context. Nothing is unpacked.
func Verify(ctx context.Context, r io.ReaderAt, size int64) (Listing, error) {
	return VerifyEach(ctx, r, size, nil)
}

// VerifyEach is [Verify] that calls file with the name and the digest of the data of each entry that is a file, in the
// order of the directory. An error of file ends it. Nil: no digests are computed.
func VerifyEach(ctx context.Context, r io.ReaderAt, size int64, file func(name string, sum Digest) error) (
	Listing, error) {
	l, err := verify(ctx, r, size, file)
	if err != nil {
		err = fmt.Errorf("collect: verify: %w", err)
	}
	return l, err
}

func verify(ctx context.Context, r io.ReaderAt, size int64, file func(string, Digest) error) (Listing, error) {
	a, err := openArchive(r, size)
	if err != nil {
		return Listing{}, err
	}
	l, err := a.structure(ctx)
	if err != nil {
		return l, err
	}
	u := newUnpacker(ctx)
	if file != nil {
		u.sum = sha256.New()
	}
	return l, a.each(ctx, func(h *header) error {
		if err := a.contents(u, h); err != nil || file == nil || h.mode.IsDir() || h.mode&fs.ModeSymlink != 0 {
			return err
		}
		return file(h.name, Digest(u.sum.Sum(nil)))
	})
}

// span is the half-open range of bytes that belongs to one entry.
type span struct{ from, to int64 }

// structure checks everything except the data, before the first byte is unpacked: an archive whose entries share
// bytes unpacks to far more than it has.
func (a *archive) structure(ctx context.Context) (Listing, error) {
	var l Listing
	taken, links := newNames(), newNames()
	spans := make([]span, 0, min(a.count, 1<<16))
	err := a.each(ctx, func(h *header) error {
		at, err := a.data(h)
		if err != nil {
			return err
		}
		spans = append(spans, span{int64(h.offset), at + int64(h.packed)})
		name := strings.TrimSuffix(h.name, "/")
		if !taken.add(name) {
			return bad(h.name, "the name is there twice")
		}
		switch {
		case h.mode.IsDir():
			l.Dirs++
		case h.mode&fs.ModeSymlink != 0:
			l.Links++
			links.add(name)
		default:
			l.Files++
		}
		if l.Bytes += int64(h.size); h.size > 1<<62 || l.Bytes < 0 {
			return bad(h.name, "its size cannot be")
		}
		l.Packed += int64(h.packed)
		return nil
	})
	if err != nil {
		return l, err
	}
	slices.SortFunc(spans, func(x, y span) int { return int(min(max(x.from-y.from, -1), 1)) })
	for i := 1; i < len(spans); i++ {
		if spans[i].from < spans[i-1].to {
			return l, bad("", "entries overlap")
		}
	}
	if l.Links == 0 {
		return l, nil
	}
	return l, a.each(ctx, func(h *header) error {
		for i, c := range h.name {
			if c == '/' && i < len(h.name)-1 && links.has(h.name[:i]) {
				return bad(h.name, "it lies below a link")
			}
		}
		return nil
	})
}

// unpacker is what reading entries needs, once for all of them.
type unpacker struct {
	ctx     context.Context
	packed  *bufio.Reader
	inflate io.ReadCloser
	buffer  []byte
	sum     hash.Hash // of the data of the present entry; nil: not computed
}

func newUnpacker(ctx context.Context) *unpacker {
	packed := bufio.NewReaderSize(strings.NewReader(""), 64<<10)
	return &unpacker{ctx: ctx, packed: packed, inflate: flate.NewReader(packed), buffer: make([]byte, 64<<10)}
}

// contents unpacks an entry, discards the data and compares.
func (a *archive) contents(u *unpacker, h *header) error {
	at, err := a.data(h)
	if err != nil {
		return err
	}
	e := a.entry(u, h, at)
	var link strings.Builder
	if u.sum != nil {
		u.sum.Reset()
	}
	for {
		n, err := e.Read(u.buffer)
		if u.sum != nil {
			u.sum.Write(u.buffer[:n])
		}
		if h.mode&fs.ModeSymlink != 0 {
			link.Write(u.buffer[:n])
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
	}
	if h.mode&fs.ModeSymlink != 0 {
		if err := checkLink(h.name, link.String()); err != nil {
			return bad(h.name, "a link to %s, which %v", short(link.String()), err)
		}
	}
	if h.flags&flagDescriptor != 0 {
		return a.descriptor(h, at+int64(h.packed))
	}
	return nil
}

// descriptor checks the record after the data (APPNOTE 4.3.9), in any of the four forms in use.
func (a *archive) descriptor(h *header, at int64) error {
	var b [24]byte
	n := min(int64(len(b)), a.start-at)
	if err := readAt(a.r, b[:n], at, "an entry"); err != nil {
		return err
	}
	le := binary.LittleEndian
	for _, wide := range []bool{false, true} {
		d := le.AppendUint32(nil, h.crc)
		if wide {
			d = le.AppendUint64(le.AppendUint64(d, h.packed), h.size)
		} else {
			d = le.AppendUint32(le.AppendUint32(d, uint32(h.packed)), uint32(h.size))
		}
		signed := append(le.AppendUint32(nil, descriptorSignature), d...)
		if strings.HasPrefix(string(b[:n]), string(d)) || strings.HasPrefix(string(b[:n]), string(signed)) {
			return nil
		}
	}
	return bad(h.name, "the record after its data differs from the directory")
}

// entryReader returns the data of one entry. At their end it compares length and CRC, so that io.EOF means that both
// match.
type entryReader struct {
	u    *unpacker
	h    *header
	src  io.Reader
	n    uint64
	sum  uint32
	done error
}

func (a *archive) entry(u *unpacker, h *header, at int64) *entryReader {
	u.packed.Reset(io.NewSectionReader(a.r, at, int64(h.packed)))
	e := &entryReader{u: u, h: h, src: u.packed}
	if h.method == deflate {
		u.inflate.(flate.Resetter).Reset(u.packed, nil)
		e.src = u.inflate
	}
	return e
}

func (e *entryReader) Read(p []byte) (int, error) {
	if e.done != nil {
		return 0, e.done
	}
	if e.u.ctx.Err() != nil {
		e.done = context.Cause(e.u.ctx)
		return 0, e.done
	}
	n, err := e.src.Read(p)
	e.n += uint64(n)
	e.sum = crc32.Update(e.sum, crc32.IEEETable, p[:n])
	if e.n > e.h.size {
		err = bad(e.h.name, "more than its stated %d bytes", e.h.size)
	}
	if err == io.EOF {
		err = e.end()
	} else if _, corrupt := err.(flate.CorruptInputError); corrupt || err == io.ErrUnexpectedEOF {
		err = bad(e.h.name, "its data are damaged")
	}
	e.done = err
	return n, err
}

func (e *entryReader) end() error {
	if e.n != e.h.size {
		return bad(e.h.name, "%d of its stated %d bytes", e.n, e.h.size)
	}
	if e.sum != e.h.crc {
		return bad(e.h.name, "wrong CRC: %08x, stated is %08x", e.sum, e.h.crc)
	}
	if _, err := e.u.packed.Peek(1); err == nil {
		return bad(e.h.name, "bytes after the end of its data")
	} else if err != io.EOF {
		return err
	}
	return io.EOF
}

func (e *entryReader) Close() error {
	if e.done == nil {
		e.done = os.ErrClosed
	}
	return nil
}

// Entry opens one file of a ZIP by its name, without unpacking the others, and returns its length. The reader ends
// with io.EOF only if length and CRC match. A missing name is fs.ErrNotExist; a directory or link is fs.ErrInvalid.
func Entry(ctx context.Context, r io.ReaderAt, size int64, name string) (io.ReadCloser, int64, error) {
	fail := func(err error) (io.ReadCloser, int64, error) {
		return nil, 0, fmt.Errorf("collect: entry %s: %w", short(name), err)
	}
	a, err := openArchive(r, size)
	if err != nil {
		return fail(err)
	}
	var found *header
	err = a.each(ctx, func(h *header) error {
		if h.name != name && h.name != name+"/" {
			return nil
		}
		found = h
		return errEnough
	})
	switch {
	case err != nil:
		return fail(err)
	case found == nil:
		return fail(fs.ErrNotExist)
	case !found.mode.IsRegular():
		return fail(fmt.Errorf("%w: a %s", fs.ErrInvalid, kind(found.mode)))
	}
	at, err := a.data(found)
	if err != nil {
		return fail(err)
	}
	return a.entry(newUnpacker(ctx), found, at), int64(found.size), nil
}

// Entries lists a ZIP in the order of its directory, up to a number of entries; more reports that there are others.
// Links have no target.
func Entries(ctx context.Context, r io.ReaderAt, size int64, most int) (files []File, more bool, err error) {
	a, err := openArchive(r, size)
	if err == nil {
		err = a.each(ctx, func(h *header) error {
			if len(files) >= most {
				more = true
				return errEnough
			}
			files = append(files, File{Name: strings.TrimSuffix(h.name, "/"), Size: int64(h.size), Mode: h.mode,
				MTime: h.mtime})
			return nil
		})
	}
	if err != nil {
		return nil, false, fmt.Errorf("collect: entries: %w", err)
	}
	return files, more, nil
}

// Repack writes a ZIP without the entries whose names drop selects. Results of job-orchestrator require it: they
// contain a truncated copy of themselves, output.zip. The packed data are copied without a check: call Verify before.
// After an error the output is not a ZIP.
func Repack(ctx context.Context, r io.ReaderAt, size int64, w io.Writer, drop func(name string) bool) error {
	a, err := openArchive(r, size)
	if err != nil {
		return fmt.Errorf("collect: repack: %w", err)
	}
	if _, err := a.structure(ctx); err != nil {
		return fmt.Errorf("collect: repack: %w", err)
	}
	z := newWriter(w)
	err = a.each(ctx, func(h *header) error {
		if drop != nil && drop(h.name) {
			return nil
		}
		at, err := a.data(h)
		if err != nil {
			return err
		}
		src := &source{ctx: ctx, r: io.NewSectionReader(a.r, at, int64(h.packed))}
		err = z.raw(h, onlyReader{src})
		if src.err != nil {
			err = src.err
		}
		return err
	})
	if err == nil {
		err = z.close()
	}
	if err != nil {
		return fmt.Errorf("collect: repack: %w", err)
	}
	return nil
}
