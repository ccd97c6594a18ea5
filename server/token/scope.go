package token

import (
	"fmt"
	"strings"
)

// Scope lists what a worker may claim: kind/state, or kind for all states of it that are handed out, with commas
// between them. The empty scope allows nothing.
type Scope string

// maxScope bounds a scope in bytes.
const maxScope = 4000

// Allows reports whether the scope includes a state of a kind of jobs.
func (s Scope) Allows(kind, state string) bool {
	for part := range strings.SplitSeq(string(s), ",") {
		if part != "" && (part == kind || part == kind+"/"+state) {
			return true
		}
	}
	return false
}

// Names reports whether the scope has a kind of jobs, or a state of it.
func (s Scope) Names(kind string) bool {
	for part := range strings.SplitSeq(string(s), ",") {
		if k, _, _ := strings.Cut(part, "/"); k == kind {
			return true
		}
	}
	return false
}

func (s Scope) validate() error {
	if s == "" {
		return nil
	}
	if len(s) > maxScope {
		return fmt.Errorf("the scope of a worker must have at most %d bytes", maxScope)
	}
	for part := range strings.SplitSeq(string(s), ",") {
		kind, state, both := strings.Cut(part, "/")
		if kind == "" || both && state == "" || strings.Contains(state, "/") || strings.ContainsFunc(part, notInName) {
			return fmt.Errorf("the scope of a worker must be KIND/STATE or KIND with commas between them, not %.100q",
				string(s))
		}
	}
	return nil
}
