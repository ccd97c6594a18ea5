package ocfl

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
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
	r := documentReader{rest: data}
	return r.value(0)
}

// documentReader reads values of bytes that are valid JSON: inventories are read back after each version, and the
// tokens of package json take four times as long.
type documentReader struct {
	rest []byte
}

// next returns the next byte that is not white space, and leaves it there.
func (r *documentReader) next() byte {
	for r.rest[0] == ' ' || r.rest[0] == '\t' || r.rest[0] == '\n' || r.rest[0] == '\r' {
		r.rest = r.rest[1:]
	}
	return r.rest[0]
}

// take returns n bytes.
func (r *documentReader) take(n int) []byte {
	taken := r.rest[:n]
	r.rest = r.rest[n:]
	return taken
}

func (r *documentReader) value(depth int) (document, error) {
	if depth > maxDepth {
		return document{}, fmt.Errorf("nested deeper than %d", maxDepth)
	}
	switch r.next() {
	case '{':
		return r.object(depth)
	case '[':
		return r.array(depth)
	case '"':
		text, err := r.text()
		return document{kind: jsonString, text: text}, err
	case 't':
		r.take(len("true"))
		return document{kind: jsonBool}, nil
	case 'f':
		r.take(len("false"))
		return document{kind: jsonBool}, nil
	case 'n':
		r.take(len("null"))
		return document{kind: jsonNull}, nil
	}
	end := bytes.IndexFunc(r.rest, func(c rune) bool { return !strings.ContainsRune("+-.0123456789Ee", c) })
	if end < 0 {
		end = len(r.rest)
	}
	return document{kind: jsonNumber, text: string(r.take(end))}, nil
}

// more reports whether an object or array has another element, after the first bracket or an element, and takes the
// comma before it, or the last bracket.
func (r *documentReader) more(end byte) bool {
	switch r.next() {
	case end:
		r.take(1)
		return false
	case ',':
		r.take(1)
	}
	return true
}

func (r *documentReader) object(depth int) (document, error) {
	d := document{kind: jsonObject}
	r.take(1)
	for r.more('}') {
		r.next()
		key, err := r.text()
		if err != nil {
			return d, err
		}
		r.next()
		r.take(1) // the colon
		value, err := r.value(depth + 1)
		if err != nil {
			return d, err
		}
		d.members = append(d.members, member{key, value})
	}
	return d, nil
}

func (r *documentReader) array(depth int) (document, error) {
	d := document{kind: jsonArray}
	r.take(1)
	for r.more(']') {
		value, err := r.value(depth + 1)
		if err != nil {
			return d, err
		}
		d.items = append(d.items, value)
	}
	return d, nil
}

// text reads a string. One with escapes is left to package json.
func (r *documentReader) text() (text string, err error) {
	end, escaped := 1, false
	for ; r.rest[end] != '"'; end++ {
		if r.rest[end] == '\\' {
			escaped = true
			end++
		}
	}
	quoted := r.take(end + 1)
	if !escaped {
		return string(quoted[1:end]), nil
	}
	err = json.Unmarshal(quoted, &text)
	return text, err
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
