package profile

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const maps = `id: maps
owner: library
notification: [curator@example.org]
allow_networks: [10.1.2.3/16]
minter:
  template: ark:/12345/m5.zek
storage: [main, ../copy/]
callback:
  url: https://example.org/told
  secret: s3cret
limits:
  files: 10
`

func TestParse(t *testing.T) {
	p, err := Parse([]byte(maps))
	if err != nil {
		t.Fatal(err)
	}
	if p.Collection != "maps" || p.Owner != "library" || p.Limits.Files != 10 || p.Limits.Bytes != DefaultBytes {
		t.Errorf("got %+v", p)
	}
	if n := p.AllowNetworks(); len(n) != 1 || n[0].String() != "10.1.0.0/16" {
		t.Errorf("networks: got %v", n)
	}
	if p.Storage[1] != "../copy" || p.Callback.Secret != "s3cret" || p.Callback.Secret.String() != "***" {
		t.Errorf("got %v and %v", p.Storage, p.Callback)
	}
}

func TestParseRefusesWithLine(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"unknown key":   {"id: a\ncolour: red\n", "2:"},
		"no id":         {"owner: x\n", "1:1: id"},
		"bad id":        {"\nid: a/b\n", "2:1: id"},
		"network":       {"id: a\nallow_networks: [loopback]\n", "2:1: allow_networks"},
		"priority":      {"id: a\npriority: 100\n", "2:1: priority"},
		"suppress":      {"id: a\nsuppress: all\n", "2:1: suppress"},
		"two minters":   {"id: a\nminter:\n  url: http://x.org\n  template: ark:/99999/f.zk\n", "2:1: minter"},
		"no template":   {"id: a\nminter:\n  template: 99999/f.qk\n", "3:1: minter.template"},
		"no ark":        {"id: a\nminter:\n  template: f.zk\n", "3:1: minter.template"},
		"minter scheme": {"id: a\nminter:\n  url: ftp://x.org\n", "3:1: minter.url"},
		"callback":      {"id: a\ncallback:\n  required: true\n", "callback.url"},
		"same place":    {"id: a\nstorage: [x, x/]\n", "2:1: storage"},
		"negative":      {"id: a\nlimits:\n  files: -1\n", "2:1: limits"},
		"type":          {"id: a\npriority: high\n", "2:"},
		"empty":         {"", "1:1"},
	} {
		_, err := Parse([]byte(c.text))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want one with %q", name, err, c.want)
		}
	}
}

func TestLoadNamesEveryMistake(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"a.yaml": maps, "b.yml": maps, "c.yaml": "id: c\nx: 1\n", "readme.txt": "no profile"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	_, err := Load(dir)
	if err == nil || !strings.Contains(err.Error(), "b.yml: profile maps is also in") || !strings.Contains(err.Error(), "c.yaml:2:") {
		t.Errorf("got %v", err)
	}
	for _, gone := range []string{"b.yml", "c.yaml"} {
		if err := os.Remove(filepath.Join(dir, gone)); err != nil {
			t.Fatal(err)
		}
	}
	s, err := Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	if ids := strings.Join(s.IDs(), " "); ids != "default maps" {
		t.Errorf("got %q", ids)
	}
	if _, ok := s.Get("films"); ok {
		t.Error("there is no profile films")
	}
	if p, ok := s.Get(""); !ok || p.ID != Default || p.Minter.Template != DefaultTemplate {
		t.Errorf("got %+v", p)
	}
}

func TestLoadWithoutDirectory(t *testing.T) {
	s, err := Load(filepath.Join(t.TempDir(), "none"))
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := s.Get(Default); !ok {
		t.Error("the built-in profile is missing")
	}
}
