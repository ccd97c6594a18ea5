package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/stagepost/stagepost/config"
	"github.com/stagepost/stagepost/quantity"
)

// TestEverySettingHasAnOrigin sets each setting in the file, each in the environment and each by its flag: the origin
// names it, and the value is the one that was given. The test includes new settings by itself.
func TestEverySettingHasAnOrigin(t *testing.T) {
	t.Chdir(t.TempDir())
	sample := func(s config.Setting) string {
		switch {
		case len(s.Choices) > 0:
			return s.Choices[len(s.Choices)-1]
		case s.Unit == "bytes":
			return "77MiB"
		}
		switch s.Value.Interface().(type) {
		case string:
			return "text"
		case bool:
			return "true"
		case time.Duration:
			return "77m"
		}
		return "77"
	}
	var file strings.Builder
	for _, one := range newSettings().All() {
		file.WriteString(one.Name + ": " + sample(one) + "\n")
	}
	if err := os.WriteFile("stagepost.yaml", []byte(file.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, source := range []string{"flag", "env", "file", "default"} {
		s := newSettings()
		flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
		s.Bind(flags, config.Shared)
		s.Bind(flags, "serve")
		env := map[string]string{}
		for _, one := range s.All() {
			switch source {
			case "flag":
				if err := flags.Set(one.Flag(), sample(one)); err != nil {
					t.Fatal(err)
				}
			case "env":
				env[one.Env()] = sample(one)
			}
		}
		if source == "default" {
			if err := os.Rename("stagepost.yaml", "aside.yaml"); err != nil {
				t.Fatal(err)
			}
		}
		err := s.Load(flags, func(name string) (string, bool) { v, ok := env[name]; return v, ok })
		if err != nil {
			t.Fatal(err)
		}
		for _, one := range s.All() {
			if got := s.Origin[one.Name]; !strings.HasPrefix(got, source) {
				t.Errorf("%s: its origin is %q, want a %s", one.Name, got, source)
			}
			if got := one.String(); source != "default" && got != sample(one) &&
				got != quantity.FormatDuration(77*time.Minute) {
				t.Errorf("%s by %s: got %q, want %q", one.Name, source, got, sample(one))
			}
		}
	}
}

// TestSecretsAreNotShown: those that are secrets by name, and passwords in addresses. Names of files with secrets are.
func TestSecretsAreNotShown(t *testing.T) {
	for name, want := range map[string]bool{
		"mail.password": true, "auth.token": true, "hook.secret": true, "s3.key": true, "mail.password_file": false,
		"listen": false,
	} {
		if got := config.Hides(name); got != want {
			t.Errorf("%s is hidden: %v", name, got)
		}
	}
	s := newSettings()
	s.Server = "https://ann:s3cret@archive.example/"
	for _, one := range s.All() {
		if one.Name == "server" {
			one.Secret = false
			if got := one.Shown(); strings.Contains(got, "s3cret") || !strings.Contains(got, "archive.example") {
				t.Errorf("got %s", got)
			}
			if one.Secret = true; one.Shown() != "***" {
				t.Errorf("got %s", one.Shown())
			}
		}
	}
}

// TestHostileFiles reads files that are no settings: an error with a line, never a panic.
func TestHostileFiles(t *testing.T) {
	name := filepath.Join(t.TempDir(), "stagepost.yaml")
	for text, want := range map[string]string{
		"- a\n- b\n":                          ":1: settings are names with values",
		"just text":                           ":1: settings are names with values",
		"slots: 3\nslots: 4\n":                ":2: ",
		"a: &x 3\nslots: *x\n":                ":1: it takes a plain value",
		"<<: {slots: 3}\n":                    ":1: a merge key is not for this file",
		"slots: 3\n---\nslots: 4\n":           "more than one document",
		"slots: {3: 4}\n":                     ":1: slots: it must be one value, a whole number, not a mapping",
		"\nslots: {}\n":                       ":2: slots: it must be one value, a whole number, not a mapping",
		"data: [a, b]\n":                      ":1: data: it must be one value, a text, not a list",
		"slots: [3]\n":                        ":1: slots: it must be one value, a whole number, not a list",
		"slots: []\n":                         ":1: slots: it must be one value, a whole number, not a list",
		"retain: {every: [1h]}\n":             ":1: retain.every: it must be one value, a duration such as",
		"compute.strict: [true]\n":            ":1: compute.strict: it must be one value, true or false, not a list",
		"upload.bytes: [1]\n":                 ":1: upload.bytes: it must be one value, a size such as 512MiB, not a list",
		"flow.sandbox: [auto]\n":              ":1: flow.sandbox: it must be one value, auto, native",
		"labels: {gpu: 1}\n":                  ":1: labels: it must be a list (labels: [a, b]) or a text with commas",
		"labels: [a, [b]]\n":                  ":1: labels: item 2 of the list must be a plain value",
		"labels: [a, {b: c}]\n":               ":1: labels: item 2 of the list must be a plain value",
		"labels: ['a,b']\n":                   `:1: labels: item 1 of the list, "a,b", must not have a comma`,
		"\x00":                                "",
		"slots: !!binary aGk=\n":              ":1: ",
		strings.Repeat("[", 10_000):           "",
		strings.Repeat("a: {", 2000) + "b: 1": "",
	} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := newSettings().CheckFile(name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: got %v, want %s", text, err, want)
		}
		s, flags := newSettings(), pflag.NewFlagSet("serve", pflag.ContinueOnError)
		s.Named = name
		if err := s.Load(flags, func(string) (string, bool) { return "", false }); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: a start: got %v, want %s", text, err, want)
		}
	}
	for _, text := range []string{"", "# nothing\n", "---\n", "slots: 3\n", "retain:\n  every: 1h\n  share: 7\n",
		"mail.user:\n", "labels: [gpu, zone=b]\n", "labels:\n- gpu\n", "labels: gpu,zone=b\n", "labels: []\n"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := newSettings().CheckFile(name); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// TestListsAreMarked holds the settings that the file may have as lists against their descriptions.
func TestListsAreMarked(t *testing.T) {
	for _, one := range newSettings().All() {
		if described := strings.Contains(one.Doc, "with commas between"); described != one.List {
			t.Errorf("%s: its description has a list: %t; the setting takes one: %t", one.Name, described, one.List)
		}
	}
}
