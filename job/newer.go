package job

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// UnmarshalJSON reads an entry. One with fields that this version does not have is [Event.Newer].
func (e *Event) UnmarshalJSON(text []byte) error {
	type fields Event
	return unmarshalEntry(text, (*fields)(e), &e.Newer)
}

// UnmarshalJSON reads an entry. One with fields that this version does not have is [Audit.Newer].
func (a *Audit) UnmarshalJSON(text []byte) error {
	type fields Audit
	return unmarshalEntry(text, (*fields)(a), &a.Newer)
}

func unmarshalEntry(text []byte, to any, newer *bool) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if d.Decode(to) == nil {
		return nil
	}
	if err := json.Unmarshal(text, to); err != nil {
		return err
	}
	*newer = true
	return nil
}

// newerEntry is the error about an entry that this version cannot check.
func newerEntry(what string, seq int64, by string) error {
	return fmt.Errorf("%s %d (%s) was written by a newer version of Stagepost, which has fields that this version "+
		"does not have: check it with that version", what, seq, by)
}
