package profile

import (
	"encoding/json"
	"errors"
	"math/big"
	"reflect"
	"strconv"
	"strings"

	"github.com/stagepost/stagepost/format/schema"
	"github.com/stagepost/stagepost/format/tree"
)

// parse reads one profile. The error is [Mistakes]: all of them where the file can be read as YAML, else the first.
func parse(file string, text []byte) (*Profile, error) {
	root, err := tree.Read(text, tree.Options{
		// Quote is off: a key may be a mistyped secret
		Aliases: true, Omit: true, Noun: "profile", Second: "a second document: a file holds one profile",
	})
	show := newSources(text, root)
	finish := func(all Mistakes) error {
		for _, m := range all {
			m.File = file
			show.show(m)
		}
		return all.sorted()
	}
	var broken *tree.Error
	if errors.As(err, &broken) {
		return nil, finish(Mistakes{{Line: broken.Line, Column: broken.Column, Text: broken.Text}})
	}
	spellOut(root, profileType)
	mistakes := check(root)
	p := &Profile{file: file, given: map[string]tree.Position{}}
	if len(mistakes) == 0 {
		mistakes = p.fill(root)
	}
	if len(mistakes) == 0 {
		for _, f := range p.complete() {
			mistakes = append(mistakes, located(root, f))
		}
	}
	if len(mistakes) > 0 {
		return nil, finish(mistakes)
	}
	return p, nil
}

// spellOut makes a mapping of each text that stands for one: "callback: URL" becomes "callback: {url: URL}", at the
// same position.
func spellOut(root *tree.Node, t reflect.Type) {
	for _, f := range fieldsOf(t) {
		for i := range root.Members {
			m := &root.Members[i]
			if _, text := m.Value.Value.(string); f.short == "" || m.Name != f.name || m.Value.Kind != tree.Leaf ||
				!text {
				continue
			}
			m.Value = &tree.Node{Position: m.Value.Position, Kind: tree.Mapping, Members: []tree.Member{
				{Name: f.short, Position: m.Value.Position, Value: m.Value},
			}}
		}
	}
}

// located gives a fault the position of its key, or of the nearest key above that is there.
func located(root *tree.Node, f fault) *Mistake {
	at := schema.Locate(root, strings.Split(f.key, "."))
	return &Mistake{Line: at.Line, Column: at.Column, Key: f.key, Text: f.text}
}

// check holds a file against the schema.
func check(root *tree.Node) Mistakes {
	var all Mistakes
	for _, f := range compiled().Check(root) {
		m := &Mistake{Line: f.Line, Column: f.Column, Key: f.Key(), Text: f.Text}
		if text, ok := inlineText(m.Key); ok {
			m.Text = text
		}
		all = append(all, m)
	}
	return all
}

// fill takes what the file gives into the profile, and remembers where each value stands. The schema has been
// satisfied.
func (p *Profile) fill(root *tree.Node) Mistakes {
	var all Mistakes
	set(reflect.ValueOf(p).Elem(), root, "", &all)
	for key := range root.All() {
		if key != "" {
			_, p.given[key], _ = root.Find(strings.Split(key, "."))
		}
	}
	return all
}

// set gives the struct v the values of a mapping.
func set(v reflect.Value, t *tree.Node, above string, all *Mistakes) {
	for _, f := range fieldsOf(v.Type()) {
		for _, m := range t.Members {
			if m.Name == f.name {
				assign(v.Field(f.index), m.Value, strings.TrimPrefix(above+"."+f.name, "."), all)
			}
		}
	}
}

func assign(to reflect.Value, t *tree.Node, key string, all *Mistakes) {
	switch to.Kind() {
	case reflect.Pointer:
		to.Set(reflect.New(to.Type().Elem()))
		assign(to.Elem(), t, key, all)
	case reflect.Struct:
		set(to, t, key, all)
	case reflect.Slice:
		to.Set(reflect.MakeSlice(to.Type(), len(t.Items), len(t.Items)))
		for i, item := range t.Items {
			assign(to.Index(i), item, at(key, i), all)
		}
	case reflect.Bool:
		b, _ := t.Value.(bool)
		to.SetBool(b)
	case reflect.Int, reflect.Int64:
		n, err := whole(t.Value)
		if err != nil || to.OverflowInt(n) {
			*all = append(*all, &Mistake{Line: t.Line, Column: t.Column, Key: key, Text: "it is too large a number"})
			return
		}
		to.SetInt(n)
	case reflect.String:
		text, _ := t.Value.(string)
		to.SetString(text)
	}
}

// whole reads a whole number, also one written as 1e6.
func whole(v any) (int64, error) {
	text := string(v.(json.Number)) // the schema has seen to it
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return n, nil
	}
	r, ok := new(big.Rat).SetString(text)
	if !ok || !r.IsInt() || !r.Num().IsInt64() {
		return 0, errors.New("too large")
	}
	return r.Num().Int64(), nil
}
