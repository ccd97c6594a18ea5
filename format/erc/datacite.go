package erc

import (
	"encoding/xml"
	"fmt"
	"io"
	"strings"
)

// DataCite is the supported part of a DataCite record (kernel 2 to 4): the mandatory properties, dates and other
// identifiers.
type DataCite struct {
	Identifier      string
	IdentifierType  string // DOI, ARK, ...
	Creators        []string
	Titles          []string
	Publisher       string
	PublicationYear string    // four digits
	ResourceType    string    // free text
	ResourceGeneral string    // one of ResourceTypes
	Dates           []Element // label: one of DateTypes
	Alternates      []Element // other identifiers; label: their type
}

// ERC returns who, what, when and where of the record.
func (d DataCite) ERC() Record {
	r := Record{Who: strings.Join(d.Creators, "; "), When: d.PublicationYear, Where: d.Identifier}
	if len(d.Titles) > 0 {
		r.What = d.Titles[0]
	}
	return r
}

// dataciteNamespace is the prefix of the namespaces of all kernels.
const dataciteNamespace = "http://datacite.org/schema/kernel-"

// ReadDataCite reads a DataCite document. Its root element is resource in one of the kernels' namespaces.
func ReadDataCite(in io.Reader) (DataCite, error) {
	r := &dataciteReader{}
	err := eachText(in, r.element)
	if err == nil && !r.isDataCite {
		err = fmt.Errorf("%w: the root element is not a DataCite resource", ErrFormat)
	}
	if err != nil {
		return DataCite{}, err
	}
	return r.done(), nil
}

type dataciteReader struct {
	record     DataCite
	isDataCite bool
	anySpace   bool     // another or no namespace is accepted
	noSpace    bool     // the document had another or no namespace
	main       []string // titles without a type: the main titles
	other      []string // subtitles, translated titles and so on
}

// element processes an element of the document.
func (r *dataciteReader) element(path []xml.Name, attrs []xml.Attr, value string) {
	right := strings.HasPrefix(path[0].Space, dataciteNamespace)
	if path[0].Local != "resource" || !right && !r.anySpace {
		return
	}
	r.isDataCite, r.noSpace = true, !right
	r.take(localPath(path), attrs, value)
}

// done returns the record.
func (r *dataciteReader) done() DataCite {
	r.record.Titles = append(r.main, r.other...)
	return r.record
}

func localPath(path []xml.Name) string {
	names := make([]string, 0, len(path))
	for _, n := range path[1:] {
		names = append(names, n.Local)
	}
	return strings.Join(names, "/")
}

func (r *dataciteReader) take(path string, attrs []xml.Attr, value string) {
	if value == "" {
		return
	}
	switch path {
	case "identifier":
		r.record.Identifier = value
		r.record.IdentifierType = attribute(attrs, "identifierType")
	case "creators/creator/creatorName":
		r.record.Creators = append(r.record.Creators, value)
	case "titles/title":
		if attribute(attrs, "titleType") == "" {
			r.main = append(r.main, value)
		} else {
			r.other = append(r.other, value)
		}
	case "publisher":
		r.record.Publisher = value
	case "publicationYear":
		r.record.PublicationYear = value
	case "resourceType":
		r.record.ResourceType = value
		r.record.ResourceGeneral = attribute(attrs, "resourceTypeGeneral")
	case "dates/date":
		r.record.Dates = append(r.record.Dates, Element{attribute(attrs, "dateType"), value})
	case "alternateIdentifiers/alternateIdentifier":
		r.record.Alternates = append(r.record.Alternates, Element{attribute(attrs, "alternateIdentifierType"), value})
	}
}

func attribute(attrs []xml.Attr, name string) string {
	for _, a := range attrs {
		if a.Name.Local == name {
			return a.Value
		}
	}
	return ""
}
