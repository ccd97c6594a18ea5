package serviceconfig_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stagepost/stagepost/app/compute/serviceconfig"
)

const known = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

// TestCallbacksInAFile: an agent that reads the same file needs no secrets, the server gets them anew at each try, and
// no error quotes one.
func TestCallbacksInAFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "secret")
	s, err := serviceconfig.Parse([]byte("services:\n  a: {callbacks: {secret_file: " + file + ", hosts: [hook.example.org], allow_networks: [10.1.2.3/16]}}\n  b: {}\n"))
	if err != nil {
		t.Fatal(err)
	}
	services := s.Compute()
	c := services[0].Callbacks
	if c == nil || services[1].Callbacks != nil || len(c.Hosts) != 1 || len(c.Networks) != 1 ||
		c.Networks[0].String() != "10.1.0.0/16" {
		t.Fatalf("got %+v", services)
	}
	for _, one := range []struct {
		text string
		n    int
		want string
	}{
		{"", 0, "no secret"}, {known + "\n", 1, ""}, {"\n " + known + "\n" + known + "\n\n", 2, ""},
		{known + "\nhush\n", 0, "line 2"}, {strings.Repeat(known+"\n", 9), 0, "more than 8"},
	} {
		if err := os.WriteFile(file, []byte(one.text), 0o600); err != nil {
			t.Fatal(err)
		}
		all, err := c.Secrets()
		if len(all) != one.n || (err == nil) != (one.want == "") ||
			err != nil && (!strings.Contains(err.Error(), one.want) || strings.Contains(err.Error(), "hush") ||
				strings.Contains(err.Error(), known)) {
			t.Errorf("%q: got %d, %v", one.text, len(all), err)
		}
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Secrets(); err == nil {
		t.Error("secrets of a file that is gone")
	}
}

// TestMistakesOfCallbacks: all are reported.
func TestMistakesOfCallbacks(t *testing.T) {
	for text, want := range map[string]string{
		"{hosts: [a.example.org]}": "need a secret",
		"{secret_file: /x}":        "need hosts",
		"{secret_file: /x, hosts: [\"https://a.example.org/\"]}":                   "no host such as",
		"{secret_file: /x, hosts: [a.example.org], allow_networks: [10.1.2.3]}":    "no network such as",
		"{secret_file: /x, hosts: [a.example.org], secret: whsec_x}":               "secret",
		"{secret_file: /x, hosts: [a.example.org], allow_networks: [10.1.0.0/16]}": "",
	} {
		_, err := serviceconfig.Parse([]byte("services:\n  a: {callbacks: " + text + "}\n"))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: got %v, want %q", text, err, want)
		}
	}
}
