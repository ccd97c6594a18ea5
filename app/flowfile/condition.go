package flowfile

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/stagepost/stagepost/flow"
	"github.com/stagepost/stagepost/format/tree"
	"github.com/stagepost/stagepost/internal/decimal"
)

// term is a condition over the results of tasks, by name. It always ends, and examines nothing else.
type term func(results flow.Values) bool

// condition reads a condition, and the tasks that it examines in the order of the file.
func (r *reader) condition(t *tree.Node) (term, []ref) {
	c := conditions{reader: r}
	what := c.term(t)
	if len(c.froms) == 0 && what != nil {
		r.wrong(t.Position, "the condition names no task")
	}
	return what, c.froms
}

type conditions struct {
	*reader
	froms []ref
}

// term reads {all: [..]}, {any: [..]}, {not: ..} or {TASK: test}; several keys hold together.
func (c *conditions) term(t *tree.Node) term {
	if t.Kind != tree.Mapping || len(t.Members) == 0 {
		c.wrong(t.Position, "a condition is written as task: test, or with all, any, not, not as %s", t.Describe())
		return nil
	}
	var terms []term
	for _, m := range t.Members {
		switch m.Name {
		case "all":
			terms = append(terms, every(c.list(m)))
		case "any":
			terms = append(terms, some(c.list(m)))
		case "not":
			if one := c.term(m.Value); one != nil {
				terms = append(terms, func(v flow.Values) bool { return !one(v) })
			}
		default:
			if !c.argument(m) {
				continue
			}
			if !slices.ContainsFunc(c.froms, func(f ref) bool { return f.name == m.Name }) {
				c.froms = append(c.froms, ref{m.Position, m.Name})
			}
			if one := c.test(m.Value); one != nil {
				name := m.Name
				terms = append(terms, func(v flow.Values) bool {
					result, there := v[name]
					return one(flow.ValueOf(result).Any(), there)
				})
			}
		}
	}
	return every(terms)
}

func (c *conditions) list(m tree.Member) []term {
	if m.Value.Kind != tree.List || len(m.Value.Items) == 0 {
		c.wrong(m.Value.Position, "%s is a list of conditions, not %s", m.Name, m.Value.Describe())
		return nil
	}
	var terms []term
	for _, one := range m.Value.Items {
		if found := c.term(one); found != nil {
			terms = append(terms, found)
		}
	}
	return terms
}

func every(terms []term) term {
	return func(v flow.Values) bool {
		return !slices.ContainsFunc(terms, func(one term) bool { return !one(v) })
	}
}

func some(terms []term) term {
	return func(v flow.Values) bool {
		return slices.ContainsFunc(terms, func(one term) bool { return one(v) })
	}
}

// test is a condition on one value; there is false if there is none.
type test func(v any, there bool) bool

var testKeys = table{
	{"field", aText, "An entry of the result in place of the whole; dots separate the names of inner entries."},
	{"equals", anything, "It is this value."},
	{"in", `{"type":"array"}`, "It is one of these values."},
	{"exists", aFlag, "It is there and not null; false: it is not."},
	{"greater", `{"type":["number","string"]}`, "It is greater: numbers among numbers, texts among texts."},
	{"less", `{"type":["number","string"]}`, "It is less."},
	{"not", `{"anyOf":[{"$ref":"#/$defs/test"},{"type":["string","number","boolean"]}]}`, "This does not hold of it."},
}

// test reads a test: a plain value is one for equality.
func (c *conditions) test(t *tree.Node) test {
	if t.Kind != tree.Mapping {
		want := t.Plain()
		return func(v any, there bool) bool { return there && same(v, want) }
	}
	c.keys(t, "a test", testKeys)
	var all []test
	for _, m := range t.Members {
		if one := c.single(m); one != nil {
			all = append(all, one)
		}
	}
	var path []string
	if field := t.Get("field"); field != nil {
		path = strings.Split(c.text(field, "field"), ".")
	}
	if len(all) == 0 {
		c.wrong(t.Position, "the test is empty: add one of equals, in, exists, greater, less, not")
	}
	return func(v any, there bool) bool {
		for _, name := range path {
			entries, _ := v.(map[string]any)
			entry, found := entries[name]
			v, there = entry, there && found
		}
		return !slices.ContainsFunc(all, func(one test) bool { return !one(v, there) })
	}
}

// single reads one entry of a test.
func (c *conditions) single(m tree.Member) test {
	want := m.Value.Plain()
	switch m.Name {
	case "equals":
		return func(v any, there bool) bool { return there && same(v, want) }
	case "in":
		words, is := want.([]any)
		if !is {
			c.wrong(m.Value.Position, "in is a list of values, not %s", m.Value.Describe())
		}
		return func(v any, there bool) bool {
			return there && slices.ContainsFunc(words, func(one any) bool { return same(v, one) })
		}
	case "exists":
		yes := c.flag(m.Value, "exists", true)
		return func(v any, there bool) bool { return yes == (there && v != nil) }
	case "greater", "less":
		sign := 1
		if m.Name == "less" {
			sign = -1
		}
		if _, ok := order(want, want); !ok {
			c.wrong(m.Value.Position, "%s is a number or a text, not %s", m.Name, m.Value.Describe())
		}
		return func(v any, there bool) bool {
			found, ok := order(v, want)
			return there && ok && found == sign
		}
	case "not":
		one := c.test(m.Value)
		return func(v any, there bool) bool { return one != nil && !one(v, there) }
	}
	return nil
}

// same compares values as JSON does; 1 and 1.0 are the same.
func same(a, b any) bool {
	if c, ok := order(a, b); ok {
		return c == 0
	}
	return flow.ValueOf(a).Equal(flow.ValueOf(b))
}

// order compares numbers with numbers and texts with texts.
func order(a, b any) (c int, ok bool) {
	if x, is := a.(string); is {
		y, is := b.(string)
		return strings.Compare(x, y), is
	}
	x, isX := number(a)
	y, isY := number(b)
	if !isX || !isY {
		return 0, false
	}
	return decimal.Compare(x, y)
}

// number is a number as it is written in JSON.
func number(v any) (string, bool) {
	switch v := v.(type) {
	case int:
		return strconv.Itoa(v), true
	case int64:
		return strconv.FormatInt(v, 10), true
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 64), true
	case json.Number:
		return v.String(), true
	}
	return "", false
}
