package flowcli

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stagepost/stagepost/cli"
)

func TestInputs(t *testing.T) {
	file := func(name, text string) string {
		t.Helper()
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for text, want := range map[string]string{
		"x=hello":                        `"hello"`,
		"x=":                             `""`,
		"x=a=b":                          `"a=b"`,
		"x=3":                            `3`,
		"x=-2.5":                         `-2.5`,
		"x=1.10":                         `"1.10"`, // a version
		"x=1e3":                          `"1e3"`,
		"x=007":                          `"007"`,
		"x=true":                         `true`,
		"x=null":                         `null`,
		`x="3"`:                          `"3"`,
		`x={"a":[1.10]}`:                 `{"a":[1.10]}`,
		"x=@@home":                       `"@home"`,
		"x=@-":                           `"from outside"`,
		"x=@" + file("a.txt", "a\nb\n"):  `"a\nb"`,
		"x=@" + file("a.json", " [1]\n"): `[1]`,
	} {
		got, err := readInputs([]string{text}, strings.NewReader("from outside\n"))
		if err != nil || string(got["x"]) != want {
			t.Errorf("%s: got %s, %v, want %s", text, got["x"], err, want)
		}
	}
	for _, texts := range [][]string{
		{"x"}, {"=3"}, {"x=1", "x=2"}, {"x=@" + filepath.Join(t.TempDir(), "none")}, {"x=@" + file("a.json", "{")},
		{"x=\xff"}, {"x=@" + file("b", "\xff")},
	} {
		var u cli.UsageError
		if got, err := readInputs(texts, nil); !errors.As(err, &u) {
			t.Errorf("%q: got %s, %v", texts, got, err)
		}
	}
}
