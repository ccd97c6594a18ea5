package ingest

import (
	"archive/zip"
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stagepost/stagepost/app/ingest/record"
	"github.com/stagepost/stagepost/app/ingest/report"
)

// zipMadeOn makes a container as a program of that system does: names are bytes, without the mark of UTF-8.
func zipMadeOn(t *testing.T, creator uint16, pairs ...string) string {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for i := 0; i < len(pairs); i += 2 {
		f, err := w.CreateHeader(&zip.FileHeader{Name: pairs[i], NonUTF8: true, CreatorVersion: creator << 8,
			Method: zip.Deflate})
		if err == nil {
			_, err = f.Write([]byte(pairs[i+1]))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

const (
	dcOpen       = `<oai_dc:dc xmlns:oai_dc="http://www.openarchives.org/OAI/2.0/oai_dc/" xmlns:dc="http://purl.org/dc/elements/1.1/">`
	dcClose      = `</oai_dc:dc>`
	dcCafe       = dcOpen + `<dc:title>Café</dc:title>` + dcClose
	dataCiteCafe = `<resource xmlns="http://datacite.org/schema/kernel-4"><titles><title>Café</title></titles></resource>`
	ercCafe      = "erc:\nwho: A. Person\nwhat: Café\nwhen: 1999\n"
)

// asHandedIn checks that a descriptive file was stored as it came.
func asHandedIn(name, text string) func(*harness, report.Job) string {
	return func(w *harness, j report.Job) string {
		if got := w.files(j.ARK, fmt.Sprintf("v%d", j.Version))["producer/"+name]; got != text {
			return fmt.Sprintf("%s is %q, want %q", name, got, text)
		}
		return ""
	}
}

func metadataAdmissions() []admission {
	latin := strings.NewReplacer("é", "\xe9")
	var all []admission
	add := func(name, about, text, want, says, title string) {
		all = append(all, admission{about: name + ": " + about, zip: []string{"data.txt", "x", name, text}, want: want,
			says: says, title: title, check: asHandedIn(name, text)})
	}
	add(record.ERCName, "as it should be", ercCafe, admitted, "", "Café")
	add(record.ERCName, "with a byte order mark", "\ufeff"+ercCafe, admitted, "", "Café")
	add(record.ERCName, "ISO-8859-1", latin.Replace(ercCafe), warned, "it is ISO-8859-1, not UTF-8", "Café")
	add(record.ERCName, "with quotation marks of Windows-1252", "erc:\nwhat: \x93Caf\xe9\x94\n", warned,
		"it is ISO-8859-1, not UTF-8", "“Café”")
	add(record.ERCName, "UTF-16", inUTF16("erc:\r\nwhat: Cafe\r\n"), warned, "it is UTF-16LE, not UTF-8", "Cafe")
	add(record.ERCName, "empty", "", warned, "it is empty", "")
	add(record.ERCName, "a stray line", "erc:\nhello\nwhat: Café\n", warned,
		`line 2 is not "label: value" and is ignored`, "Café")
	add(record.ERCName, "a continuation of nothing", "\tx\nerc:\nwhat: Café\n", warned, "line 1 continues no line",
		"Café")
	add(record.ERCName, "without the line `erc:`", "what: Café\n", warned, `it does not begin with "erc:"`, "Café")
	add(record.ERCName, "a picture", "\x89PNG\r\n\x1a\n\x00\x00", warned, "is ignored", "")
	add(record.ERCName, "a title with a control character", "erc:\nwhat: a%0Ab\n", admitted, "", "")
	add(record.ERCName, "a title that is coded as unknown", "erc:\nwhat: (:unkn)\n", admitted, "", "")
	add(record.DublinCoreName, "as it should be", dcCafe, admitted, "", "Café")
	add(record.DublinCoreName, "declared as ISO-8859-1",
		`<?xml version="1.0" encoding="ISO-8859-1"?>`+latin.Replace(dcCafe), warned, "it is ISO-8859-1, not UTF-8",
		"Café")
	add(record.DublinCoreName, "ISO-8859-1 without a declaration", latin.Replace(dcCafe), warned,
		"it is ISO-8859-1, not UTF-8", "Café")
	add(record.DublinCoreName, "UTF-16",
		inUTF16(`<?xml version="1.0" encoding="UTF-16"?>`+strings.ReplaceAll(dcCafe, "é",
			"e")), warned, "it is UTF-16LE, not UTF-8", "Cafe")
	add(record.DublinCoreName, "an unknown encoding", `<?xml version="1.0" encoding="EBCDIC"?>`+dcCafe, warned,
		`encoding "EBCDIC"`, "")
	add(record.DublinCoreName, "a document type", `<!DOCTYPE dc>`+dcCafe, warned,
		"it has a document type, which is not read", "Café")
	add(record.DublinCoreName, "an entity that names a file of ours",
		`<!DOCTYPE dc [<!ENTITY x SYSTEM "file:///etc/passwd">]>`+dcOpen+`<dc:title>&x;</dc:title>`+dcClose, warned,
		"it has a document type, which is not read", "")
	add(record.DublinCoreName, "an entity that names an address",
		`<!DOCTYPE dc [<!ENTITY x SYSTEM "http://127.0.0.1:9/">]>`+dcOpen+`<dc:title>&x;</dc:title>`+dcClose, warned,
		"invalid character entity", "")
	add(record.DublinCoreName, "entities that multiply",
		`<!DOCTYPE dc [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;">]>`+dcOpen+`<dc:title>&b;</dc:title>`+dcClose,
		warned, "invalid character entity", "")
	add(record.DublinCoreName, "without a namespace", `<metadata><title>Café</title></metadata>`, warned,
		"its elements have no Dublin Core namespace", "Café")
	add(record.DublinCoreName, "nested 100 deep", strings.Repeat("<a>", 100)+strings.Repeat("</a>", 100), warned,
		"nested deeper than 64", "")
	add(record.DublinCoreName, "cut", dcCafe[:len(dcCafe)-20], warned, "unexpected EOF", "")
	add(record.DublinCoreName, "empty", "", warned, "it is empty", "")
	add(record.DublinCoreName, "no XML", "title: Café\n", warned, "text outside the root element", "")
	add(record.DublinCoreName, "HTML", "<html><body><br></body></html>", warned, "it is not read", "")
	add(record.DataCiteName, "as it should be", dataCiteCafe, admitted, "", "Café")
	add(record.DataCiteName, "without a namespace",
		strings.Replace(dataCiteCafe, ` xmlns="http://datacite.org/schema/kernel-4"`, "",
			1), warned, "it has no DataCite namespace", "Café")
	add(record.DataCiteName, "another namespace", strings.Replace(dataCiteCafe, "datacite.org/schema/kernel-4",
		"example.org/", 1), warned, "it has no DataCite namespace", "Café")
	add(record.DataCiteName, "another root element", "<record/>", warned, "the root element is not a DataCite resource",
		"")
	add(record.DataCiteName, "ISO-8859-1 without a declaration", latin.Replace(dataCiteCafe), warned,
		"it is ISO-8859-1, not UTF-8", "Café")
	add(record.DataCiteName, "a document type", `<!DOCTYPE resource SYSTEM "datacite.dtd">`+dataCiteCafe, warned,
		"it has a document type, which is not read", "Café")
	return all
}

func precedenceAdmissions() []admission {
	form := Submission{Title: "Form", Creator: "Form person", Date: "1900"}
	dc := dcOpen + `<dc:title>DC</dc:title><dc:creator>DC person</dc:creator><dc:date>1901</dc:date>` + dcClose
	dataCite := `<resource xmlns="http://datacite.org/schema/kernel-4"><titles><title>DataCite</title></titles></resource>`
	of := func(about, title string, files ...string) admission {
		return admission{about: about, s: form, zip: append([]string{"data.txt", about}, files...), want: admitted,
			title: title}
	}
	mixed := of("mrt-erc.txt with a title, mrt-dc.xml with a creator, the form with a date: each counts", "ERC",
		record.ERCName, "erc:\nwhat: ERC\n",
		record.DublinCoreName, dcOpen+`<dc:creator>DC person</dc:creator>`+dcClose)
	mixed.check = func(w *harness, j report.Job) string {
		if o := w.object(j.ARK); o.Creator != "DC person" || o.Date != "1900" {
			return fmt.Sprintf("creator %q, date %q", o.Creator, o.Date)
		}
		return ""
	}
	return []admission{
		of("mrt-erc.txt, DataCite, Dublin Core and the form each with a title: that of mrt-erc.txt", "ERC",
			record.ERCName, "erc:\nwhat: ERC\n", record.DataCiteName, dataCite, record.DublinCoreName, dc),
		of("DataCite, Dublin Core and the form each with a title: that of DataCite", "DataCite", record.DataCiteName,
			dataCite, record.DublinCoreName, dc),
		of("Dublin Core and the form each with a title: that of Dublin Core", "DC", record.DublinCoreName, dc),
		of("the form with a title, mrt-erc.txt without one: that of the form", "Form", record.ERCName,
			"erc:\nwho: A. Person\n"),
		of("the form with a title, mrt-erc.txt with `(:unkn)`: that of the form", "Form", record.ERCName,
			"erc:\nwhat: (:unkn)\n"),
		mixed,
	}
}

// hasIDs checks the identifiers of the object.
func hasIDs(ark string, local ...string) func(*harness, report.Job) string {
	return func(w *harness, j report.Job) string {
		if ark != "" && j.ARK != ark {
			return "its ARK is " + j.ARK + ", want " + ark
		}
		for _, id := range local {
			if !slices.Contains(j.LocalIDs, id) {
				return fmt.Sprintf("its local ids are %q, and %s is missing", j.LocalIDs, id)
			}
		}
		return ""
	}
}

func idAdmissions() []admission {
	of := func(about, erc string, s Submission, want, says string, check func(*harness, report.Job) string) admission {
		return admission{about: about, s: s, zip: []string{"data.txt", about, record.ERCName, "erc:\nwhat: T\n" + erc},
			want: want, says: says, check: check}
	}
	dc := func(about, id, want, says string, check func(*harness, report.Job) string) admission {
		return admission{about: about, zip: []string{"data.txt", about, record.DublinCoreName, dcOpen +
			`<dc:identifier>` + id + `</dc:identifier>` + dcClose}, want: want, says: says, check: check}
	}
	const one, two = "ark:/99999/fk4known1", "ark:/99999/fk4known2"
	none := Submission{}
	return []admission{
		of("`where:` with an ARK", "where: ark:/99999/fk4where1\n", none, admitted, "", hasIDs("ark:/99999/fk4where1")),
		of("`where:` with the address of an ARK", "where: https://n2t.net/ark:/99999/fk4where2\n", none, admitted, "",
			hasIDs("ark:/99999/fk4where2")),
		of("`where:` with a name of the depositor's own", "where: where-3\n", none, admitted, "",
			hasIDs("", "where-3")),
		of("two lines `where:`, an ARK and a name", "where: ark:/99999/fk4where4\nwhere: where-4\n", none, admitted, "",
			hasIDs("ark:/99999/fk4where4", "where-4")),
		of("several names in one `where:`", "where: where-5a; where-5b\n", none, admitted, "",
			hasIDs("", "where-5a", "where-5b")),
		of("`where-primary:` and `where-local:`, as Merritt writes them", "where-primary: "+
			"ark:/99999/fk4where6\nwhere-local: where-6\n", none, admitted, "", hasIDs("ark:/99999/fk4where6",
			"where-6")),
		of("`where: (:unas)`", "where: (:unas)\n", none, admitted, "", nil),
		of("`where:` with the name of an object that is stored: its next version", "where: known-1\n", none, admitted,
			"", hasIDs(one, "known-1")),
		of("`where:` with the ARK of an object that is stored: its next version", "where: "+two+"\n", none, admitted,
			"", hasIDs(two, "known-2")),
		of("the same primary id on submission and in `where:`", "where: "+one+"\n", Submission{PrimaryID: one},
			admitted, "", hasIDs(one)),
		of("local ids on submission and others in `where:`: all of them", "where: where-7b\n",
			Submission{LocalIDs: []string{"where-7a"}}, admitted, "", hasIDs("", "where-7a", "where-7b")),
		of("one primary id on submission and another in `where:`", "where: "+two+"\n", Submission{PrimaryID: one},
			CauseIdentifiers,
			"the submission gives the primary id "+one+", mrt-erc.txt gives "+two, nil),
		of("two ARKs in mrt-erc.txt", "where: "+one+"\nwhere: "+two+"\n", none, CauseIdentifiers,
			"mrt-erc.txt gives the primary id "+one+", mrt-erc.txt gives "+two, nil),
		of("the primary id of one object on submission, the local id of another in `where:`", "where: known-2\n",
			Submission{PrimaryID: one}, CauseIdentifiers,
			"local id known-2 is "+two+", the primary id is "+one, nil),
		of("the local id of one object on submission, that of another in `where:`", "where: known-2\n",
			Submission{LocalIDs: []string{"known-1"}}, CauseIdentifiers,
			"the local ids are of two objects", nil),
		of("the local id of one object on submission, the ARK of another in `where:`", "where: "+two+"\n",
			Submission{LocalIDs: []string{"known-1"}}, CauseIdentifiers,
			"local id known-1 is "+one+", the primary id is "+two, nil),
		of("an ARK that is none in `where:`", "where: ark:/nonsense\n", none, CauseBadIdentifier,
			`mrt-erc.txt: "ark:/nonsense"`, nil),
		of("an identifier with a control character", "where: a%07b\n", none, warned, "an identifier is not used", nil),
		dc("`dc:identifier` with a name of the depositor's own", "dc-1", admitted, "", hasIDs("", "dc-1")),
		dc("`dc:identifier` with an ARK", "ark:/99999/fk4dc2", admitted, "", hasIDs("ark:/99999/fk4dc2")),
		dc("`dc:identifier` with the name of an object that is stored: its next version", "known-2", admitted, "",
			hasIDs(two)),
		{about: "mrt-erc.txt and mrt-dc.xml with two ARKs",
			zip: []string{"data.txt", "x", record.ERCName, "erc:\nwhere: " + one + "\n",
				record.DublinCoreName, dcOpen + `<dc:identifier>` + two + `</dc:identifier>` +
					dcClose}, want: CauseIdentifiers,
			says: "mrt-erc.txt gives the primary id " + one + ", mrt-dc.xml gives " + two},
		{about: "the identifier of a DataCite record, which is a DOI as a rule",
			zip: []string{"data.txt", "doi", record.DataCiteName,
				`<resource xmlns="http://datacite.org/schema/kernel-4"><identifier identifierType="DOI">10.5072/x</identifier></resource>`}, want: admitted,
			check: func(_ *harness, j report.Job) string {
				if len(j.LocalIDs) > 0 {
					return fmt.Sprintf("its local ids are %q", j.LocalIDs)
				}
				return ""
			}},
	}
}

func embargoAdmissions() []admission {
	var all []admission
	add := func(about, text, want, says, end string) {
		all = append(all, admission{about: about, zip: []string{"data.txt", about, record.EmbargoName, text},
			want: want, says: says, check: func(w *harness, j report.Job) string {
				m, err := w.Metadata(w.t.Context(), j.Job)
				if err != nil || m.Embargo != end {
					return fmt.Sprintf("the embargo is %q, %v; want %q", m.Embargo, err, end)
				}
				own := w.files(j.ARK, "v1")["system/"+record.IngestName]
				if !strings.Contains(own, "embargoEndDate: "+end+"\n") {
					return "mrt-ingest.txt has no embargo: " + own
				}
				return asHandedIn(record.EmbargoName, text)(w, j)
			}})
	}
	add("an embargo with a time", "embargoEndDate:2031-12-31T11:15:01Z", admitted, "", "2031-12-31T11:15:01Z")
	add("an embargo with a zone", "embargoEndDate: 2031-12-31T11:15:01+02:00\n", admitted, "", "2031-12-31T09:15:01Z")
	add("an embargo with a day", "embargoEndDate: 2031-12-31\r\n", admitted, "", "2031-12-31T00:00:00Z")
	add("an embargo that is over", "embargoEndDate: 1999-01-01\n", admitted, "", "1999-01-01T00:00:00Z")
	add("`embargoEndDate: none`", "embargoEndDate:none", admitted, "", "none")
	add("a comment before the embargo", "# until the book is out\nEMBARGOENDDATE: 2031-12-31\n", admitted, "",
		"2031-12-31T00:00:00Z")
	add("an embargo in UTF-16", inUTF16("embargoEndDate: 2031-12-31\r\n"), admitted, "", "2031-12-31T00:00:00Z")
	bad := CauseBadMetadata
	add("an empty mrt-embargo.txt", "", bad, "mrt-embargo.txt gives no embargoEndDate", "")
	add("an embargo until next summer", "embargoEndDate: next summer\n", bad,
		"neither a date such as 2030-01-31 nor none", "")
	add("an embargo in the order of months", "embargoEndDate: 12/31/2031\n", bad,
		"neither a date such as 2030-01-31 nor none", "")
	add("an embargo on a day that there is not", "embargoEndDate: 2031-02-30\n", bad,
		"neither a date such as 2030-01-31 nor none", "")
	add("an embargo with a misspelt label", "embargoEnd: 2031-12-31\n", bad,
		"is not embargoEndDate: and a date or none", "")
	add("two embargoes that differ", "embargoEndDate: 2031-12-31\nembargoEndDate: 2032-12-31\n", bad, "gives two dates",
		"")
	add("an embargo of 100,000 bytes", noise(100_000), bad, "has more than 4096 bytes", "")
	return all
}

func nameAdmissions() []admission {
	const fat, unix = 0, 3
	in := func(about, profile, want, says string, creator uint16, names ...string) admission {
		c := admission{about: about, profile: profile, want: want, says: says, creator: creator}
		for _, name := range names {
			c.zip = append(c.zip, name, name+about)
		}
		if want == admitted {
			c.files = names
		}
		return c
	}
	decoded := func(c admission, files ...string) admission {
		c.files = files
		return c
	}
	all := []admission{
		decoded(in("a zip of Windows with `café` in code page 437", "test", warned,
			"1 name is in the container not in UTF-8 and read as code page 437.", fat, "caf\x82.txt"), "café.txt"),
		decoded(in("a zip of Unix with `café` in ISO-8859-1", "test", warned, "read as ISO-8859-1", unix,
			"caf\xe9.txt"), "café.txt"),
		in("`é` as one character stays one", "test", admitted, "", unix, "\u00e9.txt"),
		in("`é` as two characters stays two", "test", admitted, "", unix, "e\u0301.txt"),
		in("names in Japanese, Hebrew and emoji", "test", admitted, "", unix, "日本語.txt", "שלום.txt", "👩‍👩‍👧.txt"),
		in("names with blanks, quotes and percent signs", "test", admitted, "", unix, "a b.txt", `it's "x".txt`,
			"100%25.txt", "-rf", "~x"),
	}
	for _, c := range []struct {
		about, portable string
		names           []string
	}{
		{"`README` beside `readme`", "same as another name but for case", []string{"README", "readme"}},
		{"one name in two forms of Unicode", "same as another name but for case, form", []string{"\u00e9", "e\u0301"}},
		{"two names that differ in a dot at the end", "trailing dots", []string{"x", "x."}},
		{"`Docs/a` beside `docs/b`", "same as another name but for case", []string{"Docs/a", "docs/b"}},
		{"a drive letter: `a:b`", "drive letter", []string{"a:b"}},
		{"a device of Windows: `aux.c`", "reserved device name", []string{"aux.c"}},
		{"a device of Windows as a directory: `con/x`", "reserved device name", []string{"con/x"}},
		{"Hebrew with direction marks", "bidirectional control", []string{"\u05d0\u200f.txt"}},
		{"a name that shows as another: `U+202E`", "bidirectional control", []string{"a\u202egpj.exe"}},
		{"a backslash in a name", "backslash", []string{`a\b`}},
		{"a name of dots: `...`", "only dots and spaces", []string{"..."}},
		{"full-width dots that become `..` elsewhere", "parent directory in disguise", []string{"\uff0e\uff0e/x"}},
	} {
		cause := CauseUnsafeName
		if len(c.names) > 1 {
			cause = CauseDuplicateName
		}
		all = append(all, in(c.about, "test", cause, c.portable, unix, c.names...),
			in("as given: "+c.about, "given", admitted, "", unix, c.names...))
	}
	for _, c := range []struct {
		about, says string
		names       []string
		cause       string
	}{
		{"an empty directory name: `a//b`", "empty component", []string{"a//b"}, CauseUnsafeName},
		{"a parent directory: `../x`", "parent directory", []string{"../x"}, CauseUnsafeName},
		{"an absolute name", "absolute", []string{"/etc/passwd"}, CauseUnsafeName},
		{"a line end in a name", "control character", []string{"a\nb"}, CauseUnsafeName},
		{"a name of 256 bytes", "too long", []string{strings.Repeat("n", 256)}, CauseUnsafeName},
		{"a file and a directory of one name", "file and directory of one name", []string{"x", "x/y"},
			CauseDuplicateName},
		{"one name twice in a container", "duplicate", []string{"x", "x"}, CauseDuplicateName},
	} {
		all = append(all, in(c.about, "test", c.cause, c.says, unix, c.names...),
			in("as given: "+c.about, "given", c.cause, c.says, unix, c.names...))
	}
	return append(all, in(`as given: a parent directory with backslashes: `+"`..\\x`", "given", CauseUnsafeName,
		"parent directory", unix, `..\x`),
		in(`as given: a drive with a backslash: `+"`C:\\x`", "given", CauseUnsafeName, "drive letter", unix, `C:\x`))
}
