package profile

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

const maps = `id: maps
owner: library
notification: [curator@example.org]
allow_networks: [10.1.2.3/16]
minter:
  template: ark:/12345/m5.zek
storage: [main, ../copy/]
callback:
  url: https://example.org/hook
  secret_file: hook.secret
limits:
  files: 10
`

func TestParse(t *testing.T) {
	p, err := parse("", []byte(maps))
	if err != nil {
		t.Fatal(err)
	}
	if p.Collection != "maps" || p.Owner != "library" || p.Limits.Files != 10 || p.Limits.Bytes != DefaultBytes {
		t.Errorf("got %+v", p)
	}
	if n := p.AllowNetworks(); len(n) != 1 || n[0].String() != "10.1.0.0/16" {
		t.Errorf("networks: got %v", n)
	}
	if p.Storage[1] != "../copy" || p.Callback.SecretFile != "hook.secret" {
		t.Errorf("got %v and %v", p.Storage, p.Callback)
	}
}

// TestCallbackForms: a text is the URL of a callback, and the published schema, by which editors check, takes and
// refuses the same as Parse.
func TestCallbackForms(t *testing.T) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(Schema()))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource(SchemaID, doc); err != nil {
		t.Fatal(err)
	}
	published := c.MustCompile(SchemaID)
	for name, one := range map[string]struct {
		callback any
		want     *Callback
	}{
		"text": {"https://ann@example.org/hook",
			&Callback{URL: "https://ann@example.org/hook", Form: FormStagepost}},
		"mapping": {map[string]any{"url": "https://example.org"},
			&Callback{URL: "https://example.org", Form: FormStagepost}},
		"merritt": {map[string]any{"url": "https://example.org", "form": "merritt", "required": true},
			&Callback{URL: "https://example.org", Form: FormMerritt, Required: true}},
		"number":   {4711.0, nil},
		"list":     {[]any{"https://example.org"}, nil},
		"no url":   {map[string]any{"form": "merritt"}, nil},
		"other":    {map[string]any{"url": "https://example.org", "form": "xml"}, nil},
		"flag":     {true, nil},
		"mistyped": {map[string]any{"url": "https://example.org", "from": "merritt"}, nil},
	} {
		file := map[string]any{"id": "a", "callback": one.callback}
		text, err := json.Marshal(file)
		if err != nil {
			t.Fatal(err)
		}
		p, err := parse("", text) // JSON is YAML
		if bad := published.Validate(file); (bad == nil) != (err == nil) || (err == nil) != (one.want != nil) {
			t.Errorf("%s: Parse returned %v, the published schema %v", name, err, bad)
		}
		if err == nil && *p.Callback != *one.want {
			t.Errorf("%s: got %#v", name, p.Callback)
		}
	}
}

// bomb is a small file of many values.
var bomb = "id: x\na: &a [x,x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c " +
	"[*b,*b,*b,*b,*b,*b,*b,*b,*b,*b]\n" +
	"d: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: [*d,*d,*d,*d,*d,*d,*d,*d,*d,*d]\n"

func TestParseRefusesWithLine(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"unknown key":   {"id: a\ncolour: red\n", "2:"},
		"no id":         {"owner: x\n", "1:1: id"},
		"bad id":        {"\nid: a/b\n", "2:5: id: \"a/b\""},
		"network":       {"id: a\nallow_networks: [loopback]\n", "2:18: allow_networks.0: \"loopback\""},
		"priority":      {"id: a\npriority: 100\n", "2:11: priority: it must not be above 99"},
		"suppress":      {"id: a\nsuppress: all\n", "2:11: suppress: \"all\": it is none of"},
		"two minters":   {"id: a\nminter:\n  url: http://x.org\n  template: ark:/99999/f.zk\n", "2:1: minter"},
		"no template":   {"id: a\nminter:\n  template: 99999/f.qk\n", "3:13: minter.template"},
		"no ark":        {"id: a\nminter:\n  template: f.zk\n", "3:13: minter.template"},
		"minter scheme": {"id: a\nminter:\n  url: ftp://x.org\n", "3:8: minter.url"},
		"form": {"id: a\ncallback: {url: https://x.org, form: xml}\n",
			"2:38: callback.form: \"xml\": it is none of stagepost, merritt"},
		"short":          {"id: a\ncallback: ftp://x.org\n", "2:11: callback.url: it is no http or https URL"},
		"short number":   {"id: a\ncallback: 4711\n", "2:11: callback: it must be keys with values, not a number"},
		"callback":       {"id: a\ncallback:\n  required: true\n", "2:1: callback.url: it is missing"},
		"same directory": {"id: a\nstorage: [x, x/]\n", "2:14: storage.1"},
		"negative":       {"id: a\nlimits:\n  files: -1\n", "3:10: limits.files"},
		"type":           {"id: a\npriority: high\n", "2:11: priority: it must be a whole number, not a text"},
		"number":         {"id: 2024\n", "1:5: id: it must be a text, not a number"},
		"twice":          {"id: a\nid: b\n", "2:1: "},
		"two documents":  {"id: a\n---\nid: b\n", "3:1: a second document"},
		"not yaml":       {"id: a\nstorage: [x\n", ": not YAML"},
		"too large":      {"id: a\nlimits:\n  bytes: 9223372036854775808\n", "3:10: limits.bytes: it is too large"},
		"no hook url":    {"id: a\nwebhooks:\n  - secret_file: x\n", "3:5: webhooks.0.url: it is missing"},
		"no secret":      {"id: a\nwebhooks:\n  - url: https://x.org\n", "3:5: webhooks.0.secret_file: it is missing"},
		"empty name": {"id: a\nwebhooks:\n  - url: https://x.org\n    secret_file: ''\n",
			"4:18: webhooks.0.secret_file: there is none"},
		"password": {"id: a\ncallback: https://ann:x@x.org\n",
			"2:11: callback.url: a profile holds no secrets: write it to a file with the mode 600, and name the file " +
				"as password_file"},
		"password of a minter": {"id: a\nminter: {url: \"https://ann:x@x.org\"}\n",
			"2:15: minter.url: a profile holds no secrets"},
		"no user": {"id: a\ncallback: {url: https://x.org, password_file: x}\n",
			"2:47: callback.password_file: the url has no user: https://USER@x.org"},
		"inline secret": {"id: a\ncallback:\n  url: https://x.org\n  secret: x\n",
			"4:3: callback.secret: a profile holds no secrets: write it to a file with the mode 600, and name the " +
				"file as secret_file"},
		"secret as a file": {"id: a\nwebhooks:\n  - url: https://x.org\n    secret_file: whsec_aHVzaA==\n",
			"a profile holds no secrets: write it to a file with the mode 600, and name the file as secret_file"},
		"inline secrets": {"id: a\nwebhooks:\n  - url: https://x.org\n    secrets: [x]\n",
			"4:5: webhooks.0.secrets: a profile holds no secrets"},
		"event": {"id: a\nwebhooks:\n  - {url: https://x.org, secret_file: a, events: [job.eaten]}\n",
			"webhooks.0.events.0: \"job.eaten\": it is none of batch.queued"},
		"scalar":   {"hello\n", "1:1: it must be keys with values"},
		"no alias": {"id: *a\n", "1:5: there is no anchor"},
		"merge":    {"id: a\n<<: {owner: x}\n", "2:1: "},
		"bomb":     {bomb, "there is more in this file than 20000 values"},
		"heavy": {"id: a\n" + strings.Repeat("owner: x\n", 1000),
			"1001:1: more than 1000 keys one below the other"},
		"in itself": {"id: a\nstorage: &s [*s]\n", "2:14: there is no anchor before it"},
		"empty":     {"", "1:1"},
	} {
		_, err := parse("", []byte(c.text))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want one with %q", name, err, c.want)
		}
		if err != nil && strings.Contains(err.Error(), "aHVzaA") {
			t.Errorf("%s: the error quotes a secret: %v", name, err)
		}
	}
}

func TestLoadNamesEveryMistake(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"a.yaml": maps, "b.yml": maps, "c.yaml": "id: c\nx: 1\n",
		"readme.txt": "no profile"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	_, err := Load(dir)
	if err == nil || !strings.Contains(err.Error(), "b.yml:1:1: id: profile maps is also in") ||
		!strings.Contains(err.Error(), "c.yaml:2:") {
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
