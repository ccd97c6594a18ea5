package profile

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestAllMistakesAtOnce expects every mistake of a file, each with its position and its line.
func TestAllMistakesAtOnce(t *testing.T) {
	_, err := parse("", []byte(`id: maps
ownr: library
priority: 100
storage: [main, copy, main/]
limits:
  files: many
suppress: all
colour: red
`))
	var got []string
	var all Mistakes
	if !errors.As(err, &all) {
		t.Fatalf("got %v", err)
	}
	for _, m := range all {
		got = append(got, m.Error()+"\n"+m.Excerpt())
	}
	want := []string{
		"2:1: ownr: there is no such key; is it owner?\n   2 | ownr: ***\n     | ^",
		"3:11: priority: it must not be above 99\n   3 | priority: 100\n     |           ^",
		"6:10: limits.files: it must be a whole number, not a text\n   6 |   files: many\n     |          ^",
		"7:11: suppress: \"all\": it is none of none, partial, full\n   7 | suppress: all\n     |           ^",
	}
	if diff := cmp.Diff(want, got[:4]); diff != "" {
		t.Error(diff)
	}
	if len(got) != 5 || !strings.HasPrefix(got[4], "8:1: colour: there is no such key (known: id, description,") {
		t.Errorf("got %q", got[4:])
	}
	_, err = parse("", []byte("id: maps\nallow_networks: [10.0.0.0/8, x, y]\nstorage: [main, copy, main/]\n"))
	if !errors.As(err, &all) || len(all) != 3 || all[2].Key != "storage.2" {
		t.Errorf("beyond the schema: got %v", err)
	}
}

// TestNoMistakeShowsASecret puts a secret wherever a person may put one, beside every kind of mistake.
func TestNoMistakeShowsASecret(t *testing.T) {
	const secret = "hush4711"
	for name, text := range map[string]string{
		"wrong form":       "id: a\nwebhooks:\n  - url: https://x.org\n    secrets: [hush4711]\n",
		"among others":     "id: a\nwebhooks:\n  - {url: ftp://x.org, secrets: [hush4711], events: [x]}\n",
		"mistyped":         "id: a\ncallback:\n  url: https://x.org\n  secrt: hush4711\n",
		"misplaced":        "id: a\nsecret: hush4711\n",
		"a scalar":         "id: a\ncallback: hush4711\n",
		"a scalar URL":     "id: a\ncallback: ftp://ann:hush4711@x.org\n",
		"beside a scalar":  "id: a\ncolour: red\ncallback: https://ann:hush4711@x.org\npriority: [1]\n",
		"a list":           "id: a\ncallback:\n  url: https://x.org\n  secret: [hush4711, b]\n",
		"a mapping":        "id: a\ncallback:\n  url: https://x.org\n  secret: {hush4711: b}\n",
		"a number":         "id: a\ncallback:\n  url: https://x.org\n  secret: 4711\n  x: hush4711\n",
		"in a URL":         "id: a\ncallback:\n  url: ftp://user:hush4711@x.org\n",
		"in a query":       "id: a\nminter:\n  url: ftp://x.org?token=hush4711\n",
		"not YAML":         "id: a\ncallback:\n  secret: hush4711\n   url: x: y\n",
		"not YAML, a line": "id: a\ncallback: {url: x, secret: hush4711\n",
		"not YAML, quotes": "id: a\ncallback:\n  secret: 'hush4711\n",
		"not YAML, a key":  "id: a\nowner: x: hush4711\n",
		"not YAML, no key": "id: a\nhush4711\nowner\n",
		"in an id":         "id: whsec_hush4711/\n",
		"twice":            "id: a\ncallback:\n  url: https://x.org\n  secret: hush4711\n  secret: hush4711\n",
		"a block":          "id: a\ncallback:\n  url: https://x.org\n  secret: |\n    hush4711\n  secret: x\n",
		"an anchor":        "id: a\nowner: &hush [hush4711]\n",
		"a tag":            "id: a\ncallback: !!x hush4711\n",
		"an alias":         "id: a\ncallback:\n  url: https://x.org\n  secret: *hush4711\n",
	} {
		_, err := parse("", []byte(text))
		var all Mistakes
		if !errors.As(err, &all) {
			t.Errorf("%s: got %v", name, err)
			continue
		}
		for _, m := range all {
			if shown := m.Error() + "\n" + m.Excerpt(); strings.Contains(shown, secret) ||
				strings.Contains(shown, "4711") {
				t.Errorf("%s: got\n%s", name, shown)
			}
		}
	}
	// the control: what is no secret is shown
	_, err := parse("", []byte("id: a\nowner: [hush4711]\ndescription: plain\npriority: 4711\n"))
	var all Mistakes
	if !errors.As(err, &all) || !strings.Contains(all[1].Excerpt(), "priority: 4711") {
		t.Errorf("got %v", err)
	}
}

func TestEffective(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "maps.yaml")
	text := strings.Replace(maps, "https://example.org/hook", "https://ann@example.org/hook?token=s3cret", 1) +
		"webhooks:\n  - url: https://hooks.example.org:8443/x\n    secret_file: /keys/x\n    events: [job.failed]\n"
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	p, _ := s.Get("maps")
	got := map[string]string{}
	for _, v := range p.Effective() {
		got[v.Key] = v.Value + " | " + strings.TrimPrefix(v.Origin, dir+"/")
		if v.Doc == "" {
			t.Errorf("%s has no description", v.Key)
		}
	}
	for key, want := range map[string]string{
		"id": "maps | maps.yaml:1", "owner": "library | maps.yaml:2", "collection": "maps | default",
		"storage":              "main, ../copy | maps.yaml:7",
		"minter.template":      "ark:/12345/m5.zek | maps.yaml:6",
		"callback.url":         "https://example.org/hook?*** | maps.yaml:9",
		"callback.secret_file": dir + "/hook.secret | maps.yaml:10", "limits.files": "10 | maps.yaml:12",
		"limits.bytes": "1099511627776 | default",
		"priority":     " | default", "webhooks.0.name": "hooks-example-org-8443 | default",
		"webhooks.0.secret_file": "/keys/x | maps.yaml:15",
		"webhooks.0.events":      "job.failed | maps.yaml:16", "suppress": "none | default",
	} {
		if got[key] != want {
			t.Errorf("%s: got %q, want %q", key, got[key], want)
		}
	}
	standard, _ := s.Get("")
	if v := standard.Effective()[0]; v.Value != Default || v.Origin != "built in" {
		t.Errorf("got %+v", v)
	}
}

func TestWebhook(t *testing.T) {
	p, err := parse("", []byte("id: a\nwebhooks:\n  - url: https://x.org/1\n    secret_file: one\n    events: [job.failed]\n"+
		"  - name: second\n    url: https://x.org/2\n    secret_file: two\n"))
	if err != nil {
		t.Fatal(err)
	}
	first, ok := p.Webhook("x-org")
	if !ok || !first.Selects("job.failed") || first.Selects("job.completed") {
		t.Errorf("got %+v", first)
	}
	second, ok := p.Webhook("second")
	if !ok || !second.Selects("job.completed") {
		t.Errorf("got %+v", second)
	}
	if _, ok := p.Webhook("third"); ok {
		t.Error("there is no third")
	}
	_, err = parse("", []byte("id: a\nwebhooks:\n  - &w {url: https://x.org/1, secret_file: x}\n  - *w\n"))
	if err == nil || !strings.Contains(err.Error(), "4:5: webhooks.1: it is called x-org, as webhook 0 is") {
		t.Errorf("got %v", err)
	}
}

// TestLint warns of each thing; the first profile alone is the control.
func TestLint(t *testing.T) {
	data := t.TempDir()
	if err := os.MkdirAll(filepath.Join(data, "storage"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("storage", filepath.Join(data, "other")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(data, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	put := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	lint := func() []string {
		t.Helper()
		s, err := Load(dir)
		if err != nil {
			t.Fatal(err)
		}
		var all []string
		for _, m := range Lint(s, data) {
			all = append(all, strings.TrimPrefix(m.Error(), dir+"/"))
		}
		return all
	}
	put("a.yaml", "id: a\ncollection: maps\nstorage: [storage, new]\nallow_networks: [10.0.0.0/8]\ncallback:\n  url: "+
		"http://10.1.1.1/x\n")
	if got := lint(); len(got) > 0 {
		t.Errorf("control: got %v", got)
	}
	put("b.yaml", "id: b\ncollection: maps\nowner: films\nstorage:\n - other\n - file\n - /nowhere/else\nminter:\n  "+
		"url: http://mint.example.org\n")
	got := lint()
	for i, want := range []string{
		"b.yaml:3:1: owner: collection maps has owner films here and maps in profile a",
		"b.yaml:5:4: storage.0: the storage location other is the one that profile a calls storage",
		"b.yaml:6:4: storage.1: the storage location file cannot be reached: it is no directory",
		"b.yaml:7:4: storage.2: the storage location /nowhere/else cannot be reached: /nowhere does not exist",
		"b.yaml:9:3: minter.url: it is called by http",
	} {
		if len(got) != 5 || !strings.HasPrefix(got[i], want) {
			t.Fatalf("got %v, want %s", got, want)
		}
	}
	for text, warned := range map[string]bool{
		"callback: https://10.1.1.1/x": true, "callback: https://10.1.1.1/x\nallow_networks: [10.0.0.0/8]": false,
		"callback: https://localhost/x": true, "callback: https://[::1]/x\nallow_networks: [10.0.0.0/8]": true,
		"callback: https://198.51.100.7/x": false, "minter: {url: \"https://10.1.1.1/x\"}": false,
	} {
		put("b.yaml", "id: b\n"+text+"\n")
		if got := lint(); (len(got) == 1 && strings.Contains(got[0], "it is at a special address")) != warned ||
			len(got) > 1 {
			t.Errorf("%s: got %v", text, got)
		}
	}
}
