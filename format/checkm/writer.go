package checkm

import (
	"bufio"
	"errors"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// ErrClosed is the error of a Writer after Close.
var ErrClosed = errors.New("manifest is closed")

// Writer writes a manifest row by row. A refused row is not written, not even in part, and the Writer accepts further
// rows; after a failed write it does not. Without Close the manifest has no #%eof, so that no reader accepts it as
// complete.
type Writer struct {
	out     *bufio.Writer
	profile *Profile
	line    int    // lines written
	buffer  []byte // the current line
	err     error  // sticky
}

// NewWriter returns a Writer of a manifest of that profile to w. The first Write or Close writes the header. w is not
// closed.
func NewWriter(w io.Writer, profile *Profile) *Writer {
	return &Writer{out: bufio.NewWriterSize(w, 32<<10), profile: profile}
}

// Write writes a row. It returns an *Error for a value that a Reader would not read back: a field without a column in
// the profile, line ends and NUL, text that is not UTF-8, and "%20" or "%7c" outside of the URL, since the format
// cannot escape a percent sign. A Size below 0 is omitted, 0 is written. Times are written in UTC, in full seconds. A
// FileName that equals the path of the URL may be omitted.
func (w *Writer) Write(row Row) error {
	if w.err != nil {
		return w.err
	}
	line := max(w.line, w.headerLines()) + 1
	if err := w.compose(row); err != nil {
		err.Line = line
		return err
	}
	w.start()
	w.put(string(w.buffer) + "\n")
	return w.err
}

// Close writes #%eof, without a line end, and flushes the buffer. A second Close does nothing.
func (w *Writer) Close() error {
	if errors.Is(w.err, ErrClosed) {
		return nil
	}
	w.start()
	w.put("#%eof")
	if w.err == nil {
		w.err = w.out.Flush()
	}
	if w.err != nil {
		return w.err
	}
	w.err = ErrClosed
	return nil
}

func (w *Writer) put(s string) {
	if w.err == nil {
		_, w.err = w.out.WriteString(s)
		w.line++
	}
}

func (w *Writer) headerLines() int { return 3 + len(w.profile.prefixes) }

// start writes the header lines once.
func (w *Writer) start() {
	if w.line > 0 {
		return
	}
	w.put("#%checkm_0.7\n")
	w.put("#%profile | " + w.profile.URL() + "\n")
	for _, p := range w.profile.prefixes {
		if w.profile.glued {
			w.put("#%prefix | " + p[0] + ":<" + p[1] + ">\n")
		} else {
			w.put("#%prefix | " + p[0] + ": | " + p[1] + "\n")
		}
	}
	w.put("#%" + w.profile.keyword + " | " + strings.Join(w.profile.fields, " | ") + "\n")
}

// compose formats the line of a row in the buffer. Empty columns at its end are dropped.
func (w *Writer) compose(row Row) *Error {
	w.buffer = w.buffer[:0]
	if problem := w.surplus(row); problem != nil {
		return problem
	}
	end := 0
	for i, c := range w.profile.columns {
		if i > 0 {
			w.buffer = append(w.buffer, " | "...)
		}
		value, expected := fieldText(row, c)
		if expected == "" && c != FileURL {
			expected = unwritable(value)
			value = encode(value)
		}
		if expected == "" && i == 0 && strings.HasPrefix(value, "#") {
			expected = `no "#" at the start of a row`
		}
		if expected != "" {
			return &Error{Column: utf8.RuneCount(w.buffer) + 1, Expected: expected, Got: quoteURL(value)}
		}
		w.buffer = append(w.buffer, value...)
		if value != "" {
			end = len(w.buffer)
		}
	}
	w.buffer = w.buffer[:end]
	if end > DefaultMaxLine {
		return &Error{Column: 1, Expected: "a line of at most " + byteCount(DefaultMaxLine), Got: byteCount(end)}
	}
	return nil
}

// surplus refuses a row with a field that has no column, and one without name and URL.
func (w *Writer) surplus(row Row) *Error {
	given := [columnCount]bool{
		FileURL: row.URL != "", MIMEType: row.MIMEType != "", PrimaryIdentifier: row.PrimaryID != "",
		LocalIdentifier: row.LocalID != "", Creator: row.Creator != "", Title: row.Title != "", Date: row.Date != "",
	}
	for c, ok := range given {
		if ok && !w.profile.Has(Column(c)) {
			return &Error{Expected: "no " + Column(c).String() + " in a row of " + w.profile.name, Got: "one"}
		}
	}
	if row.FileName == "" && row.URL == "" {
		return &Error{Column: 1, Expected: "a URL or a file name", Got: "nothing"}
	}
	return nil
}

// fieldText returns the text of a column, or what was expected instead.
func fieldText(row Row, c Column) (value, expected string) {
	switch c {
	case FileURL:
		return row.URL, urlProblem(row.URL)
	case HashAlgorithm:
		return algorithmText(row.Digest)
	case HashValue:
		return row.Digest.Value, ""
	case FileSize:
		if row.Size >= 0 {
			return strconv.FormatInt(row.Size, 10), ""
		}
	case FileLastModified:
		return dateText(row.Modified)
	case FileName:
		return nameText(row)
	case MIMEType:
		return row.MIMEType, ""
	case PrimaryIdentifier:
		return row.PrimaryID, ""
	case LocalIdentifier:
		return row.LocalID, ""
	case Creator:
		return row.Creator, ""
	case Title:
		return row.Title, ""
	case Date:
		return row.Date, ""
	}
	return "", ""
}

func urlProblem(u string) string {
	if u == "" {
		return ""
	}
	if _, _, ok := urlParts(u); !ok {
		return "an http, https, ftp or file URL"
	}
	if strings.ContainsAny(u, "|") || strings.TrimSpace(u) != u || control(u) {
		return `a URL without "|", line ends and blanks around it`
	}
	return ""
}

func algorithmText(d Digest) (value, expected string) {
	if d.IsZero() {
		return "", ""
	}
	a, err := ParseAlgorithm(string(d.Algorithm))
	if err != nil || d.Value == "" {
		return string(d.Algorithm), "a digest algorithm (" + algorithmList + ") and a value"
	}
	return string(a), ""
}

func dateText(t time.Time) (value, expected string) {
	if t.IsZero() {
		return "", ""
	}
	t = t.UTC()
	value = t.Format("2006-01-02T15:04:05-07:00")
	if y := t.Year(); y < 0 || y > 9999 {
		return value, "a date in the years 0 to 9999"
	}
	return value, ""
}

// nameText returns the name of the row; an omitted one must follow from the URL.
func nameText(row Row) (value, expected string) {
	name := row.FileName
	if name == "" {
		_, path, _ := urlParts(row.URL)
		name = strings.TrimPrefix(path, "/")
	}
	return row.FileName, nameProblem(name)
}

// unwritable returns what was expected instead of a value that a Reader would not read back.
func unwritable(value string) string {
	switch {
	case control(value):
		return "UTF-8 text without line ends and NUL"
	case strings.Contains(value, "%20"), strings.Contains(value, "%7c"):
		return `no "%20" and "%7c", which would be read as " " and "|"`
	case value != "" && (isTab(value[0]) || isTab(value[len(value)-1])):
		return "no tab or other white space around a field"
	}
	return ""
}

func control(s string) bool { return strings.ContainsAny(s, "\n\r\x00") || !utf8.ValidString(s) }

func isTab(c byte) bool { return c != ' ' && isBlank(c) }

// encode escapes bars everywhere, and a blank at either end, which a Reader would trim.
func encode(s string) string {
	s = strings.ReplaceAll(s, "|", "%7c")
	if strings.HasPrefix(s, " ") {
		s = "%20" + s[1:]
	}
	if strings.HasSuffix(s, " ") {
		s = s[:len(s)-1] + "%20"
	}
	return s
}
