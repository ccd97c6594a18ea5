package signin

import (
	"fmt"
	"slices"
	"strings"

	"github.com/stagepost/stagepost/server/identity"
)

// Rule gives a role, with its scope, to the members of a group of an identity provider; "*" are all.
type Rule struct {
	Role   identity.Role
	Groups identity.Groups
	Of     string
}

// Rules give roles. The first that fits applies; a person whom none fits has no access.
type Rules []Rule

// ReadRules reads ROLE[:SCOPE]=GROUP, with semicolons between the rules: "admin=staff-it; operator:maps=curators;
// depositor=*". A group may have commas and equal signs, as names in directories do.
func ReadRules(text string) (all Rules, err error) {
	for part := range strings.SplitSeq(text, ";") {
		if strings.TrimSpace(part) == "" {
			continue
		}
		scope, group, ok := strings.Cut(part, "=")
		group = strings.TrimSpace(group)
		if !ok || group == "" {
			return nil, fmt.Errorf("%q must be ROLE=GROUP or ROLE:SCOPE=GROUP", strings.TrimSpace(part))
		}
		role, groups, _, err := identity.ReadScope(strings.TrimSpace(scope))
		if err == nil && role == identity.Worker {
			err = fmt.Errorf("workers have tokens or certificates")
		}
		if err != nil {
			return nil, fmt.Errorf("%q: %w", strings.TrimSpace(part), err)
		}
		all = append(all, Rule{role, groups, group})
	}
	return all, nil
}

// apply gives an identity the role of its groups.
func (all Rules) apply(who *identity.Identity, groups []string) bool {
	for _, r := range all {
		if r.Of == "*" || slices.Contains(groups, r.Of) {
			who.Role, who.Groups = r.Role, r.Groups
			return true
		}
	}
	return false
}
