package identity

import (
	"fmt"
	"slices"
	"strings"

	"golang.org/x/text/unicode/norm"
)

// reserved are the actors that the program itself enters in histories and in the audit log, what it shows for one that
// is not known or withheld, and the actors of lifecycles.
var reserved = []string{"***", "engine", "fixity", "import", "ingest", "merritt", "operator", "owner", "server",
	"somebody", "sweep", "timer", "unknown", "worker"}

// reservedPrefixes begin the names of actors that are no people, such as schedule/weekly.
var reservedPrefixes = []string{"event/", "schedule/"}

// CheckNewName returns what is wrong with the name of a new person or worker. Names that files have already need only
// satisfy [ValidateName]: who has one keeps its jobs.
func CheckNewName(name string) error {
	if err := ValidateName(name); err != nil {
		return err
	}
	if err := normal("the name", name); err != nil {
		return err
	}
	lower := strings.ToLower(name)
	if slices.Contains(reserved, lower) ||
		slices.ContainsFunc(reservedPrefixes, func(p string) bool { return strings.HasPrefix(lower, p) }) {
		return fmt.Errorf("the name %.40q is reserved: histories have it for what the program does", name)
	}
	return nil
}

// CheckNewGroups returns what is wrong with the groups of a new person.
func CheckNewGroups(g Groups) error {
	if err := g.Validate(); err != nil {
		return err
	}
	return normal("the groups", string(g))
}

// normal refuses a text that is not in the normal form NFC (Unicode Standard Annex 15): another text could be displayed
// as the same.
func normal(what, text string) error {
	if !norm.NFC.IsNormalString(text) {
		return fmt.Errorf("%s must be in the Unicode normal form NFC, not %+.40q: write %+.40q", what, text,
			norm.NFC.String(text))
	}
	return nil
}
