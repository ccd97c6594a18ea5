package ingest

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
	"unicode/utf16"

	"github.com/stagepost/stagepost/edge/unpack"
	"github.com/stagepost/stagepost/format/checkm"
)

// sniffed is how much of a payload is read to see whether it begins like a manifest, in bytes.
const sniffed = 64 << 10

// asItIs is the way out for a depositor whose file only looks like a manifest.
const asItIs = "to store the file as it is, submit it with the type " + TypeFile

// detect finds out what a payload is: a container by its name, a manifest by its profile, else a file. What begins like a manifest, or is
// named like one, is a manifest: if it cannot be read, the error is final, so that a damaged one is never stored as an object.
func detect(f io.ReadSeeker, name string) (string, error) {
	if _, _, ok := unpack.KindOf(name); ok {
		return TypeContainer, nil
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return "", err
	}
	begin := make([]byte, sniffed)
	n, err := io.ReadFull(f, begin)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return "", err
	}
	text, wide := plainText(begin[:n])
	if !likeManifest(text) && !strings.HasSuffix(strings.ToLower(name), ".checkm") {
		return TypeFile, nil
	}
	if wide {
		return "", fail(CauseCorruptManifest, "the manifest is UTF-16: save it as UTF-8; %s", asItIs)
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return "", err
	}
	p, err := checkm.NewReader(name, f, checkm.Options{}).Profile()
	var where *checkm.Error
	switch {
	case errors.As(err, &where) && where.Err == nil:
		return "", fail(CauseCorruptManifest, "%w; %s", err, asItIs)
	case err != nil:
		return "", err
	case p == checkm.Object:
		return TypeObjectManifest, nil
	}
	for typ, want := range batchProfiles {
		if p == want {
			return typ, nil
		}
	}
	return "", fail(CauseWrongType, "a manifest of the profile %s cannot be ingested by itself; %s", p, asItIs)
}

// plainText gives UTF-16 with a byte order mark as UTF-8, and takes the mark off UTF-8.
func plainText(begin []byte) (text []byte, wide bool) {
	low := bytes.HasPrefix(begin, []byte{0xff, 0xfe})
	if !low && !bytes.HasPrefix(begin, []byte{0xfe, 0xff}) {
		return bytes.TrimPrefix(begin, []byte("\ufeff")), false
	}
	units := make([]uint16, 0, len(begin)/2)
	for pair := range slices.Chunk(begin[2:], 2) {
		if len(pair) == 2 {
			one, two := uint16(pair[0]), uint16(pair[1])
			if low {
				one, two = two, one
			}
			units = append(units, one<<8|two)
		}
	}
	return []byte(string(utf16.Decode(units))), true
}

// manifestWords are the header lines of manifests, without #%.
var manifestWords = []string{"checkm", "profile", "prefix", "fields", "columns", "eof"}

// likeManifest tells whether the first line that is neither blank nor a comment is a header line of a manifest, or the beginning of one that was
// cut. Other texts begin with "#%" as well, so the word counts.
func likeManifest(begin []byte) bool {
	for line := range bytes.Lines(begin) {
		text := strings.ToLower(strings.TrimSpace(string(line)))
		word, header := strings.CutPrefix(text, "#%")
		if !header {
			if text == "" || text[0] == '#' {
				continue
			}
			return false
		}
		return slices.ContainsFunc(manifestWords, func(known string) bool {
			cut := !bytes.HasSuffix(line, []byte("\n")) && strings.HasPrefix(known, word)
			return cut || strings.HasPrefix(word, known)
		})
	}
	return false
}
