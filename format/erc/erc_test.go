package erc

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

func TestRead(t *testing.T) {
	for _, test := range []struct {
		name, text string
		want       Record
	}{
		{"plain", "erc:\nwho: Lederberg, Joshua\nwhat: Studies of Human Families for Genetic Linkage\nwhen: " +
			"1974\nwhere: http://profiles.nlm.nih.gov/BB/AA/TT/tt.pdf\n",
			Record{Who: "Lederberg, Joshua",
				What: "Studies of Human Families for Genetic Linkage", When: "1974",
				Where: "http://profiles.nlm.nih.gov/BB/AA/TT/tt.pdf"}},
		{"short form", "erc: Kunze, John A. | A Metadata Kernel for Electronic Permanence\n     | 20011106 | " +
			"http://journals.tdl.org/jodi/article/view/43",
			Record{Who: "Kunze, John A.",
				What: "A Metadata Kernel for Electronic Permanence", When: "20011106",
				Where: "http://journals.tdl.org/jodi/article/view/43"}},
		{"comments, case, line ends and folding",
			"\n# first\r\nERC:\r\nWho: A\r\n# draft\r\nwhat: one\r\n  " +
				"two\r\n\tthree\r\nwhen:2001\rwhere:x\r\n\r\nwho: next record\r\n",
			Record{Who: "A", What: "one two three", When: "2001", Where: "x"}},
		{"more elements", "erc:\nwho: a\nwho: b\nnote: n\nabout-who: c\n",
			Record{Who: "a", More: []Element{{"who", "b"}, {"note", "n"}, {"about-who", "c"}}}},
		{"escapes", "erc:\nwhat: a%0Ab%20 100% %zz %C3%A4 %FF\nwho: %C3%A4\n",
			Record{Who: "ä", What: "a%0Ab%20 100% %zz %C3%A4 %FF"}},
		{"byte order mark", "\ufefferc:\nwho: a", Record{Who: "a"}},
	} {
		got, err := Read(strings.NewReader(test.text))
		if err != nil {
			t.Errorf("%s: %v", test.name, err)
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
	}
	r := Record{Who: "a", More: []Element{{"Note", "n"}}}
	if r.Get("WHO") != "a" || r.Get("note") != "n" || r.Get("x") != "" || !IsCoded(Unknown) || IsCoded("x") {
		t.Error("Get or IsCoded")
	}
}

func TestReadRefuses(t *testing.T) {
	for name, text := range map[string]string{
		"empty":             "",
		"no erc":            "who: a\n",
		"no colon":          "erc:\nwho a\n",
		"continues nothing": " erc:\n",
		"no label":          "erc:\n: a\n",
		"not UTF-8":         "erc:\nwho: \xff\n",
		"too many":          "erc:\n" + strings.Repeat("a:\n", maxElements+1),
		"too large":         "erc:\nwho: " + strings.Repeat("a", maxInput),
	} {
		if r, err := Read(strings.NewReader(text)); !errors.Is(err, ErrFormat) {
			t.Errorf("%s: %v, %v; want ErrFormat", name, r.Who, err)
		}
	}
	if _, err := Read(iotest.ErrReader(os.ErrDeadlineExceeded)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("reader's error: %v", err)
	}
}

func TestWrite(t *testing.T) {
	var out bytes.Buffer
	r := Record{Who: "A | B", What: strings.Repeat("word ", 20) + "end", Where: "line\none",
		More: []Element{{"a:b", " 100%"}, {"#c", ""}}}
	if err := Write(&out, r); err != nil {
		t.Fatal(err)
	}
	want := "erc:\nwho: A %7C B\n" +
		"what: word word word word word word word word word word word word word\n\tword word word word word word " +
		"word end\n" +
		"when: (:unkn)\nwhere: line%0Aone\na%3Ab: %20100%25\n%23c:\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, r := range []Record{{Who: "\xff"},
		{More: []Element{{"", "x"}}}, {More: []Element{{" a", "x"}}}, {More: []Element{{"\xff", "x"}}},
		{Who: strings.Repeat("a", maxInput)}} {
		if err := Write(&out, r); !errors.Is(err, ErrText) {
			t.Errorf("got %v, want ErrText", err)
		}
	}
}

// value draws text with all that folding and escaping must survive.
func value() *rapid.Generator[string] {
	return rapid.StringOf(rapid.OneOf(
		rapid.SampledFrom([]rune(" \n\r\t%|:#\u00a0\u2028\u0085\ufeff\x00")), rapid.RuneFrom([]rune("abcdefgh äé漢🐎")),
		rapid.Rune()))
}

func TestRecordRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		known := value().Filter(func(s string) bool { return s != "" })
		want := Record{Who: known.Draw(t, "who"), What: known.Draw(t, "what"), When: known.Draw(t, "when"),
			Where: known.Draw(t, "where")}
		label := value().Filter(func(s string) bool { return s != "" && strings.TrimSpace(s) == s })
		for range rapid.IntRange(0, 4).Draw(t, "more") {
			want.More = append(want.More, Element{label.Draw(t, "label"), value().Draw(t, "value")})
		}
		var out bytes.Buffer
		if err := Write(&out, want); err != nil {
			t.Fatal(err)
		}
		got, err := Read(bytes.NewReader(out.Bytes()))
		if err != nil {
			t.Fatalf("%v\n%q", err, out.String())
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("(-want +got):\n%s\n%q", diff, out.String())
		}
	})
}

const dcExample = `<?xml version="1.0" encoding="UTF-8"?>
<!-- a comment -->
<oai_dc:dc xmlns:oai_dc="http://www.openarchives.org/OAI/2.0/oai_dc/" xmlns:dc="http://purl.org/dc/elements/1.1/" xmlns:x="urn:x">
  <dc:title xml:lang="en">Grapes &amp; <![CDATA[<wine>]]></dc:title>
  <dc:creator>One</dc:creator><dc:creator> Two </dc:creator>
  <x:title>not this</x:title><dc:nothing>nor this</dc:nothing><dc:subject>  </dc:subject>
  <dc:date>1999</dc:date><dc:identifier>ark:/99999/fk4abc</dc:identifier>
</oai_dc:dc>`

func TestReadDublinCore(t *testing.T) {
	got, err := ReadDublinCore(strings.NewReader(dcExample))
	if err != nil {
		t.Fatal(err)
	}
	want := DublinCore{{"title", "Grapes & <wine>"}, {"creator", "One"}, {"creator", "Two"}, {"date", "1999"},
		{"identifier", "ark:/99999/fk4abc"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	wantERC := Record{Who: "One; Two", What: "Grapes & <wine>", When: "1999", Where: "ark:/99999/fk4abc"}
	if diff := cmp.Diff(wantERC, got.ERC()); diff != "" {
		t.Errorf("ERC (-want +got):\n%s", diff)
	}
	if who := (DublinCore{{"publisher", "P"}}).ERC().Who; who != "P" {
		t.Errorf("publisher for want of a creator: %q", who)
	}
}

func TestXMLRefused(t *testing.T) {
	for name, text := range map[string]string{
		"empty":           "",
		"text":            "hello",
		"not closed":      "<a><b></a>",
		"two roots":       "<a/><b/>",
		"text after root": "<a/>x",
		"document type":   `<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]><a>&x;</a>`,
		"unknown entity":  "<a>&x;</a>",
		"other encoding":  `<?xml version="1.0" encoding="ISO-8859-1"?><a/>`,
		"not UTF-8":       "<a>\xff</a>",
		"nested deep":     strings.Repeat("<a>", maxXMLDepth+1) + strings.Repeat("</a>", maxXMLDepth+1),
		"many elements":   "<a>" + strings.Repeat("<b/>", maxElements) + "</a>",
		"too large":       "<a>" + strings.Repeat("x", maxInput) + "</a>",
	} {
		if _, err := ReadDublinCore(strings.NewReader(text)); !errors.Is(err, ErrFormat) {
			t.Errorf("%s: got %v, want ErrFormat", name, err)
		}
		if _, err := ReadDataCite(strings.NewReader(text)); !errors.Is(err, ErrFormat) {
			t.Errorf("%s as DataCite: got %v, want ErrFormat", name, err)
		}
	}
	// Control: nested as deep as allowed.
	if _, err := ReadDublinCore(strings.NewReader(strings.Repeat("<a>", maxXMLDepth) +
		strings.Repeat("</a>", maxXMLDepth))); err != nil {
		t.Errorf("nested as deep as allowed: %v", err)
	}
}

func TestDublinCoreRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := value().Filter(func(s string) bool { return s != "" && strings.TrimSpace(s) == s && xmlText(s) })
		var want DublinCore
		for range rapid.IntRange(0, 6).Draw(t, "n") {
			want = append(want, Element{rapid.SampledFrom(Elements15).Draw(t, "element"), text.Draw(t, "value")})
		}
		var out bytes.Buffer
		if err := WriteDublinCore(&out, want); err != nil {
			t.Fatal(err)
		}
		got, err := ReadDublinCore(&out)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
	})
}

func TestWriteDublinCoreRefuses(t *testing.T) {
	for _, record := range []DublinCore{{{"name", "x"}},
		{{"title", ""}}, {{"title", " "}}, {{"title", "\x01"}}, {{"title", "\xff"}},
		{{"title", strings.Repeat("x", maxInput)}}} {
		if err := WriteDublinCore(&bytes.Buffer{}, record); !errors.Is(err, ErrText) {
			t.Errorf("%.20q: got %v, want ErrText", record, err)
		}
	}
}

func TestReadDataCite(t *testing.T) {
	for _, kernel := range []string{"2.2", "3", "4"} {
		text := `<resource xmlns="http://datacite.org/schema/kernel-` + kernel + `">
  <identifier identifierType="DOI">10.5072/x</identifier>
  <creators><creator><creatorName nameType="Personal">Lee, A.</creatorName><givenName>A.</givenName></creator>
    <creator><creatorName>Ray, B.</creatorName></creator></creators>
  <titles><title titleType="Subtitle">sub</title><title>Main</title><title>Second</title></titles>
  <contributors><contributor><creatorName>not this</creatorName></contributor></contributors>
  <publicationYear>2020</publicationYear></resource>`
		got, err := ReadDataCite(strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		want := DataCite{
			Identifier:     "10.5072/x",
			IdentifierType: "DOI", Creators: []string{"Lee, A.", "Ray, B."}, Titles: []string{"Main", "Second", "sub"},
			PublicationYear: "2020",
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("kernel %s (-want +got):\n%s", kernel, diff)
		}
		if diff := cmp.Diff(Record{Who: "Lee, A.; Ray, B.", What: "Main", When: "2020", Where: "10.5072/x"},
			got.ERC()); diff != "" {
			t.Errorf("ERC (-want +got):\n%s", diff)
		}
	}
	for _, text := range []string{"<resource/>", `<x xmlns="http://datacite.org/schema/kernel-4"/>`, dcExample} {
		if _, err := ReadDataCite(strings.NewReader(text)); !errors.Is(err, ErrFormat) {
			t.Errorf("%.30s: got %v, want ErrFormat", text, err)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add("erc:\nwho: a\n b\nx%3A: %20\n")
	f.Add("erc: a | b%7C | c")
	f.Fuzz(func(t *testing.T, text string) {
		r, err := Read(strings.NewReader(text))
		if err != nil {
			return
		}
		var out bytes.Buffer
		if err := Write(&out, r); err != nil {
			return // a label that only percent-encoding can express, or an escape that grew too large
		}
		again, err := Read(&out)
		if err != nil {
			t.Fatalf("%v: %q", err, out.String())
		}
		var second bytes.Buffer
		if err := Write(&second, again); err != nil {
			t.Fatal(err)
		}
		for _, field := range []*string{&r.Who, &r.What, &r.When, &r.Where} {
			if *field == "" {
				*field = Unknown
			}
		}
		if diff := cmp.Diff(r, again); diff != "" {
			t.Errorf("(-first +again):\n%s", diff)
		}
	})
}

func FuzzReadXML(f *testing.F) {
	f.Add(dcExample)
	f.Add(`<resource xmlns="http://datacite.org/schema/kernel-4"><titles><title>x</title></titles></resource>`)
	f.Fuzz(func(t *testing.T, text string) {
		if _, err := ReadDataCite(strings.NewReader(text)); err != nil && !errors.Is(err, ErrFormat) {
			t.Errorf("DataCite: %v", err)
		}
		record, err := ReadDublinCore(strings.NewReader(text))
		if err != nil {
			return
		}
		var out bytes.Buffer
		if err := WriteDublinCore(&out, record); err != nil {
			t.Fatalf("what was read cannot be written: %v", err)
		}
		again, err := ReadDublinCore(&out)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(record, again, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("(-first +again):\n%s", diff)
		}
	})
}

func ExampleWrite() {
	record := Record{Who: "Gilbert, W.S.", What: "The Yeomen of the Guard", When: "1888", Where: "ark:/99999/fk4abc"}
	if err := Write(os.Stdout, record); err != nil {
		fmt.Println(err)
	}
	// Output:
	// erc:
	// who: Gilbert, W.S.
	// what: The Yeomen of the Guard
	// when: 1888
	// where: ark:/99999/fk4abc
}
