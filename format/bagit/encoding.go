package bagit

import (
	"bytes"
	"io"
	"strings"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/unicode"
)

// encodings are the encodings of tag files that this package reads, by their registered names in lower case. A nil
// encoding needs no conversion. A byte order mark takes precedence over the byte order of the name.
var encodings = map[string]encoding.Encoding{
	"utf-8": nil, "utf8": nil, "us-ascii": nil, "ascii": nil,
	"iso-8859-1": charmap.ISO8859_1, "iso_8859-1": charmap.ISO8859_1, "latin1": charmap.ISO8859_1,
	"iso-8859-15": charmap.ISO8859_15, "windows-1252": charmap.Windows1252,
	"utf-16":   unicode.UTF16(unicode.BigEndian, unicode.UseBOM),
	"utf-16be": unicode.UTF16(unicode.BigEndian, unicode.UseBOM),
	"utf-16le": unicode.UTF16(unicode.LittleEndian, unicode.UseBOM),
}

// encode selects the encoding of all tag files but bagit.txt, which is always UTF-8 (RFC 8493 section 2.1.1: UTF-8 is
// recommended, others are permitted for older bags).
func (v *validation) encode(name string) {
	found, ok := encodings[strings.ToLower(name)]
	switch {
	case !ok:
		v.wrong(CodeDeclaration, "bagit.txt", "the encoding %.40q is not supported", name)
	case found != nil && !v.old:
		v.odd(CodeDeclaration, "bagit.txt", "the encoding of the tag files is %s: UTF-8 is recommended", name)
	}
	v.encoding = found
}

// text returns a tag file as a reader of UTF-8.
func (v *validation) text(name string) io.Reader {
	raw := bytes.NewReader(v.tags[name])
	if v.encoding == nil || name == "bagit.txt" {
		return raw
	}
	return v.encoding.NewDecoder().Reader(raw)
}
