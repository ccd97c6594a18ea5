package identity

import (
	"strings"
	"testing"
)

// TestNewNames: a new name is in NFC, and none that the program enters as an actor. The control is names that files
// may have already.
func TestNewNames(t *testing.T) {
	for name, ok := range map[string]bool{
		"ann": true, "Jos\u00e9": true, "李": true, "admin": true, "the-operator": true, "a/b": true,
		"Jose\u0301": false, "\u212bke": false, "unknown": false, "Unknown": false, "***": false, "operator": false,
		"schedule/weekly": false, "event/moodle": false, "engine": false,
	} {
		if err := CheckNewName(name); (err == nil) != ok {
			t.Errorf("%q: %v", name, err)
		}
		if err := ValidateName(name); err != nil {
			t.Errorf("%q of a file: %v", name, err)
		}
	}
	for _, name := range []string{"", "-", "a b", strings.Repeat("x", 201), "\xff"} {
		if CheckNewName(name) == nil {
			t.Errorf("%q is accepted", name)
		}
	}
	for groups, ok := range map[Groups]bool{"": true, "maps,Caf\u00e9": true, "maps,Cafe\u0301": false, "a,,b": false} {
		if err := CheckNewGroups(groups); (err == nil) != ok {
			t.Errorf("groups %q: %v", groups, err)
		}
	}
}
