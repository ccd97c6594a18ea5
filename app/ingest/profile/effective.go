package profile

import (
	"fmt"
	"net/url"
	"reflect"
	"strings"

	"github.com/stagepost/stagepost/api"
)

// Value is one value of a profile as it counts.
type Value = api.ProfileValue

// Effective gives every value of the profile, those that were left out included, in the order of the struct.
func (p *Profile) Effective() []Value {
	return p.values(reflect.ValueOf(p).Elem(), "")
}

func (p *Profile) values(v reflect.Value, above string) []Value {
	var all []Value
	for _, f := range fieldsOf(v.Type()) {
		key := strings.TrimPrefix(above+"."+f.name, ".")
		one := v.Field(f.index)
		switch {
		case f.branch() && f.list && one.Len() > 0:
			for i := range one.Len() {
				all = append(all, p.values(one.Index(i), at(key, i))...)
			}
		case f.branch() && one.Kind() == reflect.Struct:
			all = append(all, p.values(one, key)...)
		case f.branch() && one.Kind() == reflect.Pointer && !one.IsNil():
			all = append(all, p.values(one.Elem(), key)...)
		default:
			all = append(all, Value{Key: key, Value: f.text(one), Origin: p.origin(key), Doc: f.doc})
		}
	}
	return all
}

// text writes a value for people.
func (f *field) text(v reflect.Value) string {
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return ""
		}
		v = v.Elem()
	}
	if f.list {
		items := make([]string, v.Len())
		for i := range items {
			items[i] = f.leafText(v.Index(i))
		}
		return strings.Join(items, ", ")
	}
	return f.leafText(v)
}

func (f *field) leafText(v reflect.Value) string {
	text := fmt.Sprint(v.Interface())
	switch {
	case v.IsZero() && v.Kind() == reflect.String:
		return ""
	case f.format == "uri":
		return harmless(text)
	}
	return text
}

// harmless gives a URL without user, password and query.
func harmless(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return "***"
	}
	u.User, u.Fragment, u.RawFragment = nil, "", ""
	if u.RawQuery != "" {
		u.RawQuery = "***"
	}
	return u.String()
}

func (p *Profile) origin(key string) string {
	at, ok := p.given[key]
	switch {
	case ok:
		return fmt.Sprintf("%s:%d", p.file, at.Line)
	case p.file == "" && p.ID == Default:
		return "built in"
	}
	return "default"
}
