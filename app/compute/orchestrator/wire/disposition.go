package wire

import (
	"bytes"
	"net/url"
	"strings"
	"unicode/utf8"
)

// disposition is the Content-Disposition of a part. A part with a file name is a file, even if that is empty.
type disposition struct {
	name    string
	file    string
	isFile  bool
	garbled bool // a name is not UTF-8
}

// parseDisposition reads the header as the original does, which is more lenient than mime.ParseMediaType: names may be
// bare and percent-encoded, in a quoted name only \" is an escape (so that C:\dir\file.txt stays as it is), and name*=
// and filename*= of RFC 5987 are read as UTF-8.
func parseDisposition(header string) disposition {
	var d disposition
	var ok bool
	if d.file, d.isFile, ok = attribute(header, "filename"); !ok {
		d.garbled = true
	}
	if d.name, _, ok = attribute(header, "name"); !ok {
		d.garbled = true
	}
	return d
}

// attribute finds key=value or key*=utf-8”value where key does not stand inside a longer word or inside quotes.
func attribute(header, key string) (value string, found, valid bool) {
	for rest := ";" + header; rest != ""; {
		start := strings.IndexAny(rest, `;"`)
		if start < 0 {
			return "", false, true
		}
		if rest[start] == '"' {
			_, rest = quoted(rest[start+1:])
			continue
		}
		rest = rest[start+1:]
		param := strings.TrimLeft(rest, " \t")
		if len(param) < len(key) || !strings.EqualFold(param[:len(key)], key) {
			continue
		}
		after, extended := strings.CutPrefix(param[len(key):], "*")
		after, ok := strings.CutPrefix(strings.TrimLeft(after, " \t"), "=")
		if !ok {
			continue
		}
		value = bareOrQuoted(strings.TrimLeft(after, " \t"), extended)
		return value, true, utf8.ValidString(value)
	}
	return "", false, true
}

func bareOrQuoted(text string, extended bool) string {
	if inner, ok := strings.CutPrefix(text, `"`); ok && !extended {
		value, _ := quoted(inner)
		return value
	}
	text, _, _ = strings.Cut(text, ";")
	text = strings.TrimRight(text, " \t")
	if extended {
		if parts := strings.SplitN(text, "'", 3); len(parts) == 3 {
			text = parts[2]
		}
	}
	if plain, err := url.PathUnescape(text); err == nil {
		return plain
	}
	return text
}

// quoted reads up to the closing quote, which a backslash before it keeps from closing. Without one all is the value.
func quoted(text string) (value, rest string) {
	from := 0
	for {
		n := strings.IndexByte(text[from:], '"')
		if n < 0 {
			return text, ""
		}
		end := from + n
		if end == 0 || text[end-1] != '\\' {
			return strings.ReplaceAll(text[:end], `\"`, `"`), text[end+1:]
		}
		from = end + 1
	}
}

// basename flattens the name of an uploaded file to its last component, and gives "file" for a name without one. Only
// "/" separates, backslashes do not; any other character is kept. Both sides of the original do so; [Users] and [Agent]
// have done it before they hand out a name.
func basename(name string) string {
	parts := strings.Split(name, "/")
	for i := len(parts) - 1; i >= 0; i-- {
		switch parts[i] {
		case "", ".":
			continue
		case "..":
			return "file"
		}
		return parts[i]
	}
	return "file"
}

// formHeader is the head of a part as the original's server writes it for a file: no content type, the name of the
// field that of the file. Names with special characters become name*, and the file name is quoted. A name that ends in
// a backslash would escape its own quote; it is sent bare and percent-encoded, which the original's reader understands.
func formHeader(file string) []byte {
	var b bytes.Buffer
	b.WriteString("Content-Disposition: form-data; ")
	if plain := escapeSegment(file); plain != file {
		b.WriteString("name*=utf-8''" + plain)
	} else {
		b.WriteString(`name="` + file + `"`)
	}
	if strings.HasSuffix(file, `\`) || strings.ContainsAny(file, "\r\n") {
		b.WriteString("; filename=" + escapeSegment(file) + "\r\n\r\n")
	} else {
		b.WriteString(`; filename="` + strings.ReplaceAll(file, `"`, `\"`) + "\"\r\n\r\n")
	}
	return b.Bytes()
}

// escapeSegment percent-encodes what the original does in a field's name: controls, non-ASCII, and the characters that
// have a meaning in a path; the semicolon and the backslash too, which would end or bend a bare name.
func escapeSegment(text string) string {
	const hex = "0123456789ABCDEF"
	var b strings.Builder
	for i := range len(text) {
		c := text[i]
		if c <= ' ' || c >= 0x7f || strings.IndexByte("\"#<>`?{}/%;\\", c) >= 0 {
			b.Write([]byte{'%', hex[c>>4], hex[c&15]})
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}
