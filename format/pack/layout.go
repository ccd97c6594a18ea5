package pack

import (
	"archive/tar"
	"archive/zip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"
)

// layout writes the bytes of a format around the content.
type layout interface {
	begin(e *Entry) (content io.Writer, err error) // writes all bytes before the content
	drain() error                                  // flushes written content
	end() error                                    // writes the bytes that directly follow the content
	close() error
}

func newLayout(f Format, w io.Writer) (layout, error) {
	switch f {
	case ZIP:
		return zipLayout{zip.NewWriter(w)}, nil
	case TAR:
		return tarLayout{tar.NewWriter(w)}, nil
	}
	return nil, fmt.Errorf("%w: unknown format %q (known: %s, %s)", ErrEntry, f, ZIP, TAR)
}

type zipLayout struct{ w *zip.Writer }

// Fields of a ZIP header (APPNOTE 4.4).
const (
	flagDescriptor = 0x8   // sizes and CRC follow the content
	flagUTF8       = 0x800 // the name is UTF-8
	madeByUnix     = 3 << 8
	version20      = 20
	version45      = 45 // supports zip64
	extraTime      = 0x5455
	limit32        = 1<<32 - 1
)

func (z zipLayout) begin(e *Entry) (io.Writer, error) {
	at := e.Modified.UTC().Truncate(time.Second)
	h := &zip.FileHeader{
		Name: e.Name, Method: zip.Store, Flags: flagUTF8, CreatorVersion: madeByUnix | version20,
		ReaderVersion: version20,
		CRC32:         e.CRC32, CompressedSize64: uint64(e.Size), UncompressedSize64: uint64(e.Size),
	}
	h.SetMode(e.Mode.Perm())
	//lint:ignore SA1019 CreateRaw writes these two and does not derive them from Modified
	h.ModifiedDate, h.ModifiedTime = dosTime(at)
	// a local header cannot hold the sizes: they follow the content, and the directory has them
	if e.Size >= limit32 {
		h.Flags |= flagDescriptor
		h.CreatorVersion, h.ReaderVersion = madeByUnix|version45, version45
	}
	if unix := at.Unix(); unix >= 0 && unix <= limit32 {
		h.Extra = binary.LittleEndian.AppendUint16(nil, extraTime)
		h.Extra = binary.LittleEndian.AppendUint16(h.Extra, 5)
		h.Extra = append(h.Extra, 1) // only the time of modification
		h.Extra = binary.LittleEndian.AppendUint32(h.Extra, uint32(unix))
	}
	content, err := z.w.CreateRaw(h)
	return content, errors.Join(err, z.w.Flush())
}

func (z zipLayout) drain() error { return z.w.Flush() }

func (z zipLayout) end() error { return nil }

func (z zipLayout) close() error { return z.w.Close() }

// dosTime returns date and time in the MS-DOS format: from 1980 to 2107, in steps of two seconds.
func dosTime(t time.Time) (date, clock uint16) {
	year := min(max(t.Year(), 1980), 2107)
	date = uint16(t.Day() + int(t.Month())<<5 + (year-1980)<<9)
	clock = uint16(t.Second()/2 + t.Minute()<<5 + t.Hour()<<11)
	return date, clock
}

type tarLayout struct{ w *tar.Writer }

func (l tarLayout) begin(e *Entry) (io.Writer, error) {
	err := l.w.WriteHeader(&tar.Header{
		Typeflag: tar.TypeReg, Name: e.Name, Size: e.Size, Mode: int64(e.Mode.Perm()),
		ModTime: e.Modified.UTC().Truncate(time.Second),
	})
	return l.w, err
}

func (l tarLayout) drain() error { return nil }

func (l tarLayout) end() error { return l.w.Flush() }

func (l tarLayout) close() error { return l.w.Close() }
