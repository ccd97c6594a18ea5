// Package premis writes preservation metadata (PREMIS 3.0): what an object is, what happened to it, and who did it. The
// XML follows the order of elements of the schema (http://www.loc.gov/premis/v3); the JSON has the same content.
package premis

import (
	"encoding/xml"
	"fmt"
	"io"
	"time"
)

// Namespace is that of the XML.
const Namespace = "http://www.loc.gov/premis/v3"

// Document is what is known of one archive. Objects and events name each other and the agents by their identifiers.
type Document struct {
	Objects []Object `json:"objects,omitempty"`
	Events  []Event  `json:"events,omitempty"`
	Agents  []Agent  `json:"agents,omitempty"`
}

// ID is an identifier: its type, such as UUID or local, and its value.
type ID struct {
	Type  string `json:"type"`
	Value string `json:"value"`
}

// Category is what kind of object is described.
type Category string

// The categories. A file has digests, a size and a format.
const (
	File           Category = "file"
	Representation Category = "representation" // a set of files that is one archive
	Intellectual   Category = "intellectualEntity"
)

// Object is a file, or a set of files.
type Object struct {
	ID       ID             `json:"id"`
	Category Category       `json:"category"`
	Size     int64          `json:"size,omitempty"`   // of a file
	Format   string         `json:"format,omitempty"` // media type of a file
	Digests  []Digest       `json:"digests,omitempty"`
	Name     string         `json:"originalName,omitempty"`
	Storage  []Storage      `json:"storage,omitempty"`
	Related  []Relationship `json:"relationships,omitempty"`
}

// Digest is one digest of a file.
type Digest struct {
	Algorithm string `json:"algorithm"` // such as SHA-512
	Value     string `json:"value"`
}

// Storage is where a copy is.
type Storage struct {
	Medium   string `json:"medium,omitempty"`
	Location string `json:"location"`
}

// Relationship relates an object to others. Its type and subtype are of the vocabularies of the Library of Congress:
// structural "includes" and "is included in", derivation "has source".
type Relationship struct {
	Type    string `json:"type"`
	Subtype string `json:"subtype"`
	Objects []ID   `json:"objects"`
}

// Event is what happened to objects.
type Event struct {
	ID      ID        `json:"id"`
	Type    string    `json:"type"` // such as "fixity check" (the vocabulary of event types)
	Time    time.Time `json:"time"`
	Detail  string    `json:"detail,omitempty"`
	Outcome string    `json:"outcome,omitempty"` // such as success, failure
	Note    string    `json:"note,omitempty"`    // on the outcome
	Agents  []Link    `json:"agents,omitempty"`
	Objects []Link    `json:"objects,omitempty"`
}

// Link names an agent or an object and its role.
type Link struct {
	ID   ID     `json:"id"`
	Role string `json:"role,omitempty"` // such as implementer, source
}

// Agent is a person, an organization or a program.
type Agent struct {
	ID      ID     `json:"id"`
	Name    string `json:"name"`
	Type    string `json:"type"` // person, organization, software
	Version string `json:"version,omitempty"`
}

// Check reports the first thing that makes a document invalid: an identifier that is missing or named and not defined.
func (d *Document) Check() error {
	objects, agents := map[ID]bool{}, map[ID]bool{}
	for _, o := range d.Objects {
		if err := add(objects, o.ID, "object"); err != nil {
			return err
		}
		if o.Category == File && o.Format == "" {
			return fmt.Errorf("the file %s has no format", o.ID.Value)
		}
	}
	for _, a := range d.Agents {
		if err := add(agents, a.ID, "agent"); err != nil {
			return err
		}
	}
	events := map[ID]bool{}
	for _, e := range d.Events {
		if err := add(events, e.ID, "event"); err != nil {
			return err
		}
		if e.Type == "" || e.Time.IsZero() {
			return fmt.Errorf("the event %s has no type or no time", e.ID.Value)
		}
		for _, l := range e.Agents {
			if !agents[l.ID] {
				return fmt.Errorf("the event %s names the unknown agent %s", e.ID.Value, l.ID.Value)
			}
		}
		for _, l := range e.Objects {
			if !objects[l.ID] {
				return fmt.Errorf("the event %s names the unknown object %s", e.ID.Value, l.ID.Value)
			}
		}
	}
	return nil
}

func add(all map[ID]bool, id ID, what string) error {
	switch {
	case id.Type == "" || id.Value == "":
		return fmt.Errorf("an %s has no identifier", what)
	case all[id]:
		return fmt.Errorf("the %s %s is there twice", what, id.Value)
	}
	all[id] = true
	return nil
}

// WriteXML writes a document as XML. The same document gives the same bytes.
func (d *Document) WriteXML(w io.Writer) error {
	x := &writer{e: xml.NewEncoder(w)}
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	x.e.Indent("", "  ")
	x.open("premis", attr("xmlns", Namespace), attr("xmlns:xsi", "http://www.w3.org/2001/XMLSchema-instance"),
		attr("version", "3.0"))
	for i := range d.Objects {
		x.object(&d.Objects[i])
	}
	for i := range d.Events {
		x.event(&d.Events[i])
	}
	for _, a := range d.Agents {
		x.open("agent")
		x.id("agentIdentifier", a.ID)
		x.text("agentName", a.Name)
		x.text("agentType", a.Type)
		x.text("agentVersion", a.Version)
		x.close("agent")
	}
	x.close("premis")
	if x.err != nil {
		return x.err
	}
	if err := x.e.Close(); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}

// writer keeps the first error.
type writer struct {
	e   *xml.Encoder
	err error
}

func attr(name, value string) xml.Attr { return xml.Attr{Name: xml.Name{Local: name}, Value: value} }

func (x *writer) token(t xml.Token) {
	if x.err == nil {
		x.err = x.e.EncodeToken(t)
	}
}

func (x *writer) open(name string, attrs ...xml.Attr) {
	x.token(xml.StartElement{Name: xml.Name{Local: name}, Attr: attrs})
}

func (x *writer) close(name string) { x.token(xml.EndElement{Name: xml.Name{Local: name}}) }

// text writes an element with a text, and nothing for an empty one.
func (x *writer) text(name, text string) {
	if text == "" {
		return
	}
	x.open(name)
	x.token(xml.CharData(text))
	x.close(name)
}

func (x *writer) id(name string, id ID) {
	x.open(name)
	x.text(name+"Type", id.Type)
	x.text(name+"Value", id.Value)
	x.close(name)
}

func (x *writer) object(o *Object) {
	x.open("object", attr("xsi:type", string(o.Category)))
	x.id("objectIdentifier", o.ID)
	if o.Category == File {
		x.open("objectCharacteristics")
		for _, d := range o.Digests {
			x.open("fixity")
			x.text("messageDigestAlgorithm", d.Algorithm)
			x.text("messageDigest", d.Value)
			x.close("fixity")
		}
		x.text("size", fmt.Sprint(o.Size))
		x.open("format")
		x.open("formatDesignation")
		x.text("formatName", o.Format)
		x.close("formatDesignation")
		x.close("format")
		x.close("objectCharacteristics")
	}
	if o.Category != Intellectual {
		x.text("originalName", o.Name)
		for _, s := range o.Storage {
			x.open("storage")
			x.open("contentLocation")
			x.text("contentLocationType", "URI")
			x.text("contentLocationValue", s.Location)
			x.close("contentLocation")
			x.text("storageMedium", s.Medium)
			x.close("storage")
		}
	}
	for _, r := range o.Related {
		x.open("relationship")
		x.text("relationshipType", r.Type)
		x.text("relationshipSubType", r.Subtype)
		for _, id := range r.Objects {
			x.id("relatedObjectIdentifier", id)
		}
		x.close("relationship")
	}
	x.close("object")
}

func (x *writer) event(e *Event) {
	x.open("event")
	x.id("eventIdentifier", e.ID)
	x.text("eventType", e.Type)
	x.text("eventDateTime", e.Time.UTC().Format(time.RFC3339Nano))
	if e.Detail != "" {
		x.open("eventDetailInformation")
		x.text("eventDetail", e.Detail)
		x.close("eventDetailInformation")
	}
	if e.Outcome != "" {
		x.open("eventOutcomeInformation")
		x.text("eventOutcome", e.Outcome)
		if e.Note != "" {
			x.open("eventOutcomeDetail")
			x.text("eventOutcomeDetailNote", e.Note)
			x.close("eventOutcomeDetail")
		}
		x.close("eventOutcomeInformation")
	}
	x.links("linkingAgent", e.Agents)
	x.links("linkingObject", e.Objects)
	x.close("event")
}

func (x *writer) links(kind string, all []Link) {
	for _, l := range all {
		x.open(kind + "Identifier")
		x.text(kind+"IdentifierType", l.ID.Type)
		x.text(kind+"IdentifierValue", l.ID.Value)
		x.text(kind+"Role", l.Role)
		x.close(kind + "Identifier")
	}
}
