package checkm

import (
	"strconv"
	"strings"
	"time"
)

// field is one column of a line, trimmed but not decoded.
type field struct {
	text string
	at   int // byte where it starts
}

// split cuts a line at "|" into at most len(into) fields and returns how many fields the line has.
func split(line string, into []field) int {
	n, at := 0, 0
	for {
		end := strings.IndexByte(line[at:], '|')
		next := at + end + 1
		if end < 0 {
			end = len(line) - at
		}
		if n < len(into) {
			into[n] = trimmed(line, at, at+end)
		}
		n++
		if next == at { // no further "|"
			return n
		}
		at = next
	}
}

func trimmed(line string, from, to int) field {
	for from < to && isBlank(line[from]) {
		from++
	}
	for from < to && isBlank(line[to-1]) {
		to--
	}
	return field{line[from:to], from}
}

// isBlank reports whether a character may surround a "|". CR and LF cannot be in a line.
func isBlank(c byte) bool { return c == ' ' || c == '\t' || c == '\v' || c == '\f' }

var decoder = strings.NewReplacer("%20", " ", "%7c", "|")

// decode undoes the two escapes of Merritt, in lower case only. Other percent signs are literal.
func decode(s string) string {
	if strings.IndexByte(s, '%') < 0 {
		return s
	}
	return decoder.Replace(s)
}

// parseSize parses a file size. A negative or empty size means unknown.
func parseSize(s string) (int64, bool) {
	if s == "" {
		return -1, true
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return 0, false
	}
	return max(n, -1), true
}

var dateLayouts = [...]string{
	time.RFC3339, "2006-01-02T15:04:05", "2006-01-02", "2006-01-02T15:04:05Z0700", "2006-01-02T15:04Z07:00",
	"2006-01-02T15:04", "2006-01-02 15:04:05Z07:00", "2006-01-02 15:04:05",
}

// parseDate parses the profiles of ISO 8601 that manifests use. A date without a zone is UTC.
func parseDate(s string) (time.Time, bool) {
	if len(s) < len("2006-01-02") || len(s) > 40 || !isDigit(s[0]) {
		return time.Time{}, false
	}
	for _, layout := range dateLayouts {
		if t, err := time.Parse(layout, s); err == nil {
			return t.UTC(), true
		}
	}
	return time.Time{}, false
}

// urlParts splits a URL like java.net.URL, which checks only the scheme and the port. ok is false if java.net.URL
// rejects it.
func urlParts(u string) (authority, path string, ok bool) {
	scheme, rest, found := strings.Cut(u, ":")
	if !found || !isScheme(scheme) {
		return "", "", false
	}
	if i := strings.IndexByte(rest, '#'); i >= 0 {
		rest = rest[:i]
	}
	if i := strings.IndexByte(rest, '?'); i >= 0 {
		rest = rest[:i]
	}
	if !strings.HasPrefix(rest, "//") {
		return "", rest, true
	}
	rest = rest[2:]
	end := strings.IndexByte(rest, '/')
	if end < 0 {
		end = len(rest)
	}
	authority, path = rest[:end], rest[end:]
	return authority, path, portOK(authority)
}

func isScheme(s string) bool {
	switch s {
	case "https", "http", "ftp", "file":
		return true
	}
	return strings.EqualFold(s, "https") || strings.EqualFold(s, "http") || strings.EqualFold(s, "ftp") ||
		strings.EqualFold(s, "file")
}

func portOK(authority string) bool {
	if i := strings.LastIndexByte(authority, '@'); i >= 0 {
		authority = authority[i+1:]
	}
	colon := strings.LastIndexByte(authority, ':')
	if colon < 0 || colon < strings.LastIndexByte(authority, ']') {
		return true
	}
	port := authority[colon+1:]
	if port == "" {
		return true
	}
	_, err := strconv.ParseUint(port, 10, 31)
	return err == nil
}

// nameProblem returns what was expected instead of an invalid file name, "" for a valid one. A backslash counts as a
// separator, so that a name which is valid on one system does not leave the folder on another.
func nameProblem(name string) string {
	switch {
	case name == "":
		return "a file name"
	case name[0] == '/', name[0] == '\\':
		return "a file name below the object's folder (not absolute)"
	case len(name) > 2 && name[1] == ':' && (name[2] == '\\' || name[2] == '/') && isLetter(name[0]):
		return "a file name below the object's folder (no drive letter)"
	}
	last := ""
	for rest := name; ; {
		i := strings.IndexAny(rest, `/\`)
		last = rest
		if i >= 0 {
			last = rest[:i]
		}
		if last == ".." {
			return `a file name below the object's folder (no "..")`
		}
		if i < 0 {
			break
		}
		rest = rest[i+1:]
	}
	if last == "" || last == "." {
		return "the name of a file, not of a folder"
	}
	return zeroProblem(name)
}

func zeroProblem(name string) string {
	if strings.IndexByte(name, 0) >= 0 {
		return "a file name without a NUL byte"
	}
	return ""
}

func isLetter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }
