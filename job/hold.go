package job

import (
	"slices"
	"strings"
	"time"

	"github.com/stagepost/stagepost/lifecycle"
)

// Scope selects the jobs of a hold: those that match every field that is set. The empty scope selects all jobs.
type Scope struct {
	Kind  Kind            `json:"kind,omitempty"`
	State lifecycle.State `json:"state,omitempty"`
	Group string          `json:"group,omitempty"`
	Owner string          `json:"owner,omitempty"`
	Tag   string          `json:"tag,omitempty"` // "queue=access-large", "place=main"
	Job   ID              `json:"job,omitempty"` // the job itself and the jobs of the batch
}

// Matches reports whether job j is in the scope.
func (s Scope) Matches(j *Job) bool {
	return (s.Kind == "" || s.Kind == j.Kind) && (s.State == "" || s.State == j.State) &&
		(s.Group == "" || s.Group == j.Group) && (s.Owner == "" || s.Owner == j.Owner) &&
		(s.Tag == "" || slices.Contains(j.Tags, s.Tag)) &&
		(s.Job == "" || s.Job == j.ID || s.Job == j.Parent)
}

// String returns the scope as words, "group=maps kind=test.job", a tag as is, "queue=large"; "everything" if it is
// empty. It identifies the hold.
func (s Scope) String() string {
	var parts []string
	add := func(name, value string) {
		if value != "" {
			parts = append(parts, name+"="+value)
		}
	}
	add("group", s.Group)
	add("job", string(s.Job))
	add("kind", string(s.Kind))
	add("owner", s.Owner)
	add("state", string(s.State))
	if s.Tag != "" {
		parts = append(parts, s.Tag)
	}
	if len(parts) == 0 {
		return "everything"
	}
	return strings.Join(parts, " ")
}

// parseScope parses the result of String. It does not support names with blanks; ok is false then.
func parseScope(text string) (s Scope, ok bool) {
	if text == "everything" {
		return s, true
	}
	for _, part := range strings.Split(text, " ") {
		name, value, found := strings.Cut(part, "=")
		if !found || value == "" {
			return Scope{}, false
		}
		switch name {
		case "group":
			s.Group = value
		case "job":
			s.Job = ID(value)
		case "kind":
			s.Kind = Kind(value)
		case "owner":
			s.Owner = value
		case "state":
			s.State = lifecycle.State(value)
		default:
			s.Tag = part
		}
	}
	return s, s.String() == text
}

// Hold prevents claims of the jobs of its scope. A scope has at most one hold.
type Hold struct {
	Scope
	Who   string    `json:"who"`
	Why   string    `json:"why"`
	Since time.Time `json:"since"`
	Until time.Time `json:"until,omitzero"` // zero: until it is released
	// of the sender, for the audit log alone: no list of holds has it
	Address string `json:"-"`
}

// On reports whether the hold is in force at the time.
func (h Hold) On(at time.Time) bool { return h.Until.IsZero() || at.Before(h.Until) }
