package profile

import (
	"strings"
	"testing"
)

func TestSubmittersAndUpdaters(t *testing.T) {
	for text, want := range map[string][2]string{ // who of ann and bob may submit, and update
		"":                   {"ann bob", ""},
		"submitters: [ann]":  {"ann", ""},
		`submitters: ["*"]`:  {"ann bob", ""},
		"updaters: [bob]":    {"ann bob", "bob"},
		`updaters: ["*"]`:    {"ann bob", "ann bob"},
		"updaters: []":       {"ann bob", ""},
		"submitters: [anna]": {"", ""},
	} {
		p, err := parse("", []byte("id: maps\n"+text+"\n"))
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		var submit, update []string
		for _, user := range []string{"ann", "bob"} {
			if p.Submits(user) {
				submit = append(submit, user)
			}
			if p.Updates(user) {
				update = append(update, user)
			}
		}
		if got := [2]string{strings.Join(submit, " "), strings.Join(update, " ")}; got != want {
			t.Errorf("%s: got %q, want %q", text, got, want)
		}
	}
	if _, err := parse("", []byte("id: maps\nsubmitters: []\n")); err == nil ||
		!strings.Contains(err.Error(), "empty list") {
		t.Errorf("an empty list of submitters would mean all: got %v", err)
	}
}
