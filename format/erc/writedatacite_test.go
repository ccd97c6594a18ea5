package erc

import (
	"bytes"
	"encoding/xml"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

func sample() DataCite {
	return DataCite{
		Identifier:     "ark:/99999/fk4abc",
		IdentifierType: "ARK", Creators: []string{"Lee, A."}, Titles: []string{"Grapes & <wine>"}, Publisher: "Library",
		PublicationYear: "2009", ResourceType: "digital object", ResourceGeneral: "Other",
		Dates: []Element{{"Created", "2009-05-01"}}, Alternates: []Element{{"local", "l1"}},
	}
}

// mandatory is DataCite 4 as a reader with the schema in hand sees it: what must be there, once or at least once, and
// where.
type mandatory struct {
	XMLName    xml.Name `xml:"http://datacite.org/schema/kernel-4 resource"`
	Schema     string   `xml:"http://www.w3.org/2001/XMLSchema-instance schemaLocation,attr"`
	Identifier []struct {
		Type string `xml:"identifierType,attr"`
		Text string `xml:",chardata"`
	} `xml:"http://datacite.org/schema/kernel-4 identifier"`
	Creators  []string `xml:"http://datacite.org/schema/kernel-4 creators>creator>creatorName"`
	Titles    []string `xml:"http://datacite.org/schema/kernel-4 titles>title"`
	Publisher []string `xml:"http://datacite.org/schema/kernel-4 publisher"`
	Year      []string `xml:"http://datacite.org/schema/kernel-4 publicationYear"`
	Resource  []struct {
		General string `xml:"resourceTypeGeneral,attr"`
		Text    string `xml:",chardata"`
	} `xml:"http://datacite.org/schema/kernel-4 resourceType"`
}

func TestWriteDataCiteHasWhatIsMandatory(t *testing.T) {
	var out bytes.Buffer
	if err := WriteDataCite(&out, sample()); err != nil {
		t.Fatal(err)
	}
	var m mandatory
	if err := xml.Unmarshal(out.Bytes(), &m); err != nil {
		t.Fatal(err)
	}
	if len(m.Identifier) != 1 || m.Identifier[0].Type != "ARK" || len(m.Creators) != 1 || len(m.Titles) != 1 ||
		len(m.Publisher) != 1 ||
		len(m.Year) != 1 || len(m.Resource) != 1 || m.Resource[0].General != "Other" || m.Resource[0].Text == "" ||
		!strings.HasPrefix(m.Schema, "http://datacite.org/schema/kernel-4 https://") {
		t.Errorf("got %+v of\n%s", m, out.String())
	}
}

func TestWriteDataCiteRefuses(t *testing.T) {
	for name, change := range map[string]func(*DataCite){
		"identifier": func(d *DataCite) { d.Identifier = "" },
		"type":       func(d *DataCite) { d.IdentifierType = " " },
		"creators":   func(d *DataCite) { d.Creators = nil },
		"creator":    func(d *DataCite) { d.Creators = []string{"a", ""} },
		"titles":     func(d *DataCite) { d.Titles = nil },
		"publisher":  func(d *DataCite) { d.Publisher = "" },
		"year":       func(d *DataCite) { d.PublicationYear = "99" },
		"no year":    func(d *DataCite) { d.PublicationYear = "(:unkn)" },
		"resource":   func(d *DataCite) { d.ResourceType = "" },
		"general":    func(d *DataCite) { d.ResourceGeneral = "Thing" },
		"date type":  func(d *DataCite) { d.Dates = []Element{{"Eaten", "2009"}} },
		"date":       func(d *DataCite) { d.Dates = []Element{{"Created", ""}} },
		"alternate":  func(d *DataCite) { d.Alternates = []Element{{"", "l1"}} },
		"control":    func(d *DataCite) { d.Titles = []string{"\x01"} },
		"not UTF-8":  func(d *DataCite) { d.Titles = []string{"\xff"} },
		"large":      func(d *DataCite) { d.Titles = []string{strings.Repeat("x", maxInput)} },
		"many":       func(d *DataCite) { d.Titles = strings.Split(strings.Repeat("x", maxElements), "") },
	} {
		d := sample()
		change(&d)
		if err := WriteDataCite(&bytes.Buffer{}, d); !errors.Is(err, ErrText) {
			t.Errorf("%s: got %v, want ErrText", name, err)
		}
	}
	if d := sample(); !d.Enough() || (DataCite{}).Enough() {
		t.Error("Enough")
	}
}

func TestDataCiteRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := value().Filter(func(s string) bool { return s != "" && strings.TrimSpace(s) == s && xmlText(s) })
		some := func(name string) []string { return rapid.SliceOfN(text, 1, 3).Draw(t, name) }
		elements := func(name string, label *rapid.Generator[string]) []Element {
			var all []Element
			for range rapid.IntRange(0, 3).Draw(t, name) {
				all = append(all, Element{label.Draw(t, "label"), text.Draw(t, "value")})
			}
			return all
		}
		want := DataCite{
			Identifier: text.Draw(t, "identifier"), IdentifierType: text.Draw(t, "type"), Creators: some("creators"),
			Titles:    some("titles"),
			Publisher: text.Draw(t, "publisher"), PublicationYear: rapid.StringMatching("[0-9]{4}").Draw(t, "year"),
			ResourceType:    text.Draw(t, "resource"),
			ResourceGeneral: rapid.SampledFrom(ResourceTypes).Draw(t, "general"),
			Dates:           elements("dates", rapid.SampledFrom(DateTypes)), Alternates: elements("alternates", text),
		}
		var out bytes.Buffer
		if err := WriteDataCite(&out, want); err != nil {
			t.Fatal(err)
		}
		got, err := ReadDataCite(bytes.NewReader(out.Bytes()))
		if err != nil {
			t.Fatalf("%v\n%s", err, out.String())
		}
		if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("(-want +got):\n%s\n%s", diff, out.String())
		}
	})
}

func TestYear(t *testing.T) {
	for date, want := range map[string]string{
		"1974": "1974", " 1974 ": "1974", "1974-05-01": "1974", "19740501": "1974", "197405": "1974",
		"20011106120000": "2001", "May 1974": "1974",
		"c. 1850": "1850", "1850-1900": "1850", "01/02/2003": "2003", "": "", "(:unkn)": "", "in spring": "",
		"12345": "", "123": "", "74": "",
	} {
		if got := Year(date); got != want {
			t.Errorf("%q: got %q, want %q", date, got, want)
		}
	}
}

func FuzzDataCite(f *testing.F) {
	var out bytes.Buffer
	if err := WriteDataCite(&out, sample()); err != nil {
		f.Fatal(err)
	}
	f.Add(out.String())
	f.Add(`<resource xmlns="http://datacite.org/schema/kernel-3"><dates><date ` +
		`dateType="Created">x</date></dates></resource>`)
	f.Fuzz(func(t *testing.T, text string) {
		record, err := ReadDataCite(strings.NewReader(text))
		if err != nil || !record.Enough() {
			return
		}
		var out bytes.Buffer
		if err := WriteDataCite(&out, record); err != nil {
			return // it grew too large
		}
		again, err := ReadDataCite(&out)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(record, again, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("(-first +again):\n%s", diff)
		}
	})
}

func ExampleWriteDataCite() {
	_ = WriteDataCite(os.Stdout, sample())
	// Output:
	// <?xml version="1.0" encoding="UTF-8"?>
	// <resource xmlns="http://datacite.org/schema/kernel-4" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:schemaLocation="http://datacite.org/schema/kernel-4 https://schema.datacite.org/meta/kernel-4/metadata.xsd">
	//   <identifier identifierType="ARK">ark:/99999/fk4abc</identifier>
	//   <creators>
	//     <creator>
	//       <creatorName>Lee, A.</creatorName>
	//     </creator>
	//   </creators>
	//   <titles>
	//     <title>Grapes &amp; &lt;wine&gt;</title>
	//   </titles>
	//   <publisher>Library</publisher>
	//   <publicationYear>2009</publicationYear>
	//   <resourceType resourceTypeGeneral="Other">digital object</resourceType>
	//   <dates>
	//     <date dateType="Created">2009-05-01</date>
	//   </dates>
	//   <alternateIdentifiers>
	//     <alternateIdentifier alternateIdentifierType="local">l1</alternateIdentifier>
	//   </alternateIdentifiers>
	// </resource>
}
