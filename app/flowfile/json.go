package flowfile

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"

	"github.com/stagepost/stagepost/flow"
)

// plainJSON decodes what is known to be JSON as flows see it: whole numbers are int.
func plainJSON(text []byte) any {
	var v flow.Value
	if err := v.UnmarshalJSON(text); err != nil {
		return nil
	}
	return v.Any()
}

// asFlowsSee makes a number of a file what it would be in JSON.
func asFlowsSee(n json.Number) any { return plainJSON([]byte(n)) }

// decodeJSON is plainJSON for a text that may be anything; nothing may follow the value.
func decodeJSON(text []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	var raw json.RawMessage
	if err := d.Decode(&raw); err != nil {
		if err == io.EOF {
			return nil, fmt.Errorf("nothing is no JSON")
		}
		return nil, err
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, fmt.Errorf("something follows the JSON value")
	}
	return plainJSON(raw), nil
}

// textOf is how a value is put into text: a text as it is, nothing for null, everything else as JSON.
func textOf(v any) (string, error) {
	switch v := v.(type) {
	case nil:
		return "", nil
	case string:
		return v, nil
	case flow.Value:
		return textOf(v.Any())
	}
	text, err := compactJSON(v)
	return string(text), err
}

// compactJSON gives JSON without the escapes that are for web pages.
func compactJSON(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimRight(b.Bytes(), "\n"), nil
}

// decodeStrictly refuses what into has no field for, and what follows the value.
func decodeStrictly(text []byte, into *Arguments) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return err
	}
	if _, err := d.Token(); err != io.EOF {
		return fmt.Errorf("something follows the JSON value")
	}
	return nil
}
