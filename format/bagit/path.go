package bagit

import (
	"path"
	"strings"
	"unicode/utf8"
)

var encoder = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")

// EncodePath encodes a path for a manifest: it percent-encodes CR, LF and %, and nothing else (RFC 8493 section
// 2.1.3).
func EncodePath(p string) string { return encoder.Replace(p) }

// decodePath decodes a path of a manifest. Before 1.0 only line ends were encoded, and % was literal.
func decodePath(text string, old bool) string {
	if !strings.Contains(text, "%") {
		return text
	}
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] == '%' && i+2 < len(text) {
			c := map[string]byte{"0A": '\n', "0D": '\r', "25": '%'}[strings.ToUpper(text[i+1:i+3])]
			if c != 0 && (c != '%' || !old) {
				b.WriteByte(c)
				i += 2
				continue
			}
		}
		b.WriteByte(text[i])
	}
	return b.String()
}

// unsafe returns why a path is unsafe to follow (RFC 8493 section 5.1), or "".
func unsafe(p string) string {
	switch {
	case p == "":
		return "it is empty"
	case !utf8.ValidString(p):
		return "it is not UTF-8"
	case strings.ContainsRune(p, 0):
		return "it has a NUL"
	case strings.HasPrefix(p, "/"), len(p) > 1 && p[1] == ':':
		return "it is absolute"
	case strings.HasPrefix(p, "~"):
		return "a shell expands ~ to a home directory"
	case strings.Contains(p, `\`):
		return "a backslash separates directories on some systems"
	case p != path.Clean(p) || p == ".." || strings.HasPrefix(p, "../"):
		return notClean
	}
	return ""
}

// ambiguous are characters that a path of a manifest cannot begin with: blanks and an asterisk before a path are no
// part of it.
const ambiguous = " \t*"

// notClean is why a path is refused that may still stay within the bag.
const notClean = "it has an element that is empty, . or .."
