package premis_test

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stagepost/stagepost/format/premis"
)

func document() *premis.Document {
	file, set := premis.ID{Type: "path", Value: "data/a <&> ü.txt"}, premis.ID{Type: "UUID", Value: "0190"}
	program := premis.ID{Type: "local", Value: "stagepost"}
	return &premis.Document{
		Objects: []premis.Object{
			{ID: set, Category: premis.Representation, Name: "Exam",
				Storage: []premis.Storage{{Location: "s3://host/bucket/a.tar.gz", Medium: "fast"}},
				Related: []premis.Relationship{{Type: "structural", Subtype: "includes", Objects: []premis.ID{file}}}},
			{ID: file, Category: premis.File, Size: 0, Format: "text/plain", Name: "a.txt", Digests: []premis.Digest{
				{Algorithm: "SHA-256", Value: "aa"}, {Algorithm: "SHA-512", Value: "bb"}}},
		},
		Events: []premis.Event{{
			ID: premis.ID{Type: "local", Value: "job-1-7"}, Type: "fixity check",
			Time:   time.Date(2026, 11, 23, 9, 0, 0, 5e8, time.UTC),
			Detail: "SHA-512 of every file", Outcome: "success", Note: "1 file",
			Agents:  []premis.Link{{ID: program, Role: "executing program"}},
			Objects: []premis.Link{{ID: file, Role: "source"}},
		}},
		Agents: []premis.Agent{{ID: program, Name: "Stagepost", Type: "software", Version: "1.2"}},
	}
}

// order gives for each element the order of its children that the schema requires.
var order = map[string][]string{
	"premis":                  {"object", "event", "agent", "rights"},
	"object":                  {"objectIdentifier", "objectCharacteristics", "originalName", "storage", "relationship"},
	"objectIdentifier":        {"objectIdentifierType", "objectIdentifierValue"},
	"objectCharacteristics":   {"compositionLevel", "fixity", "size", "format"},
	"fixity":                  {"messageDigestAlgorithm", "messageDigest"},
	"format":                  {"formatDesignation"},
	"formatDesignation":       {"formatName", "formatVersion"},
	"storage":                 {"contentLocation", "storageMedium"},
	"contentLocation":         {"contentLocationType", "contentLocationValue"},
	"relationship":            {"relationshipType", "relationshipSubType", "relatedObjectIdentifier"},
	"relatedObjectIdentifier": {"relatedObjectIdentifierType", "relatedObjectIdentifierValue"},
	"event": {"eventIdentifier", "eventType", "eventDateTime", "eventDetailInformation", "eventOutcomeInformation",
		"linkingAgentIdentifier", "linkingObjectIdentifier"},
	"eventIdentifier":         {"eventIdentifierType", "eventIdentifierValue"},
	"eventDetailInformation":  {"eventDetail"},
	"eventOutcomeInformation": {"eventOutcome", "eventOutcomeDetail"},
	"eventOutcomeDetail":      {"eventOutcomeDetailNote"},
	"linkingAgentIdentifier":  {"linkingAgentIdentifierType", "linkingAgentIdentifierValue", "linkingAgentRole"},
	"linkingObjectIdentifier": {"linkingObjectIdentifierType", "linkingObjectIdentifierValue", "linkingObjectRole"},
	"agent":                   {"agentIdentifier", "agentName", "agentType", "agentVersion"},
	"agentIdentifier":         {"agentIdentifierType", "agentIdentifierValue"},
}

// TestXML checks names, namespace and order of the elements.
func TestXML(t *testing.T) {
	var first, second bytes.Buffer
	if err := errors.Join(document().WriteXML(&first), document().WriteXML(&second)); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(first.Bytes(), second.Bytes()) {
		t.Error("two documents differ")
	}
	type level struct {
		name string
		at   int
	}
	var stack []level
	texts := map[string]string{}
	for d := xml.NewDecoder(bytes.NewReader(first.Bytes())); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		switch token := token.(type) {
		case xml.StartElement:
			if token.Name.Space != premis.Namespace {
				t.Errorf("%s has the namespace %q", token.Name.Local, token.Name.Space)
			}
			if n := len(stack); n > 0 {
				at := slices.Index(order[stack[n-1].name], token.Name.Local)
				if at < stack[n-1].at {
					t.Errorf("%s in %s is not where the schema has it", token.Name.Local, stack[n-1].name)
				}
				stack[n-1].at = at
			}
			stack = append(stack, level{name: token.Name.Local})
		case xml.EndElement:
			stack = stack[:len(stack)-1]
		case xml.CharData:
			if n := len(stack); n > 0 && strings.TrimSpace(string(token)) != "" {
				texts[stack[n-1].name] = string(token)
			}
		}
	}
	for name, want := range map[string]string{
		"objectIdentifierValue": "data/a <&> ü.txt", "size": "0", "formatName": "text/plain", "messageDigest": "bb",
		"eventDateTime": "2026-11-23T09:00:00.5Z", "eventOutcome": "success", "agentVersion": "1.2",
		"contentLocationValue": "s3://host/bucket/a.tar.gz",
	} {
		if texts[name] != want {
			t.Errorf("%s is %q, want %q", name, texts[name], want)
		}
	}
}

func TestJSON(t *testing.T) {
	var text bytes.Buffer
	if err := document().WriteJSON(&text); err != nil {
		t.Fatal(err)
	}
	var back premis.Document
	if err := json.Unmarshal(text.Bytes(), &back); err != nil || !reflect.DeepEqual(&back, document()) {
		t.Errorf("got %+v, %v", back, err)
	}
}

func TestCheck(t *testing.T) {
	if err := document().Check(); err != nil {
		t.Error(err)
	}
	for want, spoil := range map[string]func(*premis.Document){
		"no identifier":  func(d *premis.Document) { d.Objects[0].ID.Value = "" },
		"twice":          func(d *premis.Document) { d.Objects[0].ID = d.Objects[1].ID },
		"no format":      func(d *premis.Document) { d.Objects[1].Format = "" },
		"unknown agent":  func(d *premis.Document) { d.Agents = nil },
		"unknown object": func(d *premis.Document) { d.Events[0].Objects[0].ID.Value = "other" },
		"no time":        func(d *premis.Document) { d.Events[0].Time = time.Time{} },
	} {
		d := document()
		spoil(d)
		if err := d.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}
