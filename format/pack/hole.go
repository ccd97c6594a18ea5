package pack

import (
	"encoding/binary"
	"errors"
	"io"
)

// hole is the position of the content of one file. On disk it is a record of holeBytes bytes, big endian, in the
// order of the fields.
type hole struct {
	offset int64 // in the archive
	size   int64 // more than 0
	before int64 // bytes of all earlier holes: position x after the hole is literal byte x-before-size
	source int64 // offset of its line in the file of sources
	line   uint32
	crc    uint32
}

const holeBytes = 40

func (h *hole) append(b []byte) []byte {
	for _, n := range []int64{h.offset, h.size, h.before, h.source} {
		b = binary.BigEndian.AppendUint64(b, uint64(n))
	}
	b = binary.BigEndian.AppendUint32(b, h.line)
	return binary.BigEndian.AppendUint32(b, h.crc)
}

var errIndex = errors.New("the index of the archive is damaged")

// readHole reads the k-th record.
func readHole(index io.ReaderAt, k, total int64) (hole, error) {
	var b [holeBytes]byte
	if _, err := index.ReadAt(b[:], k*holeBytes); err != nil {
		return hole{}, err
	}
	n := func(at int) int64 { return int64(binary.BigEndian.Uint64(b[at:])) }
	h := hole{
		offset: n(0), size: n(8), before: n(16), source: n(24), line: binary.BigEndian.Uint32(b[32:]),
		crc: binary.BigEndian.Uint32(b[36:]),
	}
	if h.offset < 0 || h.size <= 0 || h.before < 0 || h.source < 0 || h.line == 0 || h.offset > total-h.size ||
		h.before > h.offset {
		return hole{}, errIndex
	}
	return h, nil
}
