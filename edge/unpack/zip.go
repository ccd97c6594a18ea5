package unpack

import (
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/encoding/charmap"
)

// zip lists first and checks the list as a whole, then unpacks.
func (w *writer) zip(archive io.ReaderAt, size int64) error {
	offsets, start, err := zipOffsets(archive, size, w.limits.Files)
	if err != nil {
		return err
	}
	r, err := zip.NewReader(archive, size)
	if err != nil && !errors.Is(err, zip.ErrInsecurePath) { // the writer checks the names
		return refuse(Corrupt, "", err)
	}
	if len(r.File) != len(offsets) {
		return refuse(Mismatch, "", fmt.Errorf("%d entries by one reader, %d by another", len(r.File), len(offsets)))
	}
	if err := w.zipList(archive, r.File, offsets, start); err != nil {
		return err
	}
	for _, f := range r.File {
		if err := w.zipEntry(f); err != nil {
			return err
		}
	}
	return nil
}

// zipList checks every entry against the rules before the first byte is unpacked.
func (w *writer) zipList(archive io.ReaderAt, files []*zip.File, offsets []int64, start int64) error {
	var sum uint64
	spans := make([]span, 0, len(files))
	for i, f := range files {
		if rule := zipRule(f); rule != "" {
			return refuse(rule, f.Name, nil)
		}
		data, err := checkLocal(archive, f, offsets[i])
		if err != nil {
			return err
		}
		if f.CompressedSize64 > uint64(start) || data+int64(f.CompressedSize64) > start {
			return refuse(Overlap, f.Name, errors.New("data reaches into the directory"))
		}
		spans = append(spans, span{offsets[i], data + int64(f.CompressedSize64)})
		if sum += f.UncompressedSize64; f.UncompressedSize64 > uint64(w.limits.Bytes) || sum > uint64(w.limits.Bytes) {
			return refuse(TooLarge, f.Name, fmt.Errorf("more than %d bytes", w.limits.Bytes))
		}
		if w.steep(int64(f.UncompressedSize64), int64(f.CompressedSize64)) || w.steep(int64(sum), w.packed) {
			return refuse(Ratio, f.Name, fmt.Errorf("more than %d to 1", w.limits.Ratio))
		}
	}
	if overlap(spans) {
		return refuse(Overlap, "", nil)
	}
	return nil
}

func zipRule(f *zip.File) Rule {
	mode := f.Mode()
	switch {
	case f.Flags&(1|1<<6|1<<13) != 0: // encrypted, strongly encrypted, encrypted directory
		return Encrypted
	case f.Method != zip.Store && f.Method != zip.Deflate:
		return Method
	case mode&fs.ModeSymlink != 0:
		return Link
	case mode.IsDir() && f.UncompressedSize64 != 0:
		return Special
	case !mode.IsDir() && !mode.IsRegular():
		return Special
	case mode.IsRegular() && mode&(fs.ModeSetuid|fs.ModeSetgid) != 0:
		return SetID
	case f.Method == zip.Store && f.CompressedSize64 != f.UncompressedSize64:
		return Mismatch
	}
	return ""
}

func (w *writer) zipEntry(f *zip.File) error {
	name, err := w.zipName(f)
	if err != nil {
		return err
	}
	if f.Mode().IsDir() {
		return w.dir(strings.TrimSuffix(name, "/"))
	}
	data, err := f.Open()
	if err != nil {
		return refuse(Corrupt, f.Name, err)
	}
	defer data.Close()
	return w.file(name, data, int64(f.UncompressedSize64), int64(f.CompressedSize64))
}

// zipName returns the name of an entry. A name that is not UTF-8 is read from the Unicode extra field, if there is
// one. Otherwise it is decoded from code page 437, as the format defines, if a program of DOS or Windows made the
// archive, and from ISO-8859-1 if not.
func (w *writer) zipName(f *zip.File) (string, error) {
	if utf8.ValidString(f.Name) {
		return f.Name, nil
	}
	if name, ok := unicodeName(f); ok {
		return name, nil
	}
	table, count := charmap.ISO8859_1, &w.report.Latin1
	switch f.CreatorVersion >> 8 {
	case hostFAT, hostNTFS, hostVFAT, hostOS2, hostNTFSToo:
		table, count = charmap.CodePage437, &w.report.CP437
	}
	name, err := table.NewDecoder().String(f.Name)
	if err != nil {
		return "", refuse(Name, f.Name, err)
	}
	*count++
	return name, nil
}

// Hosts of APPNOTE.TXT section 4.4.2.2, and the value of Info-ZIP for NTFS.
const (
	hostFAT     = 0
	hostOS2     = 6
	hostNTFS    = 10
	hostNTFSToo = 11
	hostVFAT    = 14
)

// unicodeName reads the Info-ZIP Unicode Path extra field (APPNOTE.TXT section 4.6.9), if it is for the name that the
// entry has.
func unicodeName(f *zip.File) (string, bool) {
	for extra := f.Extra; len(extra) >= 4; {
		id, size := le16(extra), int(le16(extra[2:]))
		if len(extra) < 4+size {
			return "", false
		}
		field := extra[4 : 4+size]
		extra = extra[4+size:]
		if id == 0x7075 && size > 5 && field[0] == 1 && le32(field[1:]) == crc32.ChecksumIEEE([]byte(f.Name)) &&
			utf8.Valid(field[5:]) {
			return string(field[5:]), true
		}
	}
	return "", false
}

// checkLocal compares the header before the data with the directory's entry, since other programs may use the former.
// It returns the offset of the data.
func checkLocal(archive io.ReaderAt, f *zip.File, offset int64) (int64, error) {
	data, err := f.DataOffset()
	if err != nil {
		return 0, refuse(Corrupt, f.Name, err)
	}
	head := make([]byte, 30+len(f.Name))
	if _, err := archive.ReadAt(head, offset); err != nil {
		return 0, refuse(Corrupt, f.Name, err)
	}
	nameLen, extraLen := int64(le16(head[26:])), int64(le16(head[28:]))
	flags, method := le16(head[6:]), le16(head[8:])
	if le32(head) != localSignature || offset+30+nameLen+extraLen != data || nameLen != int64(len(f.Name)) ||
		!bytes.Equal(head[30:], []byte(f.Name)) || method != f.Method || (flags^f.Flags)&1 != 0 {
		return 0, refuse(Mismatch, f.Name, nil)
	}
	if flags&8 != 0 {
		return data, nil // sizes follow the data
	}
	packed, unpacked := uint64(le32(head[18:])), uint64(le32(head[22:]))
	if packed != 1<<32-1 && packed != f.CompressedSize64 || unpacked != 1<<32-1 && unpacked != f.UncompressedSize64 {
		return 0, refuse(Mismatch, f.Name, nil)
	}
	return data, nil
}
