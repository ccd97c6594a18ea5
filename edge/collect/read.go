package collect

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"
	"unicode/utf8"
)

// mostEntries is the greatest number of entries of a ZIP that is read.
const mostEntries = 4_000_000

// BadZip is a fault of a ZIP. Entry is printable, and empty if the fault is in no single entry.
type BadZip struct {
	Entry string
	Why   string
}

func (e *BadZip) Error() string {
	if e.Entry == "" {
		return "bad ZIP: " + e.Why
	}
	return fmt.Sprintf("bad ZIP: entry %s: %s", e.Entry, e.Why)
}

func bad(entry, why string, args ...any) error {
	return &BadZip{short(entry), fmt.Sprintf(why, args...)}
}

// archive is a ZIP with its end read.
type archive struct {
	r             io.ReaderAt
	size          int64
	count         uint64
	start, length int64 // of the directory
}

func le16(b []byte) uint16 { return binary.LittleEndian.Uint16(b) }
func le32(b []byte) uint32 { return binary.LittleEndian.Uint32(b) }
func le64(b []byte) uint64 { return binary.LittleEndian.Uint64(b) }

// readAt reads len(b) bytes; beyond the end the ZIP is truncated, anything else is an error of the disk.
func readAt(r io.ReaderAt, b []byte, at int64, what string) error {
	n, err := r.ReadAt(b, at)
	if n == len(b) {
		return nil
	}
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return bad("", "it is cut in %s", what)
	}
	return err
}

// openArchive reads the end record (APPNOTE 4.3.16), which must reach exactly to the end of the file, and that of
// zip64.
func openArchive(r io.ReaderAt, size int64) (*archive, error) {
	if size < 22 {
		return nil, bad("", "%d bytes are less than an empty one has", size)
	}
	tail := make([]byte, min(size, 22+max16))
	base := size - int64(len(tail))
	if err := readAt(r, tail, base, "its end"); err != nil {
		return nil, err
	}
	at := len(tail) - 22
	for at >= 0 && (le32(tail[at:]) != endSignature || int(le16(tail[at+20:])) != len(tail)-22-at) {
		at--
	}
	if at < 0 {
		return nil, bad("", "no end of directory: it is truncated or not a ZIP")
	}
	end, b := base+int64(at), tail[at:]
	if le16(b[4:]) != 0 || le16(b[6:]) != 0 || le16(b[8:]) != le16(b[10:]) {
		return nil, bad("", "it is one part of several")
	}
	count, length, start := uint64(le16(b[10:])), uint64(le32(b[12:])), uint64(le32(b[16:]))
	if count == max16 || length == max32 || start == max32 {
		at64, c, l, s, err := end64(r, end)
		if err != nil {
			return nil, err
		}
		if at64 >= 0 {
			end, count, length, start = at64, c, l, s
		}
	}
	if start > uint64(end) || length != uint64(end)-start {
		return nil, bad("", "the directory does not lie before its end")
	}
	if count > mostEntries {
		return nil, bad("", "%d entries, at most %d are read", count, mostEntries)
	}
	return &archive{r: r, size: size, count: count, start: int64(start), length: int64(length)}, nil
}

// end64 reads the end record of zip64, if it precedes the ordinary end; otherwise at is -1.
func end64(r io.ReaderAt, end int64) (at int64, count, length, start uint64, err error) {
	var b [56]byte
	if end < 20+56 {
		return -1, 0, 0, 0, nil
	}
	if err := readAt(r, b[:20], end-20, "its end"); err != nil {
		return 0, 0, 0, 0, err
	}
	if le32(b[:]) != locator64Signature {
		return -1, 0, 0, 0, nil
	}
	where := le64(b[8:])
	if where > uint64(end-20-56) {
		return 0, 0, 0, 0, bad("", "the zip64 end is not at its stated offset")
	}
	if err := readAt(r, b[:], int64(where), "its zip64 end"); err != nil {
		return 0, 0, 0, 0, err
	}
	if le32(b[:]) != end64Signature || le64(b[4:]) != uint64(end)-20-where-12 || le64(b[24:]) != le64(b[32:]) {
		return 0, 0, 0, 0, bad("", "a bad zip64 end")
	}
	return int64(where), le64(b[32:]), le64(b[40:]), le64(b[48:]), nil
}

var errEnough = errors.New("enough")

// each yields the entries of the directory in order, until visit returns an error; errEnough ends it without an
// error.
func (a *archive) each(ctx context.Context, visit func(h *header) error) error {
	r := bufio.NewReaderSize(io.NewSectionReader(a.r, a.start, a.length), 64<<10)
	var seen uint64
	for ; seen < a.count; seen++ {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		h, err := a.next(r)
		if err != nil {
			return err
		}
		if err := visit(h); err == errEnough {
			return nil
		} else if err != nil {
			return err
		}
	}
	if _, err := r.Peek(1); err != io.EOF {
		return bad("", "the directory has more than the %d entries of its end record", a.count)
	}
	return nil
}

// next reads one entry of the directory (APPNOTE 4.3.12).
func (a *archive) next(r *bufio.Reader) (*header, error) {
	var b [46]byte
	if _, err := io.ReadFull(r, b[:]); err == io.EOF || err == io.ErrUnexpectedEOF {
		return nil, bad("", "the directory has less than the %d entries of its end record", a.count)
	} else if err != nil {
		return nil, err
	}
	if le32(b[:]) != directorySignature {
		return nil, bad("", "something else in the directory than entries")
	}
	nameLen, extraLen := int(le16(b[28:])), int(le16(b[30:]))
	rest := make([]byte, nameLen+extraLen+int(le16(b[32:])))
	if _, err := io.ReadFull(r, rest); err == io.EOF || err == io.ErrUnexpectedEOF {
		return nil, bad("", "the directory is cut")
	} else if err != nil {
		return nil, err
	}
	h := &header{name: string(rest[:nameLen]), flags: le16(b[8:]), method: le16(b[10:]), date: le32(b[12:]),
		crc:    le32(b[16:]),
		packed: uint64(le32(b[20:])), size: uint64(le32(b[24:])), offset: uint64(le32(b[42:])), version: le16(b[4:]),
		attrs: le32(b[38:])}
	if h.version == 0 {
		h.version = 20
	}
	if le16(b[34:]) != 0 {
		return nil, bad(h.name, "it is on another part")
	}
	h.mode, h.mtime = attributes(h), fromDOS(h.date)
	if !h.fields(rest[nameLen : nameLen+extraLen]) {
		return nil, bad(h.name, "bad extra fields")
	}
	return h, a.check(h)
}

// fields reads zip64 and time from the extra fields (APPNOTE 4.5.3).
func (h *header) fields(extra []byte) bool {
	need64 := h.size == max32 || h.packed == max32 || h.offset == max32
	for len(extra) >= 4 {
		id, n := le16(extra), int(le16(extra[2:]))
		if extra = extra[4:]; n > len(extra) {
			return false
		}
		field := extra[:n]
		extra = extra[n:]
		switch {
		case id == 1 && need64:
			for _, to := range []*uint64{&h.size, &h.packed, &h.offset} {
				if *to != max32 {
					continue
				}
				if len(field) < 8 {
					return false
				}
				*to, field = le64(field), field[8:]
			}
			need64 = false
		case id == 0x5455 && n >= 5 && field[0]&1 != 0:
			h.mtime = time.Unix(int64(int32(le32(field[1:]))), 0)
		}
	}
	return !need64
}

// check refuses unsupported and harmful entries.
func (a *archive) check(h *header) error {
	if err := checkName(h.name); err != nil {
		return bad(h.name, "%v", err)
	}
	dir := h.mode.IsDir()
	switch {
	case h.flags&(1|1<<6|1<<13) != 0:
		return bad(h.name, "it is encrypted")
	case h.method != store && h.method != deflate:
		return bad(h.name, "compression method %d is not read", h.method)
	case h.method == store && h.packed != h.size:
		return bad(h.name, "it is stored, yet has two sizes: %d and %d", h.packed, h.size)
	case dir && h.size != 0:
		return bad(h.name, "a directory with data")
	case !dir && !h.mode.IsRegular() && h.mode&fs.ModeSymlink == 0:
		return bad(h.name, "a %s", kind(h.mode))
	case h.mode&fs.ModeSymlink != 0 && h.size > 4096:
		return bad(h.name, "a link with %d bytes", h.size)
	case h.offset >= uint64(a.start) || h.packed > uint64(a.start)-h.offset:
		return bad(h.name, "its data reach into the directory or beyond")
	case h.flags&flagUTF8 != 0 && !utf8.ValidString(h.name):
		return bad(h.name, "its name is marked as UTF-8 but is not")
	}
	return nil
}

// data compares the header before an entry's data with the directory, since other programs use the former, and
// returns the offset of the data.
func (a *archive) data(h *header) (int64, error) {
	b := make([]byte, 30+len(h.name))
	if err := readAt(a.r, b[:30], int64(h.offset), "an entry"); err != nil {
		return 0, err
	}
	if le32(b) != localSignature || int(le16(b[26:])) != len(h.name) {
		return 0, bad(h.name, "no header of its own at the offset of the directory")
	}
	if err := readAt(a.r, b[30:], int64(h.offset)+30, "an entry"); err != nil {
		return 0, err
	}
	if !bytes.Equal(b[30:], []byte(h.name)) || le16(b[8:]) != h.method ||
		(le16(b[6:])^h.flags)&(1|flagDescriptor) != 0 {
		return 0, bad(h.name, "its own header differs from the directory")
	}
	if h.flags&flagDescriptor == 0 {
		packed, size := uint64(le32(b[18:])), uint64(le32(b[22:]))
		if le32(b[14:]) != h.crc || packed != max32 && packed != h.packed || size != max32 && size != h.size {
			return 0, bad(h.name, "its own header differs from the directory")
		}
	}
	at := int64(h.offset) + 30 + int64(len(h.name)) + int64(le16(b[28:]))
	if at > a.start || h.packed > uint64(a.start-at) {
		return 0, bad(h.name, "its data reach into the directory")
	}
	return at, nil
}

// attributes returns the mode; entries that were not made on Unix get the usual mode of files and directories.
func attributes(h *header) fs.FileMode {
	slash := len(h.name) > 0 && h.name[len(h.name)-1] == '/'
	if os := h.version >> 8; (os == 3 || os == 19) && h.attrs>>16 != 0 {
		unix := h.attrs >> 16
		mode := fs.FileMode(unix & 0o777)
		switch unix & 0o170000 {
		case 0o040000:
			mode |= fs.ModeDir
		case 0o120000:
			mode |= fs.ModeSymlink
		case 0o010000:
			mode |= fs.ModeNamedPipe
		case 0o140000:
			mode |= fs.ModeSocket
		case 0o020000, 0o060000:
			mode |= fs.ModeDevice
		}
		if slash && mode.IsRegular() {
			mode |= fs.ModeDir
		}
		return mode
	}
	if slash {
		return fs.ModeDir | 0o755
	}
	return 0o644
}

func fromDOS(d uint32) time.Time {
	date, clock := int(d>>16), int(d&max16)
	return time.Date(1980+date>>9, time.Month(date>>5&15), date&31, clock>>11, clock>>5&63, clock&31*2, 0, time.UTC)
}
