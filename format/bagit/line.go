package bagit

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"strconv"
	"strings"
)

// maxLine bounds a line of a tag file.
const maxLine = 64 << 10

// ErrLine is the error for a line of a tag file that does not follow the grammar.
var ErrLine = errors.New("malformed line")

// lines gives the lines of a tag file with their numbers, from 1. Lines end with LF, CR or CRLF (RFC 8493 section
// 2.1.3).
func lines(r io.Reader) iter.Seq2[int, string] {
	return func(yield func(int, string) bool) {
		in := bufio.NewScanner(r)
		in.Buffer(nil, maxLine)
		in.Split(splitLine)
		n := 0
		for in.Scan() {
			if n++; !yield(n, in.Text()) {
				return
			}
		}
		if in.Err() != nil {
			yield(n+1, tooLong)
		}
	}
}

// tooLong replaces a line that cannot be read. No line equals it, because a CR ends a line.
const tooLong = "\r"

func splitLine(data []byte, atEOF bool) (advance int, token []byte, err error) {
	i := bytes.IndexAny(data, "\r\n")
	switch {
	case i < 0 && atEOF && len(data) > 0:
		return len(data), data, nil
	case i < 0:
		return 0, nil, nil
	case data[i] == '\n':
		return i + 1, data[:i], nil
	case i+1 < len(data) && data[i+1] == '\n':
		return i + 2, data[:i], nil
	case i+1 == len(data) && !atEOF:
		return 0, nil, nil // an LF may follow
	}
	return i + 1, data[:i], nil
}

// Line is a line of a manifest.
type Line struct {
	Number int
	Digest string // hex, as written
	Path   string // decoded
	Star   bool   // an asterisk precedes the path, as md5sum writes it for binary files
	Dot    bool   // ./ precedes the path, as md5sum writes it for names that find prints
}

// Manifest reads the lines of a manifest. old selects the rules before 1.0. An invalid line gives an error of kind
// [ErrLine]; the following lines are read.
func Manifest(r io.Reader, algorithm string, old bool) iter.Seq2[Line, error] {
	return func(yield func(Line, error) bool) {
		for n, text := range lines(r) {
			l, err := manifestLine(n, text, algorithm, old)
			if !yield(l, err) {
				return
			}
		}
	}
}

func manifestLine(n int, text, algorithm string, old bool) (Line, error) {
	l := Line{Number: n}
	if text == tooLong {
		return l, fmt.Errorf("%w %d: longer than %d bytes, or unreadable", ErrLine, n, maxLine)
	}
	end := strings.IndexAny(text, " \t")
	if end <= 0 {
		return l, fmt.Errorf("%w %d: %.140q is not CHECKSUM PATH", ErrLine, n, text)
	}
	l.Digest = text[:end]
	rest := strings.TrimLeft(text[end:], " \t")
	rest, l.Star = strings.CutPrefix(rest, "*")
	rest, l.Dot = strings.CutPrefix(rest, "./")
	if rest == "" {
		return l, fmt.Errorf("%w %d: it has no path", ErrLine, n)
	}
	l.Path = decodePath(rest, old)
	if err := checkDigest(algorithm, l.Digest); err != nil {
		return l, fmt.Errorf("%w %d: %w", ErrLine, n, err)
	}
	return l, nil
}

// Fetch is a line of fetch.txt: a payload file that is fetched (RFC 8493 section 2.2.3).
type Fetch struct {
	Number int
	URL    string
	Size   int64 // -1: unknown
	Path   string
}

// fetches reads fetch.txt.
func fetches(r io.Reader, old bool) iter.Seq2[Fetch, error] {
	return func(yield func(Fetch, error) bool) {
		for n, text := range lines(r) {
			f, err := fetchLine(n, text, old)
			if !yield(f, err) {
				return
			}
		}
	}
}

func fetchLine(n int, text string, old bool) (Fetch, error) {
	f := Fetch{Number: n, Size: -1}
	fields := strings.FieldsFunc(text, func(r rune) bool { return r == ' ' || r == '\t' })
	if text == tooLong || len(fields) < 3 {
		return f, fmt.Errorf("%w %d: %.140q is not URL LENGTH PATH", ErrLine, n, text)
	}
	f.URL = fields[0]
	if fields[1] != "-" {
		size, err := strconv.ParseInt(fields[1], 10, 64)
		if err != nil || size < 0 {
			return f, fmt.Errorf("%w %d: the length %.40q", ErrLine, n, fields[1])
		}
		f.Size = size
	}
	behind := text[strings.Index(text, f.URL)+len(f.URL):]
	behind = strings.TrimLeft(behind, " \t")
	f.Path = decodePath(strings.TrimLeft(behind[len(fields[1]):], " \t"), old)
	return f, nil
}
