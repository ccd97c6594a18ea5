package profile

import (
	"reflect"
	"strconv"
	"strings"
)

// field has the tags of the struct for one key.
type field struct {
	name, doc, format, pattern, def, short string
	need                                   bool
	enum                                   []string
	min, max                               string
	index                                  int
	kind                                   reflect.Type // pointers and lists taken off
	list                                   bool
}

// fieldsOf gives the keys of a struct in its order.
func fieldsOf(t reflect.Type) []field {
	var all []field
	for i := range t.NumField() {
		s := t.Field(i)
		name := s.Tag.Get("yaml")
		if name == "" || name == "-" {
			continue
		}
		name, _, _ = strings.Cut(name, ",")
		f := field{
			name: name, doc: s.Tag.Get("doc"), format: s.Tag.Get("format"), pattern: s.Tag.Get("pattern"),
			def:   s.Tag.Get("default"),
			short: s.Tag.Get("short"), need: s.Tag.Get("need") == "true", min: s.Tag.Get("min"), max: s.Tag.Get("max"),
			index: i, kind: s.Type,
		}
		if enum := s.Tag.Get("enum"); enum != "" {
			f.enum = strings.Split(enum, ",")
		}
		if f.kind.Kind() == reflect.Slice {
			f.list, f.kind = true, f.kind.Elem()
		}
		if f.kind.Kind() == reflect.Pointer {
			f.kind = f.kind.Elem()
		}
		all = append(all, f)
	}
	return all
}

var profileType = reflect.TypeFor[Profile]()

func (f *field) branch() bool { return f.kind.Kind() == reflect.Struct }

// lookup finds the field of a key such as "webhooks.0.url". item reports whether the key names an item of a list.
func lookup(key string) (f field, item, ok bool) {
	t := profileType
	parts := strings.Split(key, ".")
	for i := 0; i < len(parts); i++ {
		if t == nil {
			return f, false, false
		}
		found := false
		for _, one := range fieldsOf(t) {
			if one.name == parts[i] {
				f, found = one, true
			}
		}
		if !found {
			return f, false, false
		}
		item, t = false, nil
		if f.branch() {
			t = f.kind
		}
		if f.list && i+1 < len(parts) {
			if _, err := strconv.Atoi(parts[i+1]); err != nil {
				return f, false, false
			}
			i++
			item = true
		}
	}
	return f, item, true
}

// Events lists the types of event of webhooks.
func Events() []string {
	f, _, _ := lookup("webhooks.0.events")
	return f.enum
}

// setDefaults gives every zero field of the struct that v points to the default of its tag.
func setDefaults(p *Profile) { defaults(reflect.ValueOf(p).Elem()) }

func defaults(v reflect.Value) {
	for _, f := range fieldsOf(v.Type()) {
		one := v.Field(f.index)
		switch {
		case one.Kind() == reflect.Struct:
			defaults(one)
		case f.branch() && one.Kind() == reflect.Pointer && !one.IsNil():
			defaults(one.Elem())
		case f.def == "":
		case f.list && one.Len() == 0:
			one.Set(reflect.Append(one, reflect.ValueOf(f.def).Convert(f.kind)))
		case one.Kind() == reflect.String && one.Len() == 0:
			one.SetString(f.def)
		case one.CanInt() && one.Int() == 0:
			n, _ := strconv.ParseInt(f.def, 10, 64) // a wrong tag fails the test of the built-in profile
			one.SetInt(n)
		}
	}
}
