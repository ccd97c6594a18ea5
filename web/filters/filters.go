// Package filters reads the filters in the addresses of lists.
package filters

import (
	"net/url"
	"slices"
	"strings"
)

// Of returns the filters of an address without the cursor. Those that may be repeated have each of their values on
// its own: an address may have several with commas between them.
func Of(q url.Values, repeated ...string) url.Values {
	filter := url.Values{}
	for name, values := range q {
		if name == "after" {
			continue
		}
		filter[name] = values
		if slices.Contains(repeated, name) {
			all := strings.Split(strings.Join(values, ","), ",")
			filter[name] = slices.DeleteFunc(all, func(v string) bool { return v == "" })
		}
	}
	return filter
}

// Kept is a filter for which a form has no field: it keeps it as it is.
type Kept struct{ Name, Value string }

// Besides returns the filters besides those that a form has fields for.
func Besides(filter url.Values, fields ...string) (all []Kept) {
	for name, values := range filter {
		for _, v := range values {
			if !slices.Contains(fields, name) {
				all = append(all, Kept{name, v})
			}
		}
	}
	slices.SortFunc(all, func(a, b Kept) int { return strings.Compare(a.Name+a.Value, b.Name+b.Value) })
	return all
}
