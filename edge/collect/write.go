package collect

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"hash/crc32"
	"io"
	"io/fs"
	"time"
)

const (
	max16 = 1<<16 - 1
	max32 = 1<<32 - 1

	localSignature      = 0x04034b50
	descriptorSignature = 0x08074b50
	directorySignature  = 0x02014b50
	endSignature        = 0x06054b50
	locator64Signature  = 0x07064b50
	end64Signature      = 0x06064b50

	flagDescriptor = 1 << 3
	flagUTF8       = 1 << 11

	store, deflate = 0, 8
)

// header is the directory entry of a ZIP.
type header struct {
	name    string
	flags   uint16
	method  uint16
	crc     uint32
	packed  uint64
	size    uint64
	offset  uint64 // of its local header
	mode    fs.FileMode
	mtime   time.Time
	version uint16 // "made by" and attributes, as read; zero for a new entry
	attrs   uint32
	date    uint32 // MS-DOS time and date, as read
}

// writer writes a ZIP to a stream. The one of the standard library keeps a header of some 400 bytes for each entry
// until the end; this one keeps the directory in its final form, deflated: some 20 bytes for each.
type writer struct {
	w       io.Writer
	at      uint64
	count   uint64
	length  uint64       // of the directory, unpacked
	packed  bytes.Buffer // the directory
	dir     *flate.Writer
	deflate *flate.Writer
	buffer  []byte
}

func newWriter(w io.Writer) *writer {
	z := &writer{w: w, buffer: make([]byte, 64<<10)}
	z.dir, _ = flate.NewWriter(&z.packed, flate.BestSpeed) // the level is valid
	z.deflate, _ = flate.NewWriter(nil, flate.BestSpeed)
	return z
}

func (z *writer) Write(p []byte) (int, error) {
	n, err := z.w.Write(p)
	z.at += uint64(n)
	return n, err
}

// stream writes an entry whose length is known only afterwards: deflated, with a data descriptor (APPNOTE 4.3.9).
func (z *writer) stream(h *header, r io.Reader) error {
	h.flags, h.method, h.offset = flagUTF8|flagDescriptor, deflate, z.at
	if err := z.local(h); err != nil {
		return err
	}
	start, sum := z.at, crc32.NewIEEE()
	z.deflate.Reset(z)
	n, err := io.CopyBuffer(io.MultiWriter(z.deflate, sum), onlyReader{r}, z.buffer)
	if err != nil {
		return err
	}
	if err := z.deflate.Close(); err != nil {
		return err
	}
	h.crc, h.packed, h.size = sum.Sum32(), z.at-start, uint64(n)
	b := binary.LittleEndian.AppendUint32(nil, descriptorSignature)
	b = binary.LittleEndian.AppendUint32(b, h.crc)
	if h.packed >= max32 || h.size >= max32 {
		b = binary.LittleEndian.AppendUint64(b, h.packed)
		b = binary.LittleEndian.AppendUint64(b, h.size)
	} else {
		b = binary.LittleEndian.AppendUint32(b, uint32(h.packed))
		b = binary.LittleEndian.AppendUint32(b, uint32(h.size))
	}
	if _, err := z.Write(b); err != nil {
		return err
	}
	return z.record(h)
}

// short writes an entry with few bytes, such as a directory (none) or a link (its target).
func (z *writer) short(h *header, data string) error {
	h.flags, h.method, h.offset = flagUTF8, store, z.at
	h.crc, h.packed, h.size = crc32.ChecksumIEEE([]byte(data)), uint64(len(data)), uint64(len(data))
	if err := z.local(h); err != nil {
		return err
	}
	if _, err := io.WriteString(z, data); err != nil {
		return err
	}
	return z.record(h)
}

// raw writes an entry with data that are packed already.
func (z *writer) raw(h *header, data io.Reader) error {
	h.flags &^= flagDescriptor
	h.offset = z.at
	if err := z.local(h); err != nil {
		return err
	}
	if n, err := io.Copy(z, data); err != nil || uint64(n) != h.packed {
		if err == nil {
			err = io.ErrUnexpectedEOF
		}
		return err
	}
	return z.record(h)
}

// local writes the header before the data (APPNOTE 4.3.7).
func (z *writer) local(h *header) error {
	le := binary.LittleEndian
	if h.version == 0 {
		h.date = dosTime(h.mtime)
		h.version, h.attrs = 3<<8|45, unixMode(h.mode)<<16 // made on Unix
		if h.mode.IsDir() {
			h.attrs |= 0x10
		}
	}
	var extra []byte
	sizes := [2]uint32{uint32(h.packed), uint32(h.size)}
	if h.flags&flagDescriptor == 0 && (h.packed >= max32 || h.size >= max32) {
		sizes = [2]uint32{max32, max32}
		extra = le.AppendUint64(le.AppendUint64(le.AppendUint16(le.AppendUint16(nil, 1), 16), h.size), h.packed)
	}
	extra = append(extra, timeField(h)...)
	b := le.AppendUint32(nil, localSignature)
	b = le.AppendUint16(b, needed(h))
	b = le.AppendUint16(b, h.flags)
	b = le.AppendUint16(b, h.method)
	b = le.AppendUint32(b, h.date)
	if h.flags&flagDescriptor != 0 {
		b = append(b, make([]byte, 12)...)
	} else {
		b = le.AppendUint32(b, h.crc)
		b = le.AppendUint32(b, sizes[0])
		b = le.AppendUint32(b, sizes[1])
	}
	b = le.AppendUint16(b, uint16(len(h.name)))
	b = le.AppendUint16(b, uint16(len(extra)))
	b = append(append(b, h.name...), extra...)
	_, err := z.Write(b)
	return err
}

func needed(h *header) uint16 {
	if h.packed >= max32 || h.size >= max32 || h.offset >= max32 {
		return 45
	}
	return 20
}

// record adds an entry to the directory (APPNOTE 4.3.12).
func (z *writer) record(h *header) error {
	le := binary.LittleEndian
	packed, size, offset := uint32(min(h.packed, max32)), uint32(min(h.size, max32)), uint32(min(h.offset, max32))
	var extra []byte
	if size == max32 || packed == max32 || offset == max32 {
		size, packed, offset = max32, max32, max32
		extra = le.AppendUint16(le.AppendUint16(nil, 1), 24)
		extra = le.AppendUint64(le.AppendUint64(le.AppendUint64(extra, h.size), h.packed), h.offset)
	}
	extra = append(extra, timeField(h)...)
	b := le.AppendUint32(nil, directorySignature)
	b = le.AppendUint16(b, h.version)
	b = le.AppendUint16(b, needed(h))
	b = le.AppendUint16(b, h.flags)
	b = le.AppendUint16(b, h.method)
	b = le.AppendUint32(b, h.date)
	b = le.AppendUint32(b, h.crc)
	b = le.AppendUint32(b, packed)
	b = le.AppendUint32(b, size)
	b = le.AppendUint16(b, uint16(len(h.name)))
	b = le.AppendUint16(b, uint16(len(extra)))
	b = append(b, make([]byte, 6)...) // no comment, disk 0, no internal attributes
	b = le.AppendUint32(b, h.attrs)
	b = le.AppendUint32(b, offset)
	b = append(append(b, h.name...), extra...)
	z.count++
	z.length += uint64(len(b))
	_, err := z.dir.Write(b)
	return err
}

// close writes the directory and its end (APPNOTE 4.3.14 to 4.3.16).
func (z *writer) close() error {
	if err := z.dir.Close(); err != nil {
		return err
	}
	start := z.at
	if _, err := io.Copy(z, flate.NewReader(&z.packed)); err != nil {
		return err
	}
	le := binary.LittleEndian
	count, length, offset := uint16(min(z.count, max16)), uint32(min(z.length, max32)), uint32(min(start, max32))
	var b []byte
	if count == max16 || length == max32 || offset == max32 {
		count, length, offset = max16, max32, max32
		end := z.at
		b = le.AppendUint64(le.AppendUint32(b, end64Signature), 44)
		b = le.AppendUint16(le.AppendUint16(b, 3<<8|45), 45)
		b = append(b, make([]byte, 8)...) // disks
		b = le.AppendUint64(le.AppendUint64(b, z.count), z.count)
		b = le.AppendUint64(le.AppendUint64(b, z.length), start)
		b = le.AppendUint32(le.AppendUint32(b, locator64Signature), 0)
		b = le.AppendUint32(le.AppendUint64(b, end), 1)
	}
	b = le.AppendUint32(le.AppendUint32(b, endSignature), 0)
	b = le.AppendUint16(le.AppendUint16(b, count), count)
	b = le.AppendUint32(le.AppendUint32(b, length), offset)
	b = le.AppendUint16(b, 0)
	_, err := z.Write(b)
	return err
}

// timeField is the time in seconds and UTC (Info-ZIP's "UT"), if 32 bits can represent it.
func timeField(h *header) []byte {
	s := h.mtime.Unix()
	if h.mtime.IsZero() || s < 0 || s >= 1<<31 {
		return nil
	}
	b := binary.LittleEndian.AppendUint16(nil, 0x5455)
	b = append(binary.LittleEndian.AppendUint16(b, 5), 1)
	return binary.LittleEndian.AppendUint32(b, uint32(s))
}

// dosTime is in UTC, from 1980 to 2107 in steps of two seconds.
func dosTime(t time.Time) uint32 {
	t = t.UTC()
	switch {
	case t.Year() < 1980:
		t = time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)
	case t.Year() > 2107:
		t = time.Date(2107, 12, 31, 23, 59, 58, 0, time.UTC)
	}
	date := uint32(t.Day() + int(t.Month())<<5 + (t.Year()-1980)<<9)
	return date<<16 | uint32(t.Second()/2+t.Minute()<<5+t.Hour()<<11)
}

// unixMode is st_mode without the set-id and sticky bits.
func unixMode(m fs.FileMode) uint32 {
	bits := uint32(m.Perm())
	switch m.Type() {
	case fs.ModeDir:
		return bits | 0o040000
	case fs.ModeSymlink:
		return bits | 0o120000
	}
	return bits | 0o100000
}
