package main

import (
	"errors"
	"fmt"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/stagepost/stagepost/quantity"
)

// Set is a set of settings: the fields of structs that have a tag name. A value comes from the flag, else from the environment, else from the
// configuration file, else from the default, which is in the tag.
//
// The tags of a field are name, doc, default, short (the letter of the flag), for (the command that has the flag; empty: every command), unit
// ("bytes"), zero (the word for 0 of a number, or "0") and choices (words with spaces between them).
type Set struct {
	Named  string            // the configuration file that the user names (--config); empty: it is searched for
	Read   string            // the configuration file that was read; empty: none
	Origin map[string]string // by name: "flag --x", "env X", "file F:LINE", "default"

	groups []any
	dir    func() string // a directory that may have the configuration file
}

// newSet makes a set of groups, which are pointers to structs, with their defaults. A wrong tag is a panic.
func newSet(dir func() string, groups ...any) *Set {
	s := &Set{Origin: map[string]string{}, groups: groups, dir: dir}
	for _, one := range s.all() {
		if one.Default != "" {
			if err := one.set(one.Default); err != nil {
				panic(err)
			}
		}
		s.Origin[one.Name] = "default"
	}
	return s
}

// isDefault tells whether nobody set a setting.
func (s *Set) isDefault(name string) bool { return s.Origin[name] == "default" }

// shared marks the settings that every command takes as flags.
const shared = ""

// all lists the settings in the order of their groups.
func (s *Set) all() []setting {
	var all []setting
	for _, g := range s.groups {
		v := reflect.ValueOf(g).Elem()
		for i := range v.NumField() {
			tag := v.Type().Field(i).Tag
			if name := tag.Get("name"); name != "" {
				one := setting{Name: name, Short: tag.Get("short"), For: tag.Get("for"), Default: tag.Get("default"), Doc: tag.Get("doc"), value: v.Field(i)}
				one.unit, one.zero, one.secret = tag.Get("unit"), tag.Get("zero"), hides(name)
				if c := tag.Get("choices"); c != "" {
					one.choices = strings.Split(c, " ")
				}
				all = append(all, one)
			}
		}
	}
	return all
}

// setting is one field with what its tags say.
type setting struct {
	Name, Short, For, Default, Doc string
	unit                           string   // "bytes" for a size
	zero                           string   // of a number: the word for 0, or "0" if that means the number; empty: it must be more
	choices                        []string // the only values there are; empty: any
	secret                         bool     // the value is shown to nobody
	value                          reflect.Value
}

func (s setting) flag() string { return strings.ReplaceAll(s.Name, ".", "-") }

func (s setting) env() string {
	return "STAGEPOST_" + strings.ToUpper(strings.ReplaceAll(s.Name, ".", "_"))
}

// String gives the value as it would stand in the environment.
func (s setting) String() string {
	if s.zero != "" && s.value.IsZero() {
		return s.zero
	}
	switch v := s.value.Interface().(type) {
	case time.Duration:
		return quantity.FormatDuration(v)
	case int64:
		if s.unit == "bytes" {
			return quantity.FormatBytes(v)
		}
	}
	return fmt.Sprint(s.value.Interface())
}

// shown gives the value for people: a secret is only said to be there.
func (s setting) shown() string {
	text := s.String()
	if s.secret && text != "" {
		return "***"
	}
	if u, err := url.Parse(text); err == nil && u.User != nil && u.Host != "" {
		return u.Redacted()
	}
	return text
}

// set reads a value from text.
func (s setting) set(text string) error {
	if s.zero != "" && text == s.zero {
		s.value.SetZero()
		return nil
	}
	var err error
	switch s.value.Interface().(type) {
	case string:
		if len(s.choices) > 0 && !slices.Contains(s.choices, text) {
			last := len(s.choices) - 1
			return fmt.Errorf("%s must be %s or %s, not %q", s.Name, strings.Join(s.choices[:last], ", "), s.choices[last], text)
		}
		s.value.SetString(text)
	case bool:
		var yes bool
		if yes, err = strconv.ParseBool(text); err != nil {
			err = errors.New("it must be true or false")
		}
		s.value.SetBool(yes)
	case time.Duration:
		var d time.Duration
		d, err = quantity.ParseDuration(text)
		s.value.SetInt(int64(d))
	default:
		var n int64
		if n, err = strconv.ParseInt(text, 10, s.value.Type().Bits()); err != nil {
			err = errors.New("it is not a whole number, or too large")
		}
		if s.unit == "bytes" {
			n, err = quantity.ParseBytes(text)
		}
		s.value.SetInt(n)
		if err == nil && n < 0 {
			err = errors.New("it must not be negative")
		}
	}
	if err == nil {
		err = s.checkZero()
	}
	if err != nil {
		return fmt.Errorf("%s: %q: %w", s.Name, text, err)
	}
	return nil
}

// check tells whether a text is a value of the setting, which keeps its own.
func (s setting) check(text string) error {
	s.value = reflect.New(s.value.Type()).Elem()
	return s.set(text)
}

// checkZero refuses a number of 0, which would mean the default of one setting, no limit of the next and nothing of a third.
func (s setting) checkZero() error {
	switch kind := s.value.Kind(); {
	case kind == reflect.String || kind == reflect.Bool || s.value.Int() > 0 || s.zero == "0" && s.value.Int() == 0:
		return nil
	case s.zero == "" || s.zero == "0":
		return errors.New("it must be more than 0")
	}
	return fmt.Errorf("it must be more than 0, or %s", s.zero)
}

// hides tells whether a setting is a secret by its name. One that names a file with the secret is none.
func hides(name string) bool {
	return slices.ContainsFunc([]string{"password", "secret", "token", "key"}, func(word string) bool { return strings.HasSuffix(name, word) })
}

// textFlag is a flag whose text is read with the other sources, in load.
type textFlag struct {
	text string
	kind string
}

func (f *textFlag) String() string     { return f.text }
func (f *textFlag) Set(t string) error { f.text = t; return nil }
func (f *textFlag) Type() string       { return f.kind }

// bind adds the flags of the settings for a command.
func (s *Set) bind(flags *pflag.FlagSet, command string) {
	for _, one := range s.all() {
		if one.For != command {
			continue
		}
		kind := one.value.Type().Name()
		switch kind {
		case "Duration":
			kind = "duration"
		case "int64":
			kind = "int"
		}
		if one.unit == "bytes" {
			kind = "size"
		}
		f := flags.VarPF(&textFlag{text: one.Default, kind: kind}, one.flag(), one.Short, one.Doc)
		if kind == "bool" {
			f.NoOptDefVal = "true"
		}
	}
}

// load takes the values from flags, environment and file, and remembers where each came from. The error names every mistake.
func (s *Set) load(flags *pflag.FlagSet, env func(string) (string, bool)) error {
	var mistakes []error
	taken := map[string]bool{}
	take := func(one setting, text, origin string) {
		if err := one.set(text); err != nil {
			mistakes = append(mistakes, fmt.Errorf("%s: %w", strings.TrimPrefix(origin, "file "), err))
		}
		s.Origin[one.Name], taken[one.Name] = origin, true
	}
	for _, one := range s.all() {
		if f := flags.Lookup(one.flag()); f != nil && f.Changed {
			take(one, f.Value.String(), "flag --"+one.flag())
		} else if text, ok := env(one.env()); ok && text != "" {
			take(one, text, "env "+one.env())
		}
	}
	if s.Read = s.findFile(env); s.Read == "" {
		return errors.Join(mistakes...)
	}
	entries, err := readEntries(s.Read)
	mistakes = append(mistakes, err)
	all := s.all()
	for _, e := range entries {
		i := slices.IndexFunc(all, func(one setting) bool { return one.Name == e.Name })
		switch {
		case i < 0:
			mistakes = append(mistakes, s.unknown(s.Read, e))
		case !taken[e.Name]:
			take(all[i], e.Text, fmt.Sprintf("file %s:%d", s.Read, e.Line))
		default: // it does not count, but a mistake in it is one
			if err := all[i].check(e.Text); err != nil {
				mistakes = append(mistakes, fmt.Errorf("%s:%d: %w", s.Read, e.Line, err))
			}
		}
	}
	return errors.Join(mistakes...)
}
