package ocfl

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
)

// byTokens reads a document with the decoder of package json.
func byTokens(dec *json.Decoder, depth int) (d document, err error) {
	if depth > maxDepth {
		return d, errors.New("nested deeper")
	}
	token, err := dec.Token()
	if err != nil {
		return d, err
	}
	switch t := token.(type) {
	case string:
		return document{kind: jsonString, text: t}, nil
	case bool:
		return document{kind: jsonBool}, nil
	case json.Number:
		return document{kind: jsonNumber, text: t.String()}, nil
	case nil:
		return document{kind: jsonNull}, nil
	case json.Delim:
		d.kind = jsonArray
		if t == '{' {
			d.kind = jsonObject
		}
	}
	for dec.More() {
		key := json.Token("")
		if d.kind == jsonObject {
			if key, err = dec.Token(); err != nil {
				return d, err
			}
		}
		value, err := byTokens(dec, depth+1)
		if err != nil {
			return d, err
		}
		if d.kind == jsonObject {
			d.members = append(d.members, member{key.(string), value})
		} else {
			d.items = append(d.items, value)
		}
	}
	_, err = dec.Token()
	return d, err
}

// sameDocument compares parseDocument with the decoder of package json.
func sameDocument(t *testing.T, data []byte) {
	t.Helper()
	got, err := parseDocument(data)
	if err != nil && (err.Error() == "not UTF-8" || err.Error() == "not JSON") {
		return
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	want, wrong := byTokens(dec, 0)
	if (err == nil) != (wrong == nil) {
		t.Fatalf("%q: %v, package json: %v", data, err, wrong)
	}
	if err == nil && !reflect.DeepEqual(got, want) {
		t.Errorf("%q:\n%+v\n%+v", data, got, want)
	}
}

// documents are values in all forms.
var documents = []string{
	`{}`, `[]`, ` { "a" : [ 1 , -0.5e+3 ,"x", true,false , null ] , "a":{"b":{}} } `, "\t[\r\n[],{} ]\n",
	`"\"\\\/\b\f\n\r\t\u00e4\ud83d\ude00\ud800 {[,:]}"`, `{"\u0061":1,"a\"}":2,"":"ä€😀"}`, `12`, `0`, `-1E-9`, `null`,
	`true`, `"\\"`, `["a\\","b"]`, strings.Repeat("[", maxDepth+1) + strings.Repeat("]", maxDepth+1),
	strings.Repeat("[", maxDepth+2) + strings.Repeat("]", maxDepth+2), `{"a":1`, `[1,]`, "\"\xff\"", `1 2`, ``,
	strings.Repeat(`{"a":`, maxDepth) + `[1]` + strings.Repeat("}", maxDepth),
}

// TestDocument reads values as package json does.
func TestDocument(t *testing.T) {
	for _, text := range documents {
		sameDocument(t, []byte(text))
	}
	if d, err := parseDocument([]byte(documents[2])); err != nil || len(d.members) != 2 ||
		d.members[0].value.items[1].text != "-0.5e+3" {
		t.Errorf("control: %+v, %v", d, err)
	}
}

// FuzzDocument is TestDocument for any bytes.
func FuzzDocument(f *testing.F) {
	for _, text := range documents {
		f.Add([]byte(text))
	}
	f.Fuzz(sameDocument)
}
