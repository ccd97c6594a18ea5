package log

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// The format. Numbers are little endian.
//
// A segment begins with a header of headerSize bytes:
//
//	 0  magic, 16 bytes
//	16  format version, 4 bytes; 4 bytes of zeros
//	24  number of the first record, 8 bytes
//	32  salt, 8 bytes: random, so that no content is taken for a record
//	40  installation, 64 bytes, filled with zeros
//	104 CRC-32C of the bytes before it, 4 bytes; zeros
//
// Records follow, each at a multiple of 8:
//
//	 0  length of the content, 4 bytes, not 0
//	 4  CRC-32C of salt, length, number and content, 4 bytes
//	 8  number, 8 bytes
//	16  content
const (
	magic       = "stagepost log 1\n"
	version     = 1
	headerSize  = 4096
	sumAt       = 104
	longestID   = 64
	recordSize  = 16 // without content
	suffix      = ".log"
	preparation = "next.tmp" // a segment that has no name yet
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// header is the beginning of a segment.
type header struct {
	first, salt  uint64
	installation string
}

func (h *header) append(b []byte) []byte {
	begin := len(b)
	b = append(b, magic...)
	b = binary.LittleEndian.AppendUint32(b, version)
	b = binary.LittleEndian.AppendUint32(b, 0)
	b = binary.LittleEndian.AppendUint64(b, h.first)
	b = binary.LittleEndian.AppendUint64(b, h.salt)
	b = append(b, h.installation...)
	b = append(b, make([]byte, longestID-len(h.installation))...)
	b = binary.LittleEndian.AppendUint32(b, crc32.Checksum(b[begin:], castagnoli))
	return append(b, make([]byte, headerSize-(len(b)-begin))...)
}

// parseHeader reads the header of a segment. The error states what is wrong with it.
func parseHeader(b []byte) (h header, err error) {
	if len(b) < headerSize || string(b[:len(magic)]) != magic {
		return h, fmt.Errorf("it does not begin like a segment")
	}
	if sum := binary.LittleEndian.Uint32(b[sumAt:]); sum != crc32.Checksum(b[:sumAt], castagnoli) {
		return h, fmt.Errorf("its header does not match the checksum")
	}
	if v := binary.LittleEndian.Uint32(b[16:]); v != version {
		return h, fmt.Errorf("it has format %d, this program supports %d: use a newer program", v, version)
	}
	h.first, h.salt = binary.LittleEndian.Uint64(b[24:]), binary.LittleEndian.Uint64(b[32:])
	h.installation = string(bytes.TrimRight(b[40:40+longestID], "\x00"))
	return h, nil
}

// span is the size of a record with the zeros after it.
func span(content int) int { return (recordSize + content + 7) &^ 7 }

func (h *header) sum(length uint32, number uint64, content []byte) uint32 {
	var b [20]byte
	binary.LittleEndian.PutUint64(b[:], h.salt)
	binary.LittleEndian.PutUint32(b[8:], length)
	binary.LittleEndian.PutUint64(b[12:], number)
	return crc32.Update(crc32.Checksum(b[:], castagnoli), castagnoli, content)
}

// appendRecord appends a record to b.
func (h *header) appendRecord(b []byte, number uint64, content []byte) []byte {
	length := uint32(len(content))
	b = binary.LittleEndian.AppendUint32(b, length)
	b = binary.LittleEndian.AppendUint32(b, h.sum(length, number, content))
	b = binary.LittleEndian.AppendUint64(b, number)
	b = append(b, content...)
	return append(b, make([]byte, span(len(content))-recordSize-len(content))...)
}

// record reads the record at a position of a segment; ok is false if no whole record is there. The content is a part
// of b.
func (h *header) record(b []byte, at int) (number uint64, content []byte, ok bool) {
	if at < 0 || at+recordSize > len(b) {
		return 0, nil, false
	}
	length := binary.LittleEndian.Uint32(b[at:])
	if length == 0 || uint64(length) > uint64(len(b)-at-recordSize) {
		return 0, nil, false
	}
	number = binary.LittleEndian.Uint64(b[at+8:])
	content = b[at+recordSize : at+recordSize+int(length)]
	return number, content, binary.LittleEndian.Uint32(b[at+4:]) == h.sum(length, number, content)
}

// later returns the position and the number of a whole record at or after a position whose number is higher than
// last: no segment has one after its end.
func (h *header) later(b []byte, at int, last uint64) (position int, number uint64, found bool) {
	most := last + uint64(len(b)/recordSize) + 1
	for ; at+recordSize <= len(b); at += 8 {
		if n := binary.LittleEndian.Uint64(b[at+8:]); n <= last || n > most {
			continue // without computing a checksum
		}
		if n, _, ok := h.record(b, at); ok {
			return at, n, true
		}
	}
	return 0, 0, false
}

// name is the name of the segment whose first record has the number.
func name(first uint64) string { return fmt.Sprintf("%020d%s", first, suffix) }

// list returns the first numbers of the segments in a directory, ascending.
func list(dir string) ([]uint64, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var all []uint64
	for _, e := range entries {
		text, is := strings.CutSuffix(e.Name(), suffix)
		if !is {
			continue
		}
		first, err := strconv.ParseUint(text, 10, 64)
		if err != nil || name(first) != e.Name() {
			return nil, &Damage{File: filepath.Join(dir, e.Name()), Problem: "no segment has this name"}
		}
		all = append(all, first)
	}
	slices.Sort(all)
	return all, nil
}
