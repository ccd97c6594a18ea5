package ocfl

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"
)

// jsonKind is the kind of a JSON value.
type jsonKind byte

const (
	jsonNull jsonKind = iota
	jsonBool
	jsonNumber
	jsonString
	jsonArray
	jsonObject
)

// document is a JSON value that keeps duplicate keys, which decoding into a map loses.
type document struct {
	kind    jsonKind
	text    string // of a string
	items   []document
	members []member // in order
}

type member struct {
	key   string
	value document
}

const maxDepth = 32

func parseDocument(data []byte) (document, error) {
	if !utf8.Valid(data) {
		return document{}, errors.New("not UTF-8")
	}
	if !json.Valid(data) {
		return document{}, errors.New("not JSON")
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	return parseValue(dec, 0)
}

func parseValue(dec *json.Decoder, depth int) (document, error) {
	if depth > maxDepth {
		return document{}, fmt.Errorf("nested deeper than %d", maxDepth)
	}
	token, err := dec.Token()
	if err != nil {
		return document{}, err
	}
	switch t := token.(type) {
	case json.Delim:
		if t == '{' {
			return parseMembers(dec, depth)
		}
		return parseItems(dec, depth)
	case string:
		return document{kind: jsonString, text: t}, nil
	case bool:
		return document{kind: jsonBool}, nil
	case json.Number:
		return document{kind: jsonNumber, text: t.String()}, nil
	}
	return document{kind: jsonNull}, nil
}

func parseMembers(dec *json.Decoder, depth int) (document, error) {
	d := document{kind: jsonObject}
	for dec.More() {
		token, err := dec.Token()
		if err != nil {
			return d, err
		}
		key, ok := token.(string)
		if !ok {
			return d, errors.New("key is not a string")
		}
		value, err := parseValue(dec, depth+1)
		if err != nil {
			return d, err
		}
		d.members = append(d.members, member{key, value})
	}
	_, err := dec.Token()
	return d, err
}

func parseItems(dec *json.Decoder, depth int) (document, error) {
	d := document{kind: jsonArray}
	for dec.More() {
		value, err := parseValue(dec, depth+1)
		if err != nil {
			return d, err
		}
		d.items = append(d.items, value)
	}
	_, err := dec.Token()
	return d, err
}

// get returns the last value of key, like decoding into a map.
func (d document) get(key string) (document, bool) {
	for i := len(d.members) - 1; i >= 0; i-- {
		if d.members[i].key == key {
			return d.members[i].value, true
		}
	}
	return document{}, false
}

// strings returns the items of an array of strings.
func (d document) strings() ([]string, bool) {
	if d.kind != jsonArray {
		return nil, false
	}
	out := make([]string, 0, len(d.items))
	for _, item := range d.items {
		if item.kind != jsonString {
			return nil, false
		}
		out = append(out, item.text)
	}
	return out, true
}
