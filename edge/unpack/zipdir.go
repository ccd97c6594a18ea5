package unpack

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
)

const (
	localSignature     = 0x04034b50
	directorySignature = 0x02014b50
	endSignature       = 0x06054b50
	locator64Signature = 0x07064b50
	end64Signature     = 0x06064b50
)

func le16(b []byte) uint16 { return binary.LittleEndian.Uint16(b) }
func le32(b []byte) uint32 { return binary.LittleEndian.Uint32(b) }
func le64(b []byte) uint64 { return binary.LittleEndian.Uint64(b) }

// zipOffsets reads the central directory (APPNOTE 4.3.12) with constant memory per entry, and returns the offsets of
// the entries' own headers and of the directory. It precedes the standard library for two reasons: a directory of
// millions of entries is refused before it is in memory, and overlapping entries are found by the offsets.
func zipOffsets(archive io.ReaderAt, size int64, most int) ([]int64, int64, error) {
	count, length, start, end, err := zipEnd(archive, size)
	if err != nil {
		return nil, 0, refuse(Corrupt, "", err)
	}
	if count > uint64(most) {
		return nil, 0, refuse(TooMany, "", fmt.Errorf("more than %d", most))
	}
	if start > uint64(size) || length > uint64(size) || int64(start+length) != end {
		return nil, 0, refuse(Corrupt, "", errors.New("directory does not lie before its end"))
	}
	r := bufio.NewReader(io.NewSectionReader(archive, int64(start), int64(length)))
	var offsets []int64
	for {
		var head [46]byte
		if _, err := io.ReadFull(r, head[:]); err == io.EOF {
			break
		} else if err != nil || le32(head[:]) != directorySignature {
			return nil, 0, refuse(Corrupt, "", errors.New("bad directory entry"))
		}
		if len(offsets) == most {
			return nil, 0, refuse(TooMany, "", fmt.Errorf("more than %d", most))
		}
		rest := make([]byte, int(le16(head[28:]))+int(le16(head[30:]))+int(le16(head[32:])))
		if _, err := io.ReadFull(r, rest); err != nil {
			return nil, 0, refuse(Corrupt, "", io.ErrUnexpectedEOF)
		}
		offset, ok := localOffset(head[:], rest)
		if !ok || offset >= start {
			return nil, 0, refuse(Corrupt, "", errors.New("bad offset in a directory entry"))
		}
		offsets = append(offsets, int64(offset))
	}
	if uint64(len(offsets)) != count {
		return nil, 0, refuse(Mismatch, "", fmt.Errorf("%d entries, the end record states %d", len(offsets), count))
	}
	return offsets, int64(start), nil
}

// localOffset reads the offset of an entry, from the zip64 field (APPNOTE 4.5.3) if it does not fit.
func localOffset(head, rest []byte) (uint64, bool) {
	if offset := le32(head[42:]); offset != 1<<32-1 {
		return uint64(offset), true
	}
	nameLen, extraLen := int(le16(head[28:])), int(le16(head[30:]))
	extra := rest[nameLen : nameLen+extraLen]
	for len(extra) >= 4 {
		id, n := le16(extra), int(le16(extra[2:]))
		if extra = extra[4:]; n > len(extra) {
			return 0, false
		}
		if id == 1 {
			field := extra[:n]
			for _, at := range []int{24, 20} { // unpacked and packed size come first, if they do not fit either
				if le32(head[at:]) == 1<<32-1 {
					if len(field) < 8 {
						return 0, false
					}
					field = field[8:]
				}
			}
			if len(field) < 8 {
				return 0, false
			}
			return le64(field), true
		}
		extra = extra[n:]
	}
	return 0, false
}

// zipEnd finds the end record (APPNOTE 4.3.16) and returns the directory's count, length and start, and the offset
// where the directory must end. Only a record whose comment reaches exactly to the end of the file is valid.
func zipEnd(archive io.ReaderAt, size int64) (count, length, start uint64, end int64, err error) {
	tail := make([]byte, min(size, 22+1<<16))
	base := size - int64(len(tail))
	if _, err := archive.ReadAt(tail, base); err != nil && err != io.EOF {
		return 0, 0, 0, 0, err
	}
	for i := len(tail) - 22; i >= 0; i-- {
		b := tail[i:]
		if le32(b) != endSignature || int(le16(b[20:])) != len(b)-22 {
			continue
		}
		end = base + int64(i)
		if end >= 20 {
			if count, length, start, at, ok, err := zipEnd64(archive, end-20); err != nil || ok {
				return count, length, start, at, err
			}
		}
		return uint64(le16(b[10:])), uint64(le32(b[12:])), uint64(le32(b[16:])), end, nil
	}
	return 0, 0, 0, 0, errors.New("no end of directory")
}

func zipEnd64(archive io.ReaderAt, locator int64) (count, length, start uint64, end int64, ok bool, err error) {
	var b [56]byte
	if _, err := archive.ReadAt(b[:20], locator); err != nil {
		return 0, 0, 0, 0, false, err
	}
	if le32(b[:]) != locator64Signature {
		return 0, 0, 0, 0, false, nil
	}
	at := le64(b[8:])
	if at > uint64(locator) {
		return 0, 0, 0, 0, false, errors.New("bad zip64 locator")
	}
	if _, err := archive.ReadAt(b[:], int64(at)); err != nil {
		return 0, 0, 0, 0, false, err
	}
	if le32(b[:]) != end64Signature {
		return 0, 0, 0, 0, false, errors.New("bad zip64 end")
	}
	return le64(b[32:]), le64(b[40:]), le64(b[48:]), int64(at), true, nil
}

// span is the half-open range of archive bytes that belongs to one entry.
type span struct{ from, to int64 }

// overlap reports whether two entries share bytes, as in archives that unpack to far more than they hold.
func overlap(spans []span) bool {
	slices.SortFunc(spans, func(a, b span) int { return int(min(max(a.from-b.from, -1), 1)) })
	for i := 1; i < len(spans); i++ {
		if spans[i].from < spans[i-1].to {
			return true
		}
	}
	return false
}
