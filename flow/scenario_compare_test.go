package flow_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// compare compares events with the expected ones. The error describes the difference.
func (c *comparison) compare(got []string) error {
	if c.Compare == "running_count" {
		return c.count(got)
	}
	var want []string
	if len(c.Events) > 0 {
		if err := json.Unmarshal(c.Events, &want); err != nil {
			return fmt.Errorf("events are a list: %w", err)
		}
	}
	differs, how := false, c.Compare
	switch {
	case c.AsSet && how != "" && how != "set":
		return fmt.Errorf("as_set is how a set is compared, not as %s", how)
	case c.AsSet:
		how = "set"
	}
	switch how {
	case "", "exact":
		differs = !slices.Equal(want, got)
	case "prefix":
		differs = len(got) < len(want) || !slices.Equal(want, got[:len(want)])
	case "multiset":
		differs = !slices.Equal(slices.Sorted(slices.Values(want)), slices.Sorted(slices.Values(got)))
	case "set":
		differs = !slices.Equal(unique(want), unique(got))
	case "contains":
		differs = slices.ContainsFunc(want, func(e string) bool { return !slices.Contains(got, e) })
	case "subsequence":
		differs = !within(want, got)
	case "subsequence_of":
		differs = !within(got, want)
	default:
		return fmt.Errorf("unknown kind of comparison %q", c.Compare)
	}
	if differs {
		return fmt.Errorf("events (%s; -want +got):\n%s", c.Compare, cmp.Diff(want, got))
	}
	return nil
}

func (c *comparison) count(got []string) error {
	var want int
	if err := json.Unmarshal(c.Events, &want); err != nil {
		return fmt.Errorf("a running_count is a number: %w", err)
	}
	n := 0
	for _, e := range got {
		if strings.HasSuffix(e, " RUNNING") {
			n++
		}
	}
	if n != want {
		return fmt.Errorf("%d are RUNNING, want %d: %v", n, want, got)
	}
	return nil
}

// within reports whether part occurs in all, in its order.
func within(part, all []string) bool {
	for _, e := range all {
		if len(part) > 0 && part[0] == e {
			part = part[1:]
		}
	}
	return len(part) == 0
}

func unique(all []string) []string {
	return slices.Compact(slices.Sorted(slices.Values(all)))
}

// events compares all that a step needs of its events.
func (c *checkWords) events(got []string) (wrong []error) {
	if len(c.comparison.Events) > 0 && c.Segments != nil {
		return []error{fmt.Errorf("events and segments exclude each other")}
	}
	all := slices.Clone(c.Also)
	if len(c.comparison.Events) > 0 {
		all = append(all, c.comparison)
	} else if c.Compare != "" {
		wrong = append(wrong, fmt.Errorf("there is nothing to compare by %s", c.Compare))
	}
	for i := range all {
		if err := all[i].compare(got); err != nil {
			wrong = append(wrong, err)
		}
	}
	rest := got
	for i := range c.Segments {
		n := len(rest)
		if c.Segments[i].N != nil {
			n = min(n, *c.Segments[i].N)
		}
		if err := c.Segments[i].compare(rest[:n]); err != nil {
			wrong = append(wrong, fmt.Errorf("segment %d: %w", i, err))
		}
		rest = rest[n:]
	}
	if c.Segments != nil && len(rest) > 0 {
		wrong = append(wrong, fmt.Errorf("after the last segment there is %v", rest))
	}
	for _, e := range c.Never {
		if slices.Contains(got, e) {
			wrong = append(wrong, fmt.Errorf("%s occurred: %v", e, got))
		}
	}
	return wrong
}

// TestComparisonsRefuse is the control of all scenarios: each kind of comparison finds differences and accepts equals.
func TestComparisonsRefuse(t *testing.T) {
	for _, c := range []struct{ kind, want, good, bad string }{
		{"", `["a", "b"]`, "a b", "b a"},
		{"exact", `["a", "b"]`, "a b", "a b c"},
		{"exact", `["a", "b"]`, "a b", "a"},
		{"exact", `[]`, "", "a"},
		{"prefix", `["a", "b"]`, "a b c", "a"},
		{"prefix", `["a", "b"]`, "a b", "c a b"},
		{"multiset", `["a", "b", "b"]`, "b a b", "a b"},
		{"multiset", `["a", "b"]`, "b a", "a b b"},
		{"set", `["a", "b"]`, "b a b", "a"},
		{"set", `["a", "b"]`, "b a", "a b c"},
		{"contains", `["a", "b"]`, "c b a", "c b"},
		{"subsequence", `["a", "b"]`, "c a c b", "b a"},
		{"subsequence", `["a", "a"]`, "a b a", "a b"},
		{"subsequence_of", `["a", "b", "c"]`, "a c", "c a"},
		{"subsequence_of", `["a", "b", "c"]`, "", "d"},
		{"running_count", `1`, "x.t RUNNING", "x.t SUCCESS(RUNNING)"},
		{"running_count", `1`, "x.t RUNNING", "x.t RUNNING|y.t RUNNING"},
	} {
		split := func(text string) []string {
			if strings.Contains(text, ".t") {
				return strings.Split(text, "|")
			}
			return strings.Fields(text)
		}
		one := comparison{Compare: c.kind, Events: json.RawMessage(c.want)}
		if err := one.compare(split(c.good)); err != nil {
			t.Errorf("%s %s: %s must pass: %v", c.kind, c.want, c.good, err)
		}
		if one.compare(split(c.bad)) == nil {
			t.Errorf("%s %s: %s must not pass", c.kind, c.want, c.bad)
		}
	}
	for _, text := range []string{
		`{"compare": "roughly", "events": ["a"]}`, `{"compare": "set"}`, `{"events": 3}`, `{"compare": "running_count", "events": ["a"]}`,
		`{"never": ["b"]}`, `{"also": [{"events": ["a"]}]}`, `{"segments": [{"n": 1, "events": ["a"]}]}`,
		`{"segments": [{"n": 2, "events": ["a", "b"]}, {"events": ["c"]}]}`, `{"events": ["a", "b"], "segments": []}`,
	} {
		c := &checkWords{}
		if err := strict([]byte(text), c); err != nil {
			t.Fatal(err)
		}
		if len(c.events([]string{"a", "b"})) == 0 {
			t.Errorf("%s must not pass for a, b", text)
		}
	}
}
