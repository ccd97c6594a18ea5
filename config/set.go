// Package config reads settings from flags, from the environment and from a file.
package config

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

// Set is a set of settings: the fields of structs that have a tag "name". A value comes from the flag, else from the
// environment, else from the configuration file, else from the tag "default".
//
// The tags of a field are name, doc, default, short (the letter of the flag), for (the command that has the flag;
// empty: every command), unit ("bytes"), zero (the word for 0 of a number, or "0"), choices (words separated by spaces)
// and list (",": the text is a list, see [List]).
type Set struct {
	Named  string            // the configuration file that the user names (--config); empty: it is searched for
	Read   string            // the configuration file that was read; empty: none
	Origin map[string]string // by name: "flag --x", "env X", "file F:LINE", "default"

	groups []any
	dir    func() string // a directory that may have the configuration file
}

// New makes a set of groups, which are pointers to structs, and sets the defaults. It panics if a tag is wrong.
func New(dir func() string, groups ...any) *Set {
	s := &Set{Origin: map[string]string{}, groups: groups, dir: dir}
	for _, one := range s.All() {
		if one.Default != "" {
			if err := one.Set(one.Default); err != nil {
				panic(err)
			}
		}
		s.Origin[one.Name] = "default"
	}
	return s
}

// IsDefault reports whether a setting has its default because no source sets it.
func (s *Set) IsDefault(name string) bool { return s.Origin[name] == "default" }

// Shared marks the settings that every command takes as flags.
const Shared = ""

// All lists the settings in the order of their groups.
func (s *Set) All() []Setting {
	var all []Setting
	for _, g := range s.groups {
		v := reflect.ValueOf(g).Elem()
		for i := range v.NumField() {
			tag := v.Type().Field(i).Tag
			if name := tag.Get("name"); name != "" {
				one := Setting{Name: name, Short: tag.Get("short"), For: tag.Get("for"), Default: tag.Get("default"),
					Doc: tag.Get("doc"), Unit: tag.Get("unit"), Zero: tag.Get("zero"), Secret: Hides(name),
					List: tag.Get("list") != "", Value: v.Field(i)}
				if c := tag.Get("choices"); c != "" {
					one.Choices = strings.Split(c, " ")
				}
				all = append(all, one)
			}
		}
	}
	return all
}

// Setting is one field with the values of its tags.
type Setting struct {
	Name, Short, For, Default, Doc string
	Unit                           string   // "bytes" for a size
	Zero                           string   // the word for 0, or "0" if 0 is a number; empty: 0 is refused
	Choices                        []string // the allowed values; empty: any
	Secret                         bool     // the value is never shown
	List                           bool     // the value is a list: the file may have one
	Value                          reflect.Value
}

func (s Setting) Flag() string { return strings.NewReplacer(".", "-", "_", "-").Replace(s.Name) }

func (s Setting) Env() string {
	return "STAGEPOST_" + strings.ToUpper(strings.ReplaceAll(s.Name, ".", "_"))
}

// String gives the value in the form that the environment has.
func (s Setting) String() string {
	if s.Zero != "" && s.Value.IsZero() {
		return s.Zero
	}
	switch v := s.Value.Interface().(type) {
	case time.Duration:
		return quantity.FormatDuration(v)
	case int64:
		if s.Unit == "bytes" {
			return quantity.FormatBytes(v)
		}
	}
	return fmt.Sprint(s.Value.Interface())
}

// Shown gives the value for people: *** in place of a secret.
func (s Setting) Shown() string {
	text := s.String()
	if s.Secret && text != "" {
		return "***"
	}
	if u, err := url.Parse(text); err == nil && u.User != nil && u.Scheme != "" {
		return u.Redacted()
	}
	return text
}

// Set reads a value from text.
func (s Setting) Set(text string) error {
	if s.Zero != "" && text == s.Zero {
		s.Value.SetZero()
		return nil
	}
	var err error
	switch s.Value.Interface().(type) {
	case string:
		if len(s.Choices) > 0 && !slices.Contains(s.Choices, text) {
			last := len(s.Choices) - 1
			return fmt.Errorf("%s must be %s or %s, not %q", s.Name, strings.Join(s.Choices[:last], ", "),
				s.Choices[last], text)
		}
		s.Value.SetString(text)
	case bool:
		var yes bool
		if yes, err = strconv.ParseBool(text); err != nil {
			err = errors.New("it must be true or false")
		}
		s.Value.SetBool(yes)
	case time.Duration:
		var d time.Duration
		d, err = quantity.ParseDuration(text)
		s.Value.SetInt(int64(d))
	default:
		var n int64
		if n, err = strconv.ParseInt(text, 10, s.Value.Type().Bits()); err != nil {
			err = errors.New("it is not a whole number, or too large")
		}
		if s.Unit == "bytes" {
			n, err = quantity.ParseBytes(text)
		}
		s.Value.SetInt(n)
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

// Check checks that a text is a valid value, without changing the setting.
func (s Setting) Check(text string) error {
	s.Value = reflect.New(s.Value.Type()).Elem()
	return s.Set(text)
}

// checkZero refuses the number 0 because it is ambiguous: it could mean the default, no limit, or none.
func (s Setting) checkZero() error {
	switch kind := s.Value.Kind(); {
	case kind == reflect.String || kind == reflect.Bool || s.Value.Int() > 0 || s.Zero == "0" && s.Value.Int() == 0:
		return nil
	case s.Zero == "" || s.Zero == "0":
		return errors.New("it must be more than 0")
	}
	return fmt.Errorf("it must be more than 0, or %s", s.Zero)
}

// Hides reports whether a setting is a secret, by its name. A setting that names a file with the secret is none.
func Hides(name string) bool {
	return slices.ContainsFunc([]string{"password", "secret", "token", "key"},
		func(word string) bool { return strings.HasSuffix(name, word) })
}

// textFlag is a flag whose text is read with the other sources, in load.
type textFlag struct {
	text string
	kind string
}

func (f *textFlag) String() string     { return f.text }
func (f *textFlag) Set(t string) error { f.text = t; return nil }
func (f *textFlag) Type() string       { return f.kind }

// Bind adds the flags of the settings for a command.
func (s *Set) Bind(flags *pflag.FlagSet, command string) {
	for _, one := range s.All() {
		if one.For != command {
			continue
		}
		kind := one.Value.Type().Name()
		switch kind {
		case "Duration":
			kind = "duration"
		case "int64":
			kind = "int"
		}
		if one.Unit == "bytes" {
			kind = "size"
		}
		f := flags.VarPF(&textFlag{text: one.Default, kind: kind}, one.Flag(), one.Short, one.Doc)
		if kind == "bool" {
			f.NoOptDefVal = "true"
		}
	}
}

// Load reads the values from flags, environment and file, and records the origin of each. The error names every
// mistake.
func (s *Set) Load(flags *pflag.FlagSet, env func(string) (string, bool)) error {
	var mistakes []error
	taken := map[string]bool{}
	take := func(one Setting, text, origin string) {
		if err := one.Set(text); err != nil {
			mistakes = append(mistakes, fmt.Errorf("%s: %w", strings.TrimPrefix(origin, "file "), err))
		}
		s.Origin[one.Name], taken[one.Name] = origin, true
	}
	for _, one := range s.All() {
		if f := flags.Lookup(one.Flag()); f != nil && f.Changed {
			take(one, f.Value.String(), "flag --"+one.Flag())
		} else if text, ok := env(one.Env()); ok && text != "" {
			take(one, text, "env "+one.Env())
		}
	}
	if s.Read = s.findFile(env); s.Read == "" {
		return errors.Join(mistakes...)
	}
	entries, err := ReadEntries(s.Read)
	mistakes = append(mistakes, s.readError(err))
	all := s.All()
	for _, e := range entries {
		i := slices.IndexFunc(all, func(one Setting) bool { return one.Name == e.Name })
		switch {
		case i < 0:
			mistakes = append(mistakes, s.Unknown(s.Read, e))
		case !taken[e.Name]:
			if err := all[i].checkShape(e); err != nil {
				mistakes = append(mistakes, fmt.Errorf("%s:%d: %w", s.Read, e.Line, err))
				continue
			}
			take(all[i], e.Text, fmt.Sprintf("file %s:%d", s.Read, e.Line))
		default: // an earlier source wins, but a mistake in the file is still reported
			if err := all[i].checkEntry(e); err != nil {
				mistakes = append(mistakes, fmt.Errorf("%s:%d: %w", s.Read, e.Line, err))
			}
		}
	}
	return errors.Join(mistakes...)
}
