package webhook

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// MediaType is that of an [Event] as a body.
const MediaType = "application/cloudevents+json; charset=utf-8"

// typePrefix begins the type of each event, as CloudEvents recommends: a DNS name in reverse, of the project that
// defines the types.
const typePrefix = "io.github.stagepost."

// Event is an event of CloudEvents 1.0 in the JSON format: the body of each notification. Source and id together
// identify it.
type Event struct {
	SpecVersion     string          `json:"specversion"`       // "1.0"
	ID              string          `json:"id"`                // equal to the header webhook-id
	Source          string          `json:"source"`            // see [Origin]
	Type            string          `json:"type"`              // see [Origin]
	Subject         string          `json:"subject,omitempty"` // id of the job; missing: it is about none
	Time            time.Time       `json:"time"`              // of the event, not of the attempt
	DataContentType string          `json:"datacontenttype"`   // "application/json"
	Data            json.RawMessage `json:"data"`
}

// Origin is an application of an installation. Its events have the source "stagepost://INSTALLATION/APPLICATION". It
// is the same on each server of the installation, for as long as its data exists.
type Origin struct {
	Installation string // its id; empty: it has none, and the source is "stagepost:///APPLICATION"
	Application  string // such as "ingest"
}

// Source returns the source of the events.
func (o Origin) Source() string { return "stagepost://" + o.Installation + "/" + o.Application }

// Type returns the type of the events of a name: "io.github.stagepost.APPLICATION.NAME".
func (o Origin) Type(name string) string { return typePrefix + o.Application + "." + name }

// Event encodes an event. It is encoded once, so that every attempt sends the same bytes. An empty or malformed id is
// an error; so is data that has no form in JSON.
func (o Origin) Event(id, name, subject string, at time.Time, data any) ([]byte, error) {
	e := Event{
		SpecVersion: "1.0", ID: id, Source: o.Source(), Type: o.Type(name), Subject: subject, Time: at.UTC(),
		DataContentType: "application/json",
	}
	switch {
	case id == "" || id != strings.TrimSpace(id): // a header begins and ends with no blank
		return nil, fmt.Errorf("webhook: the id %.100q of an event is empty, or begins or ends with a blank", id)
	case !isString(id + e.Source + e.Type + subject):
		return nil, fmt.Errorf("webhook: the event %.100q of %.100q has a control character", id, subject)
	}
	var err error
	if e.Data, err = json.Marshal(data); err != nil {
		return nil, err
	}
	return json.Marshal(e)
}

// isString reports whether a text is a String of CloudEvents: without control characters and noncharacters.
func isString(text string) bool {
	return utf8.ValidString(text) && !strings.ContainsFunc(text, func(c rune) bool {
		return unicode.IsControl(c) || c >= 0xFDD0 && c <= 0xFDEF || c&0xFFFE == 0xFFFE
	})
}
