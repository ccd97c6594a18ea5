package identity

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/stagepost/stagepost/internal/printable"
)

// Work lists what a worker may claim: kind/state, or kind for all states of it that are handed out; and as
// service=NAME, or service=* for all, the services of compute whose jobs it may run as an agent. There are commas
// between them. The empty list allows nothing.
type Work string

// ofService begins the parts of a list that are services.
const ofService = "service="

// Services returns the services of the list.
func (w Work) Services() Services {
	var all []string
	for part := range strings.SplitSeq(string(w), ",") {
		name, ok := strings.CutPrefix(part, ofService)
		if ok && name == string(AllServices) {
			return AllServices
		}
		if ok {
			all = append(all, name)
		}
	}
	return Services(strings.Join(all, ","))
}

// With returns the list with services besides.
func (w Work) With(services ...string) Work {
	for _, name := range services {
		if w != "" {
			w += ","
		}
		w += Work(ofService + name)
	}
	return w
}

// Bounds in bytes.
const (
	maxScope   = 4000
	maxName    = 200
	maxDisplay = 200
)

// Allows reports whether the list includes a state of a kind of jobs.
func (w Work) Allows(kind, state string) bool {
	for part := range strings.SplitSeq(string(w), ",") {
		if part != "" && (part == kind || part == kind+"/"+state) {
			return true
		}
	}
	return false
}

// Names reports whether the list has a kind of jobs, or a state of it.
func (w Work) Names(kind string) bool {
	for part := range strings.SplitSeq(string(w), ",") {
		if k, _, _ := strings.Cut(part, "/"); k == kind {
			return true
		}
	}
	return false
}

// Validate returns what is wrong with the list.
func (w Work) Validate() error {
	if w == "" {
		return nil
	}
	if len(w) > maxScope {
		return fmt.Errorf("the scope of a worker must have at most %d bytes", maxScope)
	}
	if s := w.Services(); s != "" || strings.Contains(string(w), ofService) {
		if err := s.Validate(); err != nil || s == "" {
			return fmt.Errorf("the services of a worker must be service=NAME with commas between them, or service=*, "+
				"not %.100q", string(w))
		}
	}
	for part := range strings.SplitSeq(string(w), ",") {
		kind, state, both := strings.Cut(part, "/")
		if kind == "" || both && state == "" || strings.Contains(state, "/") ||
			strings.ContainsFunc(part, func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) }) {
			return fmt.Errorf("the scope of a worker must be KIND/STATE or KIND with commas between them, not %.100q",
				string(w))
		}
	}
	return nil
}

// Groups lists groups (collections) of jobs, with commas between them. The empty list allows every group.
type Groups string

// Allow reports whether the list includes a group.
func (g Groups) Allow(group string) bool {
	return g == "" || slices.Contains(strings.Split(string(g), ","), group)
}

// List returns the groups; none if every group is allowed.
func (g Groups) List() []string {
	if g == "" {
		return nil
	}
	return strings.Split(string(g), ",")
}

// Only returns the group of a list that has one; "" for other lists.
func (g Groups) Only() string {
	if strings.Contains(string(g), ",") {
		return ""
	}
	return string(g)
}

// Validate returns what is wrong with the list.
func (g Groups) Validate() error {
	if g == "" {
		return nil
	}
	if len(g) > maxScope {
		return fmt.Errorf("the groups must have at most %d bytes", maxScope)
	}
	for part := range strings.SplitSeq(string(g), ",") {
		if part == "" || strings.ContainsFunc(part, notInName) {
			return fmt.Errorf("the groups must be names with commas between them, not %.100q", string(g))
		}
	}
	return nil
}

// Services lists services of compute, with commas between them. The empty list allows none; * stands for all.
type Services string

// AllServices allows every service.
const AllServices Services = "*"

// Allow reports whether the list includes a service.
func (s Services) Allow(service string) bool {
	return s == AllServices || s != "" && slices.Contains(strings.Split(string(s), ","), service)
}

// Validate returns what is wrong with the list.
func (s Services) Validate() error {
	if s == AllServices {
		return nil
	}
	if err := Groups(s).Validate(); err != nil {
		return fmt.Errorf("the services must be names with commas between them, or *, not %.100q", string(s))
	}
	return nil
}

// ValidateScope returns what is wrong with the scope of a role.
func ValidateScope(role Role, groups Groups, work Work) error {
	switch {
	case work != "" && role != Worker:
		return fmt.Errorf("only a worker has kinds and states, not the role %s", role)
	case groups != "" && role != Depositor && role != Operator:
		return fmt.Errorf("only depositors and operators are limited to groups, not the role %s", role)
	}
	if err := work.Validate(); err != nil {
		return err
	}
	return groups.Validate()
}

// ValidateName returns what is wrong with the name of a person or a worker.
func ValidateName(name string) error {
	if name == "" || name == "-" || len(name) > maxName || !utf8.ValidString(name) ||
		strings.ContainsFunc(name, func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) }) {
		return fmt.Errorf("the name must have 1 to %d printable bytes without blanks, not %.40q", maxName, name)
	}
	return nil
}

// ValidateDisplay returns what is wrong with the name that pages show.
func ValidateDisplay(display string) error {
	right := len(display) <= maxDisplay && utf8.ValidString(display)
	for _, ok := range printable.Runes(display) {
		right = right && ok
	}
	if !right {
		return fmt.Errorf("the shown name must have at most %d printable bytes", maxDisplay)
	}
	return nil
}

// ReadScope reads a role with its scope as files have it: ROLE, worker:KIND/STATE,... or ROLE:GROUP,...
func ReadScope(text string) (role Role, groups Groups, work Work, err error) {
	name, scope, scoped := strings.Cut(text, ":")
	if role, err = RoleOf(name); err != nil {
		return role, "", "", err
	}
	switch {
	case scoped && scope == "":
		return role, "", "", fmt.Errorf("a scope must follow the colon, such as worker:KIND/STATE or operator:GROUP")
	case role == Worker:
		work = Work(scope)
	default:
		groups = Groups(scope)
	}
	return role, groups, work, ValidateScope(role, groups, work)
}

// WriteScope writes a role with its scope as [ReadScope] reads it.
func WriteScope(role Role, groups Groups, work Work) string {
	if scope := string(groups) + string(work); scope != "" {
		return string(role) + ":" + scope
	}
	return string(role)
}
