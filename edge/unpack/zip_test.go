package unpack

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"strings"
	"testing"
)

// patch sets the 16 bits at an offset of the first directory entry and of the first local header; negative leaves one
// alone.
func patch(data []byte, dir, local int, value uint16) []byte {
	data = bytes.Clone(data)
	if dir >= 0 {
		binary.LittleEndian.PutUint16(data[bytes.Index(data, []byte("PK\x01\x02"))+dir:], value)
	}
	if local >= 0 {
		binary.LittleEndian.PutUint16(data[local:], value)
	}
	return data
}

func TestZipTricks(t *testing.T) {
	p := newPlace(t)
	two := makeZip(t, entry{name: "a", data: strings.Repeat("alpha", 100)},
		entry{name: "b", data: strings.Repeat("alpha", 100)})
	dir := bytes.Index(two, []byte("PK\x01\x02"))
	second := dir + 4 + bytes.Index(two[dir+4:], []byte("PK\x01\x02"))
	set32 := func(data []byte, at int, value uint32) []byte {
		data = bytes.Clone(data)
		binary.LittleEndian.PutUint32(data[at:], value)
		return data
	}
	le := binary.LittleEndian
	packed := le.Uint32(two[dir+20:])

	shared := set32(two, second+42, 0) // the second entry points to the first one's data
	shared[second+46] = 'a'
	refused(t, p, "full overlap", "x.zip", shared, Limits{}, Overlap)

	quoted := makeZip(t, entry{name: "b", data: "beta", zip: func(h *zip.FileHeader) { h.Method = zip.Store }})
	whole := makeZip(t, entry{name: "a", data: string(quoted), zip: func(h *zip.FileHeader) { h.Method = zip.Store }})
	refused(t, p, "quoted overlap", "x.zip", quote(whole, quoted), Limits{}, Overlap)

	refused(t, p, "data in the directory", "x.zip", set32(two, dir+20, uint32(dir)), Limits{}, Overlap)
	refused(t, p, "less than it has", "x.zip", set32(two, dir+24, 10), Limits{}, Corrupt)
	refused(t, p, "more than it has", "x.zip", set32(two, dir+24, 501), Limits{}, Corrupt)
	refused(t, p, "huge by the header", "x.zip", set32(two, dir+24, 1<<31), Limits{}, Ratio)
	refused(t, p, "offset beyond", "x.zip", set32(two, dir+42, 1<<30), Limits{}, Corrupt)
	refused(t, p, "offset nowhere", "x.zip", set32(two, dir+42, 3), Limits{}, Corrupt)
	refused(t, p, "wrong checksum", "x.zip", set32(two, dir+16, 7), Limits{}, Corrupt)
	refused(t, p, "packed size cut", "x.zip", set32(two, dir+20, packed-5), Limits{}, Corrupt)
	other := bytes.Clone(two)
	other[30] = 'z'
	refused(t, p, "other name in front", "x.zip", other, Limits{}, Mismatch)
	refused(t, p, "count too low", "x.zip", set32(two, len(two)-14, 1<<16|1), Limits{}, Mismatch)
	refused(t, p, "prefix", "x.zip", append([]byte("#!/bin/sh\n"), two...), Limits{}, Corrupt)
	refused(t, p, "suffix", "x.zip", append(bytes.Clone(two), "tail"...), Limits{}, Corrupt)
	refused(t, p, "zip64 locator to nowhere", "x.zip", zip64(two, uint64(len(two))+1000), Limits{}, Corrupt)
	if _, err := newPlace(t).unpack("x.zip", zip64(two, uint64(len(two)-22)), Limits{}); err != nil {
		t.Errorf("zip64 control: %v", err)
	}
	if _, err := newPlace(t).unpack("x.zip", two, Limits{}); err != nil {
		t.Errorf("control: %v", err)
	}
}

// quote gives the outer zip a second entry that lies inside the data of the first.
func quote(outer, inner []byte) []byte {
	le := binary.LittleEndian
	innerDir, outerDir := bytes.Index(inner, []byte("PK\x01\x02")), bytes.LastIndex(outer, []byte("PK\x01\x02"))
	innerEntry := bytes.Clone(inner[innerDir : len(inner)-22])
	le.PutUint32(innerEntry[42:], uint32(bytes.Index(outer, inner)))
	end := bytes.Clone(outer[len(outer)-22:])
	data := append(bytes.Clone(outer[:len(outer)-22]), innerEntry...)
	le.PutUint16(end[8:], 2)
	le.PutUint16(end[10:], 2)
	le.PutUint32(end[12:], uint32(len(data)-outerDir))
	return append(data, end...)
}

// zip64 puts a zip64 end record and a locator with the offset at before the end.
func zip64(data []byte, at uint64) []byte {
	le := binary.LittleEndian
	end := bytes.Clone(data[len(data)-22:])
	var record [56]byte
	le.PutUint32(record[:], end64Signature)
	le.PutUint64(record[4:], 44)
	le.PutUint64(record[24:], uint64(le.Uint16(end[8:])))
	le.PutUint64(record[32:], uint64(le.Uint16(end[10:])))
	le.PutUint64(record[40:], uint64(le.Uint32(end[12:])))
	le.PutUint64(record[48:], uint64(le.Uint32(end[16:])))
	var locator [20]byte
	le.PutUint32(locator[:], locator64Signature)
	le.PutUint64(locator[8:], at)
	le.PutUint32(locator[16:], 1)
	le.PutUint16(end[8:], 1<<16-1)
	le.PutUint16(end[10:], 1<<16-1)
	le.PutUint32(end[12:], 1<<32-1)
	le.PutUint32(end[16:], 1<<32-1)
	out := append(bytes.Clone(data[:len(data)-22]), record[:]...)
	return append(append(out, locator[:]...), end...)
}
