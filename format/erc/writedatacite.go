package erc

import (
	"encoding/xml"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
)

// Namespace and schema of DataCite metadata, version 4.
const (
	dataciteKernel4 = dataciteNamespace + "4"
	dataciteSchema  = "https://schema.datacite.org/meta/kernel-4/metadata.xsd"
	xsiNamespace    = "http://www.w3.org/2001/XMLSchema-instance"
)

// ResourceTypes are the general resource types of DataCite 4.
var ResourceTypes = []string{
	"Audiovisual", "Book", "BookChapter", "Collection", "ComputationalNotebook", "ConferencePaper",
	"ConferenceProceeding", "DataPaper", "Dataset",
	"Dissertation", "Event", "Image", "InteractiveResource", "Journal", "JournalArticle", "Model",
	"OutputManagementPlan", "PeerReview",
	"PhysicalObject", "Preprint", "Report", "Service", "Software", "Sound", "Standard", "Text", "Workflow", "Other",
}

// DateTypes are the types of date of DataCite 4.
var DateTypes = []string{
	"Accepted", "Available", "Collected", "Copyrighted", "Created", "Issued", "Other", "Submitted", "Updated",
	"Valid", "Withdrawn",
}

var (
	fourDigits = regexp.MustCompile(`^[0-9]{4}$`)
	yearInDate = regexp.MustCompile(`(?:^|[^0-9])([0-9]{4})(?:[^0-9]|$)|^([0-9]{4})[0-9]{2}(?:[0-9]{2}(?:[0-9]{6})?)?$`)
)

// Year finds the year in a date as people and ERCs write it: 1974, 1974-05-01, 19740501, "May 1974"; "" if there is
// none.
func Year(date string) string {
	m := yearInDate.FindStringSubmatch(strings.TrimSpace(date))
	if m == nil {
		return ""
	}
	return m[1] + m[2]
}

// Enough reports whether the record has all that DataCite 4 makes mandatory, so that WriteDataCite can write it.
func (d DataCite) Enough() bool { return d.check() == nil }

func (d DataCite) check() error {
	for name, values := range map[string][]string{
		"identifier": {d.Identifier}, "identifierType": {d.IdentifierType}, "creatorName": d.Creators,
		"title":     d.Titles,
		"publisher": {d.Publisher}, "resourceType": {d.ResourceType},
	} {
		if len(values) == 0 {
			return fmt.Errorf("%w: %s is missing", ErrText, name)
		}
		for _, v := range values {
			if strings.TrimSpace(v) == "" || !xmlText(v) {
				return fmt.Errorf("%w: value of %s", ErrText, name)
			}
		}
	}
	switch {
	case !fourDigits.MatchString(d.PublicationYear):
		return fmt.Errorf("%w: publicationYear %q is not a year of four digits", ErrText, d.PublicationYear)
	case !slices.Contains(ResourceTypes, d.ResourceGeneral):
		return fmt.Errorf("%w: %q is not a general resource type", ErrText, d.ResourceGeneral)
	}
	for _, e := range d.Dates {
		if !slices.Contains(DateTypes, e.Label) || strings.TrimSpace(e.Value) == "" || !xmlText(e.Value) {
			return fmt.Errorf("%w: date %q of type %q", ErrText, e.Value, e.Label)
		}
	}
	for _, e := range d.Alternates {
		if strings.TrimSpace(e.Label) == "" || !xmlText(e.Label) || strings.TrimSpace(e.Value) == "" ||
			!xmlText(e.Value) {
			return fmt.Errorf("%w: alternate identifier %q of type %q", ErrText, e.Value, e.Label)
		}
	}
	return nil
}

// WriteDataCite writes a document of DataCite 4 with the mandatory properties, dates and alternate identifiers.
// ErrText: a mandatory property is missing, a word is not in its controlled list, or a value is blank or has
// characters that XML 1.0 cannot carry.
func WriteDataCite(out io.Writer, d DataCite) error {
	if err := d.check(); err != nil {
		return err
	}
	w := &dataciteWriter{}
	w.WriteString(xml.Header)
	w.WriteString(`<resource xmlns="` + dataciteKernel4 +
		`" xmlns:xsi="` + xsiNamespace + `" xsi:schemaLocation="` + dataciteKernel4 + " " + dataciteSchema + `">` +
		"\n")
	w.element("  ", "identifier", "identifierType", d.IdentifierType, d.Identifier)
	w.WriteString("  <creators>\n")
	for _, name := range d.Creators {
		w.WriteString("    <creator>\n")
		w.element("      ", "creatorName", "", "", name)
		w.WriteString("    </creator>\n")
	}
	w.WriteString("  </creators>\n")
	titles := make([]Element, len(d.Titles))
	for i, title := range d.Titles {
		titles[i].Value = title
	}
	w.list("titles", "title", "", titles)
	w.element("  ", "publisher", "", "", d.Publisher)
	w.element("  ", "publicationYear", "", "", d.PublicationYear)
	w.element("  ", "resourceType", "resourceTypeGeneral", d.ResourceGeneral, d.ResourceType)
	w.list("dates", "date", "dateType", d.Dates)
	w.list("alternateIdentifiers", "alternateIdentifier", "alternateIdentifierType", d.Alternates)
	w.WriteString("</resource>\n")
	if n := len(d.Titles) + 2*len(d.Creators) + len(d.Dates) + len(d.Alternates) + 10; w.Len() > maxInput ||
		n > maxElements {
		return fmt.Errorf("%w: more than %d bytes or %d elements", ErrText, maxInput, maxElements)
	}
	_, err := io.WriteString(out, w.String())
	return err
}

type dataciteWriter struct{ strings.Builder }

// list writes elements within one parent element; nothing if there are none.
func (w *dataciteWriter) list(around, name, attribute string, all []Element) {
	if len(all) == 0 {
		return
	}
	w.WriteString("  <" + around + ">\n")
	for _, e := range all {
		w.element("    ", name, attribute, e.Label, e.Value)
	}
	w.WriteString("  </" + around + ">\n")
}

func (w *dataciteWriter) element(indent, name, attribute, label, value string) {
	w.WriteString(indent + "<" + name)
	if attribute != "" {
		w.WriteString(" " + attribute + `="`)
		_ = xml.EscapeText(w, []byte(label)) // a strings.Builder returns no error
		w.WriteString(`"`)
	}
	w.WriteString(">")
	_ = xml.EscapeText(w, []byte(value))
	w.WriteString("</" + name + ">\n")
}
