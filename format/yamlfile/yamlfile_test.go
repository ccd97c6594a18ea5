package yamlfile

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"
)

// port is a number that is written as :80.
type port int

func (p *port) UnmarshalText(text []byte) error {
	n, err := strconv.Atoi(strings.TrimPrefix(string(text), ":"))
	*p = port(n)
	return err
}

type host struct {
	Name string   `json:"name" need:"true" doc:"Name of the host."`
	Port port     `json:"port" doc:"Port."`
	Tags []string `json:"tags" doc:"Words."`
}

type settings struct {
	Mode  string          `json:"mode" enum:"fast,slow" doc:"How."`
	Tries int             `json:"tries" min:"1" doc:"Attempts."`
	Hosts map[string]host `json:"hosts" doc:"Hosts."`
	First *host           `json:"first,omitempty" doc:"The first host."`
	Own   int             `json:"-"`
}

var form = New("urn:test:settings", reflect.TypeFor[settings]())

// TestRead reads numbers as texts, texts of types of their own, aliases, and keys without a value.
func TestRead(t *testing.T) {
	var s settings
	_, err := form.Read("", []byte("mode: fast\ntries: 2\nhosts:\n  a: &a {name: 1.50, port: ':80', tags: [yes, 2]}\n"+
		"  b: {<<: *a, name: b}\nfirst:\n"), &s)
	if err != nil {
		t.Fatal(err)
	}
	a := host{Name: "1.50", Port: 80, Tags: []string{"yes", "2"}}
	b := a
	b.Name = "b"
	if want := (settings{Mode: "fast", Tries: 2, Hosts: map[string]host{"a": a, "b": b}}); !reflect.DeepEqual(s, want) {
		t.Errorf("got %+v, want %+v", s, want)
	}
}

// TestMistakes: all mistakes are given in the order of the file, each with its line; what may be secret is not shown.
func TestMistakes(t *testing.T) {
	for text, want := range map[string]string{
		"mode: quick\ntries: 0\nhots: {a: hush}\n": "x:1:7: mode: \"quick\": it is none of fast, slow\n" +
			"x:2:8: tries: it must not be below 1\nx:3:1: hots: there is no such key; is it hosts?",
		"hosts:\n  a: {port: ten}\n": "x:2:3: hosts.a.name: it is missing\n" +
			"x:2:13: hosts.a.port: \"ten\": strconv.Atoi: parsing \"ten\": invalid syntax",
		"hosts: [a]\n":          "x:1:1: hosts: it must be keys with values, not a list",
		"a: [\n":                "x:",
		"mode: fast\nmode: x\n": "x:2:1: ",
	} {
		_, err := form.Read("x", []byte(text), &settings{})
		var all Mistakes
		if !errors.As(err, &all) || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: got\n%v\nwant\n%s", text, err, want)
			continue
		}
		for _, one := range all {
			if strings.Contains(one.Error()+one.Excerpt(), "hush") {
				t.Errorf("%q: the secret is shown: %s\n%s", text, one, one.Excerpt())
			}
		}
	}
}

// TestWrong gives later mistakes the line of their key, or of the nearest one above.
func TestWrong(t *testing.T) {
	var s settings
	source, err := form.Read("x", []byte("mode: slow\nhosts:\n  a: {name: http://u:hush@h}\n"), &s)
	if err != nil {
		t.Fatal(err)
	}
	source.Wrong("hosts.a.name", "no URL")
	source.Wrong("tries", "it is missing\nhere")
	m := source.Err().(Mistakes)
	if got := m.Error(); got != "x:1:1: tries: it is missing; here\nx:3:13: hosts.a.name: no URL" {
		t.Errorf("got %s", got)
	}
	if strings.Contains(m[1].Excerpt(), "hush") || !strings.Contains(m[1].Excerpt(), "***") {
		t.Errorf("the password is shown: %s", m[1].Excerpt())
	}
}

func TestLoad(t *testing.T) {
	name := filepath.Join(t.TempDir(), "a.yaml")
	if _, err := form.Load(name, &settings{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
	if err := os.WriteFile(name, make([]byte, maxFile+1), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := form.Load(name, &settings{}); err == nil || !strings.Contains(err.Error(), "longer than") {
		t.Errorf("a large file: %v", err)
	}
}

// TestSchema: the schema for editors is JSON and accepts numbers for texts.
func TestSchema(t *testing.T) {
	text := form.Schema("Settings", "A test.")
	var doc map[string]any
	if err := json.Unmarshal(text, &doc); err != nil || !strings.Contains(string(text), `"number"`) {
		t.Errorf("got %v, %s", err, text)
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte("mode: fast\nhosts: {a: &a {name: x, port: ':1'}, b: *a}\n"))
	f.Add([]byte("hosts: &a {a: *a}\n"))
	f.Add([]byte("- 1\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		var s settings
		if _, err := form.Read("", text, &s); err != nil {
			return
		}
		if s.Mode != "" && s.Mode != "fast" && s.Mode != "slow" {
			t.Errorf("%q was taken", s.Mode)
		}
		for name, h := range s.Hosts {
			if _, err := json.Marshal(h); err != nil {
				t.Errorf("%q: %v", name, err)
			}
		}
	})
}
