package profile

import (
	"errors"
	"testing"
)

// TestMinterForms accepts and refuses what a profile states about EZID, and about mails and reports.
func TestMinterForms(t *testing.T) {
	const shoulder = "{form: ezid, url: 'https://ann@ezid.example.org/shoulder/ark:/99999/fk4'"
	for name, c := range map[string]struct{ text, key string }{
		"EZID":                      {"minter: " + shoulder + ", target: 'https://a.org/m/', coowner: lib, status: reserved}", ""},
		"no shoulder":               {"minter: {form: ezid, url: 'https://ezid.example.org/id/'}", "minter.url"},
		"no URL":                    {"minter: {form: ezid}", "minter.url"},
		"another form":              {"minter: {form: noid, url: 'https://a.org/'}", "minter.form"},
		"another status":            {"minter: " + shoulder + ", status: unavailable}", "minter.status"},
		"a target that is none":     {"minter: " + shoulder + ", target: 'javascript:x'}", "minter.target"},
		"a target without EZID":     {"minter: {url: 'https://a.org/', target: 'https://a.org/m/'}", "minter.target"},
		"an owner without EZID":     {"minter: {template: 'ark:/99999/fk4.reedeedk', coowner: lib}", "minter.coowner"},
		"an address for answers":    {"reply_to: Desk <desk@example.org>", ""},
		"no address":                {"reply_to: desk", "reply_to"},
		"keys of Merritt":           {"reports: merritt", ""},
		"keys of another":           {"reports: xml", "reports"},
		"a resolver":                {"callback: {url: 'https://a.org/', resolver: 'https://n2t.net/'}", ""},
		"a resolver that is none":   {"callback: {url: 'https://a.org/', resolver: n2t}", "callback.resolver"},
		"an aggregate":              {"aggregate: MRT-collection\ntype: MRT-system\nrole: MRT-class\ncollections: [a, b]", ""},
		"an aggregate of two lines": {"aggregate: \"MRT-none\\nrole: x\"", "aggregate"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := parse("", []byte("id: maps\n"+c.text+"\n"))
			var all Mistakes
			switch {
			case c.key == "" && err != nil:
				t.Error(err)
			case c.key != "" && (!errors.As(err, &all) || len(all) == 0 || all[0].Key != c.key):
				t.Errorf("got %v, want a mistake about %s", err, c.key)
			}
		})
	}
}

// TestAdministrative lists the aggregates whose identifiers are reserved; others are the control.
func TestAdministrative(t *testing.T) {
	for aggregate, want := range map[string]bool{"MRT-collection": true, "MRT-owner": true,
		"MRT-service-level-agreement": true, "MRT-none": false, "": false} {
		if got := (&Profile{Aggregate: aggregate}).Administrative(); got != want {
			t.Errorf("%q: got %v", aggregate, got)
		}
	}
}
