package erc_test

import (
	"errors"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf16"

	"github.com/google/go-cmp/cmp"

	"github.com/stagepost/stagepost/format/erc"
)

// utf16Of encodes a text with a byte order mark.
func utf16Of(text string, big bool) string {
	out := []byte{0xff, 0xfe}
	if big {
		out = []byte{0xfe, 0xff}
	}
	for _, u := range utf16.Encode([]rune(text)) {
		if big {
			out = append(out, byte(u>>8), byte(u))
		} else {
			out = append(out, byte(u), byte(u>>8))
		}
	}
	return string(out)
}

const dcText = `<dc xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:title>Café</dc:title></dc>`

func TestLoose(t *testing.T) {
	latin := strings.NewReplacer("é", "\xe9")
	readers := map[string]func(*erc.Loose, string) (string, error){
		"erc": func(l *erc.Loose, text string) (string, error) {
			r, err := l.ERC(strings.NewReader(text))
			return r.What, err
		},
		"dc": func(l *erc.Loose, text string) (string, error) {
			r, err := l.DublinCore(strings.NewReader(text))
			return r.ERC().What, err
		},
		"datacite": func(l *erc.Loose, text string) (string, error) {
			r, err := l.DataCite(strings.NewReader(text))
			return r.ERC().What, err
		},
	}
	for _, c := range []struct {
		name, reader, text, title string
		notes                     []string
	}{
		{"plain", "erc", "erc:\nwhat: Café\n", "Café", nil},
		{"mark", "erc", "\ufefferc:\nwhat: Café\n", "Café", nil},
		{"latin", "erc", latin.Replace("erc:\nwhat: Café\n"), "Café", []string{"it is ISO-8859-1, not UTF-8"}},
		{"windows", "erc", "erc:\nwhat: \x93Caf\xe9\x94\n", "“Café”", []string{"it is ISO-8859-1, not UTF-8"}},
		{"utf16", "erc", utf16Of("erc:\r\nwhat: Café\r\n", false), "Café", []string{"it is UTF-16LE, not UTF-8"}},
		{"utf16 big", "erc", utf16Of("erc:\nwhat: Café\n", true), "Café", []string{"it is UTF-16BE, not UTF-8"}},
		{"empty", "erc", "", "", []string{"it is empty"}},
		{"blank", "erc", " \n\n", "", []string{"it is empty"}},
		{"stray", "erc", "erc:\nwhat: Café\nhello\nwho: A\n", "Café",
			[]string{`line 3 is not "label: value" and is ignored`}},
		{"stray first", "erc", "  hello\nerc:\nwhat: Café\n", "Café",
			[]string{"line 1 continues no line and is ignored"}},
		{"headless", "erc", "what: Café\n", "Café", []string{`it does not begin with "erc:"`}},
		{"huge", "erc", "erc:\nwhat: " + strings.Repeat("x", 5<<20), "",
			[]string{"it is not read: invalid metadata: more than 4194304 bytes"}},
		{"many", "erc", strings.Repeat("a: b\n", 10_001), "",
			[]string{"it is not read: invalid metadata: more than 10000 elements"}},
		{"plain", "dc", dcText, "Café", nil},
		{"declared", "dc", `<?xml version="1.0" encoding="ISO-8859-1"?>` + latin.Replace(dcText), "Café",
			[]string{"it is ISO-8859-1, not UTF-8"}},
		{"undeclared", "dc", latin.Replace(dcText), "Café", []string{"it is ISO-8859-1, not UTF-8"}},
		{"wrongly declared", "dc", `<?xml version="1.0" encoding="UTF-8"?>` + latin.Replace(dcText), "Café",
			[]string{"it is ISO-8859-1, not UTF-8"}},
		{"utf16", "dc", utf16Of(`<?xml version="1.0" encoding="UTF-16"?>`+dcText, false), "Café",
			[]string{"it is UTF-16LE, not UTF-8"}},
		{"unknown encoding", "dc", `<?xml version="1.0" encoding="EBCDIC"?>` + dcText, "",
			[]string{`it is not read: invalid metadata: xml: opening charset "EBCDIC": encoding "EBCDIC"`}},
		{"doctype", "dc", `<!DOCTYPE dc SYSTEM "file:///etc/passwd">` + dcText, "Café",
			[]string{"it has a document type, which is not read"}},
		{"entity", "dc", `<!DOCTYPE dc [<!ENTITY x SYSTEM "file:///etc/passwd">]>` +
			strings.Replace(dcText, "Café", "&x;", 1), "",
			[]string{"it has a document type, which is not read",
				"it is not read: invalid metadata: XML syntax error on line 1: invalid character entity &x;"}},
		{"no namespace", "dc", `<dc><title>Café</title></dc>`, "Café",
			[]string{"its elements have no Dublin Core namespace"}},
		{"undeclared prefix", "dc", `<metadata><dc:title>Café</dc:title><dc:date>1</dc:date></metadata>`, "Café",
			[]string{"its elements have no Dublin Core namespace"}},
		{"other namespace", "dc", `<dc xmlns="http://example.org/"><title>Café</title></dc>`, "", nil},
		{"cut", "dc", dcText[:len(dcText)-9], "",
			[]string{"it is not read: invalid metadata: XML syntax error on line 1: unexpected EOF"}},
		{"empty", "dc", "", "", []string{"it is empty"}},
		{"text", "dc", "hello", "", []string{"it is not read: invalid metadata: text outside the root element"}},
		{"plain", "datacite", `<resource xmlns="http://datacite.org/schema/kernel-4"><titles><title>Café</title></titles></resource>`, "Café", nil},
		{"no namespace", "datacite",
			`<resource><titles><title>Café</title></titles></resource>`, "Café",
			[]string{"it has no DataCite namespace"}},
		{"other namespace", "datacite",
			`<resource xmlns="x"><titles><title>Café</title></titles></resource>`, "Café",
			[]string{"it has no DataCite namespace"}},
		{"other root", "datacite",
			`<record><titles><title>Café</title></titles></record>`, "",
			[]string{"it is not read: the root element is not a DataCite resource"}},
	} {
		t.Run(c.reader+"/"+c.name, func(t *testing.T) {
			var l erc.Loose
			title, err := readers[c.reader](&l, c.text)
			if err != nil || title != c.title {
				t.Errorf("got %q, %v; want %q", title, err, c.title)
			}
			if diff := cmp.Diff(c.notes, l.Notes); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// What cannot be read from the disk is no fault of the file.
func TestLooseFailsWithItsInput(t *testing.T) {
	broken := errors.New("broken disk")
	var l erc.Loose
	_, err1 := l.ERC(iotest.ErrReader(broken))
	_, err2 := l.DublinCore(iotest.ErrReader(broken))
	_, err3 := l.DataCite(iotest.ErrReader(broken))
	for _, err := range []error{err1, err2, err3} {
		if !errors.Is(err, broken) {
			t.Errorf("got %v", err)
		}
	}
}
