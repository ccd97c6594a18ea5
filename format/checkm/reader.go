package checkm

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// DefaultMaxLine is the greatest length in bytes of a line that a Reader accepts and a Writer writes.
const DefaultMaxLine = 64 << 10

// warningLimit is the number of warnings that a Reader keeps.
const warningLimit = 100

// Options of a Reader.
type Options struct {
	Strict bool       // refuse what the validator of the California Digital Library refuses
	Allow  []*Profile // profiles that the manifest may have. Defaults to all
	// profile of a manifest without a header line. Defaults to none: a header is required. Strict mode ignores it
	Assume  *Profile
	MaxLine int // length of a line in bytes without line end. Defaults to DefaultMaxLine
}

// Reader reads a manifest row by row. It is not safe for concurrent use.
type Reader struct {
	name     string
	options  Options
	lines    *lines
	profile  *Profile
	headed   bool                   // a header line was read
	closed   closing                // what follows the last #%eof
	tail     *Error                 // the first blank line or comment after #%eof: an error if nothing else follows
	again    bool                   // in the header of another manifest
	named    bool                   // that header has named its profile
	rows     bool                   // a row was read: headers have ended
	late     *Error                 // header after the first row: an error if another row follows
	first    string                 // line of the first row, read ahead by Profile
	ahead    bool                   // first is pending
	err      error                  // sticky; io.EOF after a valid end
	fields   [columnCount + 1]field // of the row; one more than a profile has, for the position of a surplus field
	strict   *strict                // nil by default
	warnings []*Error
}

// NewReader returns a Reader of r; messages contain name. The first call reads, not NewReader.
func NewReader(name string, r io.Reader, options Options) *Reader {
	if options.MaxLine <= 0 {
		options.MaxLine = DefaultMaxLine
	}
	if len(options.Allow) == 0 {
		options.Allow = profiles
	}
	reader := &Reader{name: name, options: options, lines: newLines(r, options.MaxLine)}
	if options.Strict {
		reader.strict = newStrict()
	}
	return reader
}

// Profile reads the header, if no row was read yet, and returns the profile. It may be called at any time; no row is
// lost. The error is that of the header or of the first line after it. A manifest without rows is valid here.
func (r *Reader) Profile() (*Profile, error) {
	if !r.rows && r.err == nil {
		line, err := r.row()
		if err != nil {
			r.stop(err)
		} else {
			r.first, r.ahead = line, true
		}
	}
	if r.rows || r.err == io.EOF {
		return r.profile, nil
	}
	return nil, r.err
}

// Read returns the next row. After the last one it returns io.EOF if the manifest ends correctly; any other error is
// an *Error. After an error each call returns the same error.
func (r *Reader) Read() (Row, error) {
	if r.err != nil {
		return Row{}, r.err
	}
	line := r.first
	if !r.ahead {
		var err error
		if line, err = r.row(); err != nil {
			return Row{}, r.stop(err)
		}
	}
	r.first, r.ahead = "", false
	row, err := r.parse(line)
	if err != nil {
		return Row{}, r.stop(err)
	}
	return row, nil
}

// stop makes an error that of all later calls: nothing is read any more.
func (r *Reader) stop(err error) error {
	r.err = err
	r.lines.free()
	return err
}

// Warnings returns what was irregular so far but did not cause a refusal: bytes that are not UTF-8, invalid dates,
// negative sizes, and in strict mode missing headers. Only the first hundred are kept.
func (r *Reader) Warnings() []*Error { return slices.Clone(r.warnings) }

// row returns the line of the next row, or io.EOF after a valid end.
func (r *Reader) row() (string, error) {
	for {
		line, err := r.lines.next()
		switch {
		case err == io.EOF:
			return "", r.end()
		case err != nil:
			return "", r.inFile(err)
		case isEOF(line):
			if err := r.finish(line); err != nil {
				return "", err
			}
		case bytes.HasPrefix(line, []byte("#%")):
			if err := r.header(line); err != nil {
				return "", err
			}
		case len(bytes.TrimLeft(line, " \t\v\f")) == 0 || line[0] == '#':
			r.pass(line)
		default:
			return r.accept(line)
		}
	}
}

// accept accepts a line as a row.
func (r *Reader) accept(line []byte) (string, error) {
	s, bad := text(line)
	if r.profile == nil && !r.headed && r.strict == nil {
		r.profile = r.options.Assume
	}
	switch {
	case r.closed != open:
		return "", r.fault(s, 0, "the end of the file after #%eof", quoteURL(s))
	case r.late != nil:
		return "", r.late
	case r.profile == nil || r.again && !r.named:
		return "", r.fault(s, 0, "#%profile | URL before the first row", quoteURL(s))
	}
	if err := r.checkUTF8(s, bad); err != nil {
		return "", err
	}
	if r.again = false; !r.rows {
		r.rows = true
		r.strictHeaderEnd()
	}
	return s, nil
}

func (r *Reader) checkUTF8(s string, bad int) error {
	if bad < 0 {
		return nil
	}
	e := r.fault(s, bad, "UTF-8", "a byte that is not UTF-8")
	if r.strict != nil {
		return e
	}
	r.warn(e)
	return nil
}

// header processes a line that starts with #%. Only the first #%profile has an effect.
func (r *Reader) header(line []byte) error {
	s, bad := text(line)
	if r.closed != open {
		r.closed, r.tail, r.again, r.named = open, nil, true, false
	}
	if r.again {
		return r.nextHeader(s)
	}
	r.headed = true
	if r.rows {
		if r.late == nil {
			r.late = r.fault(s, 0, "headers only before the first row", quote(s))
		}
		if r.strict != nil {
			return r.late
		}
		return nil
	}
	if err := r.checkUTF8(s, bad); err != nil {
		return err
	}
	if r.strict != nil {
		if err := r.strictHeader(s); err != nil {
			return err
		}
	}
	if r.profile != nil {
		return nil
	}
	url, ok, err := r.profileURL(s)
	if err != nil || !ok {
		return err
	}
	p, ok := Lookup(url.text)
	if !ok || !slices.Contains(r.options.Allow, p) {
		return r.fault(s, url.at, "the URL of "+profileNames(r.options.Allow), quote(url.text))
	}
	r.profile = p
	return nil
}

// nextHeader processes a header line of another manifest in the same file. Its profile must be that of the first.
func (r *Reader) nextHeader(s string) error {
	if r.named {
		return nil
	}
	url, ok, err := r.profileURL(s)
	if err != nil || !ok {
		return err
	}
	if p, ok := Lookup(url.text); !ok || p != r.profile {
		return r.fault(s, url.at, "the URL of "+r.profile.name+", as in the manifest before", quote(url.text))
	}
	r.named = true
	return nil
}

// profileURL returns the URL of a #%profile line: the text after blanks and optional bars ("#%profile URL" is valid).
// ok is false for other lines.
func (r *Reader) profileURL(s string) (url field, ok bool, err error) {
	const keyword = "#%profile"
	if !strings.HasPrefix(s, keyword) || len(s) == len(keyword) || !isBlank(s[len(keyword)]) {
		return field{}, false, nil
	}
	at := len(keyword)
	for at < len(s) && (isBlank(s[at]) || s[at] == '|') {
		at++
	}
	url = trimmed(s, at, len(s))
	if bar := strings.IndexByte(url.text, '|'); bar >= 0 { // further fields are ignored, as in rows
		url = trimmed(s, at, at+bar)
	}
	if url.text == "" {
		return field{}, false, r.fault(s, len(keyword), "the URL of a profile", "nothing")
	}
	return url, true, nil
}

func profileNames(allowed []*Profile) string {
	names := make([]string, len(allowed))
	for i, p := range allowed {
		names[i] = p.name
	}
	if last := len(names) - 1; last > 0 {
		return strings.Join(names[:last], ", ") + " or " + names[last]
	}
	return strings.Join(names, "")
}

func isEOF(line []byte) bool {
	const mark = "#%eof"
	return len(line) >= len(mark) && bytes.EqualFold(line[:len(mark)], []byte(mark))
}

// closing is the kind of the lines since the last #%eof.
type closing uint8

const (
	open   closing = iota // no #%eof, or the header of another manifest after it
	shut                  // #%eof is the last line
	passed                // blank lines or comments follow it
)

// finish processes a closing line. In strict mode nothing may follow it; otherwise it must be the last line, unless
// another manifest follows.
func (r *Reader) finish(line []byte) error {
	if err := r.strictEnd(string(line)); err != nil {
		return err
	}
	if r.profile == nil && !r.headed && r.strict == nil {
		r.profile = r.options.Assume
	}
	if r.profile == nil || r.again && !r.named {
		return r.fault("", 0, "#%profile | URL before #%eof", "no profile")
	}
	r.closed, r.tail, r.late, r.again = shut, nil, nil, false
	if r.strict != nil && r.lines.ended {
		if err := r.lines.end(); err != nil {
			return r.inFile(err)
		}
	}
	return nil
}

// pass records a blank line or comment after #%eof.
func (r *Reader) pass(line []byte) {
	if r.closed != shut {
		return
	}
	s, _ := text(line)
	got := "an empty line"
	if s != "" {
		got = quoteURL(s)
	}
	r.closed, r.tail = passed, r.fault(s, 0, "the end of the file after #%eof", got)
}

// end returns io.EOF if the file ends correctly.
func (r *Reader) end() error {
	switch {
	case r.closed == shut:
		return io.EOF
	case r.closed == passed:
		return r.tail
	}
	expected := "#%eof"
	if r.profile == nil {
		expected = "#%profile | URL"
	}
	return &Error{File: r.name, Line: r.lines.number + 1, Column: 1, Expected: expected, Got: "end of file"}
}

func (r *Reader) fault(line string, at int, expected, got string) *Error {
	return &Error{File: r.name, Line: r.lines.number, Column: column(line, at), Expected: expected, Got: got}
}

// inFile adds the name of the file to an error of lines.
func (r *Reader) inFile(err error) error {
	if e := (*Error)(nil); errors.As(err, &e) {
		e.File = r.name
	}
	return err
}

func (r *Reader) warn(e *Error) {
	if len(r.warnings) < warningLimit {
		r.warnings = append(r.warnings, e)
	}
}

func byteCount(n int) string {
	if n >= 1<<10 && n%(1<<10) == 0 {
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return strconv.Itoa(n) + " bytes"
}
