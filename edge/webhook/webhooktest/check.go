// Package webhooktest checks, in tests of senders, that a notification is an event of CloudEvents 1.0. It does not
// depend on the code that makes events.
package webhooktest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// attribute is the form of the name of an attribute (CloudEvents 1.0.2, "Attribute Naming Convention").
var attribute = regexp.MustCompile(`^[a-z0-9]{1,20}$`)

// reversed is the form of a type with a DNS name in reverse before it.
var reversed = regexp.MustCompile(`^[a-z][a-z0-9-]*(\.[a-z0-9_-]+){2,}$`)

// Check gives what is wrong with a notification: with its media type, with its body as an event in structured mode, and
// with webhook-id, which is the id of the event.
func Check(h http.Header, body []byte) error {
	media, parameters, err := mime.ParseMediaType(h.Get("Content-Type"))
	if err != nil || media != "application/cloudevents+json" || !strings.EqualFold(parameters["charset"], "utf-8") {
		return fmt.Errorf("the media type is %q", h.Get("Content-Type"))
	}
	event, err := members(body)
	if err != nil {
		return err
	}
	var wrong []error
	for name, value := range event {
		if name == "data" {
			continue
		}
		if err := checkAttribute(name, value); err != nil {
			wrong = append(wrong, fmt.Errorf("%s: %w", name, err))
		}
	}
	for _, name := range []string{"specversion", "id", "source", "type", "time", "datacontenttype", "data"} {
		if _, ok := event[name]; !ok { // events of Stagepost always have the last three
			wrong = append(wrong, fmt.Errorf("%s is missing", name))
		}
	}
	if id := h.Get("Webhook-Id"); event["id"] != id {
		wrong = append(wrong, fmt.Errorf("the id is %v, and webhook-id %q", event["id"], id))
	}
	return errors.Join(wrong...)
}

// members reads a JSON object whose names differ.
func members(body []byte) (map[string]any, error) {
	if !utf8.Valid(body) {
		return nil, errors.New("the body is not UTF-8")
	}
	d := json.NewDecoder(bytes.NewReader(body))
	if start, err := d.Token(); err != nil || start != json.Delim('{') {
		return nil, fmt.Errorf("the body is no JSON object: %v, %w", start, err)
	}
	all := map[string]any{}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, err
		}
		var value any
		if err := d.Decode(&value); err != nil {
			return nil, err
		}
		if _, twice := all[name.(string)]; twice {
			return nil, fmt.Errorf("%s appears twice", name)
		}
		all[name.(string)] = value
	}
	if _, err := d.Token(); err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("more follows the object")
	}
	return all, nil
}

func checkAttribute(name string, value any) error {
	text, ok := value.(string)
	switch {
	case !attribute.MatchString(name):
		return errors.New("attributes have lower-case letters and digits")
	case !ok || text == "":
		return fmt.Errorf("%v is no text, or empty", value)
	case strings.ContainsFunc(text, refused):
		return fmt.Errorf("%q has a character that is not allowed", text)
	}
	switch name {
	case "specversion":
		if text != "1.0" {
			return fmt.Errorf("it is %q", text)
		}
	case "source":
		if u, err := url.Parse(text); err != nil || !u.IsAbs() {
			return fmt.Errorf("%q is no absolute URI", text)
		}
	case "type":
		if !reversed.MatchString(text) {
			return fmt.Errorf("%q has no DNS name in reverse", text)
		}
	case "time":
		if _, err := time.Parse(time.RFC3339, text); err != nil {
			return err
		}
	case "datacontenttype":
		if text != "application/json" {
			return fmt.Errorf("it is %q", text)
		}
	case "id", "subject":
	default:
		return errors.New("an attribute that is not documented")
	}
	return nil
}

// refused reports whether a String may not have a character: controls and noncharacters.
func refused(c rune) bool {
	return unicode.IsControl(c) || c >= 0xFDD0 && c <= 0xFDEF || c&0xFFFE == 0xFFFE
}
