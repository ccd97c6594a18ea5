package flowfile

import (
	"crypto/sha256"
	"encoding/hex"
	"path"
	"slices"
	"strings"

	"github.com/stagepost/stagepost/flow"
	"github.com/stagepost/stagepost/format/tree"
)

// each reads what is fanned out over.
func (r *reader) each(t *tree.Node) *each {
	e := &each{place: t.At("each"), arg: r.name(t.Get("each"), "each")}
	switch in := t.Get("in"); {
	case in == nil:
		r.wrong(t.Position, "each needs in: a list, or the name of an input that is one")
	case in.Kind == tree.List:
		e.values = in.Plain().([]any)
	default:
		name := r.name(in, "in")
		e.isInput, e.from = true, ref{in.Position, name}
		known := make([]string, len(r.inputs))
		for i := range r.inputs {
			known[i] = r.inputs[i].Name
		}
		if name != "" && !slices.Contains(known, name) {
			r.wrong(in.Position, "in names %s, which is no input of the flow%s", name, similar(name, known))
		}
	}
	if match := t.Get("match"); match != nil {
		e.match = r.text(match, "match")
		if _, err := path.Match(e.match, ""); err != nil {
			r.wrong(match.Position, "%.60q is no pattern: * stands for any letters but /, ? for one, [a-z] for one "+
				"of some", e.match)
		}
	}
	e.pattern = flow.Pattern(r.oneOf(t.Get("order"), "order", "unordered", "linear"))
	return e
}

// template checks what a task for each item may have.
func (r *reader) template(k *task, t *tree.Node) {
	if k.act != nil && k.act.kind == "wait" {
		r.wrong(k.act.place, "a wait is not fanned out: all would wait for the same signal")
	}
	if len(k.provides.result.Names)+len(k.provides.result.Keys) > 0 {
		r.wrong(k.provides.place, "with each, provides is one name: that of the list of all results")
	}
	if k.was != nil {
		r.wrong(t.At("was"), "was does not go with each")
	}
	if arg := t.Get("each"); arg != nil && slices.Contains(k.args.names(), r.text(arg, "each")) {
		r.wrong(t.At("each"), "the argument %s is there twice: each gives it", r.text(arg, "each"))
	}
	if name, is := t.Get("each").Value.(string); is && nameForm.MatchString(name) {
		// the value follows when the flow is built
		k.args.inject = append(k.args.inject, arg{ref{t.At("each"), name}, nil})
	}
}

// list gives the items of a fan-out for the given values of the flow. A pattern without a slash examines the last part
// of a path.
func (e *each) list(values flow.Values, placeholder bool) ([]any, error) {
	all := e.values
	if e.isInput {
		v := flow.ValueOf(values[e.from.name])
		if v.Any() == nil && placeholder {
			return []any{"item"}, nil
		}
		var is bool
		if all, is = listOf(v); !is {
			return nil, invalid(nil, "the input %s must be a list: %s runs once for each of its items", e.from.name,
				e.arg)
		}
		all = slices.Clone(all)
		for i := range all {
			all[i] = flow.ValueOf(all[i]).Any()
		}
	}
	if e.match == "" {
		return all, nil
	}
	var fit []any
	for _, v := range all {
		if text, is := v.(string); is {
			if !strings.Contains(e.match, "/") {
				text = path.Base(text)
			}
			if ok, _ := path.Match(e.match, text); ok {
				fit = append(fit, v)
			}
		}
	}
	return fit, nil
}

// listOf gives the items of a value that is a list.
func listOf(v flow.Value) (all []any, is bool) {
	switch items := v.Any().(type) {
	case nil:
		return nil, false
	case []any:
		return items, true
	}
	return all, v.Into(&all) == nil
}

// label makes an atom's name of an item: its text as far as it is made of letters that names have; otherwise with the
// beginning of a digest, so that different items have different names wherever they stand in the list.
func label(v any) string {
	text, isText := v.(string)
	if !isText {
		text, _ = textOf(v)
	}
	plain := strings.Map(func(r rune) rune {
		if r < 0x80 && (r == '.' || r == '_' || r == '/' || r == '-' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' ||
			r >= 'A' && r <= 'Z') {
			return r
		}
		return '-'
	}, text)
	if plain == text && len(text) <= 60 && text != "" {
		return text
	}
	json, _ := compactJSON(v)
	sum := sha256.Sum256(json)
	return strings.TrimLeft(plain[:min(len(plain), 40)]+"-", "-") + hex.EncodeToString(sum[:8])
}
