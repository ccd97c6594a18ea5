package checkm

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strings"
	"sync"
	"unicode/utf8"
)

// lines reads the lines of a manifest one at a time through a buffer of fixed size.
type lines struct {
	in     *bufio.Reader
	max    int
	number int  // of the last line
	ended  bool // the last line had a line end
}

// buffers are those of readers that came to the end of their manifest, for lines of DefaultMaxLine: most manifests have
// a few lines, and are read several times.
var buffers = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, DefaultMaxLine+2) }}

// newLines returns lines with a buffer for a line of the greatest length and its CRLF.
func newLines(r io.Reader, limit int) *lines {
	if limit != DefaultMaxLine {
		return &lines{in: bufio.NewReaderSize(r, limit+2), max: limit}
	}
	in := buffers.Get().(*bufio.Reader)
	in.Reset(r)
	return &lines{in: in, max: limit}
}

// free gives the buffer to another reader. Nothing is read from l afterwards.
func (l *lines) free() {
	if l.in != nil && l.max == DefaultMaxLine {
		l.in.Reset(nil)
		buffers.Put(l.in)
	}
	l.in = nil
}

// next returns a line without its end; the bytes are valid until the next call. At the end of the file it returns
// io.EOF. Of a line that is too long it reads no more than the greatest length.
func (l *lines) next() ([]byte, error) {
	line, err := l.in.ReadSlice('\n')
	if len(line) == 0 && errors.Is(err, io.EOF) {
		return nil, io.EOF
	}
	l.number++
	l.ended = err == nil
	if l.ended {
		line = line[:len(line)-1]
		if n := len(line); n > 0 && line[n-1] == '\r' {
			line = line[:n-1]
		}
	}
	switch {
	case errors.Is(err, bufio.ErrBufferFull) || (len(line) > l.max && (err == nil || errors.Is(err, io.EOF))):
		return nil, &Error{Line: l.number, Column: utf8.RuneCount(line[:l.max]) + 1,
			Expected: "a line end", Got: "a line of more than " + byteCount(l.max)}
	case err != nil && !errors.Is(err, io.EOF):
		return nil, &Error{Line: l.number, Err: err}
	}
	return line, l.check(line)
}

var byteOrderMark = []byte("\uFEFF")

// check refuses bytes that a line must not have.
func (l *lines) check(line []byte) error {
	if i := bytes.IndexByte(line, 0); i >= 0 {
		return l.fault(line, i, "text", "a NUL byte")
	}
	if i := bytes.IndexByte(line, '\r'); i >= 0 {
		return l.fault(line, i, "LF or CRLF as line end", "a lone CR")
	}
	if l.number == 1 && bytes.HasPrefix(line, byteOrderMark) {
		return l.fault(line, 0, "UTF-8 without byte order mark", "a byte order mark")
	}
	return nil
}

func (l *lines) fault(line []byte, at int, expected, got string) error {
	return &Error{Line: l.number, Column: utf8.RuneCount(line[:at]) + 1, Expected: expected, Got: got}
}

// end returns nil if no line follows the last one.
func (l *lines) end() error {
	line, err := l.next()
	if err == io.EOF {
		return nil
	}
	if e := (*Error)(nil); errors.As(err, &e) {
		return e
	}
	got := "an empty line"
	if len(line) > 0 {
		got = quoteURL(string(line))
	}
	return &Error{Line: l.number, Column: 1, Expected: "the end of the file after #%eof", Got: got}
}

// text converts a line to a string. Each byte that is not UTF-8 becomes U+FFFD; bad is the position of the first, -1
// if there is none.
func text(line []byte) (s string, bad int) {
	if utf8.Valid(line) {
		return string(line), -1
	}
	var b strings.Builder
	bad = -1
	for i, c := range string(line) {
		if bad < 0 && c == utf8.RuneError {
			if _, size := utf8.DecodeRune(line[i:]); size == 1 {
				bad = b.Len()
			}
		}
		b.WriteRune(c)
	}
	return b.String(), bad
}
